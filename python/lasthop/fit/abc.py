"""Approximate Bayesian computation with regression adjustment (Beaumont, Zhang and Balding 2002).

The summary is first reduced to what predicts the parameters, by a ridge regression over the simulations
(Fearnhead and Prangle 2012). Parameters are in a transformed space in which a box is the prior.
"""

from dataclasses import dataclass

import numpy as np

from lasthop.fit.measurement import Floats

# Share of the simulations that are kept, the nearest ones.
KEPT = 0.5
RIDGES = (1e-3, 1e-2, 0.1, 1.0)
# Of the discriminant, whose inputs are nearly as many as its simulations.
DISCRIMINANT = 0.1
# Of a number of the summary, what real hosts are off anyway, and how many deviations count at most.
OFF, MOST_DEVIATIONS = 0.05, 6.0


@dataclass(frozen=True)
class Posterior:
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


def _left_out(inputs: Floats, outputs: Floats, penalty: float) -> Floats:
    """What a ridge regression predicts of each row from all others."""
    around = inputs - inputs.mean(axis=0)
    level = outputs.mean(axis=0)
    gram = around.T @ around / len(inputs) + penalty * np.eye(inputs.shape[1])
    hat = around @ np.linalg.solve(gram, around.T) / len(inputs) + 1 / len(inputs)
    rest = outputs - (hat - 1 / len(inputs)) @ (outputs - level) - level
    predicted: Floats = outputs - rest / np.maximum(1 - np.diag(hat), 1e-3)[:, None]
    return predicted


def posterior(parameters: Floats, summaries: Floats, observed: Floats) -> Posterior:
    """Regress the parameters on the summary, near what was observed.

    Each simulation is predicted from the others, as the observation is, so errors are as large as they look.
    """
    scaled, seen = _scaled(summaries, observed)
    count, size = len(parameters), parameters.shape[1]
    spread = np.std(parameters, axis=0) + 1e-12
    tries = [_left_out(scaled, parameters, penalty) for penalty in RIDGES]
    errors = [float(np.log(np.std((parameters - one) / spread, axis=0) + 1e-6).sum()) for one in tries]
    best = int(np.argmin(errors))
    predicted = tries[best]
    slope, level = _ridge(scaled, parameters, np.ones(count), RIDGES[best])
    wanted = seen @ slope + level
    rest = np.std(parameters - predicted, axis=0) + 1e-9
    distance = np.sqrt((((predicted - wanted) / rest) ** 2).sum(axis=1))
    kept = np.argsort(distance, kind="stable")[: max(4 * size + 8, round(KEPT * count))]
    width = max(distance[kept[-1]], 1e-9) * 1.0001
    weights = 1 - (distance[kept] / width) ** 2
    nearer, _ = _ridge(predicted[kept], parameters[kept], weights, 1e-9)
    return Posterior(parameters[kept] + (wanted - predicted[kept]) @ nearer, weights)


def likeness(parameters: Floats, summaries: Floats, observed: Floats) -> float:
    """The part of the simulations that are at least as unlike the others as the observation is.

    A posterior predictive check (Gelman, Meng and Stern 1996): a regression predicts the summary from the
    parameters, each simulation's from the others', and the observation's from the middle of its posterior.
    """
    middle = posterior(parameters, summaries, observed).quantiles((0.5,))[0]
    inputs = (parameters - middle) / (np.std(parameters, axis=0) + 1e-12)
    inputs = np.hstack([np.ones((len(inputs), 1)), inputs])
    inverse = np.linalg.pinv(inputs)
    slope = inverse @ summaries
    own = np.einsum("ij,ji->i", inputs, inverse)
    rest = (summaries - inputs @ slope) / np.maximum(1 - own, 1e-3)[:, None]
    # The median of a square is 0.455 of the variance.
    deviation = np.sqrt(np.median(rest**2, axis=0) / 0.455 + OFF**2)
    distances = [
        np.minimum(np.abs(one) / deviation, MOST_DEVIATIONS).mean(axis=-1)
        for one in (rest, observed - slope[0])
    ]
    return float(np.mean(distances[0] >= distances[1]))


def probabilities(summaries: list[Floats], observed: Floats) -> Floats:
    """How probable each model is: its share of the simulations nearest to what was observed.

    Near is what a linear discriminant scores alike (Prangle and others 2014). The scores of each half of the
    simulations come from the other half, so that they are no better than that of the observation.
    """
    together = np.concatenate(summaries)
    count = len(together)
    labels = np.repeat(np.arange(len(summaries)), [len(part) for part in summaries])
    scaled, seen = _scaled(together, observed)
    wanted = np.eye(len(summaries))[labels]
    scores, goal = np.zeros_like(wanted), np.zeros(len(summaries))
    for half in (0, 1):
        own = np.arange(count) % 2 == half
        slope, level = _ridge(scaled[~own], wanted[~own], np.ones((~own).sum()), DISCRIMINANT)
        scores[own] = scaled[own] @ slope + level
        goal += (seen @ slope + level) / 2
    distance = ((scores - goal) ** 2).sum(axis=1)
    near = np.argsort(distance, kind="stable")[: max(12, count // 12)]
    shares = np.bincount(labels[near], minlength=len(summaries)).astype(float)
    shares /= np.asarray([len(part) for part in summaries])
    result: Floats = shares / shares.sum()
    return result
