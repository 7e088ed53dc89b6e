"""What a QUIC stack says of a connection (qlog), next to what its network did (captures at both ends).

The captures know which datagrams arrived and when; the log knows which packets were in them and what the
stack concluded. Neither alone shows a declared loss that was none, or a wrong round-trip time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from lasthop.common.captures import packets_of
from lasthop.common.errors import InputError
from lasthop.stacks.qlog import APPLICATION, INITIAL, SUFFIXES, Log, Received, Sent, read_logs

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Packets: TypeAlias = Sequence[Sent] | Sequence[Received]

STACK, NETWORK = "stack", "network"
"""Values of the column `source`."""
NO_LOG, UNREADABLE, NOT_FOUND = "no log", "unreadable", "not found"
REASONS = {
    NO_LOG: "the end that sends wrote no log (qlog)",
    UNREADABLE: "the log cannot be read",
    NOT_FOUND: "the captures do not have the packets of the log",
}
"""Why a flow has no view, in words."""
NEVER = -1
"""The arrival of a datagram that was lost, and the datagram of a packet that was not found."""
TRAIN_GAP_NS = 100_000
"""Datagrams that follow each other within 0.1 ms are one burst (an assumption).

RFC 9002, section 7.7, limits bursts to the initial window, ten datagrams, but does not say when one ends. A
paced sender spaces datagrams by their share of the round trip: more than 0.1 ms below 100 Mbit/s.
"""
# Times of captures by lasthop count from 2000-01-01; nobody else has captured QUIC at that time.
_EPOCH_NS = 946_684_800_000_000_000
_FIRST_QUIC_NS = 1_325_376_000_000_000_000
# How far a packet is searched that only the log or only the capture has, and what confirms that it is found.
_SEARCH, _CONFIRMED = 24, 3
# Packets of a datagram are built at once, whatever time that takes the stack.
_TOGETHER_NS = 5_000_000


class Datagrams(NamedTuple):
    """The datagrams of one direction, in the order in which this end sent or received them."""

    time_ns: Ints
    """When this end sent or received them."""
    bytes: Ints
    far_ns: Ints
    """When the other end received or sent them; `NEVER` if it did not."""

    @property
    def lost(self) -> Bools:
        """Which were lost. Those behind the last that arrived may have been on the way at the end."""
        lost: Bools = self.far_ns == NEVER
        lost[max(np.flatnonzero(~lost), default=0) :] = False
        return lost


class Declared(NamedTuple):
    """A loss that the stack declared. Times are in seconds since the start of the run."""

    space: str
    number: int
    sent_s: float
    declared_s: float
    arrived: bool | None
    """Whether the datagram arrived after all; `None` if that is not known."""
    arrived_s: float | None
    """When it arrived, if it did."""


class Trip(NamedTuple):
    """A round trip: from the sending of a datagram to the arrival of its first acknowledgment."""

    time_s: float
    actual_ms: float
    latest_ms: float | None
    """The stack's own measurement of it."""
    smoothed_ms: float | None
    """What the stack believed after it."""


@dataclass(frozen=True)
class View:
    """A log and the datagrams of its connection."""

    log: Log
    out: Datagrams
    back: Datagrams
    datagram_of: Sequence[int]
    """For each packet that the log sent, the datagram that carried it, or `NEVER`."""
    datagram_from: Sequence[int]
    """For each packet that the log received, likewise."""
    clock_ns: int
    """What makes a time of the log a time of the run."""
    has_far_end: bool

    @property
    def span_s(self) -> tuple[float, float]:
        """When the first datagram left its end, and when the last one left or arrived."""
        known = np.concatenate([own for ways in (self.out, self.back) for own in (ways.time_ns, ways.far_ns)])
        known = known[known != NEVER]
        return int(known.min()) / 1e9, int(known.max()) / 1e9

    @cached_property
    def _sent_at(self) -> dict[tuple[str, int | None], int]:
        """The place of each sent packet in the log, by number space and number."""
        return {(p.space, p.number): index for index, p in enumerate(self.log.sent)}

    @cached_property
    def declared(self) -> list[Declared]:
        """The losses that the stack declared, each packet once."""
        found = {}
        for lost in self.log.lost:
            key = lost.space, lost.number
            index = self._sent_at.get(key)
            if index is None or key in found:
                continue
            datagram = self.datagram_of[index]
            arrived = self.arrived(datagram)
            arrived_s = float(self.out.far_ns[datagram]) / 1e9 if arrived else None
            declared_s = self._seconds(lost.time_ns)
            found[key] = Declared(*key, self.sent_s(index), declared_s, arrived, arrived_s)
        return list(found.values())

    def arrived(self, datagram: int) -> bool | None:
        """Whether a datagram arrived; `None` if that is not known."""
        if datagram == NEVER:
            return None
        return True if self.out.far_ns[datagram] != NEVER else False if self._lost[datagram] else None

    @cached_property
    def _lost(self) -> Bools:
        return self.out.lost

    @cached_property
    def trips(self) -> list[Trip]:
        """The round trips by which RFC 9002 measures (section 5.1), and what the stack made of each."""
        greatest: dict[str, int] = {}
        measured: list[tuple[int, float]] = []
        for index, received in enumerate(self.log.received):
            if not received.acked:
                continue
            last = max(end for _, end in received.acked)
            packet = self._sent_at.get((received.space, last))
            if last <= greatest.get(received.space, -1) or packet is None:
                continue
            greatest[received.space] = last
            datagram = self.datagram_from[index]
            if self.log.sent[packet].eliciting and datagram != NEVER and self.datagram_of[packet] != NEVER:
                trip = (int(self.back.time_ns[datagram]) - self._sent_ns(packet)) / 1e6
                measured.append((received.time_ns, trip))
        return list(self._beliefs(measured))

    def _beliefs(self, measured: Sequence[tuple[int, float]]) -> Iterator[Trip]:
        """Yield each round trip with the last values before the next one."""
        updates = iter(self.log.updates)
        update = next(updates, None)
        latest: float | None = None
        smoothed: float | None = None
        for index, (time_ns, actual_ms) in enumerate(measured):
            until = measured[index + 1][0] if index + 1 < len(measured) else np.inf
            while update is not None and update.time_ns < until:
                if update.time_ns >= measured[0][0]:  # before that, it is the initial value
                    latest = update.values.get("latest_rtt_ms", latest)
                    smoothed = update.values.get("srtt_ms", smoothed)
                update = next(updates, None)
            yield Trip(self._seconds(time_ns), actual_ms, latest, smoothed)

    def series_of(self, column: str) -> tuple[Floats, Floats]:
        """Return the times and values of one of the stack's metrics."""
        pairs = [(own.time_ns, own.values[column]) for own in self.log.updates if column in own.values]
        times = np.array([self._seconds(time_ns) for time_ns, _ in pairs], dtype=np.float64)
        return times, np.array([value for _, value in pairs], dtype=np.float64)

    @cached_property
    def on_the_way(self) -> tuple[Floats, Floats]:
        """The bytes of the datagrams that have left and will arrive, after each departure and arrival."""
        arrives = self.out.far_ns != NEVER
        times = np.concatenate([self.out.time_ns[arrives], self.out.far_ns[arrives]])
        steps = np.concatenate([self.out.bytes[arrives], -self.out.bytes[arrives]])
        order = np.argsort(times, kind="stable")
        return times[order] / 1e9, np.cumsum(steps[order]).astype(np.float64)

    @cached_property
    def bursts(self) -> Ints:
        """The bytes of each burst: datagrams that left within `TRAIN_GAP_NS` of the one before."""
        if not len(self.out.time_ns):
            return np.zeros(0, np.int64)
        first = np.flatnonzero(
            np.diff(self.out.time_ns, prepend=self.out.time_ns[0] - TRAIN_GAP_NS - 1) > TRAIN_GAP_NS
        )
        return np.add.reduceat(self.out.bytes, first)

    def metrics(self) -> dict[str, float | int | None]:
        """Return the metrics of the connection by name, as the dictionary of metrics describes them."""
        known = [own for own in self.declared if own.arrived is not None]
        real = [own for own in known if not own.arrived]
        trips = [own for own in self.trips if own.smoothed_ms is not None]
        lost = int(self._lost.sum()) if self.has_far_end else None
        return {
            "stack_declared_losses": len(self.declared),
            "stack_spurious_losses": len(known) - len(real) if self.has_far_end else None,
            "stack_real_losses_share": len(real) / len(known) if known else None,
            "stack_detection_ms": _median([(own.declared_s - own.sent_s) * 1e3 for own in real]),
            "stack_srtt_ms": _median([own.smoothed_ms for own in trips if own.smoothed_ms is not None]),
            "stack_srtt_error": _median(_errors((own.smoothed_ms, own.actual_ms) for own in trips)),
            "stack_rtt_error": _median(_errors((own.latest_ms, own.actual_ms) for own in trips)),
            "stack_cwnd_bytes": self._mean(self.series_of("cwnd_bytes")),
            "stack_in_flight_bytes": self._mean(self.series_of("in_flight_bytes")),
            "wire_in_flight_bytes": self._mean(self.on_the_way) if self.has_far_end else None,
            "wire_lost_datagrams": lost,
            "wire_rtt_ms": _median([own.actual_ms for own in self.trips]),
            "wire_burst_p95_bytes": float(np.quantile(self.bursts, 0.95)) if len(self.bursts) else None,
            "wire_burst_max_bytes": int(self.bursts.max()) if len(self.bursts) else None,
        }

    def series(self) -> pl.DataFrame:
        """Return the values of stack and network over time, a row for each change."""
        parts = [self._series_of_stack(), self._series_of_network()]
        return pl.concat(parts, how="diagonal").sort("time_s", maintain_order=True).select(*_SERIES)

    def _series_of_stack(self) -> pl.DataFrame:
        rows = [
            {"time_s": self._seconds(own.time_ns), "source": STACK}
            | {name: own.values.get(name) for name in _SERIES if name in own.values}
            for own in self.log.updates
        ]
        return pl.DataFrame(rows, schema=_SERIES)

    def _series_of_network(self) -> pl.DataFrame:
        times, flying = self.on_the_way
        trips = {
            "time_s": [own.time_s for own in self.trips],
            "latest_rtt_ms": [own.actual_ms for own in self.trips],
        }
        parts = [
            pl.DataFrame({"time_s": times, "in_flight_bytes": flying}),
            pl.DataFrame(trips, schema=["time_s", "latest_rtt_ms"]),
        ]
        return pl.concat([part.cast(pl.Float64) for part in parts], how="diagonal").with_columns(
            source=pl.lit(NETWORK)
        )

    def events(self) -> pl.DataFrame:
        """Return what the stack did, and when the datagrams left that the network lost."""
        rows: list[tuple[float, str, str, int | None, str | None, bool | None]] = [
            (self.sent_s(index), STACK, "sent", packet.number, None, None)
            for index, packet in enumerate(self.log.sent)
        ]
        rows += [
            (own.declared_s, STACK, "declared-lost", own.number, None, own.arrived) for own in self.declared
        ]
        rows += [
            (self._seconds(own.time_ns), STACK, "congestion-state", None, own.name, None)
            for own in self.log.states
        ]
        rows += [
            (self._seconds(time_ns), STACK, "marked-for-retransmit", None, None, None)
            for time_ns in self.log.marked_ns
        ]
        lost = self.out.time_ns[self._lost]
        rows += [(float(time_ns) / 1e9, NETWORK, "lost", None, None, False) for time_ns in lost]
        return pl.DataFrame(rows, schema=_EVENTS, orient="row").sort("time_s", maintain_order=True)

    def _mean(self, series: tuple[Floats, Floats]) -> float | None:
        """Return the mean over the time in which this end sends."""
        times, values = series
        if not len(times) or len(self.out.time_ns) < 2:
            return None
        start, end = self.out.time_ns[[0, -1]] / 1e9
        inner = np.clip(times, start, end)
        lengths = np.diff(inner, append=end)
        total = lengths.sum()
        return float((values * lengths).sum() / total) if total > 0 else None

    def sent_s(self, index: int) -> float:
        """Return when a packet of the log was sent."""
        return self._sent_ns(index) / 1e9

    def _sent_ns(self, index: int) -> int:
        datagram = self.datagram_of[index]
        if datagram != NEVER:
            return int(self.out.time_ns[datagram])
        return self.log.sent[index].time_ns + self.clock_ns

    def _seconds(self, time_ns: int) -> float:
        return (time_ns + self.clock_ns) / 1e9


_SERIES = {
    "time_s": pl.Float64(),
    "source": pl.String(),
    "cwnd_bytes": pl.Float64(),
    "ssthresh_bytes": pl.Float64(),
    "in_flight_bytes": pl.Float64(),
    "srtt_ms": pl.Float64(),
    "latest_rtt_ms": pl.Float64(),
    "min_rtt_ms": pl.Float64(),
}
_EVENTS = {
    "time_s": pl.Float64(),
    "source": pl.String(),
    "event": pl.String(),
    "packet": pl.Int64(),
    "state": pl.String(),
    "arrived": pl.Boolean(),
}


def sender_view(folder: Path, captures: Mapping[str, Path]) -> View | str:
    """Return the view of the end of a flow that sent most of its bytes, or why there is none.

    The ends have left logs in `client/qlog` and `server/qlog` of the folder; `captures` has the capture at
    each of these ends. The reason is one of `REASONS`.
    """
    views, reasons = [], []
    for end, other in (("server", "client"), ("client", "server")):
        for file in sorted((folder / end / "qlog").glob("*")):
            if file.suffix not in SUFFIXES:
                continue
            try:
                logs = read_logs(file)
            except InputError:
                reasons.append(UNREADABLE)
                continue
            for log in logs:
                try:
                    views.append(view_of(log, captures[end], captures[other]))
                except InputError:
                    reasons.append(NOT_FOUND)
    sizes = [(int(view.out.bytes.sum()), view) for view in views]
    senders = [(size, view) for size, view in sizes if size > view.back.bytes.sum()]
    return max(senders, key=lambda own: own[0])[1] if senders else [*reasons, NO_LOG][0]


def view_of(log: Log, near: Path, far: Path | None = None) -> View:
    """Compare a log with the captures at its own end and, if there is one, at the other.

    Among the UDP flows of the captures, the log's is the one whose datagrams have the sizes of its packets.
    Raise `InputError` if there is none.
    """
    best: View | None = None
    for out, back in _flows(near, far):
        sent = _aligned(log.sent, out.bytes)
        if best is not None and _found(sent) <= _found(best.datagram_of):
            continue
        received = _aligned(log.received, back.bytes)
        offsets = [out.time_ns[d] - p.time_ns for p, d in zip(log.sent, sent, strict=True) if d != NEVER]
        clock_ns = int(np.median(offsets)) if offsets else 0
        best = View(log, out, back, sent, received, clock_ns, far is not None)
    if best is None or _found(best.datagram_of) * 2 < len(log.sent) or not log.sent:
        raise InputError(
            f"{near} has no UDP flow with the datagrams of {log.file}: give the capture at the end that "
            "wrote the log first, then the one at the other end."
        )
    return best


def _found(datagrams: Sequence[int]) -> int:
    return sum(datagram != NEVER for datagram in datagrams)


def _flows(near: Path, far: Path | None) -> Iterator[tuple[Datagrams, Datagrams]]:
    """Yield what each end may have sent and received, for each UDP flow and for each end as the near one."""
    columns, table = packets_of(near)
    others, other_table = ({}, {"flows": []}) if far is None else packets_of(far)
    start = _start_ns(columns["time_ns"])
    times = columns["time_ns"].astype(np.int64) - start
    far_times = others["time_ns"].astype(np.int64) - start if far is not None else times
    numbers = {flow[0]: number for number, flow in enumerate(other_table["flows"]) if not flow[1]}
    for number, (ends, is_tcp, *_) in enumerate(table["flows"]):
        if is_tcp:
            continue
        turned = (*ends[2:], *ends[:2])
        other = numbers.get(ends, numbers.get(turned))
        ways = []
        for way in (0, 1):
            here = np.flatnonzero((columns["flow"] == number) & (columns["reverse"] == way))
            there: Ints = np.zeros(0, np.int64)
            if other is not None:
                opposite = way if ends in numbers else 1 - way
                there = np.flatnonzero((others["flow"] == other) & (others["reverse"] == opposite))
            keys = _keys(columns, here)
            far_ns = _partners(keys, _keys(others, there), far_times[there] if other is not None else there)
            ways.append(Datagrams(times[here], columns["bytes"][here].astype(np.int64), far_ns))
        yield ways[0], ways[1]
        yield ways[1], ways[0]


def _start_ns(time_ns: npt.NDArray[np.uint64]) -> int:
    """Return the start of a run by lasthop, or the first packet of another capture."""
    first = int(time_ns[0]) if len(time_ns) else 0
    return _EPOCH_NS if _EPOCH_NS <= first < _FIRST_QUIC_NS else first


def _keys(columns: dict[str, npt.NDArray[np.uint32]], rows: Ints) -> list[tuple[int, int]]:
    if not len(rows):
        return []
    return list(zip(columns["digest"][rows].tolist(), columns["bytes"][rows].tolist(), strict=True))


def _partners(keys: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]], times: Ints) -> Ints:
    """Return the time of the same datagram in the other capture, or `NEVER`."""
    waiting: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)
    for key, time_ns in zip(others, times.tolist(), strict=True):
        waiting[key].append(time_ns)
    return np.array([waiting[key].popleft() if waiting.get(key) else NEVER for key in keys], dtype=np.int64)


def _aligned(packets: Packets, sizes: Ints) -> list[int]:
    """Return the datagram of each packet, or `NEVER`.

    Both are in the order of sending. Coalesced packets (RFC 9000, section 12.2) share a datagram. A log may
    lack packets that it did not understand or wrote too late, and a capture those before it began.
    """
    datagrams = sizes.tolist()
    found = [NEVER] * len(packets)
    packet = datagram = 0
    while packet < len(packets) and datagram < len(datagrams):
        end = _filled(packets, packet, datagrams[datagram])
        if end is None:
            step = next(_steps(packets, packet, datagrams, datagram), None)
            if step is None:
                packet += 1
                continue
            packet, datagram = packet + step[0], datagram + step[1]
            continue
        found[packet:end] = [datagram] * (end - packet)
        packet, datagram = end, datagram + 1
    return found


def _steps(
    packets: Packets, packet: int, datagrams: Sequence[int], datagram: int
) -> Iterator[tuple[int, int]]:
    """Yield how many packets and datagrams to leave out so that those behind fit again, the fewest first."""
    for total in range(1, _SEARCH):
        for left_out in range(total + 1):
            at, own = packet + left_out, datagram + total - left_out
            if _fits(packets, at, datagrams, own):
                yield left_out, total - left_out


def _fits(packets: Packets, packet: int, datagrams: Sequence[int], datagram: int) -> bool:
    for size in datagrams[datagram : datagram + _CONFIRMED]:
        end = _filled(packets, packet, size)
        if end is None:
            return packet == len(packets)
        packet = end
    return datagram < len(datagrams)


def _filled(packets: Packets, first: int, size: int) -> int | None:
    """Return the end of the packets, from `first` on, that fill a datagram; `None` if none do.

    A datagram with an Initial packet may be padded behind its packets (RFC 9000, section 14.1).
    """
    total, end, is_padded = 0, first, False
    while end < len(packets) and total < size:
        packet = packets[end]
        if packet.bytes is None:
            return end + 1
        begins = end > first and (
            packets[end - 1].space == APPLICATION or packet.time_ns - packets[first].time_ns > _TOGETHER_NS
        )
        if begins or total + packet.bytes > size:
            break
        total += packet.bytes
        end += 1
        is_padded |= packet.space == INITIAL
    return end if end > first and (total == size or is_padded) else None


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return float(np.median(known)) if known else None


def _errors(pairs: Iterable[tuple[float | None, float]]) -> list[float]:
    """Return the relative errors of what was believed."""
    return [
        abs(believed - actual) / actual for believed, actual in pairs if believed is not None and actual > 0
    ]
