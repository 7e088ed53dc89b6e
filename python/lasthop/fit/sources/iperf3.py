"""`iperf3 -J`: what was transferred in each interval, and what the sender's kernel said at its end.

The user's host is the client. Of a transfer towards the server, the client's file counts what was handed to
the kernel; the server's counts, in the file with `--get-server-output`, say what arrived. Of a transfer from
the server, they say what was sent again, and the round trips.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from lasthop.common.errors import InputError
from lasthop.fit.measurement import Delays, Direction, End, Measurement, Transfer
from lasthop.fit.sources.document import Part, document

_IPV4, _IPV6, _TCP_TIMESTAMPS, _UDP = 20, 40, 32, 8
_MOST_LOST = 1_000_000
_NO_ROUND_TRIPS = (
    "No round-trip times: the receiver wrote this file, and only the sender's kernel knows them."
)
_NOT_ANSWERED = "No round-trip times: datagrams are not answered."
_NO_LOSSES = "No times of losses: the receiver wrote this file, which has their number only."
_SMOOTHED = (
    "No single round-trip times: the kernel's smoothed one, once an interval, while the transfer fills the "
    "line; the least is not that of an idle line."
)
_WRITTEN = (
    "No arrivals: the sender counts what it handed to its kernel. What never arrived was taken off the first "
    "intervals. 'iperf3 -s -J' on the server and '--get-server-output' on the client would tell."
)
_COARSE = "No single packets: bursts and the first round trips are within an interval."


def claims(head: bytes, path: Path) -> bool:
    del path
    return head.lstrip().startswith(b"{") and b'"start"' in head and b"iperf" in head


@dataclass
class _Stream:
    """One connection, interval by interval."""

    is_sender: bool
    time_s: list[float] = field(default_factory=lambda: [0.0])
    bytes: list[float] = field(default_factory=lambda: [0.0])
    lost_s: list[float] = field(default_factory=list)
    rtt_s: list[float] = field(default_factory=list)
    rtt_ms: list[float] = field(default_factory=list)
    packets: float = 0.0
    pmtu: float = 0.0

    def add(self, interval: Part, *, is_udp: bool) -> None:
        start, end = interval["start"].amount(), interval["end"].amount()
        if end < self.time_s[-1] or end < start:
            raise interval["end"].fault(f"a time after {self.time_s[-1]:g} s")
        self.time_s.append(end)
        self.bytes.append(self.bytes[-1] + interval["bytes"].amount())
        lost = interval.amount_of("lost_packets" if is_udp else "retransmits")
        if lost > _MOST_LOST:
            raise interval.fault(f"an interval with fewer than {_MOST_LOST} losses")
        # An interval says how many, not when.
        self.lost_s += list(np.linspace(start, end, int(lost) + 2)[1:-1])
        self.packets += interval.amount_of("packets")
        self.pmtu = interval.amount_of("pmtu") or self.pmtu
        if rtt_us := interval.amount_of("rtt"):
            self.rtt_s.append(end)
            self.rtt_ms.append(rtt_us / 1000)


def read(path: Path) -> Measurement:
    whole = document(path)
    said = whole.get("error")
    intervals = list(whole["intervals"].items()) if whole.get("intervals") else []
    if not intervals:
        why = f"iperf3 says: {said.word()}" if said else "the test did not begin"
        raise InputError(f"{path}: intervals: none is there; {why}")
    test = whole["start"]["test_start"]
    is_udp = test["protocol"].word().upper() == "UDP"
    at_client = whole["start"].get("accepted_connection") is None
    streams = _streams(intervals, is_udp=is_udp)
    if not streams:
        raise InputError(f"{path}: intervals: all are omitted (iperf3 -O); there is nothing to fit")
    there = _server(whole, streams, is_udp=is_udp) if at_client else {}
    transfers = tuple(
        _transfer(f"stream {number}", one, there.get(number), whole, is_udp=is_udp, at_client=at_client)
        for number, one in streams.items()
    )
    senders = {one.is_sender for one in streams.values()}
    seen_at: End = "both" if len(senders) == 2 or there else ("sender" if senders == {True} else "receiver")
    delays = _delays([*streams.values(), *there.values()])
    notes = [_COARSE]
    if delays is not None:
        notes.append(_SMOOTHED)
    else:
        notes.append(_NOT_ANSWERED if is_udp else _NO_ROUND_TRIPS)
    if any(one.is_sender and number not in there for number, one in streams.items()):
        notes.append(_WRITTEN)
    if any(not one.is_sender and number not in there for number, one in streams.items()) and not is_udp:
        notes.append(_NO_LOSSES)
    if said:
        notes.append(f"Not the whole test: iperf3 says '{said.word()}'.")
    return Measurement(path, "iperf3", transfers, delays, seen_at, tuple(notes))


def _streams(intervals: list[Part], *, is_udp: bool) -> dict[int, _Stream]:
    """Return the streams by the number of their socket."""
    found: dict[int, _Stream] = {}
    for interval in intervals:
        for one in interval["streams"].items():
            omitted = one.get("omitted")
            if omitted is not None and omitted.value is True:  # -O: times begin again at 0 afterwards
                continue
            sender = one.get("sender")
            is_sender = sender is None or sender.value is True
            stream = found.setdefault(int(one["socket"].amount()), _Stream(is_sender))
            stream.add(one, is_udp=is_udp)
    return found


def _server(whole: Part, ours: dict[int, _Stream], *, is_udp: bool) -> dict[int, _Stream]:
    """Return the streams' other ends from the server's own file within this one, by the client's numbers."""
    inner = whole.get("server_output_json")
    if inner is None or inner.get("intervals") is None:
        return {}
    theirs = _streams(list(inner["intervals"].items()), is_udp=is_udp)
    if len(theirs) != len(ours):
        return {}
    pairs = zip(ours.items(), theirs.values(), strict=True)
    return {number: other for (number, own), other in pairs if own.is_sender != other.is_sender}


def _transfer(
    name: str, stream: _Stream, there: _Stream | None, whole: Part, *, is_udp: bool, at_client: bool
) -> Transfer:
    start = whole["start"]
    test = start["test_start"]
    direction: Direction = "up" if stream.is_sender == at_client else "down"
    sender, receiver = (stream, there) if stream.is_sender else (there, stream)
    counted = receiver or stream
    delivered = np.array(counted.bytes)
    if receiver is None:
        delivered = np.maximum(delivered - _never_arrived(whole, delivered[-1]), 0.0)
    mss = start.amount_of("tcp_mss_default") or test.amount_of("blksize")
    end = whole.get("end") or Part(whole.file, "end", {})
    repeated = None
    if sender is None and test.amount_of("num_streams") == 1:
        total = end.get("sum_sent")
        repeated = int(total.amount_of("retransmits")) if total else None
    lost_s = np.array((sender or stream).lost_s)
    again = len(lost_s) if repeated is None else repeated
    sent = stream.packets if is_udp else stream.bytes[-1] / max(mss, 1) + again
    control = end.get("sender_tcp_congestion")
    target = start.get("target_bitrate") or test.get("target_bitrate")
    protocol: Literal["tcp", "udp"] = "udp" if is_udp else "tcp"
    return Transfer(
        name,
        direction,
        np.array(counted.time_s),
        delivered,
        lost_s,
        timed=is_udp or sender is not None,
        repeated=repeated,
        sent=int(sent),
        mss=int(mss) or None,
        app_limited=target is not None and target.amount() > 0 and not again,
        protocol=protocol,
        control=None if control is None else control.word(),
        overhead=_overhead(start, (sender or stream).pmtu, mss, is_udp=is_udp),
    )


def _never_arrived(whole: Part, written: float) -> float:
    """Return how many bytes of a stream were still in buffers at the end, or lost, of `written` bytes."""
    end = whole.get("end")
    sent = end.get("sum_sent") if end else None
    received = end.get("sum_received") if end else None
    if sent is None or received is None or sent["bytes"].amount() == 0 or received["bytes"].amount() == 0:
        return 0.0
    share = 1 - received["bytes"].amount() / sent["bytes"].amount()
    return max(share, 0.0) * written


def _overhead(start: Part, pmtu: float, mss: float, *, is_udp: bool) -> int:
    if pmtu > mss > 0 and not is_udp:
        return int(pmtu - mss)
    hosts = [one["remote_host"].word() for one in start["connected"].items()]
    network = _IPV6 if hosts and ":" in hosts[0] and not hosts[0].startswith("::ffff:") else _IPV4
    return network + (_UDP if is_udp else _TCP_TIMESTAMPS)


def _delays(streams: Iterable[_Stream]) -> Delays | None:
    pairs = sorted(pair for one in streams for pair in zip(one.rtt_s, one.rtt_ms, strict=True))
    if not pairs:
        return None
    time_s, rtt_ms = np.array(pairs).T
    return Delays(time_s, rtt_ms, loaded=np.ones(len(pairs), dtype=np.bool_), smoothed=True)
