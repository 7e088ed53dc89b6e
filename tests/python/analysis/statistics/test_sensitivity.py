"""Sobol indices against functions whose indices are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lasthop.analysis.statistics.chaos import Functions, of_levels, of_range, products, sobol_indices
from lasthop.scenario.points import draw

Floats = NDArray[np.float64]


def points(count: int, dimensions: int) -> Floats:
    return np.array(draw("sobol", count, dimensions, 1))


def ishigami(shares: Floats) -> Floats:
    """Ishigami and Homma 1990, with a = 7 and b = 0.1."""
    x = np.pi * (2 * shares - 1)
    value: Floats = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    return value


def ishigami_indices() -> tuple[list[float], list[float]]:
    a, b = 7.0, 0.1
    one, two = (1 + b * np.pi**4 / 5) ** 2 / 2, a**2 / 8
    both = b**2 * np.pi**8 * (1 / 18 - 1 / 50)
    whole = one + two + both
    return [one / whole, two / whole, 0.0], [(one + both) / whole, two / whole, both / whole]


def test_ishigami() -> None:
    shares = points(128, 3)
    found = sobol_indices([of_range(column) for column in shares.T], ishigami(shares), np.arange(128), 1)
    first, total = ishigami_indices()
    assert found.predicted > 0.99
    assert found.estimate.first == pytest.approx(first, abs=0.005)
    assert found.estimate.total == pytest.approx(total, abs=0.005)


def test_the_intervals_of_a_noisy_response_hold_the_indices_of_its_mean() -> None:
    noise = np.random.default_rng(3).normal(scale=1.0, size=256)
    shares = points(256, 3)
    found = sobol_indices(
        [of_range(column) for column in shares.T], ishigami(shares) + noise, np.arange(256), 1
    )
    first, total = ishigami_indices()
    assert 0.8 < found.predicted < 0.99
    for place in range(2):
        assert found.low.first[place] < first[place] < found.high.first[place]
        assert found.low.total[place] < total[place] < found.high.total[place]


def test_named_levels_have_indices_too() -> None:
    # y = 2 z + c + z c with z uniform on [-1, 1] and c one of -1, 0, 1: variances 4/3, 2/3 and 2/9.
    shares = np.repeat(points(32, 1), 3, axis=0)
    codes = np.tile([0, 1, 2], 32)
    z, c = 2 * shares[:, 0] - 1, codes - 1.0
    found = sobol_indices(
        [of_range(shares[:, 0]), of_levels(codes, 3)], 2 * z + c + z * c, np.arange(96) // 3, 1
    )
    assert found.estimate.first == pytest.approx([6 / 10, 3 / 10], abs=1e-6)
    assert found.estimate.total == pytest.approx([7 / 10, 4 / 10], abs=1e-6)
    assert found.predicted > 0.999


def test_chance_alone_is_predicted_by_nothing() -> None:
    shares = points(64, 2)
    response = np.random.default_rng(1).normal(size=64)
    found = sobol_indices([of_range(column) for column in shares.T], response, np.arange(64), 1)
    assert found.predicted < 0.2


def test_the_functions_of_a_basis_are_orthonormal() -> None:
    grid = (np.arange(4000) + 0.5) / 4000
    codes = np.arange(4000) % 4
    for factor in (of_range(grid), of_levels(codes, 4)):
        moments = factor.values.T @ factor.values / 4000
        assert np.allclose(moments, np.eye(len(factor.degrees)), atol=1e-4)
        assert np.allclose(factor.values.mean(axis=0), 0, atol=1e-4)


def test_products_are_those_of_the_lowest_degrees() -> None:
    factors = [Functions(np.ones((2, 12)), range(1, 13))] * 2
    basis = products(factors)
    assert basis.values.shape == (2, 13 * 14 // 2 - 1)
    assert (
        products([*factors, *factors]).values.shape[1] == 494
    )  # up to degree 8: 8 over 4, less the constant
