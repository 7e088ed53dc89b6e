"""Sobol indices of any sample by a sparse polynomial chaos expansion.

Each factor x_i has functions that are orthonormal over its levels: Legendre polynomials for a range,
contrasts for named levels. The response is regressed on their products,

    y = c_0 + sum over a of c_a * phi_a1(x_1) * phi_a2(x_2) * ...

so its variance is the sum of the c_a^2. The first-order index of x_i is the share of the terms of x_i
alone; its total index is the share of all terms with x_i (Sudret, Reliability Engineering and System Safety
93, 2008). Orthogonal matching pursuit adds the terms one by one. Cross-validation determines their number,
and how much of the variation they predict. The intervals come from a percentile bootstrap, which resamples
whole points and selects the terms again.

Saltelli's estimators need no model for the response, but a special design that grows with the number of
factors. Here the same points serve plots, indices and comparisons, and points can be added.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_DEGREES_MAX = 12
_TERMS_MAX = 500
"""The largest number of candidate products, in the order of their degrees."""
_POINTS_PER_TERM = 3
_SELECTED_MAX = 60
_FOLDS = 5
_TINY = 1e-9
CONFIDENCE = 0.95
RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class Functions:
    """Functions of a factor at every row, orthonormal over the factor's levels, and their degrees."""

    values: Floats
    degrees: Sequence[int]


def of_range(shares: Floats) -> Functions:
    """Return the Legendre polynomials of a range at its levels, which are shares of the range, 0 to 1."""
    degrees = range(1, _DEGREES_MAX + 1)
    values = np.polynomial.legendre.legvander(2 * shares - 1, _DEGREES_MAX)[:, 1:]
    sizes = np.sqrt([2 * degree + 1 for degree in degrees])
    return Functions(np.asarray(values * sizes, dtype=np.float64), degrees)


def of_levels(codes: NDArray[np.int64], count: int) -> Functions:
    """Return orthonormal contrasts of `count` named levels, which are numbered from 0 in `codes`."""
    dummies = np.eye(count)
    dummies[:, 0] = 1
    contrasts = np.linalg.qr(dummies)[0][:, 1:] * np.sqrt(count)
    return Functions(contrasts[codes], [1] * (count - 1))


@dataclass(frozen=True, slots=True)
class Basis:
    """Products of functions at every row, and the factors of each product."""

    values: Floats
    members: NDArray[np.bool_]


def products(factors: Sequence[Functions]) -> Basis:
    """Return the products of the lowest total degrees, at most about `_TERMS_MAX`."""
    chosen: list[tuple[int, ...]] = []
    for degree in range(1, _DEGREES_MAX + 1):
        more = list(_of_degree([factor.degrees for factor in factors], degree))
        if chosen and len(chosen) + len(more) > _TERMS_MAX:
            break
        chosen += more
    columns = []
    for term in chosen:
        used = [factor.values[:, place] for factor, place in zip(factors, term, strict=True) if place >= 0]
        columns.append(np.prod(used, axis=0))
    return Basis(np.column_stack(columns), np.array(chosen) >= 0)


def _of_degree(degrees: Sequence[Sequence[int]], total: int) -> Iterator[tuple[int, ...]]:
    """Yield the products of a total degree: for each factor the place of its function, or -1."""
    if not degrees:
        if total == 0:
            yield ()
        return
    for place, degree in itertools.chain([(-1, 0)], enumerate(degrees[0])):
        if degree <= total:
            yield from ((place, *rest) for rest in _of_degree(degrees[1:], total - degree))


@dataclass(frozen=True, slots=True)
class _Path:
    """Terms in the order of their addition, and the regression on the first of them."""

    terms: list[int]
    frame: Floats
    triangle: Floats
    projections: Floats

    @classmethod
    def of(cls, basis: Floats, response: Floats, most: int) -> _Path:
        """Add up to `most` terms, each time the term with the highest correlation with the residual."""
        rows = len(basis)
        centred = basis - basis.mean(axis=0)
        sizes = np.linalg.norm(centred, axis=0)
        free = sizes > _TINY * np.sqrt(rows)
        left = response - response.mean()
        enough = _TINY * np.linalg.norm(left)
        frame, triangle = np.empty((rows, most)), np.zeros((most, most))
        terms: list[int] = []
        while len(terms) < most and free.any() and np.linalg.norm(left) > enough:
            scores = np.abs(centred.T @ left) / np.where(free, sizes, np.inf)
            best, step = int(np.argmax(scores)), len(terms)
            free[best] = False
            shares = frame[:, :step].T @ centred[:, best]
            direction = centred[:, best] - frame[:, :step] @ shares
            size = np.linalg.norm(direction)
            if size <= 1e-6 * sizes[best]:  # a linear combination of earlier terms at these rows
                continue
            frame[:, step] = direction / size
            triangle[:step, step], triangle[step, step] = shares, size
            left = left - frame[:, step] * (frame[:, step] @ left)
            terms.append(best)
        count = len(terms)
        frame = frame[:, :count]
        return cls(terms, frame, triangle[:count, :count], frame.T @ response)

    def coefficients(self, count: int) -> Floats:
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self.triangle[:count, :count], self.projections[:count]))


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the variance that the polynomial explains: each factor's first-order and total index."""

    first: Floats
    total: Floats


@dataclass(frozen=True, slots=True)
class Indices:
    """The indices with the ends of their intervals, from a polynomial with this number of `terms`.

    `predicted` is 1 minus the ratio of the mean squared error at left-out points to the response's variance.
    """

    estimate: Shares
    low: Shares
    high: Shares
    terms: int
    predicted: float


def sobol_indices(
    factors: Sequence[Functions], response: Floats, points: NDArray[np.int64], seed: int
) -> Indices:
    """Return the Sobol indices of a response; rows with the same number in `points` belong to one point.

    The response must vary. The intervals depend on the seed.
    """
    basis = products(factors)
    generator = np.random.default_rng(seed)
    numbers = np.unique(points)
    most = min(_SELECTED_MAX, max(1, numbers.size // _POINTS_PER_TERM))
    terms, predicted = _cross_validated(basis.values, response, points, most, generator)
    estimate = _shares(basis, response, terms)
    rows = [np.flatnonzero(points == number) for number in numbers]
    resampled = []
    for _ in range(RESAMPLES):
        drawn = np.concatenate([rows[place] for place in generator.integers(numbers.size, size=numbers.size)])
        resampled.append(_shares(Basis(basis.values[drawn], basis.members), response[drawn], terms))
    ends = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    firsts, totals = (
        np.quantile([getattr(shares, name) for shares in resampled], ends, axis=0)
        for name in ("first", "total")
    )
    return Indices(estimate, Shares(firsts[0], totals[0]), Shares(firsts[1], totals[1]), terms, predicted)


def _cross_validated(
    basis: Floats, response: Floats, points: NDArray[np.int64], most: int, generator: np.random.Generator
) -> tuple[int, float]:
    """Return the number of terms that predicts left-out points best, and the share that it predicts."""
    numbers = np.unique(points)
    folds = dict(zip(numbers, generator.permutation(numbers.size) % _FOLDS, strict=True))
    fold = np.array([folds[number] for number in points])
    errors = np.zeros(most + 1)
    for number in range(_FOLDS):
        training, left_out = fold != number, fold == number
        path = _Path.of(basis[training], response[training], most)
        means = basis[training].mean(axis=0)
        for count in range(most + 1):
            used = min(count, len(path.terms))
            own = path.terms[:used]
            centred = basis[np.ix_(left_out, own)] - means[own]
            guess = response[training].mean() + centred @ path.coefficients(used)
            errors[count] += np.sum((response[left_out] - guess) ** 2)
    best = int(np.argmin(errors))
    return best, float(1 - errors[best] / np.sum((response - response.mean()) ** 2))


def _shares(basis: Basis, response: Floats, terms: int) -> Shares:
    path = _Path.of(basis.values, response, terms)
    squares = path.coefficients(len(path.terms)) ** 2
    members = basis.members[path.terms]
    whole = float(squares.sum()) or 1.0
    alone = members.sum(axis=1) == 1
    first = (squares[:, None] * (members & alone[:, None])).sum(axis=0) / whole
    return Shares(first, (squares[:, None] * members).sum(axis=0) / whole)
