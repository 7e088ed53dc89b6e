"""The statistics of metrics over replications.

Those of a single replication do without numpy, as its import takes a fifth of the time of a short run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lasthop.common.metrics.units import unit_of
from lasthop.common.statistics.quantiles import (
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
    """Summarise the values that are not NaN; `None` if there are none."""
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        return None
    if len(numbers) == 1:
        [value] = numbers
        return Summary(1, value, value, value, value, value, value)
    import numpy as np

    from lasthop.common.statistics.estimates import percentiles

    low, p25, median, p75, high = percentiles(numbers, list(FIVE_NUMBERS.values()), method).tolist()
    return Summary(len(numbers), low, p25, median, p75, high, float(np.mean(numbers)))


def describe_one(row: Sequence[float | None], metrics: Sequence[str], looks: int = 1) -> list[Statistic]:
    """Compute the result of `describe` for a single row; a missing value may also be `None`."""
    confidence = shared(CONFIDENCE, looks)
    ranks = {name: bounding_ranks(1, percent, confidence) for name, percent in QUANTILES.items()}
    statistics: list[Statistic] = []
    for metric, value in zip(metrics, row, strict=True):
        if value is not None and not math.isnan(value):
            unit = unit_of(metric)
            for name, ends in ranks.items():
                low, high = (math.nan if rank is None else value for rank in ends)
                statistics.append((metric, name, value, 1, unit, low, high))
            # Sums start at 0, so the mean of -0 is 0.
            statistics.append((metric, "mean", 0.0 + value, 1, unit, math.nan, math.nan))
    return statistics


def describe(
    rows: NDArray[np.float64],
    sets: NDArray[np.int64],
    groups: Sequence[NDArray[np.intp]],
    metrics: Sequence[str],
    method: PercentileMethod = "linear",
    *,
    ends_of_mean: bool = False,
    looks: int = 1,
) -> list[list[Statistic]]:
    """Compute the statistics of metrics for each group of rows; skip those without values.

    Metrics are the columns of `rows`, `sets` has the set of each row, and `groups` the row numbers of each
    group. Missing values and missing ends of intervals are NaN.
    """
    import numpy as np

    present = ~np.isnan(rows)
    # Groups and metrics with values in the same rows and sets are computed together.
    alike: dict[tuple[bytes, bytes], list[tuple[int, int]]] = {}
    for group, own in enumerate(groups):
        of_sets = sets[own].tobytes()
        for place, where in enumerate(np.ascontiguousarray(present[own].T)):
            alike.setdefault((of_sets, where.tobytes()), []).append((group, place))
    statistics: list[list[list[Statistic]]] = [[[] for _ in metrics] for _ in groups]
    for cases in alike.values():
        group, place = cases[0]
        usable = present[groups[group], place]
        if not usable.any():
            continue
        members = np.stack([groups[group][usable] for group, _ in cases])
        block = rows[members, np.array([[place] for _, place in cases])]
        narrower = shared(0.90, looks) if ends_of_mean else None
        names, numbers = _statistics(block, sets[members[0]], method, shared(CONFIDENCE, looks), narrower)
        for (group, place), lines in zip(cases, numbers.transpose(2, 1, 0).tolist(), strict=True):
            metric, count = metrics[place], block.shape[1]
            unit = unit_of(metric)
            statistics[group][place] = [
                (metric, name, value, count, unit, low, high)
                for name, (value, low, high) in zip(names, lines, strict=True)
            ]
    return [list(itertools.chain.from_iterable(lines)) for lines in statistics]


def _statistics(
    block: NDArray[np.float64],
    sets: NDArray[np.int64],
    method: PercentileMethod,
    confidence: float,
    narrower: float | None,
) -> tuple[list[str], NDArray[np.float64]]:
    """Return names and numbers of the statistics of each row of `block`, whose columns belong to `sets`.

    The axes of the numbers are: estimate, low, high; statistic; row. The ends of the mean's interval with the
    confidence `narrower` are two additional statistics.
    """
    import numpy as np

    from lasthop.common.statistics.estimates import (
        mean_intervals,
        quantiles_over_sets,
        quartile_ranges_over_sets,
    )

    names = [*QUANTILES, "mean"]
    means = mean_intervals(block, confidence)
    numbers = [quantiles_over_sets(block, sets, list(QUANTILES.values()), method, confidence), means[:, None]]
    # A set with a single replication has no quartile range.
    _, sizes = np.unique(sets, return_counts=True)
    if sizes.min() > 1:
        names.append(QUARTILE_RANGE)
        numbers.append(quartile_ranges_over_sets(block, sets, method, confidence)[:, None])
    if narrower is not None and block.shape[1] > 1:
        names += ["ci_low", "ci_high"]
        ends = np.full((3, 2, len(block)), np.nan)
        ends[0] = mean_intervals(block, narrower)[1:]
        numbers.append(ends)
    return names, np.concatenate(numbers, axis=1)
