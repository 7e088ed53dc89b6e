"""What the listener hears of a call: which frames are played, and how the E-model of ITU-T G.107 rates that.

This is written again from the definitions in `docs/traffic.md`, so that stories and records check each other.
The module words nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lasthop.scenario.facts import Voice

DEFAULT_RATING = 93.2
"""Ro - Is of G.107 with its default values."""


def hear(voice: Voice, delays_ns: Mapping[int, int | None], first_ns: int | None) -> Heard:
    """Play frames with these delays, `None` of lost ones, by their numbers.

    The first arrival took `first_ns`.
    """
    in_time_ns = None if first_ns is None else first_ns + voice["jitter_buffer_ns"]
    late = {
        number: delay - in_time_ns
        for number, delay in delays_ns.items()
        if delay is not None and in_time_ns is not None and delay > in_time_ns
    }
    played = [delay is not None and number not in late for number, delay in delays_ns.items()]
    return Heard(
        voice,
        first_ns,
        len(played),
        sum(delay is None for delay in delays_ns.values()),
        late,
        _bursts(played),
    )


def _bursts(played: Sequence[bool]) -> int:
    """Count the runs of frames that are not played."""
    return sum(not now and before for before, now in zip([True, *played], played, strict=False))


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of the frames whose fate is known. Everything else has the E-model's default values."""

    voice: Voice
    first_ns: int | None
    """One-way delay of the first frame that arrived."""
    frames: int
    lost: int
    late_ns: Mapping[int, int]
    """By frame number: how late a frame came that was too late to be played."""
    bursts: int

    @property
    def missing(self) -> float:
        """Share of the frames that are not played."""
        return (self.lost + len(self.late_ns)) / self.frames

    @property
    def burst_ratio(self) -> float:
        """Mean length of the gaps, relative to their mean length under independent losses; at least 1."""
        return (
            max(1.0, (self.lost + len(self.late_ns)) / self.bursts * (1 - self.missing))
            if self.bursts
            else 1.0
        )

    @property
    def delay_ns(self) -> int | None:
        """Delay from mouth to ear; `None` if nothing is heard."""
        if self.first_ns is None:
            return None
        return self.voice["codec_delay_ns"] + self.first_ns + self.voice["jitter_buffer_ns"]

    @property
    def delay_cost(self) -> float:
        """Idd: how much the delay lowers the rating R."""
        x = math.log2((self.delay_ns or 0) / 1e8) if (self.delay_ns or 0) > 1e8 else 0.0
        own, third = (math.pow(1 + math.pow(x / by, 6), 1 / 6) for by in (1, 3))
        return 25 * (own - 3 * third + 2)

    @property
    def missing_cost(self) -> float:
        """Ie,eff: how much the missing frames lower the rating R."""
        voice, percent = self.voice, 100 * self.missing
        return voice["impairment"] + (95 - voice["impairment"]) * percent / (
            percent / self.burst_ratio + voice["loss_robustness"]
        )

    @property
    def rating(self) -> float:
        """The rating R of G.107."""
        return DEFAULT_RATING - self.delay_cost - self.missing_cost

    @property
    def mos(self) -> float:
        """The mean opinion score of the rating (G.107, Annex B); 1 if nothing is heard."""
        r = min(self.rating, 100.0)
        if self.delay_ns is None or r <= 0:
            return 1.0
        return max(1.0, 1 + 0.035 * r + 7e-6 * r * (r - 60) * (100 - r))
