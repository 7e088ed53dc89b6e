"""The results that a run prints, and `lasthop results show`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from conftest import write_manifest
from lasthop.campaign.results.sections import Compared, Section, Topic, sections
from lasthop.campaign.results.tables import Tables
from lasthop.commands.cli import main
from lasthop.common.statistics.estimates import page_trend
from lasthop.present.answer import show
from lasthop.present.answer.blocks import all_lines
from lasthop.present.answer.differences import Difference, corrected, differences, holm
from lasthop.present.answer.folder import read_sections
from lasthop.present.answer.show import statistics
from lasthop.present.answer.words import sentences, size

Main = Callable[..., int]

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run examples of each kind of traffic; return their folders."""
    root = tmp_path_factory.mktemp("answers")
    repeated = {"two-flows": 8, "diffserv": 5, "web-page": 6, "short-flows": 3}
    for name, replications in repeated.items():
        arguments = [str(EXAMPLES / f"{name}.toml"), "--replications", str(replications), "--quiet"]
        assert main(["run", *arguments, "--out", str(root / name)]) == 0
    return {name: root / name for name in repeated}


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["results", "show", *map(str, arguments)]) == 0
    return capsys.readouterr().out


# ---- What is printed -------------------------------------------------------------------------------------


def test_a_run_prints_its_answer_before_the_report(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", EXAMPLES / "two-flows.toml", "--replications", "6", "--out", "out") == 0
    out = capsys.readouterr().out
    assert "Flows: median of 6 replications, [95 % interval]" in out
    assert out.index("elapsed time") < out.index("Differences between levels") < out.index("report: ")
    assert "- With flow=tcp-first, memory=cbi takes" in out
    capsys.readouterr()
    assert (
        lasthop_main("run", EXAMPLES / "two-flows.toml", "--replications", "6", "--out", "out", "--quiet")
        == 0
    )
    assert capsys.readouterr().out == ""


def test_a_comparison_of_one_of_several_flows_names_it(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", EXAMPLES / "queue.toml", "--out", tmp_path / "out") == 0
    text = " ".join(capsys.readouterr().out.split())
    # The largest difference comes first, not behind "... and 2 more".
    first = text.split("geometric for times and rates; p corrected by Holm): - ")[1]
    assert first.startswith(
        "With flow=call, queue=long has 10.2 times the p95 of queueing delay of queue=short: 815"
    )


def test_the_table_has_the_medians_in_the_units_of_people(
    results: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    flows = pl.read_parquet(results["two-flows"] / "flows.parquet").filter(memory="cbi", role="tcp-second")
    values = np.sort(flows["elapsed_s"].to_numpy())
    rate = flows["throughput_Bps"].median() * 8 / 1000  # type: ignore[operator]
    out = shown(capsys, results["two-flows"])
    row = next(line.split() for line in out.splitlines() if line.startswith("cbi     tcp-second"))
    assert row[2] == f"{np.median(values):.1f}"
    # Among eight values, the first and the last bound the median.
    assert f"[{values[0]:.1f}..{values[7]:.1f}]" in out
    assert f"{rate:.1f}" in row
    assert "kbit/s" in out
    assert "Always zero: timeouts." in out


@pytest.mark.parametrize("name", ["two-flows", "diffserv", "web-page", "short-flows"])
def test_answers_fit_a_hundred_columns(
    results: dict[str, Path], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    out = shown(capsys, results[name])
    assert max(map(len, out.splitlines())) <= 100
    assert "\N{HORIZONTAL ELLIPSIS}" not in out


def test_a_narrow_terminal_shows_whole_columns_and_names_the_others(
    results: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "width", lambda: 70)
    monkeypatch.setattr(show.sys.stdout, "isatty", lambda: True)
    lines = all_lines(show.answer_blocks(read_sections(results["diffserv"]), show.Shown()))
    (last,) = (number for number, line in enumerate(lines) if line.startswith("Omitted for lack of space: "))
    assert lines[last].endswith("timeouts, p95 of queueing delay. A wider terminal or --metric shows them.")
    assert max(map(len, lines[2:last])) <= 70
    assert "timeouts" not in "".join(lines[2:last])


def test_few_replications_show_their_range_and_how_many_an_interval_takes(
    results: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(capsys, results["diffserv"], "--metric", "elapsed_s")
    assert "median of 5 replications, [least..greatest]; a 95 % interval needs 6" in out
    flows = pl.read_parquet(results["diffserv"] / "flows.parquet")
    own = flows.filter(router="one-queue", queue="red", role="download")["elapsed_s"]
    assert f"{own.median():.1f} [{own.min():.1f}..{own.max():.1f}]" in out


def test_page_loads_count_what_their_connections_lost(results: dict[str, Path]) -> None:
    section, link = read_sections(results["web-page"])
    assert section.title == "Page loads"
    assert not link.metrics
    flows = pl.read_parquet(results["web-page"] / "flows.parquet")
    assert section.rows["retransmitted_packets"].sum() == flows["retransmitted_packets"].sum()
    assert section.rows.height == flows.select("factor_protocol", "window", "replication").n_unique()


def test_of_many_cells_a_run_prints_a_bounded_number(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (EXAMPLES / "two-flows.toml").read_text(encoding="utf-8")
    levels = [f'[factor.size."{n}"]\nflow.tcp-1.bytes = "{n} kB"\n' for n in range(1, 31)]
    file = tmp_path / "many.toml"
    file.write_text(text[: text.index("[factor.")] + "".join(levels), encoding="utf-8")
    assert lasthop_main("run", file, "--replications", "2", "--out", "out") == 0
    out = capsys.readouterr().out
    assert re.search(r"  ... and \d+ more rows: lasthop results show out\n", out)
    assert len(out.splitlines()) <= 40
    whole = shown(capsys, "out")
    assert "more rows" not in whole
    assert sum(line.startswith(("1 ", "30 ")) for line in whole.splitlines()) == 4


def test_what_did_not_finish_is_said(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (EXAMPLES / "two-flows.toml").read_text(encoding="utf-8")
    file = tmp_path / "cut.toml"
    file.write_text(text.replace('time_limit = "10 min"', 'time_limit = "20 s"'), encoding="utf-8")
    assert lasthop_main("run", file, "--out", "out") == 0
    flows = pl.read_parquet("out/flows.parquet")
    outcomes = flows["outcome"].unique().to_list()
    assert len(outcomes) == 1
    assert f"Not finished: 20 of 20 (20 {outcomes[0]})." in capsys.readouterr().out


def test_a_run_without_a_packet_has_no_table(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (EXAMPLES / "two-flows.toml").read_text(encoding="utf-8")
    file = tmp_path / "silent.toml"
    file.write_text(text.replace('time_limit = "10 min"', 'time_limit = "1 ms"'), encoding="utf-8")
    assert lasthop_main("run", file, "--out", "out") == 0
    out = capsys.readouterr().out
    assert "Always zero: " in out
    assert "elapsed time" not in out
    assert shown(capsys, "out", "--metric", "elapsed_s").startswith("Flows: no values of elapsed time.\n")


# ---- Options ---------------------------------------------------------------------------------------------


def test_metrics_levels_and_statistics_are_chosen(
    results: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--metric", "rtt_max_s", "--metric", "fairness_jain", "--by", "queue", "--stat", "mean")
    out = shown(capsys, results["diffserv"], *options)
    flows = pl.read_parquet(results["diffserv"] / "flows.parquet").filter(queue="red", role="download")
    # A replication's value is its mean over both routers.
    values = flows.group_by("replication").agg(pl.col("rtt_max_s").mean())["rtt_max_s"].to_numpy()
    low, high = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    assert "Flows: mean of 5 replications, [95 % interval]" in out
    assert f"{values.mean():.2f} [{low:.2f}..{high:.2f}]" in out
    assert "Runs: mean of 5 replications" in out
    assert "Differences" not in out
    tail = shown(capsys, results["diffserv"], "--metric", "rtt_max_s", "--stat", "p95")
    assert "..?]" in tail


def test_the_quartile_range_says_how_steady_a_metric_is(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], results: dict[str, Path]
) -> None:
    out = shown(capsys, results["two-flows"], "--metric", "elapsed_s", "--stat", "iqr")
    assert "Flows: iqr of 8 replications, [95 % interval]" in out
    flows = pl.read_parquet(results["two-flows"] / "flows.parquet").filter(memory="cbi", role="tcp-first")
    (line,) = (line for line in out.splitlines() if line.split()[:2] == ["cbi", "tcp-first"])
    assert line.split()[2].startswith(f"{stats.iqr(flows['elapsed_s'].to_numpy()):.3g}")
    assert lasthop_main("run", EXAMPLES / "queue.toml", "--replications", "1", "--out", "one", "--quiet") == 0
    assert "Flows: a single replication has no iqr." in shown(capsys, "one", "--stat", "iqr")


def test_means_over_different_cells_are_marked(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], results: dict[str, Path]
) -> None:
    only = ["--only", "router=classes,queue=red", "--only", "router=one-queue"]
    assert lasthop_main("run", EXAMPLES / "diffserv.toml", *only, "--out", "out", "--quiet") == 0
    assert "compare rows with care" in shown(capsys, "out", "--by", "queue")
    assert "compare rows with care" not in shown(capsys, results["diffserv"], "--by", "queue")


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_a_file_gets_every_column(results: dict[str, Path], tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"answer.{suffix}"
    assert (
        main(["results", "show", str(results["web-page"]), "--by", "protocol", "--out", str(out), "--quiet"])
        == 0
    )
    table = {"csv": pl.read_csv, "json": pl.read_json, "parquet": pl.read_parquet}[suffix](out)
    numbers = ["metric", "statistic", "value", "replications", "unit", "ci_low", "ci_high"]
    assert table.columns == ["protocol", "flow", *numbers]
    times = table.filter(metric="response_time_s")
    assert times["protocol"].to_list() == ["http1.0", "http1.1", "http1.1-pipelined"]
    assert (times["ci_low"].lt(times["value"]) & times["ci_high"].gt(times["value"])).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--metric", "troughput_Bps"], "did you mean 'throughput_Bps'"),
        (["--by", "que"], "did you mean 'queue'? Factors: router, queue"),
        (["--stat", "p96"], "did you mean 'p95'"),
        (["--out", "answer.xls"], "did you mean 'answer.csv'"),
    ],
)
def test_a_wrong_request_names_the_nearest(
    results: dict[str, Path], capsys: pytest.CaptureFixture[str], options: list[str], expected: str
) -> None:
    assert main(["results", "show", str(results["diffserv"]), *options]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""


def test_a_folder_without_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "show", str(tmp_path)]) == 2
    assert "contains no manifest.json" in capsys.readouterr().err


# ---- Differences -----------------------------------------------------------------------------------------


def section(times: dict[tuple[str, str], list[float]], metric: str = "elapsed_s") -> Section:
    """Make a section of two factors from values by (`link`, `variant`), a replication each."""
    rows = pl.DataFrame(
        [
            {"link": link, "variant": variant, "set": 1, "replication": number, "flow": "tcp", metric: value}
            for (link, variant), values in times.items()
            for number, value in enumerate(values, 1)
        ]
    )
    factors = {"link": "link", "variant": "variant"}
    return Section("Flows", rows, factors, [metric], [Compared(metric, rows)])


def test_differences_are_paired_t_tests_corrected_after_holm() -> None:
    random = np.random.default_rng(5)
    conditions = random.normal(30, 5, size=12)
    times = {
        (link, variant): list(conditions + shift + random.normal(0, 0.5, size=12))
        for link, variant, shift in [("e0", "a", 0), ("e0", "b", -2), ("r1", "a", 3), ("r1", "b", 2.9)]
    }
    found = differences([section(times)])
    pairs = [(("e0", "b"), ("e0", "a")), (("r1", "b"), ("r1", "a")), (("r1", "a"), ("e0", "a"))]
    pairs.append((("r1", "b"), ("e0", "b")))
    # Times are compared by their ratio, that is by their logarithms.
    tests = [stats.ttest_rel(np.log(times[one]), np.log(times[other])) for one, other in pairs]
    assert [(one.factor, one.level) for one in found] == [("variant", "b")] * 2 + [("link", "r1")] * 2
    for one, test in zip(found, tests, strict=True):
        interval = test.confidence_interval(0.95)
        ends = [one.reference_mean * math.expm1(end) for end in (interval.low, interval.high)]
        assert [one.low, one.high] == pytest.approx(ends)
    corrected = multipletests([test.pvalue for test in tests], method="holm")[1]
    assert [one.p for one in found] == pytest.approx(list(corrected))


@pytest.mark.parametrize("values", [[0.01, 0.04, 0.03, 0.005], [0.5], [0.02, 0.02, 0.9], []])
def test_holm_is_that_of_statsmodels(values: list[float]) -> None:
    expected = multipletests(values, method="holm")[1] if values else []
    assert list(holm(values)) == pytest.approx(list(expected))
    # Comparisons that were not tested are no members of the family.
    assert list(holm([*values, math.nan]))[:-1] == pytest.approx(list(expected))


def test_chance_is_seldom_called_significant() -> None:
    random = np.random.default_rng(3)
    wrong = 0
    for _ in range(200):
        data = random.exponential(10, size=(4, 10))
        times = {key: list(row) for key, row in zip(CELLS, data, strict=True)}
        wrong += any(one.significant for one in differences([section(times)]))
    # 5 % of 200 families, and three standard errors.
    assert wrong <= 20


CELLS = [("e0", "a"), ("e0", "b"), ("r1", "a"), ("r1", "b")]


def told(times: dict[tuple[str, str], list[float]], metric: str = "elapsed_s") -> list[str]:
    return sentences(differences([section(times, metric)]))


def test_a_sentence_says_by_how_much_and_how_surely() -> None:
    base = [30.0, 31.0, 32.0, 30.5, 31.5]
    faster = [value - step for value, step in zip(base, [3.0, 3.2, 3.1, 2.9, 3.3], strict=True)]
    (sentence,) = told({("e0", "off"): base, ("e0", "on"): faster})
    assert sentence == (
        "variant=on is 10 % faster than variant=off: elapsed time 27.9 s against 31.0 s (-3.10 s, 95 % "
        "interval -3.26 to -2.94 s, 5 pairs, p < 0.001)."
    )


def test_more_than_twice_as_long_is_said_in_times() -> None:
    (sentence,) = told({("e0", "a"): [10.0, 11.0, 12.0], ("e0", "b"): [30.0, 33.1, 36.0]})
    assert sentence.startswith(
        "variant=b takes 3.0 times as long as variant=a: elapsed time 32.9 s against 11.0 s ("
    )


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (
            "throughput_Bps",
            "has a 49 % lower throughput than variant=a: 81.1 kbit/s against 159.9 kbit/s (-78.8 kbit",
        ),
        ("timeouts", "has 49 % fewer timeouts than variant=a: 101.5 against 200 (-98.5"),
        (
            "lost_per_packet",
            "has a 49 % lower loss rate than variant=a: 10.2 % against 20.0 % (-9.85 points",
        ),
    ],
)
def test_what_is_no_time_is_higher_or_lower(metric: str, words: str) -> None:
    scale = {"throughput_Bps": 1000.0, "timeouts": 10.0, "lost_per_packet": 0.01}[metric]
    base = [20.0, 21.0, 19.0, 20.0]
    halves = [10.0, 10.8, 9.6, 10.2]
    (sentence,) = told(
        {("e0", v): [x * scale for x in own] for v, own in (("a", base), ("b", halves))}, metric
    )
    assert words in sentence


def test_equal_differences_are_told_without_a_test() -> None:
    (sentence,) = told({("e0", "a"): [10.0, 11.0, 12.0], ("e0", "b"): [9.0, 10.0, 11.0]})
    assert (
        sentence
        == "variant=b is 9.1 % faster than variant=a: elapsed time 10.0 s against 11.0 s (-1.00 s in each of "
        "3 pairs)."
    )


def test_equal_differences_of_few_counts_may_be_chance() -> None:
    few, more = ({("e0", "a"): [0.0] * n, ("e0", "b"): [1.0] * n} for n in (5, 6))
    (sentence,) = told(few, "timeouts")
    assert sentence.startswith(
        "variant=b may differ from variant=a: their intervals of timeouts do not overlap"
    )
    (sentence,) = told(more, "timeouts")
    assert sentence == "variant=b has more timeouts than variant=a: 1 against 0 (+1 in each of 6 pairs)."


def test_without_significance_it_says_how_many_pairs_would_show_it() -> None:
    random = np.random.default_rng(1)
    base = random.normal(30, 2, size=8)
    other = base + 1 + random.normal(0, 3, size=8)
    (sentence,) = told({("e0", "a"): list(base), ("e0", "b"): list(other)})
    assert "does not differ significantly from variant=a (elapsed time" in sentence
    needed = int(sentence.split("takes about ")[1].split()[0])
    difference = other - base
    expected = 7.85 * (difference.std(ddof=1) / difference.mean()) ** 2
    assert needed == pytest.approx(max(expected, 9), abs=1)


GRID = {"0": 9.6, "0.1": 8.5, "0.3": 5.6, "1": 2.9, "3": 1.4, "5": 0.54}


def numbered(blocks: list[list[float]], names: list[str], metric: str = "throughput_Bps") -> Section:
    """Make a section of a factor whose levels are numbers; a block is a replication over all levels."""
    rows = pl.DataFrame(
        [
            {"p": name, "set": 1, "replication": number, "flow": "tcp", metric: value}
            for number, block in enumerate(blocks, 1)
            for name, value in zip(names, block, strict=True)
        ]
    )
    return Section("Flows", rows, {"p": "p"}, [metric], [Compared(metric, rows)])


def test_two_replications_show_a_trend_over_levels_that_are_numbers() -> None:
    # Each level by itself varies too much for a t test of two pairs.
    blocks = [[1e6 * rate * noise**place for place, rate in enumerate(GRID.values())] for noise in (0.8, 1.2)]
    (sentence,) = sentences(differences([numbered(blocks, list(GRID))]))
    assert sentence.startswith(
        "Throughput falls with p: from 76.8 Mbit/s with p=0 to 3.90 Mbit/s with p=5 (Page's trend test over "
        "6 levels, 2 replications, p = 0.01"
    )
    unordered = sentences(differences([numbered(blocks, ["b", "a", "f", "c", "e", "d"])]))
    assert unordered[0].startswith("p=")
    assert "may differ from p=b: their intervals of throughput do not overlap" in unordered[0]


BURSTS = """
[down.link]
rate = "10 Mbit/s"
delay = "20 ms"
gilbert_elliott = { p = "0 %", r = "25 %" }
[[flow]]
kind = "bulk-tcp"
bytes = "20 MB"
[factor.p]
"""


def test_seven_loss_rates_that_differ_by_far_are_not_said_to_be_alike(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bursts.toml"
    levels = ("0", "0.0025", "0.025", "0.075", "0.25", "0.75", "1.25")
    keys = [f'"{level}".down.link.gilbert_elliott.p = "{level} %"\n' for level in levels]
    file.write_text(BURSTS + "".join(keys), encoding="utf-8")
    # With this seed, a t test of two pairs of rates finds no level that differs from the first.
    options = ("--replications", "2", "--seed", "5", "--quiet", "--out", "out")
    assert lasthop_main("run", file, *options) == 0
    text = shown(capsys, "out", "--metric", "throughput_Bps")
    assert "- Throughput falls with p: from 9.58 Mbit/s with p=0 to 178.0 kbit/s with p=1.25 (Page's" in text
    assert lasthop_main("results", "compare", "out", "--reference", "p=0", "--metric", "throughput_Bps") == 0
    out = capsys.readouterr().out
    assert "None of" not in out
    assert "-9.40 [-9.58..?]" in out  # two pairs do not bound each ratio


def test_the_worst_of_the_levels_that_differ_is_not_called_so_if_a_table_shows_a_worse_one() -> None:
    steady, wild = [[10.0, 10.1, 10.2], [5.0, 5.1, 5.05]], [3.0, 1.0, 0.1]
    blocks = [[1e6 * value for value in block] for block in zip(*steady, wild, strict=True)]
    (sentence,) = sentences(differences([numbered(blocks, ["a", "b", "c"])]))
    assert "p=b the worst" in sentence
    assert sentence.endswith(", excluding p=c, whose difference may be due to chance.")
    (trend,) = sentences(differences([numbered(blocks, ["1", "2", "3"])]))
    assert trend.startswith("Throughput falls with p")


@pytest.mark.parametrize("seed", range(5))
def test_the_trend_is_that_of_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    blocks = np.round(random.normal(np.arange(5) * 0.3, 1, size=(6, 5)), 1)  # some are tied
    score, p = page_trend(blocks)
    rising, falling = (
        stats.page_trend_test(np.flip(blocks, 1) if flipped else blocks, method="asymptotic").pvalue
        for flipped in (False, True)
    )
    assert p == pytest.approx(2 * min(rising, falling))
    assert (score > 0) == (rising < falling)


VALUES = st.lists(st.floats(0.5, 100), min_size=6, max_size=6)


@settings(max_examples=60, derandomize=True)
@given(
    rows=st.lists(VALUES, min_size=2, max_size=8),
    names=st.sampled_from([["1", "2", "3", "4", "5", "6"], ["a", "b", "c", "d", "e", "f"]]),
    spread=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    metric=st.sampled_from(["elapsed_s", "throughput_Bps", "retransmitted_packets", "mos"]),
)
def test_no_sentence_denies_a_difference_where_intervals_do_not_overlap(
    rows: list[list[float]], names: list[str], spread: float, metric: str
) -> None:
    # The first replication decides by how much levels differ, the others by how much they vary.
    blocks = [[a * (1 - spread) + b * spread for a, b in zip(rows[0], row, strict=True)] for row in rows]
    own = numbered(blocks, names, metric)
    table = statistics(own).filter(statistic="median")
    if len(rows) < 6:
        found = statistics(own)
        ends = [found.filter(statistic=name)["value"].to_list() for name in ("min", "max")]
    else:
        ends = [table[name].to_list() for name in ("ci_low", "ci_high")]
    text = " ".join(sentences(differences([own])))
    if max(ends[0]) > min(ends[1]):
        assert not re.search(r"does not differ|None of the|No significant", text)
    else:
        assert "may differ" not in text


def test_a_difference_below_the_printed_digits_is_only_mentioned() -> None:
    """The elapsed times, 8.42 s, differ by 0.1 ms in each pair."""
    times = {("e0", "a"): [8.4200, 8.4201, 8.4202], ("e0", "b"): [8.4201, 8.4202, 8.4203]}
    assert told(times) == ["Significant, but too small for the printed digits: by variant in elapsed time."]


def test_one_replication_shows_nothing() -> None:
    (sentence,) = told({("e0", "a"): [10.0], ("e0", "b"): [20.0]})
    assert sentence.startswith("One replication cannot show whether levels differ")


def test_cases_that_agree_are_told_together() -> None:
    shifts = {("e0", "a"): 0.0, ("e0", "b"): -3.0, ("r1", "a"): 10.0, ("r1", "b"): 8.0}
    random = np.random.default_rng(7)
    times = {key: list(30 + shift + random.normal(0, 0.1, size=6)) for key, shift in shifts.items()}
    first, second = told(times)
    assert first.startswith("link=r1 is slower than link=e0 in both cases (by ")
    start = (
        "variant=b is faster than variant=a in both cases (by 5.2 to 10 %), most with link=e0: elapsed time "
        "27.0 s "
    )
    assert second.startswith(start)


def test_a_missing_value_is_no_pair() -> None:
    times = {("e0", "a"): [10.0, 11.0, 12.0, 13.0], ("e0", "b"): [9.0, math.nan, 11.5, 12.0]}
    own = section(times)
    rows = own.rows.with_columns(pl.col("elapsed_s").fill_nan(None))
    (one,) = differences([Section("Flows", rows, own.factors, own.metrics, [Compared("elapsed_s", rows)])])
    assert isinstance(one, Difference)
    assert one.pairs == 3


# ---- What comes first ------------------------------------------------------------------------------------

FIRST, SECOND = "a", "b"
NOISE = [0.00, 0.02, -0.02, 0.01, -0.01, 0.03]


def several(*parts: tuple[str, str, Topic, float, float]) -> list[Section]:
    """Make sections of a factor with the levels `a` and `b`: flow, metric, topic, and the mean at each
    level.
    """
    found = []
    for flow, metric, topic, *means in parts:
        rows = pl.DataFrame(
            [
                {
                    "v": level,
                    "set": 1,
                    "replication": number,
                    "flow": flow,
                    metric: mean * (1 + noise * (1 + place)),
                }
                for place, (level, mean) in enumerate(zip((FIRST, SECOND), means, strict=True))
                for number, noise in enumerate(NOISE, 1)
            ]
        )
        found.append(Section(flow, rows, {"v": "v"}, [metric], [Compared(metric, rows, topic)]))
    return found


def starts(*parts: tuple[str, str, Topic, float, float]) -> list[str]:
    return [sentence.split(":")[0] for sentence in sentences(differences(several(*parts)))]


def test_the_largest_difference_comes_first_whatever_the_order_of_the_tables() -> None:
    told = starts(
        ("tcp-1", "elapsed_s", Topic.TRANSFERS, 10.0, 11.5),
        ("tcp-2", "throughput_Bps", Topic.TRANSFERS, 2e6, 1.7e6),
        ("tcp-3", "queue_delay_p95_s", Topic.TRANSFERS, 0.08, 0.8),
    )
    # The main metric of transfers comes before; the largest of all is never further down than second.
    assert told[:2] == [
        "v=b takes 16 % longer than v=a",
        "v=b has 10.0 times the p95 of queueing delay of v=a",
    ]


def test_the_call_comes_first_and_what_hardly_matters_last() -> None:
    told = sentences(
        differences(
            several(
                ("download", "elapsed_s", Topic.TRANSFERS, 10.0, 2.0),
                ("page", "response_time_s", Topic.PAGES, 3.0, 3.1),
                ("voip", "mos", Topic.CALL, 4.1, 1.9),
                ("voip", "queue_delay_p95_s", Topic.CALL, 0.1, 0.13),
            )
        )
    )
    assert told[0].startswith(
        "v=b has a speech quality of 1.92 MOS, v=a of 4.12 MOS (2.20 points worse, 95 % interval -2.2"
    )
    assert told[0].endswith("6 pairs, p < 0.001).")
    assert "%" not in told[0].replace("95 % interval", "")
    assert [sentence.split(" than ")[0].split(" as ")[0] for sentence in told[1:]] == [
        "v=a takes 5.0 times",
        "v=b has a 31 % higher p95 of queueing delay",
        "v=b takes 3.8 % longer",
    ]


def test_a_difference_that_is_certain_but_small_is_smaller_than_one_that_is_large() -> None:
    steady = Difference("v", "b", "a", "elapsed_s", (), 9, 0.01, 0.01, 0.01, 10.0, 0.0)
    noisy = replace(steady, mean=5.0, low=2.0, high=8.0, p=0.01)
    chance = replace(steady, mean=50.0, low=-10.0, high=110.0, p=0.3)
    assert size(chance) == 0 < size(steady) < size(noisy) == pytest.approx(math.log(12.12 / 10.12))
    # A tenth of a millisecond more is no tenfold delay, and a loss may start from zero.
    assert size(replace(steady, reference_mean=1e-5, mean=1e-4, low=1e-4, high=1e-4)) < 0.1
    loss = replace(steady, metric="lost_per_packet", reference_mean=0.0, mean=0.05, low=0.04, high=0.06)
    assert 2 < size(loss) < 5


def test_of_several_levels_the_best_and_the_worst_are_named() -> None:
    levels = {"a": 10.0, "b": 8.0, "c": 14.0, "d": 9.0}
    times = {("e0", level): [mean * (1 + noise) for noise in NOISE] for level, mean in levels.items()}
    (sentence,) = told(times)
    assert sentence.startswith(
        "variant=b has the shortest elapsed time, 8.04 s, variant=c the longest, 14.1 s (75 % more; against "
        "variant=a: b -20 % in each of 6 pairs; c +40 % in each of 6 pairs)."
    )
    (rates,) = told({key: [1000 * value for value in own] for key, own in times.items()}, "throughput_Bps")
    assert rates.startswith(
        "variant=c has the best throughput, 112.5 kbit/s, variant=b the worst, 64.3 kbit/s (43 % less; "
        "against variant=a: b -20 % in each of 6 pairs; c +40 % in each of 6 pairs)"
    )
    (printed,) = told(times, "printed_n")
    assert printed.startswith("variant=b has the lowest n, 8.0, variant=c the highest, 14.1")


def test_a_level_that_may_equal_the_reference_is_not_called_the_best() -> None:
    wild = [5.0, 15.0, 2.0, 18.0, 9.0, 10.0]
    times = {
        ("e0", "a"): [10 + noise for noise in NOISE],
        ("e0", "b"): wild,
        ("e0", "c"): [20 + n for n in NOISE],
    }
    times["e0", "c"][0] += 0.1
    (sentence,) = told(times)
    assert sentence.startswith(
        "variant=a has the shortest elapsed time, 10.0 s, variant=c the longest, 20.0 s ("
    )


def test_over_several_cases_the_winner_on_the_average_is_named() -> None:
    means = {
        ("e0", "a"): 10.0,
        ("e0", "b"): 8.0,
        ("e0", "c"): 11.0,
        ("r1", "a"): 20.0,
        ("r1", "b"): 18.0,
        ("r1", "c"): 30.0,
    }
    times = {key: [mean * (1 + noise) for noise in NOISE] for key, mean in means.items()}
    found = [one for one in differences([section(times)]) if one.factor == "variant"]
    (sentence,) = sentences(found)
    assert sentence.startswith(
        "Compared with variant=a, elapsed time differs in both cases, most with link=r1: variant=b has the "
    )
    share = 100 * (1 - math.sqrt(0.8 * 0.9))
    assert sentence.endswith(
        f"On average over both cases, variant=b has the shortest elapsed time, {share:.0f} % less than "
        "variant=a."
    )


def test_what_counts_most_is_hardly_less_certain_for_all_else_that_is_compared() -> None:
    p_values = [0.02, 0.001, 0.2, 0.5]
    found = [
        Difference("v", "b", "a", "elapsed_s", (), 9, 1.0, 0.5, 1.5, 10.0, p, headline=not place)
        for place, p in enumerate(p_values)
    ]
    assert [one.p for one in corrected(found)] == pytest.approx([0.02 * 12 / 10, 0.001 * 13, 0.4, 0.5])


def test_nothing_significant_says_what_was_compared_and_what_would_have_shown() -> None:
    random = np.random.default_rng(4)
    base = list(random.normal(10, 1, size=8))
    other = list(random.normal(10.2, 1, size=8))
    (sentence,) = told({("e0", "a"): base, ("e0", "b"): other})
    deviation = np.std(np.log(other) - np.log(base), ddof=1)
    reach = (stats.t.ppf(0.975, 7) + stats.norm.ppf(0.8)) * deviation / math.sqrt(8)
    least = stats.gmean(base) * math.expm1(reach)
    assert f"; a difference of {least:.2f} s would have been detected" in sentence
    two = several(
        ("tcp-1", "elapsed_s", Topic.TRANSFERS, 10.0, 10.0), ("all", "utilisation", Topic.LINK, 0.9, 0.9)
    )
    (sentence,) = sentences(differences(two))
    assert sentence.startswith(
        "v=b does not differ significantly from v=a in elapsed time and link utilisation"
    )


def test_a_stream_that_carries_more_is_told_before_transfers_that_carry_less() -> None:
    parts = {"call": ("udp", 25e3, 312.5e3), "tcp-1": ("tcp", 400e3, 300e3), "tcp-2": ("tcp", 420e3, 310e3)}
    rows = pl.DataFrame(
        [
            {"queue": queue, "set": 1, "replication": number, "flow": role, "application": role, "role": role}
            | {"protocol": parts[role][0], "outcome": "cut", "elapsed_s": None, "sent_packets": 100}
            | {
                "throughput_Bps": parts[role][place] * (1 + noise * place),
                "queue_delay_p95_s": 0.2,
                "timeouts": 0,
            }
            for place, queue in enumerate(("long", "short"), 1)
            for number, noise in enumerate(NOISE, 1)
            for role in parts
        ],
        schema_overrides={"elapsed_s": pl.Float64},
    )
    runs = rows.filter(role="call").select("queue", "set", "replication", duration_s=60.0)
    found = sections(Tables(rows.lazy(), runs.lazy(), None, None))
    first, *_ = told = sentences(differences(found))
    assert first.startswith(
        "With flow=call, queue=short has 12.6 times the throughput of queue=long: 2.52 Mbit/s"
    )
    assert (
        "queue=short has a lower throughput than queue=long in both cases (by 25 to 26 %), most with "
        "flow=tcp-2" in told[1]
    )


def test_commands_pair_whatever_they_are_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    runs = pl.DataFrame(
        [
            {
                "command": name,
                "set": 1,
                "replication": number,
                "duration_s": 20.0,
                "program": name,
                "program_s": 10.0 * slower * (1 + noise),
                "printed_end_sum_bits_per_second": 8e6 / slower**3 * (1 - noise),
                "printed_pid": 40 + number,
            }
            for name, slower in (("old", 1.0), ("new", 1.41))
            for number, noise in enumerate(NOISE, 1)
        ]
    )
    runs.write_parquet(folder / "runs.parquet")
    pl.DataFrame().write_parquet(folder / "flows.parquet")
    write_manifest(folder)
    out = " ".join(shown(capsys, folder).split())
    assert "- command=new takes 41 % longer than command=old: program time 14.2 s against 10.0 s (" in out
    assert (
        "- command=old has 2.8 times the end sum rate of command=new: 7.96 Mbit/s against 2.84 Mbit/s" in out
    )
    assert "end sum rate (Mbit/s)" in out
    assert (
        main(["results", "compare", str(folder), "--reference", "command=old", "--metric", "program_s"]) == 0
    )
    assert "command=new takes 41 % longer" in capsys.readouterr().out


@pytest.mark.parametrize(("loss", "is_random"), [("0", False), ("0.01", True)])
def test_replications_that_are_all_equal_are_told(
    loss: str, is_random: bool, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    link = f'down.link = {{ rate = "2 Mbit/s", delay = "10 ms", loss = {loss} }}\n'
    flow = '[[flow]]\nkind = "bulk-tcp"\nbytes = "300 kB"\n'
    Path("line.toml").write_text(link + flow, encoding="utf-8")
    assert lasthop_main("run", "line.toml", "--replications", "20") == 0
    told = "All 20 replications are equal: nothing in these runs is random, so one is enough."
    assert (told not in capsys.readouterr().out) == is_random
