"""Bars that show an interval on an axis. CSS draws them; positions are per cent of the axis' width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lasthop.common.statistics.estimates import Interval

_TICKS = 5
_MARGIN = 0.06


@dataclass(frozen=True, slots=True)
class IntervalView:
    """An interval on its axis: left end and width of its bar, and its estimate, in per cent."""

    left: float
    width: float
    estimate: float


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that includes zero. `step` is the distance of its ticks."""

    low: float
    high: float
    step: float
    factor: float = 1.0
    """Factor by which ticks are multiplied for their text."""

    @classmethod
    def over(cls, values: Iterable[float]) -> Axis:
        """Return an axis that includes these values and zero."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(0.0, *finite) if finite else 0.0, max(0.0, *finite) if finite else 0.0
        span = (high - low) or 1.0
        margin = _MARGIN * span
        return cls(low - margin, high + margin, _round_step(span / _TICKS))

    def scaled(self, factor: float) -> Axis:
        """Return the axis with ticks in another unit."""
        return replace(
            self, factor=factor, step=_round_step((self.high - self.low) * factor / _TICKS) / factor
        )

    @property
    def zero(self) -> float:
        return self.place(0.0)

    @property
    def ticks(self) -> Sequence[tuple[float, str]]:
        """Place and text of each tick."""
        first, last = math.ceil(self.low / self.step), math.floor(self.high / self.step)
        return [
            (self.place(number * self.step), minus(f"{number * self.step * self.factor:.4g}"))
            for number in range(first, last + 1)
        ]

    def place(self, value: float) -> float:
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    def view(self, interval: Interval) -> IntervalView:
        """Return the interval on the axis; an infinite end is at the end of the axis."""
        low, high = (min(max(end, self.low), self.high) for end in (interval.low, interval.high))
        left = self.place(low)
        return IntervalView(left, round(self.place(high) - left, 2), self.place(interval.estimate))


def minus(text: str) -> str:
    """Replace hyphens in negative numbers with minus signs."""
    return text.replace("-", "−")


def _round_step(step: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= step * 0.999)
