"""Captures of a transfer at both ends: losses and queueing delays of each direction.

The clocks of the ends differ by an unknown time, which is part of all one-way delays, with opposite signs in
the two directions. So queueing delays above the least delay can be computed, and the sum of both least
delays, which is a round trip, but not the parts of this sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from lasthop.common.captures import Columns, packets_of
from lasthop.fit.line import OTHER
from lasthop.fit.measurement import Bools, Direction, Floats, Ints, Measurement
from lasthop.fit.posterior import Parameter, Source
from lasthop.fit.sources.capture import larger_way

# The least number of packets in both captures.
LEAST = 100
# These columns identify a packet at both ends. Addresses do not, because they may change on the way.
MARKS = ("seq", "ack", "stamp", "echo", "sack_from", "sack_to")


class Path(NamedTuple):
    """The packets of a direction, between the first and the last that are in both captures."""

    sent: int
    delay_ms: Floats
    """One-way delays by two clocks, of the packets that arrived."""

    @property
    def lost(self) -> int:
        """Number of packets that were sent and did not arrive."""
        return self.sent - len(self.delay_ms)

    @property
    def waits_ms(self) -> tuple[float, float]:
        """Median and 95th percentile of the delay above the least delay."""
        usual, long = np.percentile(self.delay_ms, [50, 95]).tolist()
        least = float(self.delay_ms.min())
        return usual - least, long - least


@dataclass(frozen=True)
class Pair:
    """The captures of a transfer at both ends."""

    sender: Measurement
    receiver: Measurement
    direction: Direction
    data: Path
    answers: Path

    @property
    def round_trip_ms(self) -> float:
        """The sum of both least delays, in which the difference of the clocks cancels out."""
        return float(self.data.delay_ms.min() + self.answers.delay_ms.min())

    def notes(self) -> Iterator[str]:
        both = f"{self.sender.file.name} and {self.receiver.file.name}"
        for name, way in (("data packets", self.data), ("ACKs", self.answers)):
            usual, long = way.waits_ms
            yield (
                f"{both}: {way.lost} of {way.sent} {name} were lost between the two; the queueing delay of "
                f"the others was at most {usual:.3g} ms for half of them, and at most {long:.3g} ms for 95 %."
            )
        yield (
            f"{both}: without queueing, the round trip takes {self.round_trip_ms:.4g} ms. These data do not "
            "identify the delay of each direction, because the clocks differ (assumed: equal delays)."
        )

    def put(self, keys: dict[str, Any]) -> None:
        """Add the loss of ACKs to a scenario's keys."""
        if self.answers.lost:
            back = keys[OTHER[self.direction]]
            share = self.answers.lost / self.answers.sent
            keys[OTHER[self.direction]] = {**back, "link": {**back["link"], "loss": f"{100 * share:.5f} %"}}

    def answers_lost(self) -> Parameter:
        """Return the loss of the direction that carried only ACKs."""
        back = OTHER[self.direction]
        ends = binomtest(self.answers.lost, self.answers.sent).proportion_ci(0.9)
        return Parameter(
            f"ack_loss_{back}",
            f"{back}.link.loss",
            "",
            self.answers.lost / self.answers.sent,
            float(ends.low),
            float(ends.high),
            source=Source(self.receiver.file, "capture"),
        )


def pairs(measurements: Sequence[Measurement]) -> tuple[list[Pair], list[str]]:
    """Return the pairs of captures, and notes on captures that do not form a pair."""
    captures = [capture for capture in measurements if capture.kind == "capture"]
    pairs_, apart = [], []
    for sender in (capture for capture in captures if capture.seen_at == "sender"):
        for receiver in (capture for capture in captures if capture.seen_at == "receiver"):
            pair = _pair(sender, receiver)
            if isinstance(pair, Pair):
                pairs_.append(pair)
            else:
                apart.append(f"{sender.file.name} and {receiver.file.name} were not joined: {pair}.")
    return pairs_, apart


def _pair(sender: Measurement, receiver: Measurement) -> Pair | str:
    directions = {measurement.direction for measurement in (*sender.transfers, *receiver.transfers)}
    if len(directions) > 1:
        return "their transfers have different directions"
    (data_sent, answers_seen), (data_seen, answers_sent) = (
        _sides(measurement) for measurement in (sender, receiver)
    )
    data, answers = _path(data_sent, data_seen), _path(answers_sent, answers_seen)
    if data is None or answers is None:
        return f"fewer than {LEAST} packets of each direction are in both, so their transfers differ"
    if len(data.delay_ms) < data.sent / 2:
        return (
            f"only {len(data.delay_ms)} of {data.sent} data packets are in both, so packets are modified on "
            "the way"
        )
    return Pair(sender, receiver, directions.pop(), data, answers)


class Packets(NamedTuple):
    """Packets on the wire: large packets of segmentation or receive offload are split."""

    time_ms: Floats
    marks: Ints
    """A row for each."""

    @classmethod
    def of(cls, columns: Columns, chosen: Bools, size: int) -> Packets:
        """Return the chosen packets, split into packets with at most `size` bytes of data."""
        count = np.maximum(-(-columns["bytes"][chosen].astype(np.int64) // size), 1)
        part = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        marks = np.column_stack([columns[name][chosen].astype(np.int64) for name in MARKS])
        marks = np.repeat(marks, count, axis=0)
        marks[:, 0] = (marks[:, 0] + part * size) % 2**32
        return cls(np.repeat(columns["time_ns"][chosen] / 1e6, count), marks)


def _sides(measurement: Measurement) -> tuple[Packets, Packets]:
    """Return the data packets of the transfers in a capture, and the packets in the other direction."""
    columns, table = packets_of(measurement.file)
    data, answers = (np.zeros(len(columns["flow"]), bool) for _ in range(2))
    for index, (_, tcp, *_) in enumerate(table["flows"]):
        own = columns["flow"] == index
        way = larger_way(columns["bytes"][own], columns["reverse"][own]) if tcp else None
        if way is not None:
            data |= own & (columns["reverse"] == way) & (columns["bytes"] > 0)
            answers |= own & (columns["reverse"] != way)
    size = measurement.transfers[0].payload
    return Packets.of(columns, data, size), Packets.of(columns, answers, size)


def _path(sent: Packets, arrived: Packets) -> Path | None:
    """Match the packets of a direction; `None` if too few are in both."""
    marks = np.concatenate([sent.marks, arrived.marks])
    alike = np.unique(marks, axis=0, return_inverse=True)[1].ravel()
    count = len(sent.marks)
    _, at, place = np.intersect1d(
        _numbered(alike[:count]), _numbered(alike[count:]), assume_unique=True, return_indices=True
    )
    if len(at) < LEAST:
        return None
    return Path(int(at.max() - at.min()) + 1, arrived.time_ms[place] - sent.time_ms[at])


def _numbered(alike: Ints) -> Ints:
    """Return ids that also distinguish packets with equal marks, by their order."""
    order = np.argsort(alike, kind="stable")
    begins = np.flatnonzero(np.diff(alike[order], prepend=-1))
    lengths = np.diff(begins, append=len(alike))
    numbered = np.empty(len(alike), np.int64)
    numbered[order] = (alike[order] << 32) + np.arange(len(alike)) - np.repeat(begins, lengths)
    return numbered
