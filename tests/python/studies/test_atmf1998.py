"""The study atmf1998 against its published numbers and statements: one seed, and ten.

A number is the mean over the seeds. With one seed, as published, there is more noise: some bounds are wider.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from scipy import stats

from lasthop import _core
from lasthop.analysis.studies.comparison import agreement, agreement_lines, compare
from lasthop.analysis.studies.summary import key_columns, study_summary
from lasthop.commands.cli import main
from lasthop.present.report.interactions import factorial_figures
from lasthop.studies.catalogue import Assets, load_assets
from long_tests import ENGINE

STUDY = Path(__file__).resolve().parents[3] / "studies" / "atmf1998"
COVERS = (
    "studies/atmf1998",
    "python/lasthop/studies",
    "python/lasthop/analysis/claims",
    "python/lasthop/analysis/studies",
    *ENGINE,
)
PATHS = ("wan", "meo", "geo")
SATELLITES = ("meo", "geo")
BUFFERS = ("0.5", "1", "2")
FACTORS = ["link", "workload", "variant", "queue", "buffer_rtt"]
TABLES_OF_SHARES = {"wan": "T5", "meo": "T8", "geo": "T11"}
NOT_KEYS = {"value", "unit", "replications", "note"}
SPREAD = {"min", "max", "standard_deviation", "ci_low", "ci_high"}


@pytest.fixture(scope="module")
def assets() -> Assets:
    actual = load_assets(STUDY / "study.toml", FACTORS)
    assert actual is not None
    return actual


# ---- The study itself --------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(seeds, marks=pytest.mark.long(covers=COVERS, seconds=seconds))
        for seeds, seconds in ((1, 12), (10, 90))
    ],
)
def seeds(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def results(seeds: int, study_results: Callable[..., Path]) -> Path:
    return study_results("atmf1998", "--replications", str(seeds))


@pytest.fixture(scope="module")
def mean(results: Path) -> Callable[..., float]:
    """Mean of a metric over the cells with these levels and their seeds."""
    runs = pl.read_parquet(results / "runs.parquet")

    def find(metric: str, **levels: str) -> float:
        rows = runs.filter(**levels)
        assert rows.height > 0
        return float(rows[metric].mean())  # type: ignore[arg-type]

    return find


def shares(summary: pl.DataFrame, link: str, metric: str) -> dict[str, float]:
    """Share of each source in the variation, in per cent."""
    rows = summary.filter(
        table=TABLES_OF_SHARES[link], metric=f"percent_variation_{metric}", statistic="value"
    )
    return dict(rows.select("flow", "value").iter_rows())


@pytest.mark.parametrize(
    ("metric", "bound", "least"),
    [
        ("efficiency", 0.05, {1: 0.80, 10: 0.85}),
        ("efficiency", 0.10, {1: 0.90, 10: 0.95}),
        ("fairness", 0.05, {1: 0.45, 10: 0.50}),
        ("fairness", 0.10, {1: 0.70, 10: 0.75}),
    ],
)
def test_wan_agrees_with_the_published_cells(
    comparison: pl.DataFrame, seeds: int, metric: str, bound: float, least: dict[int, float]
) -> None:
    rows = comparison.filter(metric=metric)
    assert rows.height == 24
    assert rows["difference"].abs().le(bound).mean() >= least[seeds]  # type: ignore[operator]


def test_the_root_mean_square_difference_of_wan_efficiency_is_small(
    comparison: pl.DataFrame, seeds: int
) -> None:
    off = comparison.filter(metric="efficiency")["difference"]
    assert (off**2).mean() ** 0.5 <= {1: 0.055, 10: 0.045}[seeds]  # type: ignore[operator]


@pytest.mark.parametrize("link", PATHS)
def test_flavour_matters_most_for_efficiency_then_the_buffer_and_drop_policy_hardly(
    summary: pl.DataFrame, link: str
) -> None:
    actual = shares(summary, link, "efficiency")
    assert actual["TCP Flavor"] > actual["Buffer Size"] > actual["Drop Policy"]
    assert actual["Drop Policy"] < 5


def test_the_buffer_matters_most_for_fairness_on_wan(summary: pl.DataFrame) -> None:
    actual = shares(summary, "wan", "fairness")
    others = [share for source, share in actual.items() if source not in ("Buffer Size", "Total Variation")]
    assert actual["Buffer Size"] > max(others)


def test_sack_and_newreno_are_far_above_reno_and_reno_above_vanilla_on_wan(
    mean: Callable[..., float],
) -> None:
    vanilla, reno, newreno, sack = (
        mean("efficiency", link="wan", variant=variant) for variant in ("vanilla", "reno", "newreno", "sack")
    )
    assert min(sack, newreno) > reno + 0.08
    assert reno > vanilla + 0.08


@pytest.mark.parametrize("link", SATELLITES)
@pytest.mark.parametrize("queue", ["epd", "sd"])
@pytest.mark.parametrize("buffer_rtt", BUFFERS)
def test_sack_is_best_on_satellite_paths(
    mean: Callable[..., float], link: str, queue: str, buffer_rtt: str
) -> None:
    cell = {"link": link, "queue": queue, "buffer_rtt": buffer_rtt}
    sack, *others = (mean("efficiency", variant=v, **cell) for v in ("sack", "newreno", "reno", "vanilla"))
    assert sack > max(others)


@pytest.mark.parametrize("buffer_rtt", BUFFERS)
def test_selective_drop_is_above_epd_for_reno_on_wan(mean: Callable[..., float], buffer_rtt: str) -> None:
    selective, early = (
        mean("efficiency", link="wan", variant="reno", queue=queue, buffer_rtt=buffer_rtt)
        for queue in ("sd", "epd")
    )
    assert selective > early


def test_newreno_is_the_fairest_on_wan(mean: Callable[..., float]) -> None:
    newreno, *others = (
        mean("fairness_maxmin", link="wan", variant=v) for v in ("newreno", "sack", "reno", "vanilla")
    )
    assert newreno > max(others)


@pytest.mark.parametrize("link", SATELLITES)
def test_satellite_paths_are_fair_nearly_everywhere(summary: pl.DataFrame, link: str) -> None:
    fairness = summary.filter(link=link, metric="fairness", statistic="value")["value"]
    assert fairness.len() == 24
    assert fairness.gt(0.9).mean() >= 0.95  # type: ignore[operator]


# ---- The study's statements --------------------------------------------------------------------------------


def test_the_readme_counts_the_statements_as_ten_seeds_do(results: Path, seeds: int) -> None:
    """One seed has no intervals: nothing is decided by it."""
    table = pl.read_csv(results / "statements.csv")
    verdicts = Counter(table["verdict"])
    if seeds == 1:
        assert verdicts == {"undecided": 42, "uncomputable": 4}
        return
    counted = ", ".join(f"{verdicts.pop(v)} {v}" for v in ("not upheld", "undecided"))
    counted += f", {verdicts.pop('uncomputable')} cannot be computed"
    readme = " ".join((STUDY / "README.md").read_text(encoding="utf-8").split())
    assert f"**{verdicts.pop('upheld')} of 46 statements upheld** with ten seeds, {counted} (" in readme
    assert not verdicts
    failing = readme[readme.index("What does not:") : readme.index("Undecided:")]
    named = [name for bullet in re.findall(r"\((A[A0-9, ]+)\)", failing) for name in bullet.split(", ")]
    assert sorted(named) == sorted(table.filter(verdict="not upheld")["id"])


# ---- Tables and report -------------------------------------------------------------------------------------


def test_summary_has_the_key_columns_of_the_published_file_and_covers_every_table(results: Path) -> None:
    summary, published, tables = (
        pl.read_csv(file, infer_schema=False)
        for file in (results / "summary.csv", STUDY / "published.csv", STUDY / "tables.csv")
    )
    keys = [column for column in published.columns if column not in NOT_KEYS]
    numbers = ["value", "replications", "unit", "ci_low", "ci_high"]
    assert set(summary.columns) == {*keys, *numbers}
    assert summary.columns[-len(numbers) :] == numbers
    assert published.join(summary, on=keys, how="anti", nulls_equal=True).is_empty()
    assert not summary.select(keys).is_duplicated().any()
    joined = published.join(summary, on=keys, nulls_equal=True, suffix="_ours")
    assert joined["unit"].equals(joined["unit_ours"], check_names=False)
    cells = tables.columns
    assert set(summary.select(cells).rows()) == set(tables.rows())


def test_the_tables_of_all_paths_have_the_same_numbers(summary: pl.DataFrame) -> None:
    def rows(*tables: str) -> list[tuple[str, ...]]:
        part = summary.filter(pl.col("table").is_in(tables))
        return part.select("variant", "queue", "buffer_rtt", "flow", "metric", "statistic").rows()

    assert rows("T4", "T5", "T6") == rows("T7", "T8", "T9") == rows("T10", "T11", "T12")


def test_the_spread_over_seeds_is_next_to_the_value(summary: pl.DataFrame, seeds: int) -> None:
    of_cells = summary.filter(table="T7")
    assert set(of_cells["statistic"]) == ({"value"} if seeds == 1 else {"value", *SPREAD})
    assert set(of_cells["replications"]) == {seeds}


def test_only_wan_is_compared(comparison: pl.DataFrame, assets: Assets) -> None:
    assert comparison.height == assets.published.height
    assert set(comparison["link"]) == {"wan"}
    assert comparison["measured"].null_count() == 0


def test_the_report_is_small_and_shows_no_single_flows(results: Path) -> None:
    report = results / "report.html"
    assert report.stat().st_size < 3_000_000
    text = report.read_text(encoding="utf-8")
    assert all(f"<summary>T{number} · " in text for number in range(4, 13))
    assert "client-1" not in text
    assert all(f'id="{section}"' not in text for section in ("times", "pairs", "traces"))
    # Published against measured, efficiency and fairness over the buffers, shares of the variation.
    assert text.count('<div class="plot"') == 4


def test_many_clients_of_a_scenario_without_published_numbers_are_summarised_as_one_role(
    tmp_path: Path,
) -> None:
    file = tmp_path / "my.toml"
    shutil.copy(STUDY / "study.toml", file)
    only = "link=geo,variant=reno,queue=epd,buffer_rtt=1"
    assert main(["run", str(file), "--only", only, "--quiet", "--out", str(tmp_path / "out")]) == 0
    summary = pl.read_csv(tmp_path / "out" / "summary.csv", infer_schema=False)
    assert summary["flow"].unique().to_list() == ["client"]
    assert set(summary["replications"]) == {"100"}
    assert 'id="traces"' not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_run_behind_an_atm_switch_can_be_drawn(tmp_path: Path) -> None:
    chosen = ["--only", "link=geo,variant=reno,queue=epd,buffer_rtt=1", "--replication", "1"]
    assert (
        main(
            [
                "plot",
                "atmf1998",
                *chosen,
                "--flow",
                "client-1",
                "--kind",
                "sequence",
                "--quiet",
                "--out",
                str(tmp_path / "run.svg"),
            ]
        )
        == 0
    )
    assert (tmp_path / "run.svg").stat().st_size > 10_000


# ---- From given runs, without the engine -------------------------------------------------------------------


def published_runs(assets: Assets, *, off: tuple[float, ...] = (0.0,)) -> pl.DataFrame:
    """Runs with the printed efficiency and fairness, each with as many replications as `off` has numbers."""
    cells = assets.published.filter(table="T4").pivot(
        on="metric", index=FACTORS, values="value", aggregate_function="first"
    )
    parts = [
        cells.select(
            *FACTORS,
            pl.lit(1).alias("set"),
            pl.lit(number).alias("replication"),
            pl.col("efficiency") + add,
            (pl.col("fairness") + add).alias("fairness_maxmin"),
        )
        for number, add in enumerate(off, 1)
    ]
    return pl.concat(parts)


def summarised(runs: pl.DataFrame, assets: Assets) -> pl.DataFrame:
    return study_summary(runs, None, FACTORS, assets, runs)


@pytest.mark.parametrize("off", [(0.0,), (-0.01, 0.03, -0.02)])
def test_the_printed_cells_give_the_printed_analysis(assets: Assets, off: tuple[float, ...]) -> None:
    """The source cuts some numbers instead of rounding them: one of the last digit.

    The analysis is of the means.
    """
    comparison = compare(summarised(published_runs(assets, off=off), assets), assets)
    assert comparison.height == assets.published.height
    off_by = (comparison["measured"] - comparison["published"]).abs()
    digits = comparison["metric"].str.starts_with("percent").replace_strict({True: 0.01, False: 0.0001})
    assert (off_by <= digits + 1e-6).all()


def test_the_spread_is_that_of_the_replications(assets: Assets) -> None:
    summary = summarised(published_runs(assets, off=(0.01, -0.03)), assets)
    cell = summary.filter(table="T4", variant="reno", queue="sd", buffer_rtt="1", metric="efficiency")
    actual = dict(cell.select("statistic", "value").iter_rows())
    printed = 0.8043
    half = (
        0.02 * 6.313752
    )  # of two values: half their distance, times Student's t for 95 % and one degree of freedom
    expected = {
        "value": printed - 0.01,
        "min": printed - 0.03,
        "max": printed + 0.01,
        "standard_deviation": 0.04 / 2**0.5,
        "ci_low": printed - 0.01 - half,
        "ci_high": printed - 0.01 + half,
    }
    assert actual == pytest.approx(expected, abs=2e-6)


def test_shares_of_single_replications_are_next_to_those_of_the_means(assets: Assets) -> None:
    """A constant for all cells of a replication changes no share; a constant for one flavour does."""
    runs = published_runs(assets, off=(0.0, 0.0))
    better = pl.when(variant="sack", replication=2).then(pl.col("efficiency") + 0.1).otherwise("efficiency")
    summary = summarised(runs.with_columns(better), assets).filter(table="T5", flow="TCP Flavor")
    efficiency, fairness = (
        dict(summary.filter(metric=f"percent_variation_{metric}").select("statistic", "value").iter_rows())
        for metric in ("efficiency", "fairness")
    )
    assert efficiency["min"] == pytest.approx(57.50, abs=0.01)
    assert efficiency["max"] > efficiency["value"] > efficiency["min"] + 1
    assert fairness["max"] == fairness["min"] == fairness["value"]
    assert fairness["standard_deviation"] == pytest.approx(0, abs=1e-6)


def test_the_tables_of_an_analysis_hold_over_all_looks(assets: Assets) -> None:
    """A campaign with --until gives some cells more replications than others, and looks 21 times."""
    runs = published_runs(assets, off=(0.01, -0.03, 0.05))
    cut = runs.filter(pl.col("replication") < 3, link="wan")
    longer = pl.concat(
        [cut, runs.filter(link="wan", variant="reno", queue="sd", buffer_rtt="1", replication=3)]
    )
    of_common, once, looked = (
        study_summary(rows, None, FACTORS, assets, rows, looks=looks)
        for rows, looks in ((cut, 1), (longer, 1), (longer, 21))
    )
    of_analysis = pl.col("table").is_in(["T5", "T6"])
    ends = pl.col("statistic").is_in(["ci_low", "ci_high"])
    assert looked.filter(of_analysis, ~ends).equals(of_common.filter(of_analysis, ~ends))
    assert not once.filter(of_analysis, ~ends).equals(of_common.filter(of_analysis, ~ends))

    def half(summary: pl.DataFrame, **where: str) -> float:
        actual = dict(summary.filter(**where).select("statistic", "value").iter_rows())
        return float(actual["ci_high"] - actual["ci_low"]) / 2

    effect = {"table": "T6", "flow": "TCP Flavor: Vanilla", "metric": "main_effect_efficiency"}
    cell = {"table": "T4", "variant": "vanilla", "queue": "sd", "buffer_rtt": "1", "metric": "efficiency"}
    for where, freedom in ((effect, 6), (cell, 1)):
        wider = stats.t.ppf(1 - 0.05 / 21, freedom) / stats.t.ppf(0.95, freedom)
        assert half(looked, **where) == pytest.approx(half(of_common, **where) * wider, rel=1e-3)


def test_shares_are_those_of_replications_that_every_cell_has(assets: Assets) -> None:
    """A campaign with --until gives some cells more replications than others."""
    runs = published_runs(assets, off=(0.0, 0.01, 0.02))
    unequal = runs.filter(~((pl.col("variant") == "sack") & (pl.col("replication") == 3)))
    share = summarised(unequal, assets).filter(metric="percent_variation_efficiency", flow="TCP Flavor")
    assert share["replications"].unique().to_list() == [2]
    assert {"value", "min", "max"} <= set(share["statistic"])


def test_a_part_of_the_design_has_cells_but_no_analysis(assets: Assets) -> None:
    runs = published_runs(assets)
    assert set(summarised(runs.filter(variant="sack"), assets)["table"]) == {"T4"}
    unfair = pl.when(variant="sack").then(None).otherwise("fairness_maxmin").alias("fairness_maxmin")
    summary = summarised(runs.with_columns(unfair), assets)
    assert set(summary.filter(table="T5")["metric"].str.extract("_([a-z]+)$")) == {"efficiency"}
    assert summary.filter(table="T4", metric="fairness").height == 18


@pytest.mark.parametrize(("link", "names"), [("wan", ["wan, published", "wan"]), ("meo", ["meo"])])
def test_figures_of_one_path_show_its_own_published_numbers(
    assets: Assets, link: str, names: list[str]
) -> None:
    runs = published_runs(assets).with_columns(pl.lit(link).alias("link"))
    efficiency, _, shares = (figure for _, figure in factorial_figures(summarised(runs, assets), assets))
    assert ("published" in [trace["name"] for trace in efficiency["data"]]) == (link == "wan")
    assert shares["data"][0]["y"] == names


def test_agreement_counts_cells_within_either_bound_and_has_the_root_mean_square(assets: Assets) -> None:
    runs = published_runs(assets)
    far = pl.when(variant="sack").then(pl.col("efficiency") + 0.08).otherwise(pl.col("efficiency") - 0.04)
    rows = agreement(compare(summarised(runs.with_columns(efficiency=far), assets), assets))
    actual = {(row.what, row.tolerance): row for row in rows}
    assert [(row.hits, row.total) for row in rows] == [(18, 24), (24, 24), (24, 24), (24, 24)]
    rms = actual["efficiency", "0.05"].rms
    assert rms == pytest.approx((0.25 * 0.08**2 + 0.75 * 0.04**2) ** 0.5)
    assert agreement_lines(rows)[0].split()[-1] == f"{rms:.3f}"


def test_key_columns_end_with_the_statistic(assets: Assets) -> None:
    """A factor that the published file has behind its notes stands with the others."""
    keys = key_columns(assets)
    assert keys[-4:] == ["buffer_rtt", "flow", "metric", "statistic"]
    assert assets.extra_factors([*FACTORS, "assumption"]) == ["assumption"]


def test_the_words_of_the_analysis_are_those_of_the_scenario(assets: Assets) -> None:
    factorial = assets.presentation.factorial
    assert factorial is not None
    levels = _core.load(str(STUDY / "study.toml")).factors
    for factor, words in factorial.factors.items():
        assert list(words.levels) == levels[factor]
    printed = set(assets.published["flow"])
    assert {
        f"{words.name}: {level}" for words in factorial.factors.values() for level in words.levels.values()
    } <= printed
