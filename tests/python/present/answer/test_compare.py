"""`lasthop results compare`: which replications are pairs, and whether the statistics are those of scipy and
statsmodels.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click import unstyle
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from conftest import write_manifest
from lasthop.commands.cli import main
from lasthop.common.statistics.estimates import paired_difference
from lasthop.present.answer import paired_show
from lasthop.present.answer.paired import NONE, Compare, Request, compare_results
from lasthop.present.answer.paired_show import compare_lines
from lasthop.present.pictures.forest import forest_figure

LONG = pytest.mark.long(
    covers=(
        "python/lasthop/present/answer",
        "python/lasthop/analysis/statistics",
        "python/lasthop/common/statistics",
    ),
    seconds=115,
)

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
Main = Callable[..., int]
REPLICATIONS = 8
SCHEMA = {
    "flow": pl.String,
    "factor": pl.String,
    "level": pl.String,
    "reference": pl.String,
    "metric": pl.String,
    "unit": pl.String,
    "means": pl.String,
    "pairs": pl.Int64,
    "without_partner": pl.Int64,
    "without_value": pl.Int64,
    "reference_mean": pl.Float64,
    "mean_difference": pl.Float64,
    "mean_ci_low": pl.Float64,
    "mean_ci_high": pl.Float64,
    "relative_change": pl.Float64,
    "median_difference": pl.Float64,
    "median_ci_low": pl.Float64,
    "median_ci_high": pl.Float64,
    "cohens_dz": pl.Float64,
    "rank_biserial": pl.Float64,
    "t_p": pl.Float64,
    "t_p_corrected": pl.Float64,
    "wilcoxon_p": pl.Float64,
    "wilcoxon_p_corrected": pl.Float64,
    "correction": pl.String,
    "comparisons": pl.Int64,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results of two factors, `router` and `queue`, and two flows."""
    out = tmp_path_factory.mktemp("compare") / "diffserv"
    command = ["run", str(EXAMPLES / "diffserv.toml"), "--replications", str(REPLICATIONS)]
    assert main([*command, "--out", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def compared(results: Path) -> Compare:
    return compare_results(results, Request("router=classes", "throughput_Bps"))


def made(folder: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write results by hand: rows with their factors, `set`, `replication` and `elapsed_s`, a flow each."""
    folder.mkdir(exist_ok=True)
    frame = pl.DataFrame(rows, infer_schema_length=None)
    factors = frame.columns[: frame.columns.index("set")]
    frame.select(*factors, "set", "replication").with_columns(duration_s=1.0).write_parquet(
        folder / "runs.parquet"
    )
    ended = pl.when(pl.col("elapsed_s").is_null()).then(pl.lit("cut")).otherwise(pl.lit("closed"))
    texts = {"role": "tcp", "protocol": "tcp", "flow": "tcp", "application": "tcp"}
    named = {name: pl.lit(text) for name, text in texts.items()}
    rate = pl.lit(None, dtype=pl.Float64)
    flows = frame.with_columns(outcome=ended, sent_packets=pl.lit(1), throughput_Bps=rate, **named)
    flows.with_columns(pl.col("elapsed_s").cast(pl.Float64)).write_parquet(folder / "flows.parquet")
    write_manifest(folder)
    return folder


def levels_of(values: Mapping[str, Sequence[float | None]], set_number: int = 1) -> list[dict[str, object]]:
    """Return rows of the factor `variant`, a replication for each value."""
    return [
        {"variant": variant, "set": set_number, "replication": number, "elapsed_s": value}
        for variant, own in values.items()
        for number, value in enumerate(own, 1)
    ]


def compare(folder: Path, reference: str = "variant=a", **options: object) -> pl.DataFrame:
    return compare_results(folder, Request(reference, "elapsed_s", **options)).table()  # type: ignore[arg-type]


# ---- Statistics ------------------------------------------------------------------------------------------


def sides(results: Path, row: Mapping[str, object]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a row compares, straight from the records."""
    flows = pl.read_parquet(results / "flows.parquet").filter(queue=row["queue"], role=row["flow"])
    own, base = (
        flows.filter(router=router).sort("set", "replication")["throughput_Bps"].to_numpy()
        for router in (row["level"], row["reference"])
    )
    return own, base


def test_every_number_is_that_of_scipy(results: Path, compared: Compare) -> None:
    table = compared.table()
    flows = pl.read_parquet(results / "flows.parquet")
    assert table.height == flows.select("queue", "role").n_unique()
    for row in table.iter_rows(named=True):
        own, base = sides(results, row)
        difference, change = own - base, np.log(own / base)
        test = stats.ttest_rel(np.log(own), np.log(base))
        interval = test.confidence_interval(0.95)
        mean = stats.gmean(base)
        assert (row["pairs"], row["means"]) == (REPLICATIONS, "geometric")
        assert row["reference_mean"] == pytest.approx(mean)
        assert row["mean_difference"] == pytest.approx(stats.gmean(own) - mean)
        assert row["mean_ci_low"] == pytest.approx(mean * (math.exp(interval.low) - 1))
        assert row["mean_ci_high"] == pytest.approx(mean * (math.exp(interval.high) - 1))
        assert row["relative_change"] == pytest.approx(stats.gmean(own) / mean - 1)
        assert row["cohens_dz"] == pytest.approx(change.mean() / change.std(ddof=1))
        assert row["t_p"] == pytest.approx(test.pvalue)
        assert row["wilcoxon_p"] == pytest.approx(stats.wilcoxon(own, base).pvalue)
        seed = json.loads((results / "manifest.json").read_text(encoding="utf-8"))["identity"]["seed"]
        resampled = stats.bootstrap(
            (difference,), np.median, n_resamples=2000, method="percentile", rng=np.random.default_rng(seed)
        ).confidence_interval
        assert row["median_difference"] == pytest.approx(np.median(difference))
        assert (row["median_ci_low"], row["median_ci_high"]) == pytest.approx((resampled.low, resampled.high))


def test_p_values_are_corrected_as_statsmodels_does(results: Path, compared: Compare) -> None:
    table = compared.table()
    assert set(table["comparisons"]) == {table.height}
    for test in ("t_p", "wilcoxon_p"):
        expected = multipletests(table[test].to_numpy(), method="holm")[1]
        assert table[f"{test}_corrected"].to_list() == pytest.approx(list(expected))
    plain = compare_results(results, Request("router=classes", "throughput_Bps", correction=NONE)).table()
    assert plain["t_p_corrected"].to_list() == plain["t_p"].to_list() == table["t_p"].to_list()
    assert plain["wilcoxon_p_corrected"].to_list() == plain["wilcoxon_p"].to_list()
    assert set(plain["correction"]) == {"none"}


def test_the_rank_biserial_correlation_is_the_share_of_ranks() -> None:
    random = np.random.default_rng(4)
    for shift in (-1.0, 0.0, 0.7):
        difference = random.normal(shift, 1.0, size=15)
        found = paired_difference(difference, np.zeros(15), seed=1)
        # With this alternative scipy's statistic is the sum of the ranks of positive differences.
        positive = float(stats.wilcoxon(difference, alternative="greater").statistic)
        assert found is not None
        assert found.rank_biserial == pytest.approx(2 * positive / (15 * 16 / 2) - 1)
    ordered = paired_difference([3.0, 2.0, 5.0], [1.0, 1.0, 5.0], seed=1)
    assert ordered is not None
    assert ordered.rank_biserial == 1.0  # equal pairs have no rank


def test_differences_by_rounding_alone_are_none(tmp_path: Path) -> None:
    folder = made(tmp_path / "out", levels_of({"a": [0.3] * 6, "b": [0.1 + 0.2] * 6}))
    (row,) = compare(folder).iter_rows(named=True)
    assert (row["mean_difference"], row["median_difference"], row["rank_biserial"]) == (0, 0, 0)
    assert (row["t_p"], row["wilcoxon_p"], row["cohens_dz"]) == (1, 1, None)


def test_a_single_pair_has_a_difference_and_no_interval(tmp_path: Path) -> None:
    (row,) = compare(made(tmp_path / "out", levels_of({"a": [1.0], "b": [3.0]}))).iter_rows(named=True)
    assert (row["pairs"], row["mean_difference"], row["median_difference"]) == (1, 2, 2)
    undefined = [
        "mean_ci_low",
        "mean_ci_high",
        "median_ci_low",
        "median_ci_high",
        "t_p",
        "wilcoxon_p",
        "cohens_dz",
    ]
    assert [row[name] for name in undefined] == [None] * len(undefined)


NULLS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]] = {
    "normal": lambda random, size: random.normal(30, 3, size),
    "exponential": lambda random, size: random.exponential(10, size),
    "lognormal": lambda random, size: random.lognormal(1, 1.5, size),
    "rounded": lambda random, size: np.round(random.normal(30, 2, size)),
}
"""Values of levels that do not differ."""


@pytest.mark.parametrize("draw", NULLS)
@pytest.mark.parametrize("families", [60, pytest.param(2000, marks=LONG)])
def test_chance_is_called_significant_no_more_often_than_stated(
    tmp_path: Path, draw: str, families: int
) -> None:
    random = np.random.default_rng(11)
    wrong = {"t_p_corrected": 0, "wilcoxon_p_corrected": 0}
    for _ in range(families):
        # Replications differ by conditions that all levels meet, as pairs do.
        values = random.normal(0, 20, size=16) + NULLS[draw](random, (4, 16))
        table = compare(made(tmp_path / "out", levels_of(dict(zip("abcd", values.tolist(), strict=True)))))
        for test in wrong:
            wrong[test] += bool((table[test] < 0.05).any())
    allowed = stats.binom.ppf(0.999, families, 0.05)
    assert max(wrong.values()) <= allowed, wrong


# ---- Pairs -----------------------------------------------------------------------------------------------


def test_pairs_have_the_same_set_and_replication(tmp_path: Path) -> None:
    first = levels_of({"a": [10.0, 20.0, 30.0], "b": [11.0, 24.0, 39.0]})
    second = levels_of({"a": [40.0, 50.0, 60.0], "b": [44.0, 60.0, 78.0]}, set_number=2)
    rows = [*first, *second]
    order = np.random.default_rng(2).permutation(len(rows))
    (row,) = compare(
        made(tmp_path / "out", [rows[place] for place in order]), reference="variant=a"
    ).iter_rows(named=True)
    ratios = np.array([1.1, 1.2, 1.3, 1.1, 1.2, 1.3])
    assert (row["pairs"], row["without_partner"], row["without_value"]) == (6, 0, 0)
    assert row["relative_change"] == pytest.approx(stats.gmean(ratios) - 1)
    assert row["cohens_dz"] == pytest.approx(np.log(ratios).mean() / np.log(ratios).std(ddof=1))


def test_replications_without_a_partner_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = levels_of({"a": [10.0, 20.0, 30.0, 40.0], "b": [11.0, 22.0, 33.0, 44.0, 99.0, 99.0]})
    rows = [row for row in rows if (row["variant"], row["replication"]) != ("b", 2)]
    folder = made(tmp_path / "out", rows)
    found = compare_results(folder, Request("variant=a", "elapsed_s"))
    (row,) = found.table().iter_rows(named=True)
    # One replication of the reference and two of the level.
    assert (row["pairs"], row["without_partner"], row["without_value"]) == (3, 3, 0)
    assert row["reference_mean"] == pytest.approx(stats.gmean([10, 30, 40]))
    assert "Left out: 3 replications without a partner." in compare_lines(found)


def test_unfinished_flows_have_no_time_and_are_counted(tmp_path: Path) -> None:
    times = {"a": [10.0, None, 30.0, 40.0], "b": [11.0, 22.0, None, 44.0]}
    found = compare_results(made(tmp_path / "out", levels_of(times)), Request("variant=a", "elapsed_s"))
    (row,) = found.table().iter_rows(named=True)
    assert (row["pairs"], row["without_partner"], row["without_value"]) == (2, 0, 2)
    text = " ".join(compare_lines(found))
    assert "Left out: 2 pairs in which a side lacks a value of elapsed time" in text
    assert "This favours levels that leave slow flows unfinished" in text
    assert "Not finished: 2 of 8 (2 cut)." in text


def test_a_case_without_any_pair_is_named(tmp_path: Path) -> None:
    rows = [
        {"link": link, **row}
        for link in ("e0", "r1")
        for row in levels_of({"a": [1.0, 2.0], "b": [2.0, 4.0]})
    ]
    rows = [row for row in rows if (row["link"], row["variant"]) != ("r1", "a")]
    found = compare_results(made(tmp_path / "out", rows), Request("variant=a", "elapsed_s"))
    assert found.table()["link"].to_list() == ["e0"]
    lines = compare_lines(found)
    assert "Not compared, because no pair has both values: 1 (variant=b,link=r1)." in lines
    assert lines[3].startswith("e0    b ")  # it names the case that is left


def test_filters_choose_cells_and_flows(results: Path) -> None:
    request = Request("router=classes", "throughput_Bps", ("queue=red",), "download")
    table = compare_results(results, request).table()
    assert table.select("queue", "flow", "level").rows() == [("red", "download", "one-queue")]
    assert table["t_p_corrected"].to_list() == table["t_p"].to_list()  # a family of one


# ---- The command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_a_file_has_the_same_columns_always(results: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"found.{suffix}"
    command = [
        "results",
        "compare",
        str(results),
        "--reference",
        "router=classes",
        "--metric",
        "throughput_Bps",
    ]
    assert main([*command, "--out", str(out), "--quiet"]) == 0
    table = {"csv": pl.read_csv, "json": pl.read_json, "parquet": pl.read_parquet}[suffix](out)
    assert dict(table.schema) == {"queue": pl.String, **SCHEMA}
    # This holds even if there is next to nothing to tell.
    small = made(tmp_path / "small", levels_of({"a": [1.0], "b": [3.0]}))
    assert dict(compare(small).schema) == SCHEMA


def test_a_factor_named_like_a_column_has_a_prefix(tmp_path: Path) -> None:
    rows = [
        {"level": level, **row}
        for level in ("x", "y")
        for row in levels_of({"a": [1.0, 2.0], "b": [2.0, 4.0]})
    ]
    table = compare(made(tmp_path / "out", rows))
    assert table.select("factor_level", "level").rows() == [("x", "b"), ("y", "b")]


def test_the_table_names_cells_levels_and_numbers(compared: Compare) -> None:
    lines = compare_lines(compared)
    head, *rows = lines[2 : 3 + len(compared.comparisons)]
    assert lines[0] == "Throughput (kbit/s), compared with router=classes"
    assert head.split()[:3] == ["queue", "flow", "router"]
    for one, line in zip(compared.comparisons, rows, strict=True):
        assert line.split()[:3] == [one.levels["queue"], one.flow, one.difference.level]
        assert line.split()[-1] == str(REPLICATIONS)
        assert ("*" in line) == one.difference.significant
    text = " ".join(lines)
    assert f"corrected by Holm's method for {len(compared.comparisons)} comparisons" in text
    assert "percentile-bootstrap" in text


def test_a_single_comparison_is_not_called_corrected(tmp_path: Path) -> None:
    folder = made(tmp_path / "one", levels_of({"a": [1.0, 2.0], "b": [2.0, 4.0]}))
    lines = compare_lines(compare_results(folder, Request("variant=a", "elapsed_s")))
    assert "not corrected for the number of comparisons" in " ".join(lines)


def test_a_narrow_terminal_shows_whole_columns_and_names_the_others(
    compared: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paired_show, "width", lambda: 80)
    monkeypatch.setattr(paired_show.sys.stdout, "isatty", lambda: True)
    lines = list(map(unstyle, compare_lines(compared)))
    (last,) = (number for number, line in enumerate(lines) if line.startswith("Omitted for lack of space: "))
    assert lines[last].startswith(
        "Omitted for lack of space: classes (kbit/s), median [95 %], d_z, rank p, pairs. A wider"
    )
    assert last == 3 + len(compared.comparisons)  # a line for each comparison
    assert max(map(len, lines[2:last])) <= 80


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ["--reference", "ruoter=classes"],
            "--reference ruoter=classes: there is no factor 'ruoter'; did you mean 'router'",
        ),
        (["--reference", "router=clases"], "factor 'router' has no level 'clases'; did you mean 'classes'?"),
        (["--reference", "classes"], "'classes' is not FACTOR=LEVEL. Write for example --reference router="),
        (
            ["--reference", "router=classes,queue=red"],
            "give a single level of a single factor, such as router=classes",
        ),
        (["--metric", "troughput_Bps"], "did you mean 'throughput_Bps'?"),
        (["--role", "downlod"], "--role downlod: this role does not exist; did you mean 'download'?"),
        (["--only", "queue=rde"], "factor 'queue' has no level 'rde'; did you mean 'red'?"),
        (
            ["--only", "router=one-queue"],
            "--only router=one-queue excludes all its runs; add router=classes to --only",
        ),
        (
            ["--only", "router=classes"],
            "with --only router=classes, the results contain no other level of router to compare it with",
        ),
        (["--out", "found.xls"], "--out found.xls: the suffix must be a format"),
        (
            ["--plot", "forest.jpg"],
            "--plot forest.jpg: pictures are png, svg, pdf, not 'jpg'; did you mean 'forest.",
        ),
        (["--plot", "forest"], "--plot forest: give the name of a file that ends in .png, .svg, .pdf."),
        (["--correction", "bonferoni"], "'bonferoni' is not one of 'holm', 'none'"),
    ],
)
def test_a_wrong_request_names_the_nearest(
    results: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str], options: list[str], expected: str
) -> None:
    right = ["--reference", "router=classes", "--metric", "throughput_Bps"]
    assert lasthop_main("results", "compare", results, *right, *options) == 2
    captured = capsys.readouterr()
    assert expected in " ".join(captured.err.split())
    assert captured.out == ""
    assert list(Path().iterdir()) == []


def test_what_has_no_values_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path / "out", levels_of({"a": [None, None], "b": [1.0, 2.0]}))
    assert main(["results", "compare", str(folder), "--reference", "variant=a", "--metric", "elapsed_s"]) == 2
    assert "--metric elapsed_s: no replication has a value both with variant=a and" in capsys.readouterr().err


def test_nothing_is_overwritten(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "compare",
        str(results),
        "--reference",
        "router=classes",
        "--metric",
        "throughput_Bps",
        "--quiet",
    ]
    plot = tmp_path / "forest.svg"
    assert main([*command, "--plot", str(plot)]) == 0
    drawn = plot.read_bytes()
    assert b"<svg" in drawn
    assert capsys.readouterr().out == ""
    assert main([*command, "--plot", str(plot)]) == 2
    assert "choose another name for --plot" in capsys.readouterr().err
    again = tmp_path / "again.svg"
    assert main([*command, "--plot", str(again)]) == 0
    assert again.read_bytes() == drawn  # the same results give the same bytes


# ---- The forest plot -------------------------------------------------------------------------------------


def test_the_forest_plot_shows_means_intervals_and_significance(compared: Compare) -> None:
    figure = forest_figure(compared)
    (axes,) = figure.axes
    assert axes.get_xlabel() == "throughput: difference of one-queue from router = classes (kbit/s)"
    assert len(axes.containers) == len(compared.comparisons)
    for container, one in zip(axes.containers, compared.comparisons, strict=True):
        marker, _, (bars,) = container
        own = one.difference
        assert list(marker.get_xdata()) == pytest.approx([own.mean * 8e-3])
        (segment,) = bars.get_segments()
        assert [x for x, _ in segment] == pytest.approx([own.low * 8e-3, own.high * 8e-3])
        assert (marker.get_markerfacecolor() != "white") == own.significant
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [f"{one.levels['queue']} · {one.flow}" for one in compared.comparisons]
    assert "corrected by Holm's method" in figure.get_supxlabel().replace("\n", " ")


def test_many_comparisons_are_drawn_by_the_first_other_factor(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    rows = [
        {"link": link, "size": size, **row}
        for link in ("e0", "r1", "r3")
        for size in map(str, range(6))
        for row in levels_of({variant: list(random.normal(10, 1, 3)) for variant in "abc"})
    ]
    figure = forest_figure(compare_results(made(tmp_path / "out", rows), Request("variant=a", "elapsed_s")))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["link = e0", "link = r1", "link = r3"]
    assert [len(axes.containers) for axes in shown] == [12, 12, 12]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["variant:", "b", "c"]


def test_the_help_says_what_is_computed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "compare", "--help"]) == 0
    text = " ".join(textwrap.dedent(capsys.readouterr().out).split())
    for word in (
        "paired t test",
        "Wilcoxon",
        "Cohen's effect size",
        "bootstrap",
        "Holm's correction",
        "Example: lasthop",
    ):
        assert word in text
