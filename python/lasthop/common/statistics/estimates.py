"""Statistics over replications.

Percentiles have one of two methods. `linear` interpolates (type 7 of Hyndman and Fan 1996, the usual
default); `lower` selects the lower of the two neighbouring values, as the appendix tables of some studies do.

Intervals have a confidence of 95 % by default. Those of percentiles are between two of the sorted values
(order statistics): the number of values below the true percentile has a binomial distribution, regardless of
the values' own distribution (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2). The median
needs six values for an interval, and the upper end of the 95th percentile needs 72. An end without bound is
NaN, as is one end of the interval of the minimum and of the maximum. The interval of a mean is Student's. The
interval of the interquartile range follows from the intervals of both quartiles.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lasthop.common.statistics.quantiles import CONFIDENCE, PercentileMethod, bounding_ranks, shared

OFTEN = 0.84
"""The 80 % quantile of the normal distribution, for the difference that a test detects so often."""
ROUNDING = 1e-9
"""Relative size of rounding errors."""

_RESAMPLES = 2000
_DRAWN_AT_ONCE = 250_000
"""Number of values that are resampled together."""
_EXACT, _EXACT_WITH_TIES = 50, 13
"""Maximum of pairs for an exact signed-rank test, as in scipy.stats.wilcoxon."""


def percentiles(
    values: ArrayLike, percents: Sequence[float], method: PercentileMethod = "linear"
) -> NDArray[np.float64]:
    """Percentiles along the last axis, or NaN; the result's first axis is that of `percents`."""
    array = np.asarray(values, dtype=np.float64)
    return np.asarray(np.percentile(array, percents, axis=-1, method=method), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate with its confidence interval."""

    estimate: float
    low: float
    high: float


def quantile_intervals(
    values: ArrayLike,
    percents: Sequence[float],
    method: PercentileMethod = "linear",
    confidence: float = CONFIDENCE,
) -> NDArray[np.float64]:
    """Percentiles of the values along the last axis, with their intervals by order statistics.

    No value may be NaN. The result's first axis is estimate, low, high, and its second that of `percents`;
    the others are those of `values` without the last.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    intervals = np.full((3, len(percents), *ordered.shape[:-1]), np.nan)
    intervals[0] = percentiles(ordered, percents, method)
    for place, percent in enumerate(percents):
        for end, rank in enumerate(bounding_ranks(ordered.shape[-1], percent, confidence), start=1):
            if rank is not None:
                intervals[end, place] = ordered[..., rank]
    return intervals


def mean_intervals(values: ArrayLike, confidence: float = CONFIDENCE) -> NDArray[np.float64]:
    """Means along the last axis with Student's interval; the result's first axis is estimate, low, high.

    For a single value the ends are NaN. No value may be NaN.
    """
    array = np.asarray(values, dtype=np.float64)
    count = array.shape[-1]
    means = array.mean(axis=-1)
    if count < 2:
        return np.stack([means, np.full_like(means, np.nan), np.full_like(means, np.nan)])
    half = array.std(axis=-1, ddof=1) / math.sqrt(count) * student(confidence, count - 1)
    return np.stack([means, means - half, means + half])


def quantiles_over_sets(
    values: NDArray[np.float64],
    sets: NDArray[np.int64],
    percents: Sequence[float],
    method: PercentileMethod,
    confidence: float = CONFIDENCE,
) -> NDArray[np.float64]:
    """Mean over the sets of each set's percentiles along the last axis: estimate, low, high by percentile.

    No value may be NaN. The interval is by order statistics, or for several sets Student's over the sets.
    """
    numbers, sizes = np.unique(sets, return_counts=True)
    if numbers.size == 0:
        return np.full((3, len(percents), *values.shape[:-1]), np.nan)
    if numbers.size == 1:
        return quantile_intervals(values, percents, method, confidence)
    if np.all(sizes == sizes[0]):
        of_sets = values[..., np.argsort(sets, kind="stable")].reshape(*values.shape[:-1], numbers.size, -1)
        return mean_intervals(percentiles(of_sets, percents, method), confidence)
    per_set = [percentiles(values[..., sets == number], percents, method) for number in numbers]
    return mean_intervals(np.stack(per_set, axis=-1), confidence)


def quartile_ranges_over_sets(
    values: NDArray[np.float64],
    sets: NDArray[np.int64],
    method: PercentileMethod,
    confidence: float = CONFIDENCE,
) -> NDArray[np.float64]:
    """Mean over the sets of a set's interquartile range along the last axis: estimate, low, high.

    No value may be NaN. The interval of a single set has the ends of the joint intervals of both quartiles
    (Bonferroni), so it is conservative. For several sets it is Student's over the sets.
    """
    numbers = np.unique(sets)
    if numbers.size > 1:
        quartiles = [percentiles(values[..., sets == number], [25, 75], method) for number in numbers]
        return mean_intervals(np.stack([upper - lower for lower, upper in quartiles], axis=-1), confidence)
    lower, upper = np.moveaxis(quantile_intervals(values, [25, 75], method, shared(confidence, 2)), 1, 0)
    return np.stack([upper[0] - lower[0], np.maximum(0.0, upper[1] - lower[2]), upper[2] - lower[1]])


def median_interval(values: ArrayLike, seed: int, confidence: float = 0.95) -> Interval | None:
    """Median with its percentile-bootstrap interval, which is reproducible by seed; `None` without values."""
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    if array.size == 0:
        return None
    middle = float(np.median(array))
    if array.size == 1 or np.all(array == array[0]):
        return Interval(middle, middle, middle)
    # Resample ranks: numpy sorts small integers ten times as fast as it computes medians of floats.
    order = np.argsort(array)
    ordered, ranks = array[order], np.empty(array.size, dtype=np.uint32)
    ranks[order] = np.arange(array.size)
    random, medians = np.random.default_rng(seed), np.empty(_RESAMPLES)
    for some in np.array_split(medians, math.ceil(_RESAMPLES * array.size / _DRAWN_AT_ONCE)):
        drawn = np.sort(ranks[random.integers(0, array.size, (some.size, array.size))], axis=-1)
        some[:] = (ordered[drawn[:, (array.size - 1) // 2]] + ordered[drawn[:, array.size // 2]]) / 2
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Interval(middle, float(low), float(high))


def mean_interval(values: ArrayLike, confidence: float = 0.90) -> Interval:
    """Mean of at least two values with Student's interval."""
    return Interval(*(float(number) for number in mean_intervals(values, confidence)))


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Difference between a variant and its reference over the same replications, with equal conditions."""

    pairs: int
    median: Interval
    p_value: float
    """Wilcoxon signed-rank test, two-sided; 1 if every difference is zero."""
    rank_biserial: float
    """Matched-pairs rank-biserial correlation, -1 to 1: ranks of positive less those of negative differences,
    as a share of all (Kerby, Comprehensive Psychology 3, 2014).
    """


def paired_difference(
    variant: ArrayLike, reference: ArrayLike, seed: int, looks: int = 1
) -> PairedDifference | None:
    """Compare `variant[i]` with `reference[i]`, without incomplete pairs; `None` if there are no pairs.

    Interval and p value are corrected for this many `looks`.
    """
    difference = np.asarray(variant, dtype=np.float64) - np.asarray(reference, dtype=np.float64)
    difference = difference[~np.isnan(difference)]
    interval = median_interval(difference, seed, shared(CONFIDENCE, looks))
    if interval is None:
        return None
    changed = difference[difference != 0]
    if changed.size == 0:
        return PairedDifference(int(difference.size), interval, 1.0, 0.0)
    ranks = np.sign(changed) * _mean_ranks(np.abs(changed))
    p_value = _signed_rank_p(ranks, int(difference.size))
    p_value = min(1.0, p_value * looks)
    return PairedDifference(
        int(difference.size), interval, p_value, float(np.sum(ranks) / np.sum(np.abs(ranks)))
    )


def _mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank the values from 1; equal values get the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def _signed_rank_p(ranks: NDArray[np.float64], pairs: int) -> float:
    """Two-sided p value of the Wilcoxon signed-rank test; `ranks` are those of non-zero differences.

    It equals that of scipy.stats.wilcoxon, which takes longer to load than a short run.
    """
    sizes, positive = np.abs(ranks), float(ranks[ranks > 0].sum())
    plain = np.unique(sizes).size == pairs  # neither ties nor zeros
    if pairs > (_EXACT if plain else _EXACT_WITH_TIES):
        from scipy import special

        deviation = math.sqrt(np.sum(sizes**2)) / 2
        return float(2 * special.ndtr(-abs(positive - sizes.sum() / 2) / deviation))
    # ways[s] counts the choices of signs whose positive ranks have the sum s / 2; ranks may be halves.
    ways = np.ones(1)
    for size in (2 * sizes).astype(int):
        ways = np.pad(ways, (0, size)) + np.pad(ways, (size, 0))
    observed = round(2 * positive)
    return min(1.0, 2 * float(min(ways[: observed + 1].sum(), ways[observed:].sum()) / ways.sum()))


def page_trend(blocks: NDArray[np.float64]) -> tuple[float, float]:
    """Page's test for a trend along the columns, by ranks within rows; return score and two-sided p value.

    Rows are blocks, such as replications; a positive score means that values grow. It equals that of
    scipy.stats.page_trend_test with its normal approximation, which takes longer to load than a short run;
    it is conservative with ties (Page, Journal of the American Statistical Association 58, 1963).
    """
    from scipy import special

    count, columns = blocks.shape
    ranks = np.apply_along_axis(_mean_ranks, 1, blocks)
    score = float(np.sum(ranks * np.arange(1, columns + 1))) - count * columns * (columns + 1) ** 2 / 4
    score /= math.sqrt(count * columns**2 * (columns + 1) ** 2 * (columns - 1) / 144)
    return score, 2 * float(special.ndtr(-abs(score)))


@cache
def student(confidence: float, freedom: int) -> float:
    """Return the half width of Student's interval in standard errors."""
    from scipy import special  # loads ten times as fast as scipy.stats

    return float(special.stdtrit(freedom, (1 + confidence) / 2))
