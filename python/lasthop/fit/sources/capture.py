"""Packet captures (pcap, pcapng): transfers and round trips of their TCP flows.

The capture may come from either end. At the sender, ACKs show deliveries and round trips. At the receiver, a
packet's echoed timestamp (RFC 7323) identifies the ACK that released it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lasthop.common.captures import Columns, packets_of
from lasthop.common.errors import InputError
from lasthop.fit.measurement import (
    Bools,
    Delays,
    Direction,
    End,
    Floats,
    Ints,
    Measurement,
    Recording,
    Transfer,
)
from lasthop.fit.sources.missing import Missing, missing

MAGIC = (
    b"\x0a\x0d\x0d\x0a",
    b"\xa1\xb2\xc3\xd4",
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x4d\x3c\xb2\xa1",
)
# The least data of a flow that counts as a transfer, in contrast to requests and handshakes.
LEAST_BYTES = 15_000
# Addresses of the user's end and of the servers in captures by lasthop, where the sender opens connections.
USER, SERVERS = "10.0.1.1", "10.0.0."
SYN, ACK = 0x02, 0x10
# Bytes of IP and transport headers.
TCP_HEADERS, UDP_HEADERS = 52, 28

Trips = tuple[Floats, Floats]
# Addresses and ports, whether it is TCP; of both ends, MSS, window scale and bytes of a data packet's header.
Flow = tuple[tuple[str, int, str, int], bool, list[int | None], list[int | None], list[int | None]]


def claims(head: bytes, path: Path) -> bool:
    """Return whether the file starts like a capture, or has the extension of one."""
    return head.startswith(MAGIC) or path.suffix in {".pcap", ".pcapng", ".cap"}


def read(path: Path, host: str | None = None) -> Measurement:
    """Read a capture. Raises InputError if it is damaged or has no TCP transfer.

    `host` is the address of the user's end, by default lasthop's client or the host that opened most
    connections.
    """
    columns, table = packets_of(path)
    notes = _faults(table)
    every = _seconds(columns, columns["time_ns"])
    results = [_flow(columns, index, flow, every) for index, flow in enumerate(table["flows"])]
    flows = [flow for flow in results if isinstance(flow, _Usable)]
    notes += [flow for flow in results if isinstance(flow, str)]
    if not flows:
        why = f"no TCP flow has the required {LEAST_BYTES // 1000} kB of data in a direction"
        raise InputError(f"{path} contains no usable transfer: {notes[-1] if notes else why}")
    flows = directed(flows, host)
    used = {index for index, flow in enumerate(results) if isinstance(flow, _Usable)}
    notes += [flow.missing for flow in flows if flow.missing]
    start = min(flow.transfer.time_s[0] for flow in flows)
    ends: set[End] = {flow.end for flow in flows}
    rtt_time = np.concatenate([flow.rtt_time for flow in flows])
    rtt = np.concatenate([flow.rtt_ms for flow in flows])
    whose = np.repeat(np.arange(len(flows)), [len(flow.rtt_ms) for flow in flows])
    order = np.argsort(rtt_time, kind="stable")
    if not len(rtt):
        notes.append("Round trips: without echoed timestamps, a capture at the receiver does not show them.")
    return Measurement(
        file=path,
        kind="capture",
        transfers=tuple(_from(flow.transfer, start) for flow in flows),
        delays=Delays(rtt_time[order] - start, rtt[order], whose=whose[order]) if len(rtt) else None,
        start_s=int(columns["time_ns"][0]) / 1e9 + float(start),
        seen_at=ends.pop() if len(ends) == 1 else "both",
        others=_others(columns, table["flows"], used, flows, float(start)),
        notes=tuple(dict.fromkeys(notes)),
    )


def larger_way(size: Ints, reverse: Ints) -> int | None:
    """Return the direction with more data, 1 if opposite to the first packet; `None` if too little."""
    amounts = [int(size[reverse == way].sum(dtype=np.int64)) for way in (0, 1)]
    way = int(amounts[1] > amounts[0])
    return way if amounts[way] >= LEAST_BYTES else None


def _seconds(columns: Columns, time_ns: npt.NDArray[np.uint64]) -> Floats:
    """Return times in seconds since the first packet of the file."""
    seconds: Floats = (time_ns - columns["time_ns"][:1]).astype(np.int64) / 1e9
    return seconds


def _from(transfer: Transfer, start: float) -> Transfer:
    return replace(transfer, time_s=transfer.time_s - start, lost_s=transfer.lost_s - start)


def _others(
    columns: Columns, table: Sequence[Flow], used: set[int], flows: Sequence[_Usable], start: float
) -> dict[Direction, Recording]:
    """Return the packets outside transfers, by direction, if an end of theirs is an end of a transfer."""
    users = {flow.user for flow in flows}
    far = {end for flow in flows for end in (flow.sender, flow.receiver)} - users
    way = np.full(len(table), -1)
    for index, ((source, _, destination, _), *_) in enumerate(table):
        if index not in used and {source, destination} & (users | far):
            way[index] = int(destination in users or (source not in users and source in far))
    # 1 if down. A flow's `reverse` packets go the other way.
    down = np.where(way[columns["flow"]] < 0, -1, way[columns["flow"]] ^ columns["reverse"])
    tcp = np.array([flow[1] for flow in table])[columns["flow"]]
    size = columns["bytes"] + np.where(tcp, TCP_HEADERS, UDP_HEADERS)
    time = _seconds(columns, columns["time_ns"]) - start
    ways: tuple[tuple[Direction, int], ...] = (("down", 1), ("up", 0))
    return {
        name: Recording(time[down == way_], size[down == way_].astype(np.float64))
        for name, way_ in ways
        if (down == way_).any()
    }


def _faults(table: dict[str, Any]) -> list[str]:
    """Return notes on what the capture as a whole lacks."""
    notes = []
    if table["cut_at"] is not None:
        notes.append(f"The end: the file is truncated within a packet at byte {table['cut_at']}.")
    if table["cut_headers"]:
        notes.append(
            f"Headers: the snap length cuts {table['cut_headers']} headers. Without timestamps "
            "and other TCP options, a capture at the receiver shows neither round trips nor the initial "
            "window. Capture with 'tcpdump -s 120'."
        )
    if table["dropped"]:
        notes.append(
            f"Missing packets: {table['dropped']} packets were dropped before they were captured, by the "
            "file's counters."
        )
    return notes


@dataclass(frozen=True)
class _Usable:
    transfer: Transfer
    end: End
    rtt_time: Floats
    rtt_ms: Floats
    opener: str
    """The address that opened the connection."""
    sender: str
    receiver: str
    missing: str | None
    """A note on packets that are missing from the capture."""

    @property
    def user(self) -> str:
        return self.receiver if self.transfer.direction == "down" else self.sender

    @property
    def near(self) -> str:
        """The address of the end at which the capture was made."""
        return self.sender if self.end == "sender" else self.receiver


def directed(flows: Sequence[_Usable], host: str | None) -> list[_Usable]:
    """Return the flows with their directions.

    An address is on the user's side or on the other side, in all flows. Flows between other addresses are
    assigned by the end at which the capture was made, which is on the same side in all flows.
    """
    ends = [{flow.sender, flow.receiver} for flow in flows]
    if not any(host in pair for pair in ends):
        own = any(USER in pair and any(end.startswith(SERVERS) for end in pair) for pair in ends)
        host = USER if own else Counter(flow.opener for flow in flows).most_common(1)[0][0]
    known = next(flow for flow, pair in zip(flows, ends, strict=True) if host in pair)
    at_user = known.near == host
    users = {str(host)}
    for flow in sorted(flows, key=lambda flow: host not in {flow.sender, flow.receiver}):
        if not users & {flow.sender, flow.receiver}:
            far = flow.receiver if flow.end == "sender" else flow.sender
            users.add(flow.near if at_user else far)
    return [
        replace(flow, transfer=replace(flow.transfer, direction="down" if flow.receiver in users else "up"))
        for flow in flows
    ]


def _flow(columns: Columns, index: int, flow: Flow, every: Floats) -> _Usable | str | None:
    """Return the larger direction of a TCP flow, if it has enough data, or the reason why it is unusable."""
    (source, port, destination, other), tcp, mss, scale, header = flow
    if not tcp:
        return None
    own = columns["flow"] == index
    # If the file has only this flow, no copies are needed.
    packets = dict(columns) if own.all() else {name: cells[own] for name, cells in columns.items()}
    packets["time"] = _seconds(columns, packets["time_ns"])
    way = larger_way(packets["bytes"], packets["reverse"])
    if way is None:
        return None
    packets["data"] = (packets["reverse"] == way) & (packets["bytes"] > 0)
    packets["answer"] = (packets["reverse"] != way) & (packets["flags"] & ACK > 0)
    if not packets["answer"].any():
        return (
            f"One direction: the ACKs of {source}:{port} to {destination}:{other} are missing, which are "
            "necessary to separate round trips from queueing."
        )
    # Without a SYN, the end with the higher port is assumed to have opened the connection.
    opened = bool((packets["flags"][0] & (SYN | ACK)) == SYN) or port > other
    usual = int(mss[way] or 0) and min(m for m in mss if m)
    about = _About(
        f"{source}:{port} to {destination}:{other}",
        source if opened else destination,
        *((source, destination) if way == 0 else (destination, source)),
        int(usual),
        scale[1 - way] or 0,
        header[way] or 20,
    )
    return _transfer(packets, about, every)


@dataclass(frozen=True)
class _About:
    """A flow apart from its packets."""

    name: str
    opener: str
    sender: str
    receiver: str
    mss: int
    """By the SYNs; 0 if they are missing."""
    scale: int
    header: int
    """Bytes of the TCP header of a data packet."""


def _unwrapped(numbers: npt.NDArray[np.uint32], first: int) -> Ints:
    """Return sequence numbers relative to `first`, without wrapping at 2**32."""
    relative = numbers.astype(np.int64) - first
    steps = np.diff(relative, prepend=0)
    steps = (steps + 2**31) % 2**32 - 2**31
    return np.cumsum(steps)


def _transfer(packets: Columns, about: _About, every: Floats) -> _Usable:
    data, answer, time = packets["data"], packets["answer"], packets["time"]
    first = int(packets["seq"][data][0])
    begin = _unwrapped(packets["seq"][data], first)
    size = packets["bytes"][data].astype(np.int64)
    acked = np.maximum.accumulate(_unwrapped(packets["ack"][answer], first))
    mss = about.mss or int(np.percentile(size, 90))
    mss -= 12 if about.header > 20 and mss > 500 and int(size.max()) % mss else 0
    flight = _Flight(time[data], begin, size, time[answer], acked, packets, mss)
    sender, receiver = _sender_trips(flight), _receiver_trips(flight)
    lacks = missing(every, flight.time, begin, size, acked=int(acked[-1]), mss=mss)
    whole = flight.filled(lacks)
    end = _seen_at(packets, data, sender, receiver)
    # The window of a SYN is never scaled (RFC 7323, section 2.2), unlike later ones.
    offers = answer & (packets["flags"] & SYN == 0)
    windows = packets["window"][offers].astype(np.int64) << about.scale
    if end == "sender":
        at, total = lacks.acknowledged(flight.ack_time, np.clip(acked, 0, None), 2 * mss)
        lost, (rtt_time, rtt) = whole.time[~whole.fresh], sender
    else:
        at, total, lost, (rtt_time, rtt) = whole.time, _unique(whole), _holes(whole), receiver
    transfer = Transfer(
        name=about.name,
        direction="down",
        time_s=at,
        bytes=total.astype(np.float64),
        lost_s=lost,
        sent=int(np.ceil(whole.size / mss).sum()),
        mss=mss,
        app_limited=_app_limited(whole, rtt),
        initial_window=_initial_window(flight, end),
        overhead=20 + about.header,
        receive_window=int(np.max(windows)) if len(windows) else None,
    )
    note = lacks.note(about.name, len(begin))
    return _Usable(transfer, end, rtt_time, rtt, about.opener, about.sender, about.receiver, note)


@dataclass(frozen=True)
class _Flight:
    time: Floats
    begin: Ints
    size: Ints
    ack_time: Floats
    acked: Ints
    packets: Columns
    mss: int

    @property
    def fresh(self) -> Bools:
        """Whether a data packet begins at or after the end of all earlier data."""
        highest = np.maximum.accumulate(self.begin + self.size)
        before = np.concatenate([[0], highest[:-1]])
        return self.begin >= before

    def filled(self, lacks: Missing) -> _Flight:
        """Return the flight with the packets that are missing from the capture."""
        if not len(lacks.time):
            return self
        time = np.concatenate([self.time, lacks.time])
        begin, size = np.concatenate([self.begin, lacks.begin]), np.concatenate([self.size, lacks.size])
        order = np.argsort(time, kind="stable")
        return replace(self, time=time[order], begin=begin[order], size=size[order])


def _sender_trips(flight: _Flight) -> Trips:
    """Return times from packets to their ACKs, except ACKs after duplicate ACKs, which include a repair."""
    fresh = flight.fresh
    ends, times = (flight.begin + flight.size)[fresh], flight.time[fresh]
    advance = np.diff(flight.acked, prepend=0) > 0
    after_duplicate = np.concatenate([[False], ~advance[:-1]])
    after_duplicate[:3] = False
    chosen = advance & ~after_duplicate & (flight.acked > 0)
    # The last acknowledged packet, which may have 64 kB with offload, if the capture contains it.
    place = np.searchsorted(ends, flight.acked[chosen])
    inside = place < len(ends)
    inside[inside] = flight.begin[fresh][place[inside]] < flight.acked[chosen][inside]
    at = flight.ack_time[chosen][inside]
    trips = (at - times[place[inside]]) * 1e3
    good = trips > 0
    return at[good], trips[good]


def _receiver_trips(flight: _Flight) -> Trips:
    """Return times from the first ACK with a timestamp to the first data that echo it."""
    packets = flight.packets
    stamps, first = np.unique(packets["stamp"][packets["answer"]], return_index=True)
    echo = packets["echo"][packets["data"]]
    chosen = (echo > 0) & flight.fresh
    if not len(stamps) or not chosen.any() or stamps[-1] == 0:
        return np.empty(0), np.empty(0)
    # Only the first packet with an echo: later ones may have been released by something else.
    new = chosen & (np.diff(echo.astype(np.int64), prepend=-1) != 0)
    place = np.minimum(np.searchsorted(stamps, echo[new]), len(stamps) - 1)
    is_match = stamps[place] == echo[new]
    at = flight.time[new][is_match]
    trips = (at - flight.ack_time[first[place[is_match]]]) * 1e3
    good = trips > 0
    return at[good], trips[good]


def _seen_at(packets: Columns, data: Bools, sender: Trips, receiver: Trips) -> End:
    """Return the end of the capture: the end where answers to packets take no time."""
    flags, time, reverse = packets["flags"], packets["time"], packets["reverse"]
    syn = np.flatnonzero((flags & (SYN | ACK)) == SYN)
    both = np.flatnonzero((flags & (SYN | ACK)) == (SYN | ACK))
    if len(syn) and len(both):
        third = np.flatnonzero((reverse == reverse[syn[0]]) & ((flags & (SYN | ACK)) == ACK))
        third = third[third > both[-1]]
        if len(third):
            there = float(time[both[-1]] - time[syn[-1]])
            back = float(time[third[0]] - time[both[-1]])
            opener_sends = reverse[data][0] == reverse[syn[0]]
            return "sender" if (there > back) == opener_sends else "receiver"
    if not len(receiver[1]):
        return "sender"
    return "sender" if np.median(sender[1]) > 0.5 * np.median(receiver[1]) else "receiver"


def _unique(flight: _Flight) -> Ints:
    _, first = np.unique(flight.begin, return_index=True)
    new = np.zeros(len(flight.begin), bool)
    new[first] = True
    return np.cumsum(np.where(new, flight.size, 0))


def _holes(flight: _Flight) -> Floats:
    """Return the times of gaps in the sequence numbers, once for each missing packet."""
    highest = np.maximum.accumulate(flight.begin + flight.size)
    gap = flight.begin[1:] - highest[:-1]
    count = np.where(gap > 0, -(-gap // flight.mss), 0)
    return np.asarray(np.repeat(flight.time[1:], count))


def _app_limited(flight: _Flight, rtt: Floats) -> bool | None:
    """Return whether the sender was idle, without repairs, for more than a fifth of the time."""
    if len(rtt) < 5 or len(flight.time) < 5:
        return None
    long = max(1.5 * float(np.percentile(rtt, 90)) / 1e3, 0.02)
    gaps = np.diff(flight.time)
    repaired = ~flight.fresh[1:]
    idle = gaps[(gaps > long) & ~repaired].sum()
    return bool(idle > 0.2 * (flight.time[-1] - flight.time[0]))


def _initial_window(flight: _Flight, end: End) -> int | None:
    """Return the number of packets sent before the first answer; `None` if unknown."""
    packets = flight.packets
    if not (packets["flags"] & SYN).any():
        return None
    if end == "sender":
        answered = flight.ack_time[flight.acked > 0]
        first = flight.time < (answered[0] if len(answered) else np.inf)
    else:
        # Packets released by the first answer echo it or a later one (RFC 7323). On a slow line, the first
        # flight and these packets arrive without a gap, so times do not separate them.
        before = packets["stamp"][packets["answer"]][flight.ack_time < flight.time[0]]
        if not len(before) or before[-1] == 0:
            return None
        later = (packets["echo"][packets["data"]] - before[-1]).astype(np.int32) > 0
        first = np.cumsum(later) == 0
        if (later & flight.fresh).any():
            # The second flight begins at the end of the first, even if a short queue dropped that end.
            return max(1, round(int(flight.begin[later & flight.fresh][0]) / flight.mss))
    sent = int(flight.size[first & flight.fresh].sum())
    return max(1, round(sent / flight.mss))
