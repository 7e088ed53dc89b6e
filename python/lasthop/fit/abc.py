"""Approximate Bayesian computation with regression adjustment (Beaumont, Zhang and Balding 2002).

The summary is first reduced to predictions of the parameters, by a ridge regression over the simulations
(Fearnhead and Prangle 2012). Parameters are in a transformed space in which the prior is a box.
"""

from dataclasses import dataclass

import numpy as np

from lasthop.fit.measurement import Floats

# Share of the simulations that are used, the nearest ones.
NEAREST = 0.5
RIDGES = (1e-3, 1e-2, 0.1, 1.0)
# Penalty of the discriminant, which has nearly as many inputs as simulations.
DISCRIMINANT = 0.1
# The deviation of real hosts from the model in a number of the summary, and the most deviations that count.
OFF, MOST_DEVIATIONS = 0.05, 6.0


@dataclass(frozen=True)
class Posterior:
    draws: Floats
    """A row for each simulation used, adjusted."""
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
    """Return both in units of the spread of simulations; the observation is clipped to about their range."""
    middle = np.median(summaries, axis=0)
    spread = np.std(summaries, axis=0)
    good = spread > 1e-9
    low, high = summaries.min(axis=0), summaries.max(axis=0)
    margin = 0.1 * (high - low)
    seen = np.clip(observed, low - margin, high + margin)
    return (summaries[:, good] - middle[good]) / spread[good], (seen[good] - middle[good]) / spread[good]


def _ridge(inputs: Floats, outputs: Floats, weights: Floats, penalty: float) -> tuple[Floats, Floats]:
    """Return coefficients and intercept of a weighted ridge regression."""
    share = weights / weights.sum()
    centre, level = share @ inputs, share @ outputs
    around = inputs - centre
    gram = (around * share[:, None]).T @ around + penalty * np.eye(inputs.shape[1])
    slope = np.linalg.solve(gram, (around * share[:, None]).T @ (outputs - level))
    return slope, level - centre @ slope


def _left_out(inputs: Floats, outputs: Floats, penalty: float) -> Floats:
    """Return the predictions of a ridge regression for each row from all others."""
    around = inputs - inputs.mean(axis=0)
    level = outputs.mean(axis=0)
    gram = around.T @ around / len(inputs) + penalty * np.eye(inputs.shape[1])
    hat = around @ np.linalg.solve(gram, around.T) / len(inputs) + 1 / len(inputs)
    rest = outputs - (hat - 1 / len(inputs)) @ (outputs - level) - level
    predicted: Floats = outputs - rest / np.maximum(1 - np.diag(hat), 1e-3)[:, None]
    return predicted


def posterior(parameters: Floats, summaries: Floats, observed: Floats) -> Posterior:
    """Regress the parameters on the summary, near what was observed.

    Each simulation is predicted from the others, like the observation, so that errors are not underestimated.
    """
    scaled, seen = _scaled(summaries, observed)
    count, size = len(parameters), parameters.shape[1]
    spread = np.std(parameters, axis=0) + 1e-12
    tries = [_left_out(scaled, parameters, penalty) for penalty in RIDGES]
    errors = [
        float(np.log(np.std((parameters - predictions) / spread, axis=0) + 1e-6).sum())
        for predictions in tries
    ]
    best = int(np.argmin(errors))
    predicted = tries[best]
    slope, level = _ridge(scaled, parameters, np.ones(count), RIDGES[best])
    wanted = seen @ slope + level
    rest = np.std(parameters - predicted, axis=0) + 1e-9
    distance = np.sqrt((((predicted - wanted) / rest) ** 2).sum(axis=1))
    nearest = np.argsort(distance, kind="stable")[: max(4 * size + 8, round(NEAREST * count))]
    width = max(distance[nearest[-1]], 1e-9) * 1.0001
    weights = 1 - (distance[nearest] / width) ** 2
    nearer, _ = _ridge(predicted[nearest], parameters[nearest], weights, 1e-9)
    return Posterior(parameters[nearest] + (wanted - predicted[nearest]) @ nearer, weights)


def likeness(parameters: Floats, summaries: Floats, observed: Floats) -> float:
    """Return the share of the simulations that deviate at least as much from the others as the observation.

    A posterior predictive check (Gelman, Meng and Stern 1996): a regression predicts the summary from the
    parameters, each simulation's from the others', and the observation's from the median of its posterior.
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
        np.minimum(np.abs(errors) / deviation, MOST_DEVIATIONS).mean(axis=-1)
        for errors in (rest, observed - slope[0])
    ]
    return float(np.mean(distances[0] >= distances[1]))


def probabilities(summaries: list[Floats], observed: Floats) -> Floats:
    """Return the probability of each model: its share of the simulations nearest to the observation.

    The distance is that of the scores of a linear discriminant (Prangle and others 2014). The scores of each
    half of the simulations come from the other half, so that they are no better than the observation's.
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
