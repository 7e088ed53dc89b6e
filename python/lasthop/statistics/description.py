"""The statistics of metrics over replications.

The statistics of a single replication need no numpy, whose loading takes a fifth of a short run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lasthop.metrics.units import unit_of
from lasthop.statistics.quantiles import (
    CONFIDENCE,
    FIVE_NUMBERS,
    QUANTILES,
    QUARTILE_RANGE,
    PercentileMethod,
    bounding_ranks,
    shared,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Statistic: TypeAlias = tuple[str, str, float, int, str, float, float]
"""Metric, name, value, number of values, unit, and the ends of the interval."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of one metric over replications, in the metric's unit."""

    count: int
    min: float
    p25: float
    median: float
    p75: float
    max: float
    mean: float


def summarise(values: Sequence[float], method: PercentileMethod = "linear") -> Summary | None:
    """Summarise the values that are numbers; `None` if there are none."""
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        return None
    if len(numbers) == 1:
        [one] = numbers
        return Summary(1, one, one, one, one, one, one)
    import numpy as np

    from lasthop.statistics.estimates import percentiles

    low, p25, median, p75, high = percentiles(numbers, list(FIVE_NUMBERS.values()), method).tolist()
    return Summary(len(numbers), low, p25, median, p75, high, float(np.mean(numbers)))


def describe_one(row: Sequence[float | None], metrics: Sequence[str], looks: int = 1) -> list[Statistic]:
    """Compute the result of `describe` for a single row; a missing value may also be `None`."""
    confidence = shared(CONFIDENCE, looks)
    ranks = {name: bounding_ranks(1, percent, confidence) for name, percent in QUANTILES.items()}
    found: list[Statistic] = []
    for metric, value in zip(metrics, row, strict=True):
        if value is not None and not math.isnan(value):
            unit = unit_of(metric)
            for name, ends in ranks.items():
                low, high = (math.nan if rank is None else value for rank in ends)
                found.append((metric, name, value, 1, unit, low, high))
            # Sums begin with 0: the mean of -0 is 0.
            found.append((metric, "mean", 0.0 + value, 1, unit, math.nan, math.nan))
    return found


def describe(
    rows: NDArray[np.float64],
    sets: NDArray[np.int64],
    metrics: Sequence[str],
    method: PercentileMethod = "linear",
    *,
    ends_of_mean: bool = False,
    looks: int = 1,
) -> list[Statistic]:
    """Compute the statistics of metrics (columns of `rows`, with their `sets`); skip metrics without values.

    A missing value, and a missing end of an interval, is NaN.
    """
    import numpy as np

    from lasthop.statistics.estimates import (
        mean_interval,
        mean_intervals,
        quantiles_over_sets,
        quartile_ranges_over_sets,
    )

    confidence = shared(CONFIDENCE, looks)
    values = rows.T
    present = ~np.isnan(values)
    # Metrics that have values in the same rows are computed at once.
    patterns: dict[bytes, list[int]] = {}
    for place, where in enumerate(present):
        patterns.setdefault(where.tobytes(), []).append(place)
    found: dict[int, dict[str, Sequence[float]]] = {}
    for places in patterns.values():
        kept = present[places[0]]
        if not kept.any():
            continue
        block = np.ascontiguousarray(values[places][:, kept])
        quantiles = quantiles_over_sets(block, sets[kept], list(QUANTILES.values()), method, confidence)
        means = mean_intervals(block, confidence)
        # A single replication per set does not show how steady a metric is.
        _, sizes = np.unique(sets[kept], return_counts=True)
        ranges = quartile_ranges_over_sets(block, sets[kept], method, confidence) if sizes.min() > 1 else None
        for number, place in enumerate(places):
            lines = dict(zip(QUANTILES, quantiles[:, :, number].T.tolist(), strict=True))
            lines["mean"] = means[:, number].tolist()
            if ranges is not None:
                lines[QUARTILE_RANGE] = ranges[:, number].tolist()
            if ends_of_mean and kept.sum() > 1:
                narrower = mean_interval(block[number], shared(0.90, looks))
                nothing = math.nan, math.nan
                lines |= {"ci_low": (narrower.low, *nothing), "ci_high": (narrower.high, *nothing)}
            found[place] = lines
    return [
        (metric, statistic, value, count, unit_of(metric), low, high)
        for place, metric in enumerate(metrics)
        if (count := int(present[place].sum()))
        for statistic, (value, low, high) in found[place].items()
    ]
