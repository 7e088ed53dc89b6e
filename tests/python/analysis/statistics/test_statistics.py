from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from lasthop.analysis.statistics.description import describe, describe_one, summarise
from lasthop.analysis.statistics.summary import rounded
from lasthop.common.statistics import estimates
from lasthop.common.statistics.estimates import (
    mean_intervals,
    median_interval,
    paired_difference,
    percentiles,
    quantile_intervals,
    quartile_ranges_over_sets,
)
from lasthop.common.statistics.quantiles import QUANTILES, PercentileMethod
from lasthop.common.statistics.resampling import Jackknife

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)
methods = st.sampled_from(["linear", "lower"])


def test_linear_interpolates_and_lower_takes_the_lower_of_two() -> None:
    assert summarise([1.0, 2.0, 3.0, 10.0]).median == 2.5  # type: ignore[union-attr]
    assert summarise([1.0, 2.0, 3.0, 10.0], "lower").median == 2.0  # type: ignore[union-attr]
    assert summarise([1.0, 2.0, 3.0, 10.0], "lower").p75 == 3.0  # type: ignore[union-attr]


@given(values, methods)
def test_statistics_are_ordered_and_inside_the_data(data: list[float], method: PercentileMethod) -> None:
    found = summarise(data, method)
    assert found is not None
    assert min(data) == found.min <= found.p25 <= found.median <= found.p75 <= found.max == max(data)
    assert found.count == len(data)


@given(values)
def test_lower_percentiles_are_values_that_occurred(data: list[float]) -> None:
    found = summarise(data, "lower")
    assert found is not None
    assert {found.p25, found.median, found.p75} <= set(data)


@given(values, methods, st.randoms(use_true_random=False))
def test_order_of_replications_does_not_matter(
    data: list[float], method: PercentileMethod, random: object
) -> None:
    shuffled = list(data)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert np.array_equal(
        percentiles(data, [10, 50, 90], method), percentiles(shuffled, [10, 50, 90], method)
    )


@given(values)
def test_missing_values_are_left_out(data: list[float]) -> None:
    assert summarise([math.nan, *data, math.nan]) == summarise(data)


@given(st.lists(st.floats(-1e6, 1e6) | st.none(), min_size=1, max_size=5), st.integers(1, 30))
@example([-0.0, None], 1)
def test_a_single_replication_is_described_as_several_are(row: list[float | None], looks: int) -> None:
    metrics = ["elapsed_s", "throughput_Bps", "timeouts", "rtt_ms", "new"][: len(row)]
    rows = np.array([row], dtype=np.float64)
    [expected] = describe(rows, np.array([1]), [np.array([0])], metrics, looks=looks)
    assert repr(describe_one(row, metrics, looks)) == repr(expected)


@given(st.data())
def test_groups_are_described_together_as_each_alone(data: st.DataObject) -> None:
    numbers = st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=2, max_size=2)
    rows = np.array(data.draw(st.lists(numbers, min_size=1, max_size=12)), dtype=np.float64)
    sets = np.array(data.draw(st.lists(st.integers(1, 2), min_size=len(rows), max_size=len(rows))))
    of_rows = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))))
    groups = [np.flatnonzero(of_rows == group) for group in sorted(set(of_rows.tolist()))]
    together = describe(rows, sets, groups, ["elapsed_s", "new"], ends_of_mean=True)
    for group, lines in zip(groups, together, strict=True):
        alone = describe(
            rows[group], sets[group], [np.arange(group.size)], ["elapsed_s", "new"], ends_of_mean=True
        )
        assert repr([lines]) == repr(alone)


@given(st.lists(st.floats() | st.integers(-(10**9), 10**9).map(lambda number: number / 2e6)))
@example(
    [0.0000005, 2.5e-6, 1.0000005, -0.0000001, 2.0**50, 1e305, 5e-324, 1234567.8901235, math.inf, math.nan]
)
def test_numbers_are_rounded_as_python_rounds_them(data: list[float]) -> None:
    expected = [round(value, 6) for value in data]
    assert repr(rounded(pl.Series(data, dtype=pl.Float64)).to_list()) == repr(expected)


def test_nothing_to_summarise() -> None:
    assert summarise([]) is None
    assert summarise([math.nan]) is None
    assert median_interval([math.nan], seed=1) is None
    assert paired_difference([math.nan], [1.0], seed=1) is None


def test_interval_is_seeded_and_contains_the_median() -> None:
    data = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    first, second = median_interval(data, seed=7), median_interval(data, seed=7)
    assert first == second
    assert first is not None
    assert min(data) <= first.low < first.estimate < first.high <= max(data)


@pytest.mark.parametrize(("count", "confidence"), [(17, 0.9), (18, 0.99)])
def test_the_interval_is_that_of_scipys_bootstrap(count: int, confidence: float) -> None:
    data = np.random.default_rng(3).exponential(size=count)
    resampling = {"n_resamples": 2000, "method": "percentile", "rng": np.random.default_rng(5)}
    expected = stats.bootstrap(
        (data,), np.median, confidence_level=confidence, **resampling
    ).confidence_interval
    found = median_interval(data, 5, confidence)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(tuple(expected))


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


@pytest.mark.parametrize("count", [1, 2, 5, 7, 9, 13, 14, 20, 50, 51])
@pytest.mark.parametrize("decimals", [0, 6])
def test_the_signed_rank_test_is_that_of_scipy(count: int, decimals: int) -> None:
    """Rounded differences tie, and some are zero."""
    difference = np.random.default_rng(count).normal(0.7, 1.5, size=count).round(decimals)
    found = paired_difference(difference, np.zeros(count), seed=1)
    assert found is not None
    expected = stats.wilcoxon(difference).pvalue if np.any(difference) else 1.0
    assert found.p_value == pytest.approx(expected)


def test_incomplete_pairs_are_left_out() -> None:
    found = paired_difference([1.0, math.nan, 3.0], [0.0, 1.0, math.nan], seed=1)
    assert found is not None
    assert found.pairs == 1


def leave_one_out(values: list[float]) -> NDArray[np.float64]:
    return np.array([np.mean(values), *(np.mean(np.delete(values, i)) for i in range(len(values)))])


def test_the_jackknife_of_a_mean_is_its_t_interval() -> None:
    data = [2.0, 3.0, 1.0, 7.0]
    found = Jackknife(4).of(leave_one_out(data))
    known = stats.ttest_1samp(data, 0.0)
    for confidence in (0.9, 0.99):
        interval, expected = found.interval(confidence), known.confidence_interval(confidence)
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert found.distance == pytest.approx(known.statistic)


def test_what_rounding_makes_of_nothing_is_nothing() -> None:
    found = Jackknife(3).of(leave_one_out([0.1 + 0.2 - 0.3] * 3), scale=0.3)
    assert (found.estimate, found.error) == (0.0, 0.0)
    assert found.distance > 0


def test_one_replication_has_no_interval() -> None:
    assert not Jackknife(1).of(np.array([3.0])).defined
    assert not Jackknife(2).of(np.array([np.nan, 1.0, 2.0])).defined


# ---- Intervals of percentiles and means ------------------------------------------------------------------


@pytest.mark.parametrize("count", [6, 20, 30, 100, 400])
@pytest.mark.parametrize("percent", [25.0, 50.0, 75.0, 95.0, 99.0])
def test_the_interval_of_a_percentile_is_that_of_the_quantile_test(count: int, percent: float) -> None:
    data = np.random.default_rng(count).exponential(size=count)
    _, low, high = quantile_intervals(data, [percent])[:, 0]
    interval = stats.quantile_test(
        data, q=np.quantile(data, percent / 100), p=percent / 100
    ).confidence_interval(0.95)
    assert np.array_equal([low, high], interval, equal_nan=True)


def test_few_values_leave_ends_open() -> None:
    found = dict(
        zip(QUANTILES, quantile_intervals([1.0, 2.0, 3.0, 4.0, 5.0], list(QUANTILES.values())).T, strict=True)
    )
    # The median is below all of five values once in 32 times: more than 2.5 %.
    assert np.array_equal(found["median"], [3.0, math.nan, math.nan], equal_nan=True)
    assert np.array_equal(found["min"], [1.0, math.nan, 1.0], equal_nan=True)
    assert np.array_equal(found["max"], [5.0, 5.0, math.nan], equal_nan=True)
    assert found["p95"][1] == 4.0
    assert math.isnan(found["p95"][2])
    six = quantile_intervals([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [50.0])[:, 0]
    assert list(six) == [3.5, 1.0, 6.0]


@pytest.mark.parametrize("draw", ["exponential", "lognormal", "normal"])
@pytest.mark.parametrize(("count", "percent"), [(6, 50.0), (20, 25.0), (20, 50.0), (30, 75.0), (80, 95.0)])
def test_intervals_of_percentiles_cover_the_true_one_as_often_as_they_say(
    draw: str, count: int, percent: float
) -> None:
    experiments = getattr(np.random.default_rng(1), draw)(size=(4000, count))
    law = {"exponential": stats.expon(), "lognormal": stats.lognorm(1.0), "normal": stats.norm()}[draw]
    _, low, high = quantile_intervals(experiments, [percent])[:, 0]
    covered = np.mean((low <= law.ppf(percent / 100)) & (law.ppf(percent / 100) <= high))
    # Three standard errors of the simulation below 95 %; as ranks are whole, up to 98 % are expected.
    assert 0.94 <= covered <= 0.99


def test_intervals_of_means_are_students_and_cover_as_often_as_they_say() -> None:
    experiments = np.random.default_rng(2).normal(3.0, 2.0, size=(4000, 5))
    mean, low, high = mean_intervals(experiments)
    expected = stats.t.interval(0.95, 4, loc=experiments.mean(axis=1), scale=stats.sem(experiments, axis=1))
    assert np.allclose([low, high], expected)
    assert np.allclose(mean, experiments.mean(axis=1))
    assert 0.94 <= np.mean((low <= 3.0) & (high >= 3.0)) <= 0.96
    assert np.array_equal(mean_intervals([7.0]), [7.0, math.nan, math.nan], equal_nan=True)


@pytest.mark.parametrize("draw", ["exponential", "lognormal", "normal"])
@pytest.mark.parametrize("count", [20, 200])
def test_quartile_ranges_are_scipys_and_their_intervals_cover_at_least_as_often_as_they_say(
    draw: str, count: int
) -> None:
    experiments = getattr(np.random.default_rng(3), draw)(size=(4000, count))
    law = {"exponential": stats.expon(), "lognormal": stats.lognorm(1.0), "normal": stats.norm()}[draw]
    found, low, high = quartile_ranges_over_sets(experiments, np.ones(count, dtype=np.int64), "linear")
    assert np.allclose(found, stats.iqr(experiments, axis=1))
    true = law.ppf(0.75) - law.ppf(0.25)
    assert np.mean((low <= true) & (true <= high)) >= 0.95
    if count == 200:  # 20 values bound no better than all that was seen
        assert 0.5 * true < np.mean(low)
        assert np.mean(high) < 1.6 * true


def test_the_quartile_range_of_several_sets_is_the_mean_of_theirs() -> None:
    data, sets = np.array([[1.0, 3.0, 10.0, 16.0, 0.0, 8.0]]), np.array([1, 1, 2, 2, 3, 3])
    found, low, high = quartile_ranges_over_sets(data, sets, "linear")
    assert found == pytest.approx([(1.0 + 3.0 + 4.0) / 3])
    assert [low[0], high[0]] == pytest.approx(
        stats.t.interval(0.95, 2, loc=8 / 3, scale=stats.sem([1.0, 3.0, 4.0]))
    )


def test_one_replication_of_a_set_says_nothing_of_steadiness() -> None:
    for sets, expected in (([1, 1], {"iqr"}), ([1, 2], set())):
        [lines] = describe(np.array([[1.0], [3.0]]), np.array(sets), [np.array([0, 1])], ["elapsed_s"])
        assert {statistic for _, statistic, *_ in lines} & {"iqr"} == expected


def test_resamples_are_the_same_however_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).normal(size=301)
    whole = median_interval(values, seed=7)
    monkeypatch.setattr(estimates, "_DRAWN_AT_ONCE", 10_000)
    assert median_interval(values, seed=7) == whole
