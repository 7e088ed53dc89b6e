"""Formatting metrics: labels, units, and numbers at a suitable scale.

Each column of the records has a single unit: seconds, milliseconds, bytes, bytes per second. The terminal,
reports and pictures show times in s or ms, sizes in MB, rates in kbit/s or Mbit/s, with the same scale for a
column, axis or sentence:

    scale = scale_of("throughput_Bps", [7162.5, 3000.0])
    scale.unit                               # 'kbit/s'
    scale.text(7162.5)                       # '57.3 kbit/s'
    scale.number(3000.0)                     # '24.0'
    axis_title("throughput_Bps", scale)      # 'throughput (kbit/s)'
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lasthop.common.metrics.dictionary import find

_SHARES = frozenset(
    {
        "lost_per_packet",
        "retransmitted_per_packet",
        "stack_real_losses_share",
        "stack_rtt_error",
        "stack_srtt_error",
        "throughput_share",
        "utilisation",
        "background_share",
        "voice_loss",
        "voice_late",
    }
)
"""Ratios that are shown in per cent."""

SCORES = {"mos": 3.5, "fairness_jain": 1.0, "fairness_maxmin": 1.0, "utilisation": 1.0, "efficiency": 1.0}
"""The widths of the ranges of bounded scores, which are compared by points; more is better."""

RATIOS = frozenset({"s", "ms", "µs", "B/s", "bit/s"})
"""Units of times and rates, which are compared by ratios, as noise grows with them."""

_TIMES = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "µs", 1e6))
_SIZES = ((1e9, "GB", 1e-9), (1e6, "MB", 1e-6), (1e3, "kB", 1e-3), (0.0, "B", 1.0))
_RATES = ((1e9, "Gbit/s", 1e-9), (1e6, "Mbit/s", 1e-6), (0.0, "kbit/s", 1e-3))
_FAMILIES = {
    "s": (1.0, _TIMES),
    "ms": (1e-3, _TIMES),
    "µs": (1e-6, _TIMES),
    "B": (1.0, _SIZES),
    "B/s": (8.0, _RATES),
    "bit/s": (1.0, _RATES),
}
"""For each unit its size in the family's base unit (s, B, bit/s), and the scales of its family."""
_WHOLE = frozenset({"", "packets", "acks", "blocks"})
"""Units of counts."""
_SHARE = "share"


def unit_of(metric: str) -> str:
    """Return the unit of a metric in `lasthop results metrics`; empty if it has none."""
    entry = find(metric)
    return "" if entry is None else entry.unit


def label(metric: str) -> str:
    """Return a metric's name in words, without its unit: `elapsed_s` is `elapsed time`."""
    entry = find(metric)
    return metric.replace("_", " ") if entry is None else entry.label


class Scale(NamedTuple):
    """The scale of a column or axis: values are multiplied by `factor` to be in `unit` (may be empty)."""

    unit: str
    factor: float = 1.0
    whole: bool = False
    """Whether the numbers are counts."""

    def number(self, value: float | None, *, signed: bool = False, decimals: int | None = None) -> str:
        """Format a value with about three digits, or with `decimals`, without the unit; a dash for `None`."""
        if value is None or not math.isfinite(value):
            return "-"
        scaled = value * self.factor
        decimals = self._decimals(scaled) if decimals is None else decimals
        text = f"{scaled:{'+' if signed else ''}.{decimals}f}"
        return "0" if float(text) == 0 else text

    def text(self, value: float | None, *, signed: bool = False) -> str:
        number = self.number(value, signed=signed)
        return f"{number} {self.unit}" if self.unit and number != "-" else number

    def decimals_of(self, error: float) -> int:
        """Return the number of decimals for two digits of an error."""
        return min(max(1 - math.floor(math.log10(error * self.factor)), 0), 6)

    def _decimals(self, scaled: float) -> int:
        size = abs(scaled)
        if size == 0 or size >= 1000 or (self.whole and scaled.is_integer()):
            return 0
        return min(max(2 - math.floor(math.log10(size)), 1), 4) if size < 1 or not self.whole else 1


def scale(unit: str, values: Iterable[float | None]) -> Scale:
    """Choose the scale for numbers in `unit` by the largest of them."""
    if unit in _FAMILIES:
        base, steps = _FAMILIES[unit]
        finite = [abs(value) * base for value in values if value is not None and math.isfinite(value)]
        largest = max(finite, default=0.0) or 1.0
        _, name, factor = next(step for step in steps if largest >= step[0])
        return Scale(name, base * factor)
    if unit == _SHARE:
        return Scale("%", 100.0)
    words = {"percent": "%", "ratio": "", "acks": "ACKs"}
    return Scale(words.get(unit, unit), whole=unit in _WHOLE)


def scale_of(metric: str, values: Iterable[float | None]) -> Scale:
    """Choose the scale for values of a column of the records."""
    return scale(_SHARE if metric in _SHARES else unit_of(metric), values)


def human(metric: str, value: float | None) -> str:
    """Format a value of a column of the records with a suitable unit: `57.3 kbit/s`, `1.20 MB`."""
    return scale_of(metric, [value]).text(value)


def units_for(metric: str) -> dict[str, float]:
    """Return the units for values of a column with their sizes in the column's unit, which may be empty."""
    own = unit_of(metric)
    if own not in _FAMILIES:
        return {"": 1.0, **({} if own in ("", "ratio") else {own: 1.0})}
    base, steps = _FAMILIES[own]
    sizes = {name: 1 / factor for _, name, factor in steps}
    sizes |= {unit: size for unit, (size, others) in _FAMILIES.items() if others is steps}
    if steps is _TIMES:
        sizes["us"] = sizes["µs"]
    return {unit: size / base for unit, size in sizes.items()}


def axis_title(metric: str, scale: Scale) -> str:
    """Return quantity and unit: `throughput (kbit/s)`; no unit for counts such as `queue drops`."""
    is_count = scale.unit in ("", "packets", "ACKs", "blocks")
    return label(metric) if is_count else f"{label(metric)} ({scale.unit})"


def listed(texts: Sequence[str], word: str = "and") -> str:
    """Return `a, b and c`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"


def counted(number: int, thing: str) -> str:
    """Return `1 segment`, `2 segments`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
