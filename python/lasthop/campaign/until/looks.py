"""When a campaign with `--until` looks at its results, and how precise they are.

If an interval is examined repeatedly, the probability that it misses the true value at some look exceeds its
nominal error. So the looks are fixed in advance and share the error: each uses an interval of confidence 1 -
(1 - confidence) / 21. By Bonferroni's inequality all 21 intervals hold jointly with at least the stated
confidence, and thus the last one too, whatever made the campaign stop. This is a confidence sequence by the
union bound (Darling and Robbins, Confidence sequences for mean, variance, and median, PNAS 58, 1967), which
spends the error equally over the looks (Lan and DeMets, Discrete sequential boundaries for clinical trials,
Biometrika 70, 1983). There are five looks per decade. A cap between two looks replaces the later one.

Intervals come from `lasthop.common.statistics.estimates`. That of a percentile is valid for every
distribution. That of a mean is Student's, which needs a nearly normal mean: it is trusted only from 28 + 25
g^2 values of skewness g on (Cochran's rule, as revised by Sugden, Smith and Jones, J. R. Statist. Soc. B 62,
2000). Values that are all equal do not bound a mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lasthop.common.statistics.estimates import mean_intervals, quantile_intervals
from lasthop.common.statistics.quantiles import CONFIDENCE, QUANTILES, shared

LOOKS = tuple(round(10 ** (1 + step / 5)) for step in range(21))
"""Numbers of replications after which there is a look: 10, 16, 25, 40, 63, 100, ... 100 000."""
MEAN = "mean"
STATISTICS = (*(name for name in QUANTILES if name not in ("min", "max")), MEAN)
"""Statistics for which replications give a two-sided interval; minimum and maximum have none."""
_LEAST_FOR_MEAN = 28
_PER_SKEWNESS = 25


def looks_up_to(cap: int) -> Sequence[int]:
    """Return the looks of a campaign with at most `cap` replications."""
    return [*(look for look in LOOKS if look < cap), cap]


@dataclass(frozen=True, slots=True)
class Condition:
    """A statistic must be within `tolerance`: a share of itself if `relative`, or in the metric's unit.

    `flow` is a role, page load or kind of hosts; `None` means all flows that have the metric. `text` is the
    condition in full, for the manifest.
    """

    text: str
    statistic: str
    metric: str
    flow: str | None
    tolerance: float
    relative: bool
    confidence: float = CONFIDENCE

    def intervals(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return estimate, low and high of the values along the last axis, at one look; none may be NaN."""
        confidence = shared(self.confidence, len(LOOKS))
        if self.statistic == MEAN:
            return mean_intervals(values, confidence)
        return quantile_intervals(values, [QUANTILES[self.statistic]], confidence=confidence)[:, 0]

    def precision(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distance from the estimate to the farther end of its interval.

        It is relative to the estimate if the tolerance is, and NaN or infinite if there is no bound.
        """
        estimate, low, high = self.intervals(values)
        distance = np.maximum(high - estimate, estimate - low)
        if self.relative:
            with np.errstate(divide="ignore", invalid="ignore"):
                distance = np.where(distance == 0, 0.0, distance / np.abs(estimate))
        return np.asarray(distance)

    def trusted(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the interval of the values along the last axis can be trusted."""
        return _enough(values) if self.statistic == MEAN else np.ones(values.shape[:-1], dtype=bool)

    def met(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the statistic of the values along the last axis is precise."""
        return (self.precision(values) <= self.tolerance) & self.trusted(values)  # false of NaN


def _enough(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether there are enough values for Student's interval of their mean."""
    count = values.shape[-1]
    deviations = values - values.mean(axis=-1, keepdims=True)
    spread, third = np.mean(deviations**2, axis=-1), np.mean(deviations**3, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = third / spread**1.5
    return np.asarray(
        (np.ptp(values, axis=-1) > 0) & (count >= _LEAST_FOR_MEAN + _PER_SKEWNESS * skewness**2)
    )
