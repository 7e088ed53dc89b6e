"""What a run prints of its results, and `lasthop summary`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click import unstyle
from scipy import stats
from statsmodels.stats.multitest import multipletests

from lasthop.answer import show
from lasthop.answer.differences import Difference, differences, holm, sentences
from lasthop.answer.folder import read_sections
from lasthop.answer.sections import Compared, Section
from lasthop.cli import main

Main = Callable[..., int]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


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
    assert main(["summary", *map(str, arguments)]) == 0
    return capsys.readouterr().out


# ---- What is printed -------------------------------------------------------------------------------------


def test_a_run_prints_its_answer_before_the_report(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("run", EXAMPLES / "two-flows.toml", "--replications", "6", "--out", "out") == 0
    out = capsys.readouterr().out
    assert "Flows: median of 6 replications, [95 % interval]" in out
    assert out.index("elapsed time") < out.index("Differences between levels") < out.index("report: ")
    assert "With flow=tcp-first, memory=cbi is" in out
    capsys.readouterr()
    assert lasthop_main("run", EXAMPLES / "two-flows.toml", "--replications", "6", "--out", "out", "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_a_comparison_of_one_of_several_flows_names_it(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", EXAMPLES / "queue.toml", "--out", tmp_path / "out") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "With flow=call, queue=long has 10.1 times the p95 of queueing delay of queue=short" in text


def test_the_table_has_the_medians_in_the_units_of_people(
    results: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    flows = pl.read_parquet(results["two-flows"] / "flows.parquet").filter(memory="cbi", role="tcp-second")
    values = np.sort(flows["elapsed_s"].to_numpy())
    rate = flows["throughput_Bps"].median() * 8 / 1000  # type: ignore[operator]
    out = shown(capsys, results["two-flows"])
    row = next(line.split() for line in out.splitlines() if line.startswith("cbi     tcp-second"))
    assert row[2] == f"{np.median(values):.1f}"
    # Of eight values the first and the last bound the median.
    assert f"[{values[0]:.1f}..{values[7]:.1f}]" in out
    assert f"{rate:.1f}" in row
    assert "kbit/s" in out
    assert "Zero throughout: timeouts." in out


@pytest.mark.parametrize("name", ["two-flows", "diffserv", "web-page", "short-flows"])
def test_answers_fit_a_hundred_columns(results: dict[str, Path], capsys: pytest.CaptureFixture[str], name: str) -> None:
    out = shown(capsys, results[name])
    assert max(map(len, out.splitlines())) <= 100
    assert "\N{HORIZONTAL ELLIPSIS}" not in out


def test_a_narrow_terminal_shows_whole_columns_and_names_the_others(
    results: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "width", lambda: 70)
    monkeypatch.setattr(show.sys.stdout, "isatty", lambda: True)
    lines = list(map(unstyle, show.answer_lines(read_sections(results["diffserv"]), show.Shown())))
    (last,) = (number for number, line in enumerate(lines) if line.startswith("No room for: "))
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
    (section,) = read_sections(results["web-page"])
    assert section.title == "Page loads"
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
    assert "  ... and 36 more rows: lasthop summary out\n" in out
    assert len(out.splitlines()) < 80
    whole = shown(capsys, "out")
    assert "more rows" not in whole
    assert sum(line.startswith(("1 ", "30 ")) for line in whole.splitlines()) == 4


def test_what_did_not_finish_is_said(lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "Zero throughout: " in out
    assert "elapsed time" not in out
    assert shown(capsys, "out", "--metric", "elapsed_s").startswith("Flows: no values of elapsed time.\n")


# ---- Options ---------------------------------------------------------------------------------------------


def test_metrics_levels_and_statistics_are_chosen(results: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
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
    assert main(["summary", str(results["web-page"]), "--by", "protocol", "--out", str(out), "--quiet"]) == 0
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
    assert main(["summary", str(results["diffserv"]), *options]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""


def test_a_folder_without_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(tmp_path)]) == 2
    assert "holds no manifest.json" in capsys.readouterr().err


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
    tests = [stats.ttest_rel(times[one], times[other]) for one, other in pairs]
    assert [(one.factor, one.level) for one in found] == [("variant", "b")] * 2 + [("link", "r1")] * 2
    for one, test in zip(found, tests, strict=True):
        interval = test.confidence_interval(0.95)
        assert (one.low, one.high) == pytest.approx((interval.low, interval.high))
    corrected = multipletests([test.pvalue for test in tests], method="holm")[1]
    assert [one.p for one in found] == pytest.approx(list(corrected))


@pytest.mark.parametrize("values", [[0.01, 0.04, 0.03, 0.005], [0.5], [0.02, 0.02, 0.9], []])
def test_holm_is_that_of_statsmodels(values: list[float]) -> None:
    expected = multipletests(values, method="holm")[1] if values else []
    assert list(holm(values)) == pytest.approx(list(expected))
    # What was not tested is no member of the family.
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
        "variant=on is 10 % faster than variant=off (elapsed time -3.10 s, 95 % interval -3.30 to -2.90 s, 5 pairs, "
        "p < 0.001)."
    )


def test_more_than_twice_as_long_is_said_in_times() -> None:
    (sentence,) = told({("e0", "a"): [10.0, 11.0, 12.0], ("e0", "b"): [30.0, 33.1, 36.0]})
    assert sentence.startswith("variant=b takes 3.0 times as long as variant=a (")


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("throughput_Bps", "has a 50 % lower throughput than variant=a (throughput -"),
        ("timeouts", "has 50 % fewer timeouts than variant=a (timeouts -"),
        ("lost_per_packet", "has a 50 % lower loss rate than variant=a (loss rate -10.00 points"),
    ],
)
def test_what_is_no_time_is_higher_or_lower(metric: str, words: str) -> None:
    scale = {"throughput_Bps": 1000.0, "timeouts": 10.0, "lost_per_packet": 0.01}[metric]
    base = [20.0, 21.0, 19.0, 20.0]
    halves = [10.0, 10.6, 9.4, 10.0]
    (sentence,) = told({("e0", v): [x * scale for x in own] for v, own in (("a", base), ("b", halves))}, metric)
    assert words in sentence


def test_equal_differences_are_told_without_a_test() -> None:
    (sentence,) = told({("e0", "a"): [10.0, 11.0, 12.0], ("e0", "b"): [9.0, 10.0, 11.0]})
    assert sentence == "variant=b is 9.1 % faster than variant=a (elapsed time -1.00 s in each of 3 pairs)."


def test_equal_differences_of_few_counts_may_be_chance() -> None:
    few, more = ({("e0", "a"): [0.0] * n, ("e0", "b"): [1.0] * n} for n in (5, 6))
    (sentence,) = told(few, "timeouts")
    assert sentence.startswith("variant=b does not differ significantly from variant=a (timeouts +1 in each of 5 pairs")
    (sentence,) = told(more, "timeouts")
    assert sentence == "variant=b has more timeouts than variant=a (timeouts +1 in each of 6 pairs)."


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


def test_one_replication_shows_nothing() -> None:
    (sentence,) = told({("e0", "a"): [10.0], ("e0", "b"): [20.0]})
    assert sentence.startswith("One replication cannot show whether levels differ")


def test_cases_that_agree_are_told_together() -> None:
    shifts = {("e0", "a"): 0.0, ("e0", "b"): -3.0, ("r1", "a"): 10.0, ("r1", "b"): 8.0}
    random = np.random.default_rng(7)
    times = {key: list(30 + shift + random.normal(0, 0.1, size=6)) for key, shift in shifts.items()}
    first, second = told(times)
    assert first.startswith("variant=b is faster than variant=a in both cases (by 5.2 to 10 %), most with link=e0 (")
    assert second.startswith("link=r1 is slower than link=e0 in both cases (by ")


def test_a_missing_value_is_no_pair() -> None:
    times = {("e0", "a"): [10.0, 11.0, 12.0, 13.0], ("e0", "b"): [9.0, math.nan, 11.5, 12.0]}
    own = section(times)
    rows = own.rows.with_columns(pl.col("elapsed_s").fill_nan(None))
    (one,) = differences([Section("Flows", rows, own.factors, own.metrics, [Compared("elapsed_s", rows)])])
    assert isinstance(one, Difference)
    assert one.pairs == 3
