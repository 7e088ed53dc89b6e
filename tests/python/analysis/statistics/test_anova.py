"""Analysis of variance against published tables, examples of the textbook, and laws of all designs."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import fake_core
from conftest import copy_study, replace_table
from lasthop import _core
from lasthop.analysis.statistics.anova import (
    Analysis,
    Component,
    Design,
    Effect,
    Table,
    analyse,
    full_factorial,
    read_table,
    show,
)
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.plan import Plan
from lasthop.campaign.runner import Threads
from lasthop.commands.cli import main
from lasthop.common.errors import InputError
from lasthop.studies import catalogue

Main = Callable[..., int]
Row = dict[str, Any]

ATMF1998 = Path(__file__).resolve().parents[4] / "studies" / "atmf1998"
METRICS = ("efficiency", "fairness")
FACTORS = {"TCP Flavor": "variant", "Buffer Size": "buffer_rtt", "Drop Policy": "queue"}
LEVELS = {
    "Vanilla": "vanilla", "Reno": "reno", "NewReno": "newreno", "SACK": "sack",
    "0.5 RTT": "0.5", "1 RTT": "1", "2 RTT": "2",
    "EPD": "epd", "SD": "sd",
}  # fmt: skip
PRINTED = [
    row
    for row in pl.read_csv(ATMF1998 / "published.csv", infer_schema=False).iter_rows(named=True)
    if row["table"] in ("T5", "T6")
]
# The source cuts the numbers of fairness after the last digit instead of rounding them, except for these two.
ROUNDED_FAIRNESS = (
    ("Drop Policy", "percent_variation_fairness", "value"),
    ("Buffer Size: 0.5 RTT", "main_effect_fairness", "ci_high"),
)


@pytest.fixture(scope="module")
def t4(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """Every number that the command gives for table T4, by metric."""
    found = {}
    for metric in METRICS:
        out = tmp_path_factory.mktemp("anova") / f"{metric}.json"
        only = f"table=T4,metric={metric}"
        factors = ",".join(FACTORS.values())
        table = str(ATMF1998 / "published.csv")
        arguments = [
            "--metric",
            "value",
            "--factors",
            factors,
            "--only",
            only,
            "--out",
            str(out),
            "--quiet",
        ]
        assert main(["results", "factors", table, *arguments]) == 0
        found[metric] = json.loads(out.read_text(encoding="utf-8"))
    return found


def the_row(rows: list[Row], **wanted: str) -> Row:
    (row,) = (row for row in rows if all(row[name] == value for name, value in wanted.items()))
    return row


def computed(rows: list[Row], printed: Row) -> float:
    """Return our number for a printed one of table T5 or T6."""
    quantity = printed["metric"].rpartition("_")[0]
    subject, _, level = printed["flow"].partition(": ")
    term = " x ".join(FACTORS[part] for part in subject.split("-") if part in FACTORS)
    if quantity == "main_effect":
        column = {"value": "effect", "ci_low": "ci_low", "ci_high": "ci_high"}[printed["statistic"]]
        found = the_row(rows, kind="main effect", term=term, level=LEVELS[level])[column]
    elif quantity == "standard_error":
        found = the_row(rows, kind="standard error")["standard_error"]
    else:
        column = {"sum_of_squares": "sum_of_squares", "percent_variation": "percent"}[quantity]
        components = [row for row in rows if row["sum_of_squares"] is not None]
        found = the_row(components, **({"term": term} if term else {"kind": subject.lower()}))[column]
    assert isinstance(found, float)
    return found


def like(number: float, printed: str, rounding: str) -> Decimal:
    """Return the number with the digits of the printed one."""
    return Decimal(number).quantize(Decimal(printed), rounding)


def test_every_printed_number_of_t5_and_t6_is_held_against_ours() -> None:
    assert len(PRINTED) == 2 * (9 + 7 + 1 + 9 * 3)


@pytest.mark.parametrize(
    "printed", PRINTED, ids=lambda row: f"{row['flow']}-{row['metric']}-{row['statistic']}"
)
def test_the_published_analysis_comes_out_to_the_last_digit(t4: dict[str, list[Row]], printed: Row) -> None:
    metric = printed["metric"].rpartition("_")[2]
    number = computed(t4[metric], printed)
    cut = (
        metric == "fairness"
        and (printed["flow"], printed["metric"], printed["statistic"]) not in ROUNDED_FAIRNESS
    )
    assert like(number, printed["value"], ROUND_DOWN if cut else ROUND_HALF_UP) == Decimal(printed["value"])
    # The notes name exactly the numbers that rounding would have printed otherwise.
    rounded = like(number, printed["value"], ROUND_HALF_UP)
    assert (rounded != Decimal(printed["value"])) == ("truncates" in (printed["note"] or ""))


def csv(folder: Path, text: str) -> Path:
    """Write a table whose columns are separated by blanks."""
    file = folder / "table.csv"
    file.write_text(
        "".join(",".join(line.split()) + "\n" for line in text.strip().splitlines()), encoding="utf-8"
    )
    return file


def analysis_of(file: Path, factors: str, response: str = "y") -> Analysis:
    return analyse(full_factorial(read_table(file, response), factors.split(",")))


def component(analysis: Analysis, name: str) -> Component:
    """Return a component by its term or, if it has none, by its kind."""
    (found,) = (one for one in analysis.components if (one.term or one.kind) == name)
    return found


def effect(analysis: Analysis, level: str) -> Effect:
    (found,) = (one for one in analysis.effects if one.level == level)
    return found


def test_two_by_two_as_in_chapter_17(tmp_path: Path) -> None:
    """Workstation with 4 or 16 MB of memory and 1 or 2 kB of cache: y = 40 + 20 xA + 10 xB + 5 xA xB."""
    found = analysis_of(csv(tmp_path, "memory cache y\n4 1 15\n16 1 45\n4 2 25\n16 2 75"), "memory,cache")
    assert effect(found, "").effect == pytest.approx(40)
    assert [effect(found, level).effect for level in ("4", "16")] == pytest.approx([-20, 20])
    assert [effect(found, level).effect for level in ("1", "2")] == pytest.approx([-10, 10])
    interactions = {"4 x 1": 5, "4 x 2": -5, "16 x 1": -5, "16 x 2": 5}
    assert {level: effect(found, level).effect for level in interactions} == pytest.approx(interactions)
    # SSA = 4 * 20^2, SSB = 4 * 10^2, SSAB = 4 * 5^2, SST = 2100: 76, 19 and 5 % in the book.
    assert component(found, "individual values").sum_of_squares == pytest.approx(
        15**2 + 45**2 + 25**2 + 75**2
    )
    assert component(found, "overall mean").sum_of_squares == pytest.approx(4 * 40**2)
    assert component(found, "total variation").sum_of_squares == pytest.approx(2100)
    shares = {"memory": 1600 / 21, "cache": 400 / 21, "memory x cache": 100 / 21}
    assert {name: component(found, name).percent for name in shares} == pytest.approx(shares)
    # Four values, four coefficients: nothing is left to estimate an error.
    assert component(found, "rest").degrees_of_freedom == 0
    assert component(found, "rest").sum_of_squares == pytest.approx(0, abs=1e-9)
    assert found.standard_error is None
    assert all(one.f is None and one.p is None for one in found.components)
    assert all(one.standard_error is None and one.ci_low is None for one in found.effects)


CHAPTER_18 = """
memory cache replication y
4  1 1 15
4  1 2 18
4  1 3 12
16 1 1 45
16 1 2 48
16 1 3 51
4  2 1 25
4  2 2 28
4  2 3 19
16 2 1 75
16 2 2 75
16 2 3 81
"""


def test_two_by_two_with_three_replications_as_in_chapter_18(tmp_path: Path) -> None:
    found = analysis_of(csv(tmp_path, CHAPTER_18), "memory,cache")
    assert found.design.replications == 3
    # Cell means 15, 48, 24, 77; squared errors 0+9+9, 9+0+9, 1+16+25, 4+4+16.
    squares = {
        "individual values": 27204, "overall mean": 12 * 41**2, "total variation": 7032,
        "memory": 12 * 21.5**2, "cache": 12 * 9.5**2, "memory x cache": 12 * 5**2, "rest": 102,
    }  # fmt: skip
    assert {name: component(found, name).sum_of_squares for name in squares} == pytest.approx(squares)
    freedom = {"total variation": 11, "memory": 1, "cache": 1, "memory x cache": 1, "rest": 8}
    assert {name: component(found, name).degrees_of_freedom for name in freedom} == freedom
    # s_e = sqrt(102 / 8) = 3.57, that of an effect 3.57 / sqrt(12) = 1.03, t[0.95; 8] = 1.860.
    assert found.standard_error == pytest.approx(math.sqrt(102 / 8))
    assert component(found, "memory").f == pytest.approx(5547 / (102 / 8))
    book = {"": (39.08, 42.91), "16": (19.58, 23.41), "2": (7.58, 11.41), "16 x 2": (3.08, 6.91)}
    for level, (low, high) in book.items():
        one = effect(found, level)
        assert one.standard_error == pytest.approx(3.57 / math.sqrt(12), abs=0.001)
        assert (one.ci_low, one.ci_high) == pytest.approx((low, high), abs=0.011)


def test_one_factor_with_five_replications_as_in_chapter_20(tmp_path: Path) -> None:
    """Code size on three processors: F = 0.7, not significant; effects -13.3, -24.5 and 37.7; s_e = 88.7."""
    sizes = {"R": (144, 120, 176, 288, 144), "V": (101, 144, 211, 288, 72), "Z": (130, 180, 141, 374, 302)}
    lines = [f"{name} {i} {size}" for name, values in sizes.items() for i, size in enumerate(values)]
    found = analysis_of(csv(tmp_path, "\n".join(["processor replication y", *lines])), "processor")
    assert [round(effect(found, name).effect, 1) for name in sizes] == [-13.3, -24.5, 37.7]
    assert component(found, "processor").sum_of_squares == pytest.approx(10992.1, abs=0.1)
    assert component(found, "rest").sum_of_squares == pytest.approx(94365.2, abs=0.1)
    assert component(found, "processor").percent == pytest.approx(10.4, abs=0.05)
    assert component(found, "processor").f == pytest.approx(0.7, abs=0.05)
    assert found.standard_error == pytest.approx(88.7, abs=0.05)


def test_replications_tell_higher_interactions_from_error(tmp_path: Path) -> None:
    """y = 10 + 3 xA xB xC, and +-1 between two replications: an interaction of three factors and nothing
    else.
    """
    lines = [
        f"{a} {b} {c} {replication} {10 + 3 * a * b * c + (1 if replication == 1 else -1)}"
        for a, b, c, replication in itertools.product((-1, 1), (-1, 1), (-1, 1), (1, 2))
    ]
    text = "\n".join(["a b c replication y", *lines])
    found = analysis_of(csv(tmp_path, text), "a,b,c")
    higher, error = component(found, "higher interactions"), component(found, "rest")
    assert (higher.sum_of_squares, higher.degrees_of_freedom) == (pytest.approx(16 * 9), 1)
    assert (error.sum_of_squares, error.degrees_of_freedom) == (pytest.approx(16), 8)
    assert higher.f == pytest.approx(144 / 2)
    assert higher.p == pytest.approx(stats.f.sf(72, 1, 8))
    assert component(found, "a").sum_of_squares == pytest.approx(0, abs=1e-9)


def test_without_replications_higher_interactions_are_the_rest(tmp_path: Path) -> None:
    lines = [
        f"{a} {b} {c} {10 + 3 * a * b * c + a}" for a, b, c in itertools.product((-1, 1), (-1, 1), (-1, 1))
    ]
    found = analysis_of(csv(tmp_path, "\n".join(["a b c y", *lines])), "a,b,c")
    rest = component(found, "rest")
    assert (rest.sum_of_squares, rest.degrees_of_freedom, rest.percent) == (
        pytest.approx(72),
        1,
        pytest.approx(90),
    )
    assert component(found, "a").sum_of_squares == pytest.approx(8)
    assert not any(one.kind == "higher interactions" for one in found.components)


def test_values_that_do_not_err_have_no_error_to_test_against(tmp_path: Path) -> None:
    lines = [
        f"{a} {b} {r} {0.1 + 0.7 * a + 0.3 * b}" for a, b, r in itertools.product((0, 1), (0, 1, 2), (1, 2))
    ]
    found = analysis_of(csv(tmp_path, "\n".join(["a b replication y", *lines])), "a,b")
    assert component(found, "rest").degrees_of_freedom == 6
    assert found.standard_error is None
    assert component(found, "a").f is None
    assert effect(found, "2").ci_low is None


@st.composite
def designs(
    draw: st.DrawFn, factors: tuple[int, int] = (1, 3), replications: tuple[int, int] = (1, 3)
) -> Table:
    """A full factorial in random order, of tenths, so that not all of it is rounding."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=factors[0], max_size=factors[1]))
    repeated = draw(st.integers(*replications))
    names = [f"factor {number}" for number in range(len(sizes))]
    cells = [*itertools.product(*(range(size) for size in sizes), range(repeated))]
    values = draw(
        st.lists(st.integers(-9999, 9999), min_size=len(cells), max_size=len(cells)).filter(
            lambda v: len({*v}) > 1
        )
    )
    rows = [
        {**dict(zip(names, map(str, levels), strict=True)), "replication": replication, "y": value / 10}
        for (*levels, replication), value in zip(cells, values, strict=True)
    ]
    return Table(pl.DataFrame(draw(st.permutations(rows))), "y", names)


def analysed(table: Table) -> Analysis:
    return analyse(full_factorial(table, table.candidates))


@settings(max_examples=60)
@given(designs())
def test_the_components_are_the_whole(table: Table) -> None:
    found = analysed(table)
    values = table.frame["y"].to_numpy()
    individual, mean, total, *parts = found.components
    assert individual.sum_of_squares == pytest.approx(np.sum(values**2))
    assert mean.sum_of_squares + total.sum_of_squares == pytest.approx(individual.sum_of_squares)
    assert total.sum_of_squares == pytest.approx(np.sum((values - values.mean()) ** 2))
    assert math.fsum(part.percent or 0 for part in parts) == pytest.approx(100)
    assert math.fsum(part.sum_of_squares for part in parts) == pytest.approx(total.sum_of_squares)
    assert sum(part.degrees_of_freedom or 0 for part in parts) == total.degrees_of_freedom == len(values) - 1
    assert all(part.sum_of_squares >= -1e-9 and (part.percent or 0) >= -1e-9 for part in parts)
    assert all(part.p is None or 0 <= part.p <= 1 for part in parts)


@settings(max_examples=60)
@given(designs())
def test_effects_are_differences_of_means_and_sum_to_zero(table: Table) -> None:
    found = analysed(table)
    overall = table.frame["y"].to_numpy().mean()
    assert effect(found, "").effect == pytest.approx(overall, abs=1e-7)
    main = {(one.term, one.level): one.effect for one in found.effects if one.kind == "main effect"}
    for name in table.candidates:
        assert math.fsum(value for (term, _), value in main.items() if term == name) == pytest.approx(
            0, abs=1e-7
        )
        for (level,), rows in table.frame.group_by(name):
            assert main[name, str(level)] == pytest.approx(rows["y"].to_numpy().mean() - overall, abs=1e-7)
    both = {(one.term, one.level): one.effect for one in found.effects if one.kind == "interaction"}
    for left, right in itertools.combinations(table.candidates, 2):
        for (i, j), rows in table.frame.group_by(left, right):
            alone = overall + main[left, str(i)] + main[right, str(j)]
            value = both[f"{left} x {right}", f"{i} x {j}"]
            assert value == pytest.approx(rows["y"].to_numpy().mean() - alone, abs=1e-7)
        for i in table.frame[left].unique():
            over = [
                value
                for (term, level), value in both.items()
                if term == f"{left} x {right}" and level[0] == i
            ]
            assert math.fsum(over) == pytest.approx(0, abs=1e-7)


def numbers(analysis: Analysis) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """Return all numbers by their subjects."""
    names = ("kind", "term", "level")
    return {
        tuple(str(row.pop(name)) for name in names): np.array(
            [row[c] for c in sorted(row) if c != "response"], float
        )
        for row in analysis.frame().iter_rows(named=True)
        if row["kind"] != "overall mean" or row["level"] is None
    }


@settings(max_examples=40)
@given(designs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_of_factors_does_not_matter(table: Table, chance: Random) -> None:
    order = [*range(table.frame.height)]
    chance.shuffle(order)
    found, shuffled = (
        numbers(analysed(table)),
        numbers(analysed(Table(table.frame[order], "y", table.candidates))),
    )
    assert found.keys() == shuffled.keys()
    for key, row in found.items():
        np.testing.assert_allclose(shuffled[key], row, rtol=1e-6, atol=1e-6)
    turned = analyse(full_factorial(table, table.candidates[::-1]))
    for name in table.candidates:
        expected = found["main effect", name, "None"]
        np.testing.assert_allclose(
            numbers(turned)["main effect", name, "None"], expected, rtol=1e-6, atol=1e-6
        )


@settings(max_examples=40)
@given(designs((1, 1), (2, 4)))
def test_with_one_factor_f_and_p_are_those_of_scipy(table: Table) -> None:
    found = analysed(table)
    if found.standard_error is not None:
        groups = [rows["y"].to_numpy() for _, rows in table.frame.group_by("factor 0")]
        judged, factor = stats.f_oneway(*groups), component(found, "factor 0")
        assert (factor.f, factor.p) == (
            pytest.approx(judged.statistic, rel=1e-9, abs=1e-9),
            pytest.approx(judged.pvalue),
        )


FULL = "a b y\n1 x 1\n1 z 2\n2 x 3\n2 z 5"


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("a b y\n1 x 1\n1 z 2\n2 x 3", [], "lacks 1 of 4 cells: a=2,b=z."),
        (FULL + "\n1 z 7", [], "Cell a=1,b=z occurs 2 times."),
        ("a b c y\n1 x u 1\n1 x w 2\n1 z u 3\n2 x u 4\n2 z u 4", [], "differ in c: select a level with "
        "--only c=u"),
        ("a b replication y\n1 x 1 1\n1 z 1 2\n1 x 2 1\n1 z 2 2\n2 x 1 1\n2 z 1 3\n2 z 2 4", [],
         "lacks a=2,b=x,replication=2."),
        ("a b set replication y\n" + "\n".join(f"{a} {b} 1 1 {a}" for a in (1, 2) for b in "xzx"), [],
         "Cell a=1,b=x,set=1,replication=1 occurs 2 times."),
        (FULL.replace("5", "five"), [], "y has the value 'five', which is not a finite number, in a=2,b=z."),
        (FULL.replace("5", "inf"), [], "y has the value 'inf', which is not a finite number, in a=2,b=z."),
        (FULL.replace("2 z 5", "2 z ,"), [], "is not a CSV table"),
        (FULL.replace("z 2", 'z ""').replace("z 5", 'z ""'), [], "y has no value in a=1,b=z (and in 1 other "
        "row)."),
        (FULL.replace("2 ", "1 ").replace("x 3", "w 3").replace("z 5", "v 5"), [], "'a' is '1' in every row"),
        ("a b y\n1 x 1\n1 z 1\n2 x 1\n2 z 1", [], "y is equal in all rows"),
        (FULL, ["--factors", "a,bb"], "unknown factor 'bb'; did you mean 'b'? Factors: a, b."),
        (FULL, ["--factors", "a,a"], "a factor occurs twice"),
        (FULL, ["--factors", "a,y"], "unknown factor 'y'"),
        (FULL, ["--metric", "z"], "has no column of this name; did you mean"),
        (FULL, ["--only", "b=q"], "factor 'b' has no level 'q'"),
        (FULL, ["--role", "tcp"], "requires a results folder"),
        (FULL, ["--confidence", "90"], "90.0 is not in the range"),
        (FULL, ["--out", "anova.txt"], "the suffix must be a format"),
        ("", [], "is not a CSV table"),
    ],
)  # fmt: skip
def test_bad_requests_end_with_2_and_leave_nothing(
    tmp_path: Path,
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
    *,
    text: str,
    arguments: list[str],
    expected: str,
) -> None:
    file = csv(tmp_path, text)
    given_anew = arguments[0] if arguments else None
    defaults = {"--metric": "y", "--factors": "a,b", "--out": "anova.csv"}
    usual = [word for option, value in defaults.items() if option != given_anew for word in (option, value)]
    assert lasthop_main("results", "factors", file, *usual, *arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.err.count("\n") == 1 or captured.err.startswith("Usage:")
    assert captured.out == ""
    assert list(Path().iterdir()) == []


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path, lasthop_main: Main) -> None:
    out = tmp_path / "anova.csv"
    out.write_text("mine", encoding="utf-8")
    arguments = ("--metric", "y", "--factors", "a,b", "--out", out)
    assert lasthop_main("results", "factors", csv(tmp_path, FULL), *arguments) == 2
    assert out.read_text(encoding="utf-8") == "mine"


def test_the_tables_show_what_the_file_holds(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file = csv(tmp_path, CHAPTER_18)
    arguments = ("--metric", "y", "--factors", "memory, cache", "--confidence", "0.95")
    assert lasthop_main("results", "factors", file, *arguments, "--out", tmp_path / "out.csv") == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "Analysis of variance of y: memory (2) x cache (2), 4 cells, 3 replications" in shown
    assert "memory 5547 78.88 1 5547 435.1 <0.0001" in shown
    assert "error 102 1.45 8 12.75" in shown
    assert "Overall mean 41.00; standard error 3.57 with 8 degrees of freedom." in shown
    assert "factor level effect std. error 95 % from to" in shown
    # t[0.975; 8] = 2.306, times 1.0308.
    assert "memory 16 21.50 1.03 19.12 23.88" in shown
    assert "memory x cache 16 x 2 5.00 1.03 2.62 7.38" in shown
    table = pl.read_csv(tmp_path / "out.csv")
    row = table.row(by_predicate=(pl.col("kind") == "main effect") & (pl.col("level") == "16"), named=True)
    assert row["effect"] == pytest.approx(21.5)
    assert row["ci_low"] == pytest.approx(21.5 - 2.306 * math.sqrt(102 / 8 / 12), abs=1e-3)
    assert row["confidence"] == 0.95


def test_names_that_look_like_markup_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = FULL.replace("x", "[red]").replace("a b y", "[a] b [y]")
    show(analysis_of(csv(tmp_path, text), "[a],b", "[y]"))
    shown = capsys.readouterr().out
    assert "of [y]: [a] (2) x b (2), 4 cells, one replication" in shown
    assert "1 x [red]" in shown
    assert "no degrees of freedom are left" in shown


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results folder of a made-up study of 48 cells, 4 replications and 2 sets."""
    folder = tmp_path_factory.mktemp("anova") / "results"
    file = copy_study(folder.parent)
    with pytest.MonkeyPatch.context() as patch:
        engine = fake_core.Engine()
        patch.setattr(_core, "load", engine.load)
        study = engine.load(str(file))
        Campaign(Plan(study, study.cells, seed=1, replications=4, sets=2), folder).run(
            Threads(1), lambda _: None
        )
    return folder


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of the results folder, which the test may change."""
    return Path(shutil.copytree(finished, tmp_path / "results"))


def test_a_results_folder_gives_a_metric_of_flows_by_role_or_in_the_mean(results: Path) -> None:
    flows = pl.read_parquet(results / "flows.parquet").filter(
        pl.col("workload") == "2tcp0udp", pl.col("link") != "r6"
    )
    for role, chosen in ((None, flows), ("tcp-faster", flows.filter(pl.col("role") == "tcp-faster"))):
        table = read_table(results, "duplicate_acks", ["workload=2tcp0udp,link=e0,link=r1,link=r3"], role)
        found = analyse(full_factorial(table, ["link", "variant"]))
        assert found.design.replications == 8
        keys = ["link", "variant", "set", "replication"]
        runs = chosen.group_by(keys).agg(pl.col("duplicate_acks").mean())
        assert effect(found, "").effect == pytest.approx(runs["duplicate_acks"].to_numpy().mean())
        frto = runs.filter(pl.col("variant") == "frto")["duplicate_acks"].to_numpy().mean()
        assert effect(found, "frto").effect == pytest.approx(frto - effect(found, "").effect)


def test_a_results_folder_gives_a_metric_of_runs(results: Path) -> None:
    file = results / "runs.parquet"
    frame = pl.read_parquet(file).with_columns(efficiency=pl.col("set") + pl.col("replication") * 0.5)
    replace_table(file, frame.with_columns(efficiency=pl.col("efficiency") + (pl.col("link") == "e0") * 8.0))
    table = read_table(results, "efficiency", ["workload=2tcp0udp,variant=baseline,variant=eifel"])
    found = analyse(full_factorial(table, ["link", "variant"]))
    assert [effect(found, link).effect for link in ("e0", "r1", "r3", "r6")] == pytest.approx([6, -2, -2, -2])
    assert component(found, "variant").sum_of_squares == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("example", "response", "factors", "role"),
    [
        ("web-page", "response_time_s", ["factor_protocol", "window"], None),
        ("short-flows", "fct_mean_s", ["load"], None),
        ("short-flows", "fct_mean_s", ["load"], "iw3"),
        ("short-flows", "timeouts_per_flow", ["load"], "iw10"),
    ],
)
def test_a_results_folder_gives_metrics_of_page_loads_and_short_flows(
    tmp_path: Path, example: str, response: str, factors: list[str], role: str | None
) -> None:
    out = tmp_path / "out"
    file = ATMF1998.parents[1] / "examples" / f"{example}.toml"
    assert main(["run", str(file), "--replications", "3", "--quiet", "--out", str(out)]) == 0
    found = analyse(full_factorial(read_table(out, response, (), role), factors))
    rows = pl.read_parquet(out / ("pages.parquet" if example == "web-page" else "shorts.parquet"))
    if response == "timeouts_per_flow":
        rows = rows.with_columns(timeouts_per_flow=pl.col("timeouts") / pl.col("flows"))
    rows = rows if role is None else rows.filter(application=role)
    runs = rows.group_by([*factors, "replication"]).agg(pl.col(response).mean())
    assert found.design.replications == 3
    groups = [part[response].to_numpy() for part in runs.partition_by(factors[0])]
    if len(factors) == 1:
        test = stats.f_oneway(*groups)
        assert component(found, factors[0]).f == pytest.approx(test.statistic)
        assert component(found, factors[0]).p == pytest.approx(test.pvalue)
    means = runs.group_by(factors[0], maintain_order=True).agg(pl.col(response).mean())
    for level, mean in means.iter_rows():
        assert effect(found, level).effect == pytest.approx(mean - runs[response].to_numpy().mean())


def test_an_unknown_role_of_short_flows_names_the_nearest(tmp_path: Path) -> None:
    file = ATMF1998.parents[1] / "examples" / "short-flows.toml"
    assert main(["run", str(file), "--replications", "1", "--quiet", "--out", str(tmp_path / "out")]) == 0
    with pytest.raises(InputError, match="did you mean 'iw3'"):
        read_table(tmp_path / "out", "fct_mean_s", (), "iw4")


@pytest.mark.parametrize(
    ("response", "only", "role", "expected"),
    [
        ("duplicate_ack", [], None, "did you mean 'duplicate_acks'"),
        ("duplicate_acks", [], "tcp-fast", "did you mean 'tcp-faster'"),
        ("duration_s", [], "tcp-faster", "is a metric of runs, not of flows; omit --role"),
        ("duplicate_acks", [], None, "differ in link: select a level with --only link=e0"),
        (
            "elapsed_s",
            ["link=r6,workload=2tcp0udp"],
            None,
            "A run has a value only if all its flows have one; --role selects",
        ),
        ("elapsed_s", ["lnk=r6"], None, "did you mean 'link'"),
    ],
)
def test_what_a_results_folder_cannot_give(
    results: Path, response: str, only: list[str], role: str | None, expected: str
) -> None:
    with pytest.raises(InputError, match=expected.replace("?", r"\?")):
        full_factorial(read_table(results, response, only, role), ["variant"])


def test_a_study_whose_cells_are_not_all_combined_needs_a_choice(results: Path) -> None:
    with pytest.raises(InputError, match=r"lacks 48 of 96 cells: link=e0,.* and 43 more\. Use --only"):
        full_factorial(read_table(results, "duplicate_acks"), ["link", "workload", "variant"])


def test_a_folder_without_whole_results_is_no_source(results: Path) -> None:
    (results / "flows.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"flows\.parquet is damaged"):
        read_table(results, "duration_s")
    (results / "runs.parquet").unlink()
    with pytest.raises(InputError, match=r"contains no runs\.parquet"):
        read_table(results, "duration_s")


def test_levels_keep_their_order_and_factors_their_columns(tmp_path: Path) -> None:
    text = "factor_role b y\nlate x 1\nlate z 2\nearly x 3\nearly z 5"
    design: Design = full_factorial(read_table(csv(tmp_path, text), "y"), ["role", "b"])
    assert design.factors == {"factor_role": ["late", "early"], "b": ["x", "z"]}


def test_a_folder_of_numbers_without_a_scenario_is_no_study(
    study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = study_file.parent.parent
    (root / "atmf1998").mkdir()
    (root / "atmf1998" / "published.csv").write_text("study,table\n", encoding="utf-8")
    monkeypatch.setattr(catalogue, "PUBLISHED", root)
    assert list(catalogue.list_studies()) == ["kulve2003"]
