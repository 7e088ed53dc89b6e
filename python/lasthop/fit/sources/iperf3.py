"""`iperf3 -J`: the bytes of each interval, and the counters of the sender's kernel at its end.

The user's host is the client. In a transfer to the server, the client's file counts bytes passed to the
kernel; the server's counts (in the file with `--get-server-output`) are bytes that arrived. In a transfer
from the server, the server's data include retransmissions and round trips.
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
_NO_ROUND_TRIPS = "No round-trip times: the receiver wrote this file, but only the sender's kernel has them."
_NOT_ANSWERED = "No round-trip times: datagrams are not answered."
_NO_LOSSES = "No times of losses: the receiver wrote this file, which contains only their number."
_SMOOTHED = (
    "No individual round-trip times: the file has the kernel's smoothed round-trip time once per interval, "
    "while the transfer fills the line; the least is not that of an idle line."
)
_WRITTEN = (
    "No arrivals: the sender counts the bytes passed to its kernel. Bytes that never arrived were subtracted "
    "from the first intervals. To record arrivals, use 'iperf3 -s -J' on the server and "
    "'--get-server-output' on the client."
)
_COARSE = "No packets: bursts and the first round trips are shorter than an interval."


def claims(head: bytes, path: Path) -> bool:
    del path
    return head.lstrip().startswith(b"{") and b'"start"' in head and b"iperf" in head


@dataclass
class _Stream:
    """A connection, interval by interval."""

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
        # An interval has only the number of losses, so these are distributed evenly.
        self.lost_s += list(np.linspace(start, end, int(lost) + 2)[1:-1])
        self.packets += interval.amount_of("packets")
        self.pmtu = interval.amount_of("pmtu") or self.pmtu
        if rtt_us := interval.amount_of("rtt"):
            self.rtt_s.append(end)
            self.rtt_ms.append(rtt_us / 1000)


def read(path: Path) -> Measurement:
    whole = document(path)
    error = whole.get("error")
    intervals = list(whole["intervals"].items()) if whole.get("intervals") else []
    if not intervals:
        why = f"iperf3 reports: {error.word()}" if error else "the test did not start"
        raise InputError(f"{path}: intervals is empty; {why}")
    test = whole["start"]["test_start"]
    is_udp = test["protocol"].word().upper() == "UDP"
    at_client = whole["start"].get("accepted_connection") is None
    streams = _streams(intervals, is_udp=is_udp)
    if not streams:
        raise InputError(f"{path}: intervals: all are omitted (iperf3 -O); there are no data to fit")
    there = _server(whole, streams, is_udp=is_udp) if at_client else {}
    transfers = tuple(
        _transfer(f"stream {number}", stream, there.get(number), whole, is_udp=is_udp, at_client=at_client)
        for number, stream in streams.items()
    )
    senders = {stream.is_sender for stream in streams.values()}
    seen_at: End = "both" if len(senders) == 2 or there else ("sender" if senders == {True} else "receiver")
    delays = _delays([*streams.values(), *there.values()])
    notes = [_COARSE]
    if delays is not None:
        notes.append(_SMOOTHED)
    else:
        notes.append(_NOT_ANSWERED if is_udp else _NO_ROUND_TRIPS)
    if any(stream.is_sender and number not in there for number, stream in streams.items()):
        notes.append(_WRITTEN)
    if any(not stream.is_sender and number not in there for number, stream in streams.items()) and not is_udp:
        notes.append(_NO_LOSSES)
    if error:
        notes.append(f"The rest of the test: iperf3 reports '{error.word()}'.")
    return Measurement(path, "iperf3", transfers, delays, seen_at, tuple(notes))


def _streams(intervals: list[Part], *, is_udp: bool) -> dict[int, _Stream]:
    """Return the streams by the number of their socket."""
    streams: dict[int, _Stream] = {}
    for interval in intervals:
        for entry in interval["streams"].items():
            omitted = entry.get("omitted")
            if omitted is not None and omitted.value is True:  # -O: times restart at 0 afterwards
                continue
            sender = entry.get("sender")
            is_sender = sender is None or sender.value is True
            stream = streams.setdefault(int(entry["socket"].amount()), _Stream(is_sender))
            stream.add(entry, is_udp=is_udp)
    return streams


def _server(whole: Part, ours: dict[int, _Stream], *, is_udp: bool) -> dict[int, _Stream]:
    """Return the streams' other ends from the server's output, by the client's socket numbers."""
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
    """Return how many of `written` bytes of a stream were lost, or still in buffers at the end."""
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
    hosts = [connection["remote_host"].word() for connection in start["connected"].items()]
    network = _IPV6 if hosts and ":" in hosts[0] and not hosts[0].startswith("::ffff:") else _IPV4
    return network + (_UDP if is_udp else _TCP_TIMESTAMPS)


def _delays(streams: Iterable[_Stream]) -> Delays | None:
    pairs = sorted(pair for stream in streams for pair in zip(stream.rtt_s, stream.rtt_ms, strict=True))
    if not pairs:
        return None
    time_s, rtt_ms = np.array(pairs).T
    return Delays(time_s, rtt_ms, loaded=np.ones(len(pairs), dtype=np.bool_), smoothed=True)
