"""The statistics of metrics over replications.

The statistics of a single replication need no numpy, whose loading takes a fifth of a short run.
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
    """Summarise the values that are numbers; `None` if there are none."""
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        return None
    if len(numbers) == 1:
        [one] = numbers
        return Summary(1, one, one, one, one, one, one)
    import numpy as np

    from lasthop.common.statistics.estimates import percentiles

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
    groups: Sequence[NDArray[np.intp]],
    metrics: Sequence[str],
    method: PercentileMethod = "linear",
    *,
    ends_of_mean: bool = False,
    looks: int = 1,
) -> list[list[Statistic]]:
    """Compute for each group of rows the statistics of metrics; skip those without values.

    Metrics are the columns of `rows`, `sets` has the set of each row, and `groups` the numbers of its rows. A
    missing value, and a missing end of an interval, is NaN.
    """
    import numpy as np

    present = ~np.isnan(rows)
    # Whatever their group and metric, values in the same rows and sets are computed at once.
    alike: dict[tuple[bytes, bytes], list[tuple[int, int]]] = {}
    for group, own in enumerate(groups):
        of_sets = sets[own].tobytes()
        for place, where in enumerate(np.ascontiguousarray(present[own].T)):
            alike.setdefault((of_sets, where.tobytes()), []).append((group, place))
    found: list[list[list[Statistic]]] = [[[] for _ in metrics] for _ in groups]
    for cases in alike.values():
        group, place = cases[0]
        kept = present[groups[group], place]
        if not kept.any():
            continue
        held = np.stack([groups[group][kept] for group, _ in cases])
        block = rows[held, np.array([[place] for _, place in cases])]
        narrower = shared(0.90, looks) if ends_of_mean else None
        names, numbers = _statistics(block, sets[held[0]], method, shared(CONFIDENCE, looks), narrower)
        for (group, place), lines in zip(cases, numbers.transpose(2, 1, 0).tolist(), strict=True):
            metric, count = metrics[place], block.shape[1]
            unit = unit_of(metric)
            found[group][place] = [
                (metric, name, value, count, unit, low, high)
                for name, (value, low, high) in zip(names, lines, strict=True)
            ]
    return [list(itertools.chain.from_iterable(lines)) for lines in found]


def _statistics(
    block: NDArray[np.float64],
    sets: NDArray[np.int64],
    method: PercentileMethod,
    confidence: float,
    narrower: float | None,
) -> tuple[list[str], NDArray[np.float64]]:
    """Compute the statistics of each row of `block`, whose columns are of these `sets`: names and numbers.

    The axes of the numbers are: estimate, low, high; statistic; row. With a confidence `narrower`, the ends
    of the mean's interval at it are two statistics more.
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
    # A single replication per set does not show how steady a metric is.
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
