from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from lasthop.statistics import Jackknife, median_interval, paired_difference, percentile_method, percentiles, summarise

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)
methods = st.sampled_from(["linear", "lower"])


def test_linear_interpolates_and_lower_takes_the_lower_of_two() -> None:
    assert summarise([1.0, 2.0, 3.0, 10.0]).median == 2.5  # type: ignore[union-attr]
    assert summarise([1.0, 2.0, 3.0, 10.0], "lower").median == 2.0  # type: ignore[union-attr]
    assert summarise([1.0, 2.0, 3.0, 10.0], "lower").p75 == 3.0  # type: ignore[union-attr]


@given(values, methods)
def test_statistics_are_ordered_and_inside_the_data(data: list[float], method: str) -> None:
    found = summarise(data, percentile_method(method))
    assert found is not None
    assert min(data) == found.min <= found.p25 <= found.median <= found.p75 <= found.max == max(data)
    assert found.count == len(data)


@given(values)
def test_lower_percentiles_are_values_that_occurred(data: list[float]) -> None:
    found = summarise(data, "lower")
    assert found is not None
    assert {found.p25, found.median, found.p75} <= set(data)


@given(values, methods, st.randoms(use_true_random=False))
def test_order_of_replications_does_not_matter(data: list[float], method: str, random: object) -> None:
    shuffled = list(data)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    chosen = percentile_method(method)
    assert np.array_equal(percentiles(data, [10, 50, 90], chosen), percentiles(shuffled, [10, 50, 90], chosen))


@given(values)
def test_missing_values_are_left_out(data: list[float]) -> None:
    assert summarise([math.nan, *data, math.nan]) == summarise(data)


def test_nothing_to_summarise() -> None:
    assert summarise([]) is None
    assert summarise([math.nan]) is None
    assert median_interval([math.nan], seed=1) is None
    assert paired_difference([math.nan], [1.0], seed=1) is None


def test_percentile_method_is_checked() -> None:
    with pytest.raises(ValueError, match="nearest"):
        percentile_method("nearest")


def test_interval_is_seeded_and_contains_the_median() -> None:
    data = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    first, second = median_interval(data, seed=7), median_interval(data, seed=7)
    assert first == second
    assert first is not None
    assert min(data) <= first.low < first.estimate < first.high <= max(data)


def test_constant_data_have_a_point_interval() -> None:
    interval = median_interval([18.0] * 20, seed=1)
    assert interval is not None
    assert (interval.low, interval.high) == (18.0, 18.0)


def test_paired_difference_sees_what_unpaired_spread_would_hide() -> None:
    reference = np.linspace(10, 100, 20)
    found = paired_difference(reference - 1.0 - np.linspace(0, 0.1, 20), reference, seed=1)
    assert found is not None
    assert found.pairs == 20
    assert -1.1 <= found.median.low <= found.median.high <= -1.0
    assert found.p_value < 0.001


def test_equal_pairs_show_no_difference() -> None:
    found = paired_difference([1.0, 2.0], [1.0, 2.0], seed=1)
    assert found is not None
    assert (found.median.estimate, found.p_value) == (0.0, 1.0)


def test_incomplete_pairs_are_left_out() -> None:
    found = paired_difference([1.0, math.nan, 3.0], [0.0, 1.0, math.nan], seed=1)
    assert found is not None
    assert found.pairs == 1


def leave_one_out(values: list[float]) -> NDArray[np.float64]:
    return np.array([np.mean(values), *(np.mean(np.delete(values, i)) for i in range(len(values)))])


def test_the_jackknife_of_a_mean_is_its_t_interval() -> None:
    data = [2.0, 3.0, 1.0, 7.0]
    found = Jackknife.of(leave_one_out(data))
    known = stats.ttest_1samp(data, 0.0)
    for confidence in (0.9, 0.99):
        interval, expected = found.interval(confidence), known.confidence_interval(confidence)
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert found.distance == pytest.approx(known.statistic)


def test_what_rounding_makes_of_nothing_is_nothing() -> None:
    found = Jackknife.of(leave_one_out([0.1 + 0.2 - 0.3] * 3), scale=0.3)
    assert (found.estimate, found.error) == (0.0, 0.0)
    assert found.distance > 0


def test_one_replication_has_no_interval() -> None:
    assert not Jackknife.of(np.array([3.0])).defined
    assert not Jackknife.of(np.array([np.nan, 1.0, 2.0])).defined
