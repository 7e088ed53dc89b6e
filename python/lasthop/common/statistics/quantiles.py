"""The statistics of a metric, and the order statistics that bound them.

A single replication, such as most users' first run, needs neither numpy nor scipy.
"""

from bisect import bisect_left, bisect_right
from functools import cache
from typing import Literal

PercentileMethod = Literal["linear", "lower"]
FIVE_NUMBERS: dict[str, float] = {"min": 0.0, "p25": 25.0, "median": 50.0, "p75": 75.0, "max": 100.0}
"""The percentiles of the five statistics of a box plot."""
QUANTILES = {"min": 0.0, "p25": 25.0, "median": 50.0, "p75": 75.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
"""The same statistics, and percentiles of the upper tail."""
QUARTILE_RANGE = "iqr"
"""The interquartile range, a measure of a metric's variation over replications."""
CONFIDENCE = 0.95


def shared(confidence: float, looks: int) -> float:
    """Return the confidence of each interval such that all jointly have `confidence` (Bonferroni)."""
    return 1 - (1 - confidence) / looks


@cache
def bounding_ranks(count: int, percent: float, confidence: float) -> tuple[int | None, int | None]:
    """Return the indices of the sorted values that bound a percentile; `None` for an end without bound.

    Each end is on the wrong side of the true percentile with a probability of at most (1 - confidence) / 2.
    """
    # at_most[k] is the probability that at most k of the values are below the percentile.
    if count == 1:
        at_most = [1 - percent / 100]
    else:
        import numpy as np
        from scipy import special

        at_most = special.bdtr(np.arange(count), count, percent / 100)
    tail = (1 - confidence) / 2
    low, high = bisect_right(at_most, tail) - 1, bisect_left(at_most, 1 - tail)
    return (low if low >= 0 else None), (high if high < count else None)
