"""Claims on other statistics than means: over the rows of a replication, over replications, of some
replications.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from claims_tools import one, rows, scenario
from lasthop.analysis.claims.evaluate import Outcome, Part
from lasthop.analysis.statistics.anova import Table, analyse, full_factorial
from lasthop.common.statistics.resampling import Bootstrap
from lasthop.studies.claims.file import load_claims

VARIANTS = {"variant": ["a", "b"]}
LOADS = {"variant": ["a", "b", "c"], "load": ["60", "70"]}
STUDY = scenario(VARIANTS)
STEADY = [10.0, 11.0, 9.0, 10.5, 9.5, 10.2, 9.8, 10.1]
WILD = [10.0, 40.0, 1.0, 25.0, 3.0, 30.0, 2.0, 22.0]


def evaluated(folder: Path, holds: str, *more: str, **tables: pl.DataFrame) -> tuple[Outcome, Part]:
    outcome = one(folder, "\n".join([f'holds = "{holds}"', *more]), STUDY, **tables)
    assert outcome.decisive is not None
    return outcome, outcome.decisive


def two(a: list[float], b: list[float]) -> pl.DataFrame:
    return rows({("a",): a, ("b",): b}, VARIANTS)


# ---- Over replications -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statistic", "value"),
    [
        ("median({})", 16.0),
        ("quantile({}, 0.25)", 2.75),
        ("iqr({})", 26.25 - 2.75),
        ("quantile({}, 1) - quantile({}, 0)", 39.0),
        ("median({} / 2)", 8.0),
        ("fraction({} > 20)", 0.5),
        ("fraction(2 <= {} < 25)", 0.5),
        ("fraction({} == 40)", 0.125),
    ],
)
def test_a_statistic_over_replications(tmp_path: Path, statistic: str, value: float) -> None:
    term = "time_s(variant=a)"
    _, part = evaluated(tmp_path, f"{statistic.replace('{}', term)} > 0", runs=two(WILD, STEADY))
    assert part.left == pytest.approx(value)


def test_one_variant_is_steadier_than_another(tmp_path: Path) -> None:
    steadier = "iqr(time_s(variant=b)) < iqr(time_s(variant=a))"
    assert evaluated(tmp_path, steadier, runs=two(3 * WILD, 3 * STEADY))[0].verdict == "upheld"
    assert evaluated(tmp_path, steadier, runs=two(3 * STEADY, 3 * WILD))[0].verdict == "not upheld"
    assert evaluated(tmp_path, steadier, runs=two(3 * STEADY, 3 * STEADY[::-1]))[0].verdict != "upheld"


def test_few_replications_bound_a_quantile_by_order_statistics(tmp_path: Path) -> None:
    """Of 20 values, the 18th is above the 95th percentile with a probability of 1.6 %, the 19th of 7.5 %."""
    values = [float(number) for number in range(1, 21)]
    outcome, part = evaluated(tmp_path, "p95(time_s(variant=a)) < 30", runs=two(values, values))
    assert outcome.verdict == "undecided"
    assert "need 100 replications" in outcome.reason
    assert part.difference is not None
    low = max(own for own in values if stats.binom.cdf(own - 1, 20, 0.95) <= 0.025)
    assert (part.difference.low, part.difference.high) == (low - 30, math.inf)
    assert (
        evaluated(tmp_path, f"p95(time_s(variant=a)) < {low}", runs=two(values, values))[0].verdict
        == "not upheld"
    )
    above = evaluated(tmp_path, f"0 - p95(time_s(variant=a)) < {-low + 0.1}", runs=two(values, values))
    assert above[0].verdict == "upheld"


def test_order_statistics_bound_linear_functions_only(tmp_path: Path) -> None:
    values = [1.0, 1.5, 2.0, 2.5, 3.5, 4.0, 4.5, 5.0]
    apart = "abs(median(time_s(variant=a)) - 3) > 1.5"
    assert evaluated(tmp_path, apart, runs=two(values, values))[0].verdict == "undecided"


def test_equal_replications_are_certain(tmp_path: Path) -> None:
    same = [5.0] * 10
    assert evaluated(tmp_path, "p95(time_s(variant=a)) < 3", runs=two(same, same))[0].verdict == "not upheld"
    assert evaluated(tmp_path, "p95(time_s(variant=a)) < 9", runs=two(same, same))[0].verdict == "upheld"


def test_few_replications_do_not_compare_quantiles_unless_all_are_equal(tmp_path: Path) -> None:
    values = [float(number) for number in range(1, 21)]
    no_worse = "p95(time_s(variant=a)) <= 1.1 * p95(time_s(variant=b))"
    assert evaluated(tmp_path, no_worse, runs=two(values, values))[0].verdict == "upheld"
    slower = [2.0 * value + value % 3 for value in values]
    outcome, part = evaluated(tmp_path, no_worse, runs=two(slower, values))
    assert outcome.verdict == "undecided"
    assert part.difference is None
    assert evaluated(tmp_path, no_worse, runs=two(5 * slower, 5 * values))[0].verdict == "not upheld"


def test_what_holds_in_a_replication_is_a_pair_of_it(tmp_path: Path) -> None:
    """The means are equal, and yet a is above b three times in four."""
    table = two([2.0, 2.0, 2.0, 0.0], [1.0, 1.0, 1.0, 3.0])
    _, part = evaluated(tmp_path, "fraction(time_s(variant=a) > time_s(variant=b)) > 0.5", runs=table)
    assert part.left == 0.75
    assert part.difference is not None
    known = stats.ttest_1samp([0.5, 0.5, 0.5, -0.5], 0).confidence_interval(0.95)
    assert (part.difference.low, part.difference.high) == pytest.approx((known.low, known.high))


def test_what_holds_in_every_replication(tmp_path: Path) -> None:
    table = two([2.0] * 9, [1.0] * 8 + [3.0])
    always = "fraction(time_s(variant=a) > {}) >= 1"
    assert evaluated(tmp_path, always.format(1), runs=table)[0].verdict == "upheld"
    assert evaluated(tmp_path, always.format("time_s(variant=b)"), runs=table)[0].verdict == "undecided"


def test_the_part_that_fails_for_certain_is_the_one_that_is_shown(tmp_path: Path) -> None:
    """One of two parts never differs, so it is certainly not greater."""
    table = two([2.0, 2.1, 1.9, 2.2], [1.0, 1.1, 1.3, 1.2])
    both = ["time_s(variant=a) > time_s(variant=b)", "time_s(variant=a) > time_s(variant=a)"]
    outcome = one(tmp_path, f"holds = {both}", STUDY, runs=table)
    assert outcome.verdict == "not upheld"
    assert outcome.decisive is not None
    assert outcome.decisive.statement == both[1]


def test_the_interval_of_a_median_is_that_of_the_paired_bootstrap(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    noise = random.normal(10, 5, 40)
    a, b = noise + random.normal(1, 0.5, 40), noise
    holds = "median(time_s(variant=a)) > median(time_s(variant=b))"
    _, part = evaluated(tmp_path, holds, runs=two(list(a), list(b)))
    known = stats.bootstrap(
        (a, b), lambda x, y, axis: np.median(x, axis=axis) - np.median(y, axis=axis), paired=True
    )
    half = stats.t.ppf(0.975, 39) * known.standard_error
    assert part.difference is not None
    assert part.difference.high - part.difference.estimate == pytest.approx(half, rel=0.1)


def test_the_same_replications_give_the_same_interval(tmp_path: Path) -> None:
    holds = "median(time_s(variant=a)) > median(time_s(variant=b))"
    one_time, again = (evaluated(tmp_path, holds, runs=two(WILD, STEADY))[1] for _ in range(2))
    assert one_time == again


def test_a_quantile_is_the_mean_over_the_sets_of_those_of_each(tmp_path: Path) -> None:
    """Medians of 2 and 20; the median of all is 6.5."""
    sets = [
        two(values, values).with_columns(set=pl.lit(n))
        for n, values in enumerate(([1, 2, 3], [10, 20, 90]), 1)
    ]
    table = pl.concat([frame.with_columns(pl.col("time_s").cast(pl.Float64)) for frame in sets])
    assert evaluated(tmp_path, "median(time_s(variant=a)) > 0", runs=table)[1].left == 11


def test_replications_are_pooled_over_levels(tmp_path: Path) -> None:
    """The medians of the flows are 2 and 8; the median of all six values is 3.5."""
    table = pl.concat(
        [rows({("a",): v}, VARIANTS, role=r) for r, v in (("x", [1.0, 2, 3]), ("y", [4.0, 8, 9]))]
    )
    study, text = scenario({"variant": ["a"]}), "median(time_s(variant=a), flow=[x, y]) > 3"
    outcome = one(tmp_path, f'holds = "{text}"', study, flows=table)
    assert outcome.decisive is not None
    assert outcome.decisive.left == 3.5
    assert one(tmp_path, f'holds = "{text}"', study, flows=table).verdict == "undecided"


def test_a_division_by_zero_in_a_replication_is_no_value(tmp_path: Path) -> None:
    outcome, _ = evaluated(
        tmp_path, "fraction(time_s(variant=a) / time_s(variant=a) > 1) < 1", runs=two([0.0, 1], [1.0, 1])
    )
    assert (outcome.verdict, outcome.reason) == ("undecided", "a side has no finite value")


def test_one_replication_has_no_quantiles_interval(tmp_path: Path) -> None:
    outcome, part = evaluated(tmp_path, "median(time_s(variant=a)) > 0", runs=two([3.0], [1.0]))
    assert (outcome.verdict, part.left, part.difference) == ("undecided", 3.0, None)


@pytest.mark.parametrize("sizes", [(20,), (5, 5, 5, 5), (3, 17)])
def test_the_bootstraps_error_of_a_mean_is_the_usual_one(sizes: tuple[int, ...]) -> None:
    sets = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(1).normal(0, 1, sets.size)
    within = sum(((values[sets == n] - values[sets == n].mean()) ** 2).sum() for n in range(len(sizes)))
    plan = Bootstrap(sets)
    found = plan.of(plan.mean(values))
    assert found.error == pytest.approx((within / (sets.size - len(sizes)) / sets.size) ** 0.5, rel=0.1)
    assert found.freedom == sets.size - len(sizes)


@pytest.mark.parametrize("share", [0.5, 0.75])
def test_the_intervals_cover_what_is_true(share: float) -> None:
    random, covered = np.random.default_rng(5), 0
    for _ in range(400):
        values = random.exponential(1, 20)
        plan = Bootstrap(np.ones(20, dtype=np.int64))
        interval = plan.of(plan.quantile(values[np.newaxis], share)).interval()
        covered += interval.low <= -np.log(1 - share) <= interval.high
    assert 0.90 <= covered / 400 <= 0.99


# ---- Shares of the variation -----------------------------------------------------------------------------

DESIGN = {"variant": ["a", "b", "c"], "queue": ["sd", "epd"], "load": ["60", "70"]}
EXPLAINED = "explained(time_s(), {})"


def factorial(cells: int = 12, replications: int = 5) -> pl.DataFrame:
    random = np.random.default_rng(7)
    keys = list(itertools.product(*DESIGN.values()))[:cells]
    effect = {"a": 0.0, "b": 1.0, "c": 3.0, "sd": 0.0, "epd": 0.5, "60": 0.0, "70": 1.5}
    return rows(
        {k: random.normal(sum(effect[one] for one in k), 1, replications).tolist() for k in keys}, DESIGN
    )


def share(table: pl.DataFrame, factor: str) -> float:
    """Return what `lasthop results factors` gives for the means over the replications, as a share."""
    means = table.group_by(list(DESIGN), maintain_order=True).agg(pl.col("time_s").mean())
    found = analyse(full_factorial(Table(means, "time_s", list(DESIGN)), list(DESIGN)))
    (percent,) = (one.percent for one in found.components if one.term == factor)
    assert percent is not None
    return percent / 100


@pytest.mark.parametrize("factor", DESIGN)
def test_a_factor_explains_what_the_analysis_of_variance_says(tmp_path: Path, factor: str) -> None:
    table, order = factorial(), [factor, *(name for name in DESIGN if name != factor)]
    through = ", ".join(f"{name}={DESIGN[name]}" for name in order)
    outcome = one(tmp_path, f'holds = "{EXPLAINED.format(through)} > 0.2"', scenario(DESIGN), runs=table)
    part = outcome.decisive
    assert part is not None
    assert part.difference is not None
    assert part.left == pytest.approx(share(table, factor))
    without = [share(table.filter(pl.col("replication") != number), factor) for number in range(1, 6)]
    half = stats.t.ppf(0.975, 4) * 2 * np.std(without)  # the jackknife's: sqrt(n - 1) = 2
    assert part.difference.high - part.difference.estimate == pytest.approx(half)


def test_of_some_levels_the_share_is_that_of_their_cells(tmp_path: Path) -> None:
    """Of four cells: 0, 1, 3 and 4. The variant has 9 of 10, the load 1."""
    values = {
        ("a", "60"): 0.0,
        ("a", "70"): 1.0,
        ("b", "60"): 3.0,
        ("b", "70"): 4.0,
        ("c", "60"): 9.0,
        ("c", "70"): 0.0,
    }
    table = rows({key: [value] * 2 for key, value in values.items()}, LOADS)
    for first, others, expected in (
        ("variant=[a, b]", "load=[60, 70]", 0.9),
        ("load=[60, 70]", "variant=[a, b]", 0.1),
    ):
        holds = f"{EXPLAINED.format(f'{first}, {others}')} > 0"
        outcome = one(tmp_path, f'holds = "{holds}"', scenario(LOADS), runs=table)
        assert outcome.decisive is not None
        assert (outcome.verdict, outcome.decisive.left) == ("upheld", pytest.approx(expected))


def test_a_share_may_be_that_of_each_replication(tmp_path: Path) -> None:
    """The first has 9 of 10, the second nothing, as only the load matters."""
    cells = {("a", "60"): [0.0, 0], ("a", "70"): [1.0, 1], ("b", "60"): [3.0, 0], ("b", "70"): [4.0, 1]}
    holds = f"quantile({EXPLAINED.format('variant=[a, b], load=[60, 70]')}, 1) > 0"
    study = scenario({"variant": ["a", "b"], "load": ["60", "70"]})
    outcome = one(tmp_path, f'holds = "{holds}"', study, runs=rows(cells, LOADS))
    assert outcome.decisive is not None
    assert outcome.decisive.left == pytest.approx(0.9)


def test_without_variation_there_is_nothing_to_explain(tmp_path: Path) -> None:
    table = rows({key: [1.0, 1.0] for key in itertools.product(*DESIGN.values())}, DESIGN)
    through = "variant=[a, b], queue=[sd, epd]"
    outcome = one(tmp_path, f'holds = "{EXPLAINED.format(through)} > 0"', scenario(DESIGN), runs=table)
    assert (outcome.verdict, outcome.reason) == ("undecided", "a side has no finite value")


def test_a_cell_that_was_not_run_leaves_the_share_open(tmp_path: Path) -> None:
    through = ", ".join(f"{name}={levels}" for name, levels in DESIGN.items())
    outcome = one(
        tmp_path, f'holds = "{EXPLAINED.format(through)} > 0"', scenario(DESIGN), runs=factorial(cells=11)
    )
    assert (outcome.verdict, outcome.reason) == ("not run", "1 of its 12 cells were not run")


# ---- Over the rows of a replication ----------------------------------------------------------------------

CONNECTIONS = pl.concat(
    [
        rows({("a",): values}, VARIANTS, role=role)
        for role, values in (("one", [1.0, 3]), ("two", [4.0, 5]), ("udp", [9.0, 9]))
    ]
)


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("time_s(flow='*o*')", (1 + 3 + 4 + 5) / 4),
        ("sum(time_s(flow='*o*'))", 6.5),
        ("max(time_s(flow='*o*'))", 4.5),
        ("min(time_s(flow='*o*'))", 2),
        ("max(time_s()) - min(time_s())", 7),
        ("20 * sum(time_s(flow='*o*'))", 130),
    ],
)
def test_a_replications_value_may_be_the_sum_or_an_end_of_its_rows(
    tmp_path: Path, term: str, value: float
) -> None:
    outcome = one(tmp_path, f'holds = "{term} > 0"', scenario({"variant": ["a"]}), flows=CONNECTIONS)
    assert outcome.decisive is not None
    assert outcome.decisive.left == pytest.approx(value)


# ---- Some replications -----------------------------------------------------------------------------------


def of_sets(**cells: list[list[float]]) -> pl.DataFrame:
    """As in results, the numbers of replications continue from set to set."""
    frames = [
        rows({(variant,): values}, VARIANTS).with_columns(
            set=pl.lit(number), replication=pl.col("replication") + (number - 1) * len(values)
        )
        for variant, sets in cells.items()
        for number, values in enumerate(sets, 1)
    ]
    return pl.concat(frames)


CACHED = of_sets(a=[[9.0, 1, 2], [8.0, 2, 1], [10.0, 1, 1]], b=[[9.0, 9, 9], [8.0, 9, 8], [10.0, 9, 9]])


@pytest.mark.parametrize(
    ("chosen", "value", "pairs"), [("1", 9, 3), ("'2..'", 8 / 6, 6), ("[1, 3]", 31 / 6, 6)]
)
def test_a_term_chooses_replications_of_each_set(
    tmp_path: Path, chosen: str, value: float, pairs: int
) -> None:
    _, part = evaluated(tmp_path, f"time_s(variant=a, replication={chosen}) > 0", runs=CACHED)
    assert (part.left, part.pairs) == (pytest.approx(value), pairs)


def test_different_replications_are_compared_set_by_set(tmp_path: Path) -> None:
    """Differences 7.5, 6.5 and 9: the interval equals the paired t test's."""
    holds = "time_s(variant=a, replication=1) > time_s(variant=a, replication='2..')"
    outcome, part = evaluated(tmp_path, holds, runs=CACHED)
    known = stats.ttest_1samp([7.5, 6.5, 9.0], 0).confidence_interval(0.95)
    assert (outcome.verdict, part.pairs) == ("upheld", 3)
    assert part.difference is not None
    assert (part.difference.low, part.difference.high) == pytest.approx((known.low, known.high))
    alone = CACHED.filter(pl.col("set") == 1)
    outcome, part = evaluated(tmp_path, holds, runs=alone)
    assert (outcome.verdict, part.left, part.right) == ("undecided", 9, 1.5)


def test_where_chooses_replications_for_all_terms(tmp_path: Path) -> None:
    holds, where = "time_s(variant=a) == time_s(variant=b)", 'where = { replication = "1" }\nwithin = 0.01'
    assert evaluated(tmp_path, holds, where, runs=CACHED)[0].verdict == "upheld"
    assert evaluated(tmp_path, holds, where.replace('"1"', '"2.."'), runs=CACHED)[0].verdict == "not upheld"


def test_a_trend_over_replications(tmp_path: Path) -> None:
    table = of_sets(a=[[9.0, 5, 1], [8.0, 4.5, 1], [10.0, 5, 2]], b=[[0.0] * 3] * 3)
    outcome, part = evaluated(tmp_path, "decreases(time_s(variant=a), replication=[1, 2, 3])", runs=table)
    assert (outcome.verdict, part.left, part.right) == ("upheld", pytest.approx(4 / 3), 9)


def test_replications_that_were_not_run_have_no_values(tmp_path: Path) -> None:
    outcome, _ = evaluated(tmp_path, "time_s(variant=a, replication=7) > time_s(variant=a)", runs=CACHED)
    assert outcome.reason == "fewer than two replications have values of all its terms"


# ---- Some levels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("least", "verdict"), [(1, "upheld"), (7, "upheld"), (8, "not upheld")])
def test_at_least_so_many_levels(tmp_path: Path, least: int, verdict: str) -> None:
    nine = {"load": [str(load) for load in range(9)]}
    table = rows({(load,): [1.0 if int(load) < 7 else -1.0] * 3 for load in nine["load"]}, nine)
    body = f'holds = "time_s() > 0"\nsome = ["load"]\nat_least = {least}'
    assert one(tmp_path, body, scenario(nine), runs=table).verdict == verdict


# ---- What sources say ------------------------------------------------------------------------------------

PATHS = scenario(
    {
        "link": ["e0", "r1"],
        "workload": ["2tcp0udp", "2tcp1udp"],
        "variant": ["baseline", "eifel", "eifel+red", "eifel+ecn", "frto", "dsack"],
        "queue": ["sd", "epd"],
    }
)


@pytest.mark.parametrize(
    "relation",
    [
        "elapsed_s(variant='eifel+red', flow='tcp-slower') - elapsed_s(variant='eifel', flow='tcp-slower') "
        "== 10 | within=0.3",
        "data_drops_red(flow='tcp-*') > 0 | every=workload,variant",
        "31.5 <= data_drops_error(flow='tcp-*') <= 37 | every=workload,variant",
        "greatest(elapsed_s(flow='tcp-*'), variant=[baseline, frto, dsack, eifel]) == "
        "least(elapsed_s(flow='tcp-*'), variant=[baseline, frto, dsack, eifel]) | within=0.05",
        "efficiency(queue='sd') == efficiency(queue='epd') ; efficiency(queue='sd') > 0.5 | within=0.02 "
        "every=link",
        "abs(elapsed_s(link=r1) / elapsed_s(link=e0) - 1) < 0.04 ; fairness_jain(link=r1) > 0.9 | "
        "most=workload",
        "-0.04 < elapsed_s(variant=frto) / elapsed_s(variant=dsack) - 1 < 0.04 | every=link",
        "median(elapsed_s(), flow=['tcp-slower', 'tcp-faster']) > 50 | every=link",
        "20 * sum(timeouts(variant='eifel', flow='tcp-*')) == 18 | within=0.5",
        "iqr(elapsed_s(variant='eifel+red')) < iqr(elapsed_s(variant='eifel')) | some=link,workload "
        "at_least=3",
        "fraction(elapsed_s(flow='tcp-slower') / elapsed_s(flow='tcp-faster') < 1.06) > 0.5 | every=link",
        "spurious_timeouts(flow='tcp-*') <= 0.1 * timeouts(flow='tcp-*') | every=link",
        "explained(efficiency(), variant=[eifel, frto], queue=[sd, epd]) == 0.3024 ; "
        "increases(explained(efficiency(), queue=[sd, epd], variant=[eifel, frto]), link=[e0, r1]) | "
        "within=0.25",
    ],
)
def test_relations_of_sentences_are_claims(tmp_path: Path, relation: str) -> None:
    """Several expressions, then options."""
    holds, _, options = relation.partition(" | ")
    body = f"holds = {[text.strip() for text in holds.split(' ; ')]}\n"
    for option in options.split():
        key, value = option.split("=")
        body += f"{key} = {value if key in ('within', 'at_least') else value.split(',')}\n"
    file = tmp_path / "claims.toml"
    file.write_text(f'[[claim]]\nid = "C"\ntext = "said"\n{body}', encoding="utf-8")
    assert load_claims(file, PATHS).claims[0].holds
