"""Bars that show an interval on an axis. The page itself draws them; positions are per cent of its width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lasthop.common.statistics.estimates import Interval

_TICKS = 5
_MARGIN = 0.06


@dataclass(frozen=True, slots=True)
class IntervalView:
    """Where an interval lies on its axis: begin and width of its bar, and its estimate, in per cent."""

    left: float
    width: float
    estimate: float


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that holds zero. `step` is the distance of its ticks."""

    low: float
    high: float
    step: float
    factor: float = 1.0
    """Factor by which ticks are multiplied for their text."""

    @classmethod
    def over(cls, values: Iterable[float]) -> Axis:
        """Choose an axis that shows these values and zero."""
        known = [value for value in values if math.isfinite(value)]
        low, high = min(0.0, *known) if known else 0.0, max(0.0, *known) if known else 0.0
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
        """The place of zero."""
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
        """Return where a value lies."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    def view(self, interval: Interval) -> IntervalView:
        """Lay the interval on the axis; an infinite end lies at the end of the axis."""
        low, high = (min(max(end, self.low), self.high) for end in (interval.low, interval.high))
        left = self.place(low)
        return IntervalView(left, round(self.place(high) - left, 2), self.place(interval.estimate))


def minus(text: str) -> str:
    """Write negative numbers with a minus sign instead of a hyphen."""
    return text.replace("-", "−")


def _round_step(step: float) -> float:
    """Return the next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= step * 0.999)
