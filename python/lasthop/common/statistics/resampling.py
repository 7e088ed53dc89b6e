"""Standard errors of statistics by resampling replications.

A statistic is an array: its value over all replications, followed by its values over the resamples.
Element-wise operations on such arrays give such arrays.

The jackknife omits each replication in turn. It needs no random numbers and is valid for means and functions
of means, but for any number of replications not for quantiles (Efron and Tibshirani, An Introduction to the
Bootstrap, section 11.6). Quantiles use the bootstrap, which draws as many replications with replacement
within each set. It needs values on both sides of a quantile: with fewer than five expected on a side its
intervals miss too often, so a lone quantile is then bounded by order statistics, and others not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lasthop.common.statistics.estimates import ROUNDING, Interval, student
from lasthop.common.statistics.quantiles import bounding_ranks

_RESAMPLES = 1000
_SEED = 1979
_LEAST_BEYOND = 5.0
"""Number of values to expect on each side of a quantile for the bootstrap."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Resampled:
    """A statistic of replications with its standard error, both in the statistic's unit."""

    estimate: float
    error: float
    freedom: int

    @classmethod
    def of(cls, values: Values, spread: float, freedom: int, scale: float = 0.0) -> Resampled:
        """Evaluate a statistic; its error is `spread` times the standard deviation of the resamples.

        `scale` is the size of the terms of a difference: a difference within rounding errors counts as 0.
        """
        tiny = ROUNDING * max(scale, abs(float(values[0])))
        error = float(np.std(values[1:]) * spread) if freedom > 0 else float("nan")
        estimate = float(values[0])
        return cls(0.0 if abs(estimate) <= tiny else estimate, 0.0 if error <= tiny else error, freedom)

    def alone(self) -> Resampled:
        """Return the estimate without its error."""
        return Resampled(self.estimate, 0.0, max(self.freedom, 1))

    def unbounded(self) -> Resampled:
        """Return the estimate without an interval, unless all resamples agree."""
        return self if self.error == 0.0 else Resampled(self.estimate, float("nan"), self.freedom)

    @property
    def defined(self) -> bool:
        """Whether there is an interval."""
        return bool(np.isfinite(self.estimate) and np.isfinite(self.error))

    @property
    def distance(self) -> float:
        """The distance of the estimate from 0 in standard errors; infinite if the error is 0."""
        return self.estimate / self.error if self.error else float(np.copysign(np.inf, self.estimate))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Student's interval about the estimate."""
        half = self.error * student(confidence, self.freedom)
        return Interval(self.estimate, self.estimate - half, self.estimate + half)


@dataclass(frozen=True, slots=True)
class Jackknife:
    """Omits each of `count` replications in turn.

    The interval of the mean of paired differences equals that of the paired t test.
    """

    count: int

    @property
    def size(self) -> int:
        return self.count + 1 if self.count > 1 else 1

    def mean(self, values: Values) -> Values:
        without = (values.sum() - values) / (values.size - 1) if values.size > 1 else values[:0]
        return np.concatenate(([values.mean()], without))

    def of(self, values: Values, scale: float = 0.0) -> Resampled:
        """Return a statistic with its error; `scale` as for `Resampled.of`."""
        return Resampled.of(values, np.sqrt(max(self.count - 1, 0)), self.count - 1, scale)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A linear function of one quantile, at the estimate and then at each sorted value of the sample.

    Its interval is between two of the sorted values (see `lasthop.common.statistics.estimates`): it holds for
    any number of replications and any distribution, but may be infinite.
    """

    values: Values
    share: float

    @property
    def estimate(self) -> float:
        return float(self.values[0])

    @property
    def error(self) -> float:
        """Half of the interval that corresponds to a standard error."""
        low, high = self._ends(math.erf(math.sqrt(0.5)))
        return (high - low) / 2

    @property
    def defined(self) -> bool:
        """Whether there is an interval, which may have one end."""
        return bool(np.isfinite(self.values).all()) and self.values.size > 2

    @property
    def distance(self) -> float:
        """The distance of the estimate from 0 in standard errors."""
        return self.estimate / self.error if self.error else float(np.copysign(np.inf, self.estimate))

    def interval(self, confidence: float = 0.95) -> Interval:
        return Interval(self.estimate, *self._ends(confidence))

    def _ends(self, confidence: float) -> tuple[float, float]:
        values = self.values[1:]
        if np.all(values == values[0]):  # certain, as for all statistics of equal replications
            return float(values[0]), float(values[0])
        ranks = bounding_ranks(values.size, 100 * self.share, confidence)
        low, high = (None if rank is None else float(values[rank]) for rank in ranks)
        if values[-1] < values[0]:  # a falling function
            low, high = high, low
        return -math.inf if low is None else low, math.inf if high is None else high


@dataclass(frozen=True, slots=True)
class OrderStatistics:
    """Evaluates a statement at each of the `count` sorted values of its only quantile."""

    count: int
    share: float

    @property
    def size(self) -> int:
        return self.count + 1

    def quantile(self, values: Values, share: float) -> Values:
        return np.concatenate(([np.quantile(values, share)], np.sort(values, axis=None)))

    def of(self, values: Values, scale: float = 0.0) -> Ranked:
        """Return a function of the quantile; differences within rounding errors of `scale` count as 0."""
        return Ranked(np.where(np.abs(values) <= ROUNDING * scale, 0.0, values), self.share)


def replications_for(shares: Iterable[float]) -> int:
    """Return how many replications the bootstrap needs for these quantiles; 0 for minimum and maximum."""
    return max(
        (math.ceil(_LEAST_BEYOND / min(share, 1 - share) - 1e-9) for share in shares if 0 < share < 1),
        default=0,
    )


class Bootstrap:
    """Draws replications with replacement within each set; statistics of the same sets share the draws.

    If any set has a single replication, all replications form one set.
    """

    def __init__(self, sets: NDArray[np.int64]) -> None:
        """`sets` has the set number of each replication, in ascending order."""
        sizes = np.unique(sets, return_counts=True)[1]
        if sizes.min() == 1:
            sizes = np.array([sets.size])
        self._sizes = tuple(sizes.tolist())
        self._draws = _draws(self._sizes)
        self._freedom = int(sets.size - sizes.size)
        self._count = sets.size

    @property
    def size(self) -> int:
        return _RESAMPLES + 1

    def mean(self, values: Values) -> Values:
        return np.concatenate(([values.mean()], values[self._draws].mean(axis=1)))

    def quantile(self, values: Values, share: float) -> Values:
        """Return the mean over the sets of a quantile; each row of `values` has a value per replication."""
        return _quantiles(values.tobytes(), values.shape, share, self._sizes)

    def of(self, values: Values, scale: float = 0.0) -> Resampled:
        """Return a statistic with its error; `scale` as for `Resampled.of`."""
        # With this factor, the error of a mean is the usual one, which divides by the degrees of freedom.
        spread = np.sqrt(self._count / self._freedom) if self._freedom else 0.0
        return Resampled.of(values, spread, self._freedom, scale)


@lru_cache(maxsize=8)
def _draws(sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the indices of the replications in each resample of sets of these sizes."""
    random, starts = np.random.default_rng(_SEED), np.cumsum((0, *sizes[:-1]))
    drawn = [
        start + random.integers(0, size, (_RESAMPLES, size))
        for start, size in zip(starts, sizes, strict=True)
    ]
    return np.concatenate(drawn, axis=1)


@lru_cache(maxsize=1024)
def _quantiles(content: bytes, shape: tuple[int, ...], share: float, sizes: tuple[int, ...]) -> Values:
    """Return a quantile of values over all replications, and over each resample of sets of these sizes.

    It is cached, as the claims of a study use most quantiles several times.
    """
    values = np.frombuffer(content).reshape(shape)
    whole = np.concatenate((np.arange(sum(sizes))[np.newaxis], _draws(sizes)))
    of_sets = [
        np.quantile(values[:, drawn], share, axis=(0, 2))
        for drawn in np.split(whole, np.cumsum(sizes)[:-1], axis=1)
    ]
    means = np.asarray(np.mean(of_sets, axis=0))
    means.flags.writeable = False
    return means
