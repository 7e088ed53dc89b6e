"""Claims of every kind on small tables, with intervals that were computed by hand or by scipy's paired t
test.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from claims_tools import ORDERS, check, one, rows, scenario
from lasthop.analysis.claims import NOT_UPHELD, UNDECIDED, UPHELD
from lasthop.analysis.claims.evaluate import Outcome
from lasthop.analysis.claims.verdicts import (
    cells_frame,
    claims_frame,
    contradictions,
    summary_lines,
    verdict_lines,
)

VARIANTS = {"variant": ["a", "b", "c"]}
LOADS = {"load": ["60", "70", "80", "90"]}
NOISE = (0.0, 3.0, -2.0, 1.0, -2.0)
"""Common to all cells in a replication: paired differences do not see it."""


def among(folder: Path, holds: str, *more: str, **values: list[float | None]) -> Outcome:
    """Evaluate one statement on the variants a, b and c."""
    table = rows({(variant,): cell for variant, cell in values.items()}, VARIANTS)
    study = scenario({"variant": list(values)})
    return one(folder, "\n".join([f'holds = "{holds}"', *more]), study, runs=table)


def noisy(*means: float) -> list[list[float]]:
    return [[mean + noise for noise in NOISE] for mean in means]


# ---- One comparison --------------------------------------------------------------------------------------


def test_the_interval_of_a_difference_is_that_of_the_paired_t_test(tmp_path: Path) -> None:
    """Differences 2, 3 and 1: mean 2, standard deviation 1, t[0.975; 2] = 4.302653, half width 2.484138."""
    outcome = among(tmp_path, "time_s(variant=a) > time_s(variant=b)", a=[3, 5, 4], b=[1, 2, 3])
    assert outcome.verdict == "undecided"
    assert outcome.decisive is not None
    interval = outcome.decisive.difference
    assert interval is not None
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(
        (2, 2 - 2.484138, 2 + 2.484138), abs=1e-6
    )
    known = stats.ttest_rel([3, 5, 4], [1, 2, 3]).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx(tuple(known))


@pytest.mark.parametrize(
    ("relation", "verdict"), [(">", "upheld"), ("<", "not upheld"), (">=", "upheld"), ("<=", "not upheld")]
)
def test_noise_that_replications_share_does_not_matter(tmp_path: Path, relation: str, verdict: str) -> None:
    a, b = noisy(10.0, 9.9)
    assert among(tmp_path, f"time_s(variant=a) {relation} time_s(variant=b)", a=a, b=b).verdict == verdict


@pytest.mark.parametrize(
    ("relation", "verdict"), [(">", "not upheld"), ("<", "not upheld"), (">=", "upheld"), ("<=", "upheld")]
)
def test_equal_values_are_neither_greater_nor_less(tmp_path: Path, relation: str, verdict: str) -> None:
    """0.1 + 0.2 is 0.3: a rounding error is no difference."""
    outcome = among(
        tmp_path, f"time_s(variant=a) {relation} time_s(variant=b)", a=[0.1 + 0.2] * 4, b=[0.3] * 4
    )
    assert outcome.verdict == verdict


def test_a_threshold(tmp_path: Path) -> None:
    assert among(tmp_path, "time_s(variant=a) < 20", a=[18, 19, 17, 18], b=[1] * 4).verdict == "upheld"
    assert among(tmp_path, "time_s(variant=a) > 20", a=[18, 19, 17, 18], b=[1] * 4).verdict == "not upheld"
    assert among(tmp_path, "time_s(variant=a) < 20", a=[18, 23, 17, 21], b=[1] * 4).verdict == "undecided"


def test_a_chain_holds_if_each_of_its_relations_does(tmp_path: Path) -> None:
    a, b, c = noisy(3, 2, 1)
    chain = "time_s(variant=a) > time_s(variant=b) > time_s(variant=c)"
    assert among(tmp_path, chain, a=a, b=b, c=c).verdict == "upheld"
    outcome = among(tmp_path, chain, a=a, b=c, c=b)
    assert outcome.verdict == "not upheld"
    assert outcome.decisive is not None
    assert outcome.decisive.statement == "time_s(variant=b) > time_s(variant=c)"


def test_a_ratio_is_that_of_means_with_the_jackknife_interval(tmp_path: Path) -> None:
    """Means 4 and 5/3.

    Without each replication 5/2, 8/3, 2: squared deviations from 43/18 add up to 0.240741.
    """
    outcome = among(tmp_path, "time_s(variant=a) / time_s(variant=b) > 1", a=[2, 4, 6], b=[1, 2, 2])
    assert outcome.decisive is not None
    assert outcome.decisive.left == pytest.approx(2.4)
    interval = outcome.decisive.difference
    assert interval is not None
    half = 4.302653 * (2 / 3 * 0.240741) ** 0.5
    assert (interval.estimate, interval.high - interval.estimate) == pytest.approx((1.4, half), rel=1e-5)


@pytest.mark.parametrize(
    ("b", "verdict"),
    [(10.0, "upheld"), (8.3, "upheld"), (7.9, "not upheld"), (13.0, "upheld"), (13.7, "not upheld")],
)
def test_about_twice(tmp_path: Path, b: float, verdict: str) -> None:
    """Twice within a quarter: between 1.5 and 2.5 times."""
    table = [[20 + e for e in (-0.1, 0.1, 0.0)], [b + e for e in (0.0, 0.01, -0.01)]]
    holds = "time_s(variant=a) == 2 * time_s(variant=b)"
    assert among(tmp_path, holds, "within = 0.25", a=table[0], b=table[1]).verdict == verdict


def test_not_worse_within_a_margin(tmp_path: Path) -> None:
    a, b = [10.4, 10.3, 10.5], [10.0, 9.9, 10.1]
    holds = "time_s(variant=a) <= time_s(variant=b)"
    assert among(tmp_path, holds, a=a, b=b).verdict == "not upheld"
    assert among(tmp_path, holds, "within = 0.05", a=a, b=b).verdict == "upheld"
    assert among(tmp_path, holds, "within = 0.03", a=a, b=b).verdict == "not upheld"


def test_nothing_is_within_a_tenth_of_zero_but_zero(tmp_path: Path) -> None:
    holds = "time_s(variant=a) - time_s(variant=b) == 0"
    assert among(tmp_path, holds, "within = 0.1", a=[1.0] * 3, b=[1.0] * 3).verdict == "upheld"
    assert among(tmp_path, holds, "within = 0.1", a=[1.1] * 3, b=[1.0] * 3).verdict == "not upheld"


def test_a_division_by_zero_is_no_value(tmp_path: Path) -> None:
    outcome = among(tmp_path, "time_s(variant=a) / time_s(variant=b) > 1", a=[1.0] * 3, b=[0.0] * 3)
    assert outcome.verdict == "undecided"
    assert outcome.decisive is not None
    assert outcome.decisive.left is None
    assert outcome.reason == "a side has no finite value"


def test_least_and_greatest(tmp_path: Path) -> None:
    a, b, c = noisy(3, 2, 1)
    best = "time_s(variant=a) > greatest(time_s(), variant=[b, c])"
    assert among(tmp_path, best, a=a, b=b, c=c).verdict == "upheld"
    assert among(tmp_path, best, a=b, b=a, c=c).verdict == "not upheld"
    assert (
        among(tmp_path, "time_s(variant=c) < least(time_s(), variant=[a, b])", a=a, b=b, c=c).verdict
        == "upheld"
    )


# ---- Levels ----------------------------------------------------------------------------------------------


def over_loads(folder: Path, holds: str, *means: float, spread: float = 0.01) -> Outcome:
    deviations = np.array([1.0, -1.0, 0.5, -0.5]) * spread
    values = {
        (load,): [mean + (-1) ** i * e for e in deviations]
        for i, (load, mean) in enumerate(zip(LOADS["load"], means, strict=True))
    }
    return one(folder, f'holds = "{holds}"', scenario(LOADS), runs=rows(values, LOADS))


def test_a_slope_is_that_of_least_squares(tmp_path: Path) -> None:
    """Through 1, 2 and 6 at 60, 70 and 80: (10 * (6 - 1)) / 200."""
    outcome = over_loads(tmp_path, "slope(time_s(), load='60..80') < 1", 1, 2, 6, 0)
    assert outcome.decisive is not None
    assert outcome.decisive.left == pytest.approx(0.25)


def test_slopes_over_two_ranges(tmp_path: Path) -> None:
    steeper = "slope(time_s(), load='80..90') > slope(time_s(), load='60..80')"
    assert over_loads(tmp_path, steeper, 1, 2, 3, 9).verdict == "upheld"
    assert over_loads(tmp_path, steeper, 1, 2, 3, 3.5).verdict == "not upheld"


@pytest.mark.parametrize(
    ("means", "spread", "verdict"),
    [
        ((1, 2, 3, 4), 0.01, "upheld"),
        ((1, 3, 2, 4), 0.01, "not upheld"),
        ((1, 2.1, 2, 4), 0.2, "upheld"),
        ((4, 3, 2, 1), 0.01, "not upheld"),
        ((1, 1, 1, 1), 0.2, "undecided"),
    ],
    ids=["rises", "falls back", "may fall back by chance", "falls", "does nothing that is seen"],
)
def test_a_trend_rises_on_the_whole_and_never_falls(
    tmp_path: Path, means: tuple[float, ...], spread: float, verdict: str
) -> None:
    assert (
        over_loads(tmp_path, "increases(time_s(), load='60..90')", *means, spread=spread).verdict == verdict
    )
    downward = [-mean for mean in means]
    assert (
        over_loads(tmp_path, "decreases(time_s(), load='60..90')", *downward, spread=spread).verdict
        == verdict
    )


def test_a_trend_goes_by_numbers_whatever_the_order_of_the_scenario(tmp_path: Path) -> None:
    backwards = {"load": ["90", "60", "100"]}
    table = rows({("60",): [1.0, 1.1], ("90",): [2.0, 2.1], ("100",): [3.0, 3.1]}, backwards)
    outcome = one(tmp_path, "holds = \"increases(time_s(), load='60..')\"", scenario(backwards), runs=table)
    assert outcome.verdict == "upheld"


def test_a_step_back_is_named(tmp_path: Path) -> None:
    outcome = over_loads(tmp_path, "increases(time_s(), load='60..90')", 1, 3, 2, 4)
    assert outcome.reason == "goes in the opposite direction from 70 to 80"


def both(folder: Path, body: str, means: dict[str, tuple[float, ...]]) -> Outcome:
    """Evaluate a claim on variants a and b at four loads."""
    values = {
        (variant, load): [mean + noise for noise in NOISE]
        for variant, row in means.items()
        for load, mean in zip(ORDERS["load"], row, strict=True)
    }
    return one(folder, body, scenario(ORDERS), runs=rows(values, ORDERS))


A_OVER_B = 'holds = "time_s(variant=a) > time_s(variant=b)"'
MIXED = {"a": (5.0, 5.0, 5.0, 5.0), "b": (4.0, 4.0, 4.0, 5.5), "c": (0.0,) * 4}


def test_the_mean_over_cells_decides_unless_every_or_some_is_asked_for(tmp_path: Path) -> None:
    outcome = both(tmp_path, A_OVER_B, MIXED)
    assert outcome.verdict == "upheld"
    assert [part.verdict for part in outcome.cells] == ["upheld"] * 3 + ["not upheld"]
    assert both(tmp_path, f'{A_OVER_B}\nevery = ["load"]', MIXED).verdict == "not upheld"
    assert (
        both(tmp_path, f'{A_OVER_B}\nevery = ["load"]\nwhere = {{ load = "60..80" }}', MIXED).verdict
        == "upheld"
    )
    less = 'holds = "time_s(variant=a) < time_s(variant=b)"'
    assert both(tmp_path, less, MIXED).verdict == "not upheld"
    assert both(tmp_path, f'{less}\nsome = ["load"]', MIXED).verdict == "upheld"
    assert (
        both(tmp_path, f'{less}\nsome = ["load"]\nwhere = {{ load = "..80" }}', MIXED).verdict == "not upheld"
    )


@pytest.mark.parametrize(
    ("above", "verdict"), [(10, "upheld"), (8, "upheld"), (7, "not upheld"), (0, "not upheld")]
)
def test_most_is_four_fifths(tmp_path: Path, above: int, verdict: str) -> None:
    ten = {"load": [str(load) for load in range(10)]}
    table = rows({(load,): [1.0 if int(load) < above else -1.0] * 3 for load in ten["load"]}, ten)
    outcome = one(tmp_path, 'holds = "time_s() > 0"\nmost = ["load"]', scenario(ten), runs=table)
    assert outcome.verdict == verdict


def test_curves_cross_if_either_is_above_somewhere(tmp_path: Path) -> None:
    cross = (
        'holds = ["time_s(variant=a) > time_s(variant=b)", "time_s(variant=a) < time_s(variant=b)"]\n'
        'some = ["load"]'
    )
    assert both(tmp_path, cross, MIXED).verdict == "upheld"
    assert both(tmp_path, cross, MIXED | {"b": (4.0,) * 4}).verdict == "not upheld"


def test_a_difference_of_differences(tmp_path: Path) -> None:
    def gap(load: int) -> str:
        return f"abs(time_s(variant=a, load={load}) - time_s(variant=b, load={load}))"

    assert both(tmp_path, f'holds = "{gap(60)} > {gap(90)}"', MIXED).verdict == "upheld"
    assert both(tmp_path, f'holds = "{gap(60)} < {gap(90)}"', MIXED).verdict == "not upheld"


def test_a_term_at_several_levels_is_their_mean(tmp_path: Path) -> None:
    outcome = both(tmp_path, 'holds = "time_s(load=[60, 90]) > 4.7"\nwhere = { variant = "b" }', MIXED)
    assert outcome.decisive is not None
    assert outcome.decisive.left == pytest.approx((4.0 + 5.5) / 2)
    assert len(outcome.cells) == 1


def test_where_gives_levels_to_terms_that_name_none(tmp_path: Path) -> None:
    """The load of a at 90 % against the mean of the loads in where."""
    body = 'holds = "time_s(variant=b, load=90) > time_s(variant=b)"\nwhere = { load = "60..80" }'
    assert both(tmp_path, body, MIXED).verdict == "upheld"


def test_cells_that_a_scenario_does_not_have_are_left_out(tmp_path: Path) -> None:
    study = scenario(ORDERS, lambda cell: cell["variant"] != "b" or cell["load"] != "90")
    table = rows(
        {(v, load): noisy(m)[0] for v, m in (("a", 2), ("b", 1), ("c", 0)) for load in ORDERS["load"]}, ORDERS
    )
    outcome = one(tmp_path, A_OVER_B, study, runs=table)
    assert [part.place["load"] for part in outcome.cells] == ["60", "70", "80"]


def test_a_part_that_is_sought_among_many_needs_more_confidence(tmp_path: Path) -> None:
    """Against the claim at 95 %, not at 98.75 %: one level of four looks like that by chance in every fifth
    study.
    """
    values = {("a", load): [5.0, 5.0, 5.0, 5.0] for load in ORDERS["load"]}
    values |= {("b", load): [4.0, 4.1, 4.2, 4.0] for load in ORDERS["load"]}
    values["b", "90"] = [5.1, 5.25, 5.2, 5.1]
    table = rows(values, ORDERS)
    study = scenario(ORDERS, lambda cell: cell["variant"] != "c")
    outcome = one(tmp_path, f'{A_OVER_B}\nevery = ["load"]', study, runs=table)
    difference = np.array(values["a", "90"]) - np.array(values["b", "90"])
    assert stats.ttest_1samp(difference, 0).confidence_interval(0.95).high < 0
    assert stats.ttest_1samp(difference, 0).confidence_interval(1 - 0.05 / 4).high > 0
    assert [part.verdict for part in outcome.cells] == ["upheld"] * 3 + ["not upheld"]
    assert outcome.verdict == "undecided"


# ---- Tables ----------------------------------------------------------------------------------------------


def test_a_metric_of_columns_is_a_ratio_of_means(tmp_path: Path) -> None:
    """Losses 1 and 5 of 100 and 300 packets sent: 6 of 400, not the mean of 1 % and 1.67 %."""
    table = pl.DataFrame(
        {
            "variant": ["a", "a"],
            "replication": [1, 2],
            "application": ["x", "x"],
            "lost": [1, 5],
            "sent": [100, 300],
        }
    )
    text = (
        '[metrics]\nloss = "lost / sent"\n[[claim]]\nid = "C"\ntext = "said"\nholds = "loss(variant=a) < 1"\n'
    )
    outcome = check(tmp_path, text, scenario({"variant": ["a"]}), shorts=table)[0]
    assert outcome.decisive is not None
    assert outcome.decisive.left == pytest.approx(0.015)


def flows(**roles: list[float]) -> pl.DataFrame:
    return pl.concat([rows({("a",): times}, VARIANTS, role=role) for role, times in roles.items()])


ONE = scenario({"variant": ["a"]})
TIMES = flows(**{"tcp-faster": [1.0, 2.0, 3.0], "tcp-slower": [4.0, 6.0, 5.0], "udp": [100.0] * 3})


@pytest.mark.parametrize(
    ("flow", "mean"), [("'tcp-slower'", 5), ("'tcp-*'", 3.5), ("['tcp-faster', udp]", 51), ("'*'", 107 / 3)]
)
def test_flows_are_chosen_by_role_or_pattern(tmp_path: Path, flow: str, mean: float) -> None:
    outcome = one(tmp_path, f'holds = "time_s(variant=a, flow={flow}) > 0"', ONE, flows=TIMES)
    assert outcome.decisive is not None
    assert outcome.decisive.left == pytest.approx(mean)


def test_flows_in_where_are_cells_of_their_own(tmp_path: Path) -> None:
    body = 'holds = "time_s() > 0"\nwhere = { flow = ["tcp-faster", "tcp-slower"] }\nevery = ["flow"]'
    outcome = one(tmp_path, body, ONE, flows=TIMES)
    assert [part.left for part in outcome.cells] == pytest.approx([2, 5])
    assert outcome.decisive is not None
    assert outcome.decisive.place == {"flow": "tcp-faster"}


def test_named_flows_are_found_in_the_table_that_has_them(tmp_path: Path) -> None:
    """A column that several tables have is read from runs, unless flows are named."""
    runs, shorts = rows({("a",): [7.0] * 3}, VARIANTS), rows({("a",): [8.0] * 3}, VARIANTS, application="iw3")
    for term, value in (("variant=a", 7), ("variant=a, flow=iw3", 8), ("variant=a, flow=udp", 100)):
        outcome = one(tmp_path, f'holds = "time_s({term}) > 0"', ONE, runs=runs, shorts=shorts, flows=TIMES)
        assert outcome.decisive is not None
        assert outcome.decisive.left == value


def test_a_factor_named_like_a_column_is_the_factor(tmp_path: Path) -> None:
    table = rows({("x",): [1.0, 2.0], ("y",): [3.0, 4.0]}, {"factor_protocol": []}, protocol="tcp", role="r")
    body = 'holds = "time_s(protocol=x) < time_s(protocol=y)"'
    outcome = one(tmp_path, body, scenario({"protocol": ["x", "y"]}), flows=table)
    assert outcome.verdict == "upheld"


def test_replications_without_a_value_are_left_out_in_pairs(tmp_path: Path) -> None:
    outcome = among(tmp_path, "time_s(variant=a) > time_s(variant=b)", a=[5, 6, 7, None], b=[1, None, 3, 2.0])
    assert outcome.decisive is not None
    assert (outcome.decisive.pairs, outcome.decisive.left, outcome.decisive.right) == (2, 6, 2)


def test_one_replication_decides_nothing(tmp_path: Path) -> None:
    outcome = among(tmp_path, "time_s(variant=a) > time_s(variant=b)", a=[5, None], b=[1, 2])
    assert outcome.verdict == "undecided"
    assert outcome.reason == "fewer than two replications have values of all its terms"


def test_a_claim_on_cells_that_were_not_run_says_so(tmp_path: Path) -> None:
    table = rows({("a",): [1.0, 2.0], ("b",): [1.0, 2.0]}, VARIANTS)
    outcome = one(tmp_path, 'holds = "time_s(variant=a) > time_s(variant=c)"', scenario(VARIANTS), runs=table)
    assert (outcome.verdict, outcome.reason) == ("not run", "1 of its 2 cells were not run")


# ---- What comes out --------------------------------------------------------------------------------------

SEVERAL = """
elsewhere = ["X9"]
[[claim]]
id = "yes"
section = "4"
text = "a above b"
holds = "time_s(variant=a) > time_s(variant=b)"
reading = "as printed"
contradicts = ["no"]
[[claim]]
id = "no"
text = "a below b"
holds = "time_s(variant=a) < time_s(variant=b)"
explanation = "a waits"
contradicts = ["yes", "X9"]
[[claim]]
id = "self"
text = "a above c and below it"
holds = "time_s(variant=a) > time_s(variant=c)"
contradicts = ["self"]
[[claim]]
id = "mute"
text = "users like a"
uncomputable = "nobody was asked"
[[claim]]
id = "even"
text = "a is above zero"
holds = "time_s(variant=a) > 0"
"""


@pytest.fixture
def several(tmp_path: Path) -> list[Outcome]:
    a, b, c = noisy(30, 20, 10)
    return check(
        tmp_path, SEVERAL, scenario(VARIANTS), runs=rows({("a",): a, ("b",): b, ("c",): c}, VARIANTS)
    )


def test_the_table_has_a_row_for_every_claim(several: list[Outcome]) -> None:
    table = claims_frame(several)
    assert table.select("id", "verdict").rows() == [
        ("yes", "upheld"),
        ("no", "not upheld"),
        ("self", "upheld"),
        ("mute", "uncomputable"),
        ("even", "upheld"),
    ]
    first = table.row(0, named=True)
    assert first["statement"] == "time_s(variant=a) > time_s(variant=b)"
    assert (first["left"], first["right"], first["difference"]) == pytest.approx((30, 20, 10))
    assert (first["section"], first["contradicts"], first["reading"], first["levels"]) == (
        "4",
        "no",
        "as printed",
        None,
    )
    assert (first["cells"], first["cells_upheld"], first["cells_not_upheld"], first["replications"]) == (
        1,
        1,
        0,
        5,
    )
    assert table["explanation"].to_list() == [None, "a waits", None, None, None]
    assert table["reason"].to_list() == [None, None, None, "nobody was asked", None]
    assert cells_frame(several)["id"].to_list() == ["yes", "no", "self", "even"]


def test_contradictions_are_listed_once_and_left_out_of_the_second_count(several: list[Outcome]) -> None:
    assert contradictions(several) == [("yes", "no"), ("no", "X9"), ("self", "self")]
    assert summary_lines(several) == [
        "claims: 3 upheld, 1 not upheld, 0 undecided, 1 uncomputable of 5",
        "  without contradicted claims: 1 upheld, 0 not upheld, 0 undecided, 1 uncomputable of 2",
    ]


def test_the_verdicts_are_said_plainly(several: list[Outcome]) -> None:
    upheld = [outcome for outcome in several if outcome.verdict == UPHELD]
    assert verdict_lines(upheld)[-1] == "  Every claim holds."
    open_ones = [replace(outcome, verdict=UNDECIDED) for outcome in upheld[:2]]
    names = ", ".join(outcome.claim.id for outcome in open_ones)
    lines = verdict_lines([*upheld[2:], *open_ones])
    assert lines[-2] == f"  No claim fails, but 2 are undecided: {names}."
    assert "--sets 10" in lines[-1]
    refuted = replace(upheld[0], verdict=NOT_UPHELD)
    assert "No claim fails" not in "".join(verdict_lines([refuted, *open_ones]))
    assert verdict_lines([refuted]) == summary_lines([refuted])
