"""Packet captures (pcap, pcapng): transfers and round trips of their TCP flows.

The capture may come from either end. At the sender, ACKs show deliveries and round trips. At the receiver, a
packet's echoed timestamp (RFC 7323) identifies the ACK that released it.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.fit.measurement import Bools, Delays, Direction, End, Floats, Ints, Measurement, Transfer

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
KINDS = {"Q": np.uint64, "I": np.uint32, "H": np.uint16, "B": np.uint8}

Columns = dict[str, Any]
Trips = tuple[Floats, Floats]
Flow = tuple[tuple[str, int, str, int], bool, list[int | None], list[int | None]]


def claims(head: bytes, path: Path) -> bool:
    """Return whether the file starts like a capture, or has the extension of one."""
    return head.startswith(MAGIC) or path.suffix in {".pcap", ".pcapng", ".cap"}


def read(path: Path, host: str | None = None) -> Measurement:
    """Read a capture. Raises InputError if it is damaged or has no TCP transfer.

    `host` is the address of the user's end, by default lasthop's client or the host that opened a connection.
    """
    columns, table = packets_of(path)
    notes = []
    if table["cut_at"] is not None:
        notes.append(f"The end: the file is truncated within a packet at byte {table['cut_at']}.")
    results = [_flow(columns, index, flow, host) for index, flow in enumerate(table["flows"])]
    flows = [flow for flow in results if isinstance(flow, _Usable)]
    notes += [flow for flow in results if isinstance(flow, str)]
    if not flows:
        why = f"no TCP flow has the required {LEAST_BYTES // 1000} kB of data in a direction"
        raise InputError(f"{path} contains no usable transfer: {notes[-1] if notes else why}")
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
        notes=tuple(dict.fromkeys(notes)),
    )


def packets_of(path: Path) -> tuple[Columns, dict[str, Any]]:
    """Return the packets of a capture as columns, and its other data. Raises InputError if it is damaged."""
    try:
        table = _core.packets(str(path))
    except _core.CaptureError as error:
        raise InputError(f"{path}: {error}. The file was not used.") from error
    columns = {
        name: np.frombuffer(cells[1], KINDS[cells[0]]) for name, cells in table.items() if _is_column(cells)
    }
    return columns, table


def larger_way(size: Ints, reverse: Ints) -> int | None:
    """Return the direction with more data, 1 if opposite to the first packet; `None` if too little."""
    amounts = [int(size[reverse == way].sum(dtype=np.int64)) for way in (0, 1)]
    way = int(amounts[1] > amounts[0])
    return way if amounts[way] >= LEAST_BYTES else None


def _is_column(cells: object) -> bool:
    return isinstance(cells, tuple) and len(cells) == 2


def _from(transfer: Transfer, start: float) -> Transfer:
    return replace(transfer, time_s=transfer.time_s - start, lost_s=transfer.lost_s - start)


@dataclass(frozen=True)
class _Usable:
    transfer: Transfer
    end: End
    rtt_time: Floats
    rtt_ms: Floats


def _flow(columns: Columns, index: int, flow: Flow, host: str | None) -> _Usable | str | None:
    """Return the larger direction of a TCP flow, if it has enough data, or the reason why it is unusable."""
    (source, port, destination, other), tcp, mss, scale = flow
    if not tcp:
        return None
    own = columns["flow"] == index
    # If the file has only this flow, no copies are needed.
    packets = dict(columns) if own.all() else {name: cells[own] for name, cells in columns.items()}
    packets["time"] = (packets["time_ns"] - columns["time_ns"][0]).astype(np.int64) / 1e9
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
    ends = source, destination
    if host not in ends and USER in ends and any(end.startswith(SERVERS) for end in ends):
        host = USER
    # The user's host is the one that sent the SYN or, without a SYN, has the higher port.
    opened = bool((packets["flags"][0] & (SYN | ACK)) == SYN)
    by_first = source == host if host in {source, destination} else opened or port > other
    direction: Direction = "up" if (way == 0) == by_first else "down"
    usual = int(mss[way] or 0) and min(m for m in mss if m)
    name = f"{source}:{port} to {destination}:{other}"
    return _transfer(packets, name, direction, int(usual), scale[1 - way] or 0)


def _unwrapped(numbers: npt.NDArray[np.uint32], first: int) -> Ints:
    """Return sequence numbers relative to `first`, without wrapping at 2**32."""
    relative = numbers.astype(np.int64) - first
    steps = np.diff(relative, prepend=0)
    steps = (steps + 2**31) % 2**32 - 2**31
    return np.cumsum(steps)


def _transfer(packets: Columns, name: str, direction: Direction, mss: int, scale: int) -> _Usable:
    data, answer, time = packets["data"], packets["answer"], packets["time"]
    first = int(packets["seq"][data][0])
    begin = _unwrapped(packets["seq"][data], first)
    size = packets["bytes"][data].astype(np.int64)
    acked = np.maximum.accumulate(_unwrapped(packets["ack"][answer], first))
    if not mss:
        mss = int(np.percentile(size, 90)) if len(size) else 1460
    stamps = bool((packets["stamp"][data] > 0).any())
    mss -= 12 if stamps and mss > 500 and int(size.max()) % mss else 0
    flight = _Flight(time[data], begin, size, time[answer], acked, packets, mss)
    sender, receiver = _sender_trips(flight), _receiver_trips(flight)
    end = _seen_at(packets, data, sender, receiver)
    # The window of a SYN is never scaled (RFC 7323, section 2.2), unlike later ones.
    offers = answer & (packets["flags"] & SYN == 0)
    windows = packets["window"][offers].astype(np.int64) << scale
    if end == "sender":
        at, total, lost, (rtt_time, rtt) = (
            flight.ack_time,
            np.clip(acked, 0, None),
            flight.time[~flight.fresh],
            sender,
        )
    else:
        at, total, lost, (rtt_time, rtt) = flight.time, _unique(flight), _holes(flight), receiver
    transfer = Transfer(
        name=name,
        direction=direction,
        time_s=at,
        bytes=total.astype(np.float64),
        lost_s=lost,
        sent=int(np.ceil(size / mss).sum()),
        mss=mss,
        app_limited=_app_limited(flight, rtt),
        initial_window=_initial_window(flight, end),
        overhead=52 if stamps else 40,
        receive_window=int(np.max(windows)) if len(windows) else None,
    )
    return _Usable(transfer, end, rtt_time, rtt)


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


def _sender_trips(flight: _Flight) -> Trips:
    """Return times from packets to their ACKs, except ACKs after duplicate ACKs, which include a repair."""
    fresh = flight.fresh
    ends, times = (flight.begin + flight.size)[fresh], flight.time[fresh]
    advance = np.diff(flight.acked, prepend=0) > 0
    after_duplicate = np.concatenate([[False], ~advance[:-1]])
    after_duplicate[:3] = False
    chosen = advance & ~after_duplicate & (flight.acked > 0)
    # The last acknowledged packet, which may have 64 kB with offload.
    place = np.searchsorted(ends, flight.acked[chosen])
    inside = place < len(ends)
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
