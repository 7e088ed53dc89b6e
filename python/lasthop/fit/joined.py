"""Two captures of one transfer, one of each end: what was lost on each way, and how long it waited.

The clocks of the two ends differ by an unknown time. It is in all delays of one direction, and with the
other sign in those of the other one. So the waits above the least delay are known, and the sum of both least
delays, which is a round trip, but not how that sum is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from lasthop.fit.line import OTHER
from lasthop.fit.measurement import Bools, Direction, Floats, Ints, Measurement
from lasthop.fit.posterior import Parameter, Source
from lasthop.fit.sources.capture import Columns, larger_way, packets_of

# Packets that must be in both captures.
LEAST = 100
# What tells a packet from others, at both ends. Its addresses may change on the way.
MARKS = ("seq", "ack", "stamp", "echo", "sack_from", "sack_to")


class Crossed(NamedTuple):
    """The packets of one way, between the first and the last that are in both captures."""

    sent: int
    delay_ms: Floats
    """Of those that arrived, by two clocks."""

    @property
    def lost(self) -> int:
        """Packets that one end sent and the other did not see."""
        return self.sent - len(self.delay_ms)

    @property
    def waits_ms(self) -> tuple[float, float]:
        """Median and 95th percentile of what is above the least delay."""
        usual, long = np.percentile(self.delay_ms, [50, 95]).tolist()
        least = float(self.delay_ms.min())
        return usual - least, long - least


@dataclass(frozen=True)
class Pair:
    """Both captures of a transfer, matched packet by packet."""

    sender: Measurement
    receiver: Measurement
    direction: Direction
    data: Crossed
    answers: Crossed

    @property
    def round_trip_ms(self) -> float:
        """The sum of both least delays, in which the difference of the clocks cancels."""
        return float(self.data.delay_ms.min() + self.answers.delay_ms.min())

    def notes(self) -> Iterator[str]:
        both = f"{self.sender.file.name} and {self.receiver.file.name}"
        for name, way in (("data packets", self.data), ("ACKs", self.answers)):
            usual, long = way.waits_ms
            yield (
                f"{both}: of {way.sent} {name}, {way.lost} were lost between the two; half of the others "
                f"waited at most {usual:.3g} ms and 95 % at most {long:.3g} ms above the least delay."
            )
        yield (
            f"{both}: without waits a round trip takes {self.round_trip_ms:.4g} ms. How it is shared is not "
            "identified by these data, because the difference of the two clocks hides it (assumed: evenly)."
        )

    def put(self, keys: dict[str, Any]) -> None:
        """Put what the pair tells of the way back into a scenario's keys."""
        if self.answers.lost:
            back = keys[OTHER[self.direction]]
            share = self.answers.lost / self.answers.sent
            keys[OTHER[self.direction]] = {**back, "link": {**back["link"], "loss": f"{100 * share:.5f} %"}}

    def answers_lost(self) -> Parameter:
        """Loss of the way that carried only ACKs."""
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
    """The pairs of captures, and why others are none."""
    captures = [one for one in measurements if one.kind == "capture"]
    found, refused = [], []
    for sender in (one for one in captures if one.seen_at == "sender"):
        for receiver in (one for one in captures if one.seen_at == "receiver"):
            one = _pair(sender, receiver)
            if isinstance(one, Pair):
                found.append(one)
            else:
                refused.append(f"{sender.file.name} and {receiver.file.name} were not joined: {one}.")
    return found, refused


def _pair(sender: Measurement, receiver: Measurement) -> Pair | str:
    directions = {one.direction for one in (*sender.transfers, *receiver.transfers)}
    if len(directions) > 1:
        return "their transfers have different directions"
    (data_sent, answers_seen), (data_seen, answers_sent) = (_sides(one) for one in (sender, receiver))
    data, answers = _crossed(data_sent, data_seen), _crossed(answers_sent, answers_seen)
    if data is None or answers is None:
        return f"fewer than {LEAST} packets of each way are in both, so they are of different transfers"
    if len(data.delay_ms) < data.sent / 2:
        return (
            f"only {len(data.delay_ms)} of {data.sent} data packets of one are in the other; something on "
            "the way changes packets"
        )
    return Pair(sender, receiver, directions.pop(), data, answers)


class Packets(NamedTuple):
    """Packets as the wire carries them: those that offload sends or shows as one are taken apart."""

    time_ms: Floats
    marks: Ints
    """A row for each."""

    @classmethod
    def of(cls, columns: Columns, chosen: Bools, size: int) -> Packets:
        """Those that are chosen, with `size` bytes of data in a full one."""
        count = np.maximum(-(-columns["bytes"][chosen].astype(np.int64) // size), 1)
        part = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        marks = np.column_stack([columns[name][chosen].astype(np.int64) for name in MARKS])
        marks = np.repeat(marks, count, axis=0)
        marks[:, 0] = (marks[:, 0] + part * size) % 2**32
        return cls(np.repeat(columns["time_ns"][chosen] / 1e6, count), marks)


def _sides(one: Measurement) -> tuple[Packets, Packets]:
    """The data packets of the transfers in a capture, and the answers to them."""
    columns, table = packets_of(one.file)
    data, answers = (np.zeros(len(columns["flow"]), bool) for _ in range(2))
    for index, (_, tcp, _, _) in enumerate(table["flows"]):
        own = columns["flow"] == index
        way = larger_way(columns["bytes"][own], columns["reverse"][own]) if tcp else None
        if way is not None:
            data |= own & (columns["reverse"] == way) & (columns["bytes"] > 0)
            answers |= own & (columns["reverse"] != way)
    size = one.transfers[0].payload
    return Packets.of(columns, data, size), Packets.of(columns, answers, size)


def _crossed(sent: Packets, arrived: Packets) -> Crossed | None:
    """The packets of one way; None if too few are in both."""
    marks = np.concatenate([sent.marks, arrived.marks])
    alike = np.unique(marks, axis=0, return_inverse=True)[1].ravel()
    count = len(sent.marks)
    _, at, place = np.intersect1d(
        _numbered(alike[:count]), _numbered(alike[count:]), assume_unique=True, return_indices=True
    )
    if len(at) < LEAST:
        return None
    return Crossed(int(at.max() - at.min()) + 1, arrived.time_ms[place] - sent.time_ms[at])


def _numbered(alike: Ints) -> Ints:
    """The same for packets with the same marks, with their number among them."""
    order = np.argsort(alike, kind="stable")
    begins = np.flatnonzero(np.diff(alike[order], prepend=-1))
    lengths = np.diff(begins, append=len(alike))
    numbered = np.empty(len(alike), np.int64)
    numbered[order] = (alike[order] << 32) + np.arange(len(alike)) - np.repeat(begins, lengths)
    return numbered
