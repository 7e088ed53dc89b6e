"""Approximate Bayesian computation with regression adjustment (Beaumont, Zhang and Balding 2002).

The summary is first reduced to what predicts the parameters, by a ridge regression over the simulations
(Fearnhead and Prangle 2012). Parameters are in a transformed space in which a box is the prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop.fit.measurement import Floats

# Share of the simulations that are kept, the nearest ones.
KEPT = 0.5
RIDGE = 1e-3


@dataclass(frozen=True)
class Posterior:
    """Draws with weights, of one model."""

    draws: Floats
    """One row for each kept simulation, adjusted."""
    weights: Floats

    def quantiles(self, shares: tuple[float, ...]) -> Floats:
        """Weighted quantiles, a row for each share."""
        rows = []
        for column in self.draws.T:
            order = np.argsort(column)
            heights = (np.cumsum(self.weights[order]) - self.weights[order] / 2) / self.weights.sum()
            rows.append(np.interp(shares, heights, column[order]))
        return np.asarray(rows).T


def _scaled(summaries: Floats, observed: Floats) -> tuple[Floats, Floats]:
    """In units of the spread among simulations; what was seen is kept within their range."""
    middle = np.median(summaries, axis=0)
    spread = np.std(summaries, axis=0)
    good = spread > 1e-9
    low, high = summaries.min(axis=0), summaries.max(axis=0)
    margin = 0.1 * (high - low)
    seen = np.clip(observed, low - margin, high + margin)
    return (summaries[:, good] - middle[good]) / spread[good], (seen[good] - middle[good]) / spread[good]


def _ridge(inputs: Floats, outputs: Floats, weights: Floats, penalty: float) -> tuple[Floats, Floats]:
    """Coefficients and intercept of a weighted ridge regression."""
    share = weights / weights.sum()
    centre, level = share @ inputs, share @ outputs
    around = inputs - centre
    gram = (around * share[:, None]).T @ around + penalty * np.eye(inputs.shape[1])
    slope = np.linalg.solve(gram, (around * share[:, None]).T @ (outputs - level))
    return slope, level - centre @ slope


def posterior(parameters: Floats, summaries: Floats, observed: Floats) -> Posterior:
    """Regress the parameters on the summary, near what was observed."""
    scaled, seen = _scaled(summaries, observed)
    count, size = len(parameters), parameters.shape[1]
    even = np.ones(count)
    slope, level = _ridge(scaled, parameters, even, RIDGE)
    predicted, wanted = scaled @ slope + level, seen @ slope + level
    rest = np.std(parameters - predicted, axis=0) + 1e-9
    distance = np.sqrt((((predicted - wanted) / rest) ** 2).sum(axis=1))
    kept = np.argsort(distance, kind="stable")[: max(4 * size + 8, round(KEPT * count))]
    width = max(distance[kept[-1]], 1e-9) * 1.0001
    weights = 1 - (distance[kept] / width) ** 2
    nearer, _ = _ridge(predicted[kept], parameters[kept], weights, 1e-9)
    # The residuals of a regression with so many inputs are smaller than its errors.
    used = min(scaled.shape[1], count / 2)
    stretch = np.sqrt(count / (count - used))
    moved = parameters[kept] + (wanted - predicted[kept]) @ nearer
    middle = (weights / weights.sum()) @ moved
    return Posterior(middle + (moved - middle) * stretch, weights)


def probabilities(summaries: list[Floats], observed: Floats) -> Floats:
    """How probable each model is: its share of the simulations nearest to what was observed."""
    together = np.concatenate(summaries)
    labels = np.repeat(np.arange(len(summaries)), [len(part) for part in summaries])
    spread = np.median(np.abs(together - np.median(together, axis=0)), axis=0) * 1.4826
    spread = np.maximum(spread, 0.25 * np.std(together, axis=0)) + 1e-9
    distance = np.minimum(np.abs(together - observed) / spread, 4).sum(axis=1)
    near = np.argsort(distance, kind="stable")[: max(12, len(together) // 16)]
    shares = np.bincount(labels[near], minlength=len(summaries)).astype(float)
    shares /= np.asarray([len(part) for part in summaries])
    result: Floats = shares / shares.sum()
    return result
