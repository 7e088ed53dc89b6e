"""`--until`: its conditions, whether its stated level holds, and campaigns that stop when they are
precise.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from forked import Forked
from lasthop import _core
from lasthop.analysis.claims.records import Records
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.plan import Plan
from lasthop.campaign.runner import Threads
from lasthop.campaign.until.language import parse
from lasthop.campaign.until.looks import LOOKS, Condition, looks_up_to
from lasthop.campaign.until.stopping import Stopping
from lasthop.commands.cli import EXIT_INPUT, EXIT_OK, main
from lasthop.common.errors import InputError, InterruptedCampaignError
from lasthop.common.statistics.estimates import mean_intervals, quantile_intervals, student
from lasthop.common.statistics.quantiles import CONFIDENCE
from lasthop.present.answer.differences import tested as paired_t
from lasthop.present.pictures.charts import chart_figure
from lasthop.present.pictures.of_results import ResultRequest, read_chart

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
QUEUE = EXAMPLES / "queue.toml"
TABLES = ("flows.parquet", "runs.parquet", "summary.csv", "precision.csv")

# ---- Conditions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written", "tolerance"),
    [
        ("median(elapsed_s) within 2 %", "median(elapsed_s) within 2 % at 95 %", 0.02),
        (" p95( rtt_p95_s )  within 5ms ", "p95(rtt_p95_s) within 5 ms at 95 %", 0.005),
        ("mean(throughput_Bps) of tcp-1 within 8 kbit/s at 99%", None, 1000.0),
        ("mean(throughput_Bps) of tcp-1 within .5 kB/s", None, None),
        (
            "median(spacing_p50_ms) of a call within 100 us",
            "median(spacing_p50_ms) of a call within 100 us at 95 %",
            0.1,
        ),
        ("p25(retransmitted_packets) within 1.5 packets", None, 1.5),
        ("median(timeouts) within 1", "median(timeouts) within 1 at 95 %", 1.0),
        ("mean(utilisation) within 0.01", None, 0.01),
    ],
)
def test_a_condition_is_read(text: str, written: str | None, tolerance: float | None) -> None:
    if tolerance is None:
        with pytest.raises(InputError, match="'kB/s' is not a unit of throughput_Bps; did you mean 'B/s'"):
            parse(text)
        return
    condition = parse(text)
    assert condition.text == (written or condition.text)
    assert condition.tolerance == pytest.approx(tolerance)
    assert parse(condition.text) == condition


def test_what_a_condition_chooses() -> None:
    condition = parse("mean(throughput_Bps) of tcp-1 within 8 kbit/s at 99%")
    assert (condition.statistic, condition.metric, condition.flow) == ("mean", "throughput_Bps", "tcp-1")
    assert (condition.relative, condition.confidence) == (False, 0.99)
    assert parse("p99(elapsed_s) within 2 %").relative


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("median(elapsed_s)", "this is not a condition. Write it like 'median(elapsed_s) within 2 %'"),
        ("elapsed_s within 2 %", "this is not a condition"),
        ("medan(elapsed_s) within 2 %", "there is no statistic 'medan'; did you mean 'median'? Statistics: "),
        ("max(elapsed_s) within 2 %", "no number of replications bounds a max on both sides"),
        ("median(elapsd_s) within 2 %", "there is no metric 'elapsd_s'; did you mean 'elapsed_s'? Metrics: "),
        ("median(flow) within 2 %", "there is no metric 'flow'"),
        ("median(elapsed_s) within 2", "elapsed_s needs a unit: s, ms, µs, us, or %."),
        ("median(elapsed_s) within 2 packets", "'packets' is not a unit of elapsed_s; did you mean 's'?"),
        ("median(timeouts) within 2 s", "'s' is not a unit of timeouts; omit it, or give %."),
        ("median(elapsed_s) within 0 %", "the precision must be above 0"),
        ("median(elapsed_s) within 2 % at 100 %", "the confidence 100 % is not between 50 % and 99.99 %"),
    ],
)
def test_the_error_of_a_wrong_condition_names_the_mistake(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert f'--until "{text}": ' in str(caught.value)
    assert error in str(caught.value)


# ---- Looks -----------------------------------------------------------------------------------------------


def test_looks_are_five_to_a_decade_and_end_with_the_cap() -> None:
    assert LOOKS[:6] == (10, 16, 25, 40, 63, 100)
    assert (len(LOOKS), LOOKS[-1]) == (21, 100_000)
    assert looks_up_to(50) == [10, 16, 25, 40, 50]
    assert looks_up_to(10) == [10]


def condition(statistic: str, tolerance: float) -> Condition:
    return parse(f"{statistic}(elapsed_s) within {100 * tolerance:g} %")


def test_an_estimate_lies_as_far_from_the_truth_as_the_farther_end_of_its_interval() -> None:
    # Ten values: the median's interval at this level goes from the least to the greatest.
    values = np.array([90.0, *[100.0] * 8, 120.0])
    median = condition("median", 0.2)
    assert median.intervals(values).tolist() == [100.0, 90.0, 120.0]
    assert median.precision(values) == pytest.approx(0.2)
    assert median.met(values)
    assert not condition("median", 0.19).met(values)


def test_nothing_is_precise_without_a_bound() -> None:
    assert not condition("median", 0.9).met(np.full(9, 1.0))
    assert not condition("p95", 0.9).met(np.full(100, 1.0))
    assert condition("median", 0.001).met(np.full(10, 1.0))
    assert condition("median", 0.001).met(np.zeros(10))
    assert not condition("median", 0.9).met(np.array([0.0] * 9 + [1.0]))


def test_a_mean_needs_more_values_the_more_they_are_skewed() -> None:
    mean = condition("mean", 0.5)
    rare = np.array([1.0] * 95 + [2.0] * 5)
    assert mean.precision(rare) < 0.5
    assert not mean.met(rare)
    assert mean.met(np.tile(rare, 10))
    assert not mean.met(np.full(1000, 1.0))
    assert mean.met(np.tile([1.0, 2.0], 14))
    assert not mean.met(np.tile([1.0, 2.0], 13))


# ---- Whether the stated level holds ----------------------------------------------------------------------

Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]


def _two_valued(rare: float) -> Draw:
    return lambda rng, shape: np.where(rng.random(shape) < rare, 2.0, 1.0)


DISTRIBUTIONS: Mapping[str, tuple[Draw, float, float]] = {
    "normal, cv 0.1": (lambda rng, shape: rng.normal(10, 1, shape), 10.0, 10.0),
    "lognormal, sigma 0.5": (lambda rng, shape: rng.lognormal(0, 0.5, shape), float(np.exp(0.125)), 1.0),
    "lognormal, sigma 1": (lambda rng, shape: rng.lognormal(0, 1, shape), float(np.exp(0.5)), 1.0),
    "Pareto, index 2.5": (lambda rng, shape: rng.pareto(2.5, shape) + 1, 2.5 / 1.5, 2 ** (1 / 2.5)),
    "two values, 45 % one": (_two_valued(0.55), 1.55, 2.0),
    "two values, 5 % rare": (_two_valued(0.05), 1.05, 1.0),
}
"""How to draw values, their mean and their median."""


def stopped(
    values: NDArray[np.float64], rule: Condition, cap: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Run a campaign on each row; return its number of replications, and estimate, low and high."""
    counts = np.zeros(len(values), dtype=np.int64)
    bounds = np.zeros((3, len(values)))
    for look in looks_up_to(cap):
        seen = values[:, :look]
        now = (counts == 0) & (rule.met(seen) | (look == cap))
        bounds[:, now] = rule.intervals(seen[now])
        counts[now] = look
    return counts, bounds


def share_missed(bounds: NDArray[np.float64], truth: float) -> float:
    return float(np.mean((bounds[1] > truth) | (bounds[2] < truth)))


def missed(name: str, statistic: str, tolerance: float, campaigns: int, cap: int) -> tuple[float, float]:
    """Return the share of campaigns whose last interval misses the truth, and their mean number of
    replications.
    """
    draw, mean, median = DISTRIBUTIONS[name]
    values = draw(np.random.default_rng(2003), (campaigns, cap))
    counts, bounds = stopped(values, condition(statistic, tolerance), cap)
    return share_missed(bounds, mean if statistic == "mean" else median), float(counts.mean())


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_last_interval_misses_no_more_often_than_stated(name: str) -> None:
    for statistic, tolerance in (("median", 0.1), ("mean", 0.2)):
        share, _ = missed(name, statistic, tolerance, campaigns=400, cap=631)
        assert share <= 1 - CONFIDENCE


@pytest.mark.long(
    covers=(
        "python/lasthop/campaign/until",
        "python/lasthop/analysis/statistics",
        "python/lasthop/common/statistics",
    ),
    seconds=35,
)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_last_interval_misses_no_more_often_than_stated_in_many_campaigns(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for statistic in ("median", "mean"):
        for tolerance in (0.02, 0.05, 0.1, 0.2, 0.4):
            share, runs = missed(name, statistic, tolerance, campaigns=4000, cap=1000)
            with capsys.disabled():
                click.echo(
                    f"\n{name}: {statistic} within {tolerance:.0%}: {share:.2%} missed, {runs:.0f} runs",
                    nl=False,
                )
            assert share <= 1 - CONFIDENCE


def test_plain_intervals_would_miss_more_often_than_they_state() -> None:
    """This is why the looks share the error; the simulation detects it if they do not."""
    values = np.random.default_rng(7).normal(10, 1, (2000, 631))
    for plain in (mean_intervals, lambda seen: quantile_intervals(seen, [50.0])[:, 0]):
        ever = np.zeros(len(values), dtype=bool)
        for look in looks_up_to(631):
            _, low, high = plain(values[:, :look])
            ever |= (low > 10) | (high < 10)
        assert ever.mean() > 0.15
        shared = condition("mean", 0.1)
        assert share_missed(stopped(values, shared, 631)[1], 10.0) <= 0.05


def false_positives(draw: Draw, statistic: str, tolerance: float, campaigns: int, cap: int) -> float:
    """Return how often `compare` finds a difference between two levels that have none."""
    rng, rule = np.random.default_rng(1998), condition(statistic, tolerance)
    first, other = draw(rng, (campaigns, cap)), draw(rng, (campaigns, cap))
    common = np.minimum(stopped(first, rule, cap)[0], stopped(other, rule, cap)[0])
    rejections = 0
    for a, b, count in zip(first, other, common, strict=True):
        difference = (a - b)[:count]
        mean, deviation = float(difference.mean()), float(difference.std(ddof=1))
        rejections += (
            paired_t(mean, deviation, int(count), float(b[:count].mean()), counts=False, looks=len(LOOKS))[2]
            < 0.05
        )
    return rejections / campaigns


@pytest.mark.parametrize("name", ["lognormal, sigma 0.5", "two values, 5 % rare"])
def test_a_comparison_of_what_does_not_differ_finds_nothing(name: str) -> None:
    assert false_positives(DISTRIBUTIONS[name][0], "mean", 0.3, campaigns=300, cap=251) <= 0.05


@pytest.mark.long(
    covers=(
        "python/lasthop/campaign/until",
        "python/lasthop/analysis/statistics",
        "python/lasthop/common/statistics",
    ),
    seconds=13,
)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_comparisons_of_what_does_not_differ_find_nothing_in_many_campaigns(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for statistic, tolerance in (("median", 0.05), ("median", 0.2), ("mean", 0.1), ("mean", 0.3)):
        share = false_positives(DISTRIBUTIONS[name][0], statistic, tolerance, campaigns=4000, cap=398)
        with capsys.disabled():
            click.echo(f"\n{name}: {statistic} within {tolerance:.0%}: {share:.2%} false positives", nl=False)
        assert share <= 0.05


# ---- Campaigns -------------------------------------------------------------------------------------------

RULE = ("--until", "median(elapsed_s) of download within 0.4 %", "--until", "median(timeouts) within 1")


def run(out: Path, *options: str, file: Path = QUEUE) -> tuple[int, dict[str, Any]]:
    code = main(["run", str(file), "--out", str(out), *options])
    manifest = out / "manifest.json"
    return code, json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else {}


def same_records(first: Path, other: Path) -> None:
    for table in TABLES:
        assert (first / table).read_bytes() == (other / table).read_bytes()
    rules = [
        json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["until"]
        for folder in (first, other)
    ]
    assert rules[0] == rules[1]


@pytest.fixture(scope="module")
def precise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of a campaign that stopped when it was precise."""
    out = tmp_path_factory.mktemp("until") / "precise"
    assert run(out, *RULE, "--jobs", "1", "--quiet")[0] == EXIT_OK
    return out


def test_each_cell_stops_when_its_own_results_are_precise(precise: Path) -> None:
    until = json.loads((precise / "manifest.json").read_text(encoding="utf-8"))["until"]
    flows = pl.read_parquet(precise / "flows.parquet").filter(flow="download")
    rule = parse("median(elapsed_s) within 0.4 %")
    assert until["conditions"] == [f"{text} at 95 %" for text in RULE[1::2]]
    assert until["looks"] == looks_up_to(1000)
    assert until["short"] == []
    assert len(set(until["replications"])) == 2, "the cells of this test should differ"
    for level, count in zip(("short", "long"), until["replications"], strict=True):
        values = flows.filter(queue=level).sort("replication")["elapsed_s"].to_numpy()
        assert values.size == count
        met = [look for look in until["looks"] if look <= count and rule.met(values[:look])]
        assert met == [count]


def test_the_rule_is_in_every_record(precise: Path) -> None:
    manifest = json.loads((precise / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["identity"]["until"] == manifest["until"]["conditions"]
    facts = pl.read_parquet_metadata(precise / "flows.parquet")
    assert "median(elapsed_s) of download within 0.4 %" in facts["lasthop.until"]
    table = pl.read_csv(precise / "precision.csv")
    assert table.columns[:4] == ["queue", "flow", "condition", "metric"]
    assert table["met"].all()
    download = table.filter(pl.col("metric") == "elapsed_s")
    assert download["replications"].to_list() == manifest["until"]["replications"]
    assert (download["precision"] <= 0.004).all()
    summary = pl.read_csv(precise / "summary.csv", infer_schema_length=None)
    medians = summary.filter(flow="download", metric="elapsed_s", statistic="median")
    assert medians["ci_low"].to_list() == pytest.approx(download["ci_low"].to_list(), abs=1e-6)


def test_the_answer_says_how_precise_it_is(precise: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "show", str(precise)]) == EXIT_OK
    text = " ".join(capsys.readouterr().out.split())
    least, most = sorted(pl.read_csv(precise / "precision.csv")["replications"].unique())
    assert (
        "median(elapsed_s) of download within 0.4 % at 95 %: queue n median of elapsed time (s) within met"
        in text
    )
    assert (
        f"2 of 2 cells are precise; {least} to {most} replications per cell, {least + most} runs in total."
        in text
    )
    assert "[95 % interval over all looks]" in text


def test_the_report_says_how_precise_it_is(precise: Path) -> None:
    page = (precise / "report.html").read_text(encoding="utf-8")
    least, most = sorted(pl.read_csv(precise / "precision.csv")["replications"].unique())
    assert '<a class="badge good" href="#precision">2 of 2 cells precise</a>' in page
    assert "median(elapsed_s) of download within 0.4 % at 95 %<span" in page
    assert f"2 combinations, each run {least} to {most} times." in page
    assert f"1 set of {least} to {most} per cell, {least + most} runs in total" in page


def test_comparisons_and_analyses_of_variance_take_the_common_replications(
    precise: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    least, most = sorted(pl.read_csv(precise / "precision.csv")["replications"].unique())
    compare = [
        "results",
        "compare",
        str(precise),
        "--reference",
        "queue=short",
        "--metric",
        "throughput_Bps",
        "--role",
        "download",
    ]
    assert main([*compare, "--out", str(tmp_path / "compare.csv")]) == EXIT_OK
    assert "intervals and p hold over its 21 looks" in " ".join(capsys.readouterr().out.split())
    (row,) = pl.read_csv(tmp_path / "compare.csv").to_dicts()
    assert (row["pairs"], row["without_partner"]) == (least, most - least)
    rates = (
        pl.read_parquet(precise / "flows.parquet")
        .filter(flow="download")
        .select("queue", "replication", "throughput_Bps")
    )
    pairs = rates.pivot("queue", index="replication").drop_nulls()
    # Of rates, the interval is that of the ratio, applied to the geometric mean of the reference.
    ratio = (pairs["long"].log() - pairs["short"].log()).to_numpy()
    _, *ends = mean_intervals(ratio, 1 - 0.05 / 21)
    low, high = np.expm1(ends) * stats.gmean(pairs["short"])
    assert (row["mean_ci_low"], row["mean_ci_high"]) == pytest.approx((low, high))
    anova = [
        "results",
        "factors",
        str(precise),
        "--metric",
        "throughput_Bps",
        "--role",
        "download",
        "--factors",
        "queue",
    ]
    assert main([*anova, "--out", str(tmp_path / "anova.csv")]) == EXIT_OK
    output = capsys.readouterr().out
    assert f"{least} replications" in output
    assert "p and intervals hold over its 21 looks" in output
    rows = pl.read_csv(tmp_path / "anova.csv")
    (rest,) = rows.filter(kind="rest")["degrees_of_freedom"]
    effect, *_ = rows.filter(pl.col("effect").is_not_null(), kind="main effect").to_dicts()
    reach = (effect["ci_high"] - effect["effect"]) / effect["standard_error"]
    assert reach == pytest.approx(student(1 - 0.10 / 21, rest))
    plain = stats.f_oneway(pairs["long"], pairs["short"]).pvalue
    assert rows.filter(kind="main effect")["p"].drop_nulls().to_list() == pytest.approx(
        [min(1.0, 21 * plain)]
    )
    assert Records.read(precise, ["queue"]).confidence == pytest.approx(1 - 0.05 / 21)


def test_error_bars_hold_over_all_looks(precise: Path) -> None:
    request = ResultRequest(y="elapsed_s", x="queue", role="download", kind="line")
    chart = read_chart(precise, request)
    figure = chart_figure(chart, "column")
    (line,) = [bars.get_segments() for bars in figure.axes[0].collections]
    values = (
        pl.read_parquet(precise / "flows.parquet")
        .filter(flow="download", queue="short")["elapsed_s"]
        .to_numpy()
    )
    _, low, high = mean_intervals(values, 1 - 0.05 / 21)
    assert sorted(line[chart.x_levels.index("short")][:, 1]) == pytest.approx([low, high])


def test_each_sampled_point_is_a_cell_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES / "space.toml").read_text(encoding="utf-8")
    file = tmp_path / "space.toml"
    file.write_text(text.replace("points = 128", "points = 4"), encoding="utf-8")
    rule = ("--until", "median(throughput_Bps) within 5 %", "--replications", "16")
    code, manifest = run(tmp_path / "out", *rule, file=file)
    assert (code, len(manifest["until"]["replications"])) == (EXIT_OK, 8)
    table = pl.read_csv(tmp_path / "out" / "precision.csv")
    assert table.select("rate", "delay", "lan", "cc").n_unique() == table.height == 8
    assert table["replications"].to_list() == manifest["until"]["replications"]
    assert "8 of 8 cells are precise" in capsys.readouterr().out


def test_each_look_goes_on_with_a_chain(tmp_path: Path) -> None:
    study = _core.load(str(EXAMPLES / "two-flows.toml"))
    cells = [cell for cell in study.cells if cell.sequential]
    stopping = Stopping([parse("median(elapsed_s) within 1 %")], cells, 25)
    plan = Plan(study=study, cells=cells, seed=1, replications=25, until=["a rule"])
    campaign = Campaign(plan, tmp_path, stopping=stopping)
    done: list[int] = []
    campaign.run(Threads(1), done.append)
    assert stopping.counts == [25] * len(cells)
    assert campaign.finished.flows()["elapsed_s"].to_list() == cells[0].run(1, 1, 25).flows["elapsed_s"]
    assert sum(done) == campaign.assigned == 25 * len(cells)


def test_neither_threads_nor_what_is_in_the_store_change_where_cells_stop(
    precise: Path, tmp_path: Path
) -> None:
    assert run(tmp_path, "--replications", "70", "--quiet")[0] == EXIT_OK
    assert run(tmp_path, *RULE, "--jobs", "3", "--quiet")[0] == EXIT_OK
    same_records(precise, tmp_path)
    assert run(tmp_path, *RULE, "--quiet")[0] == EXIT_OK


def test_a_cell_stops_where_it_does_without_the_others(precise: Path, tmp_path: Path) -> None:
    until = json.loads((precise / "manifest.json").read_text(encoding="utf-8"))["until"]
    _, manifest = run(tmp_path, *RULE, "--only", "queue=long", "--quiet")
    assert manifest["until"]["replications"] == until["replications"][1:]


def test_damage_to_the_store_changes_nothing(
    precise: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *RULE, "--jobs", "1", "--quiet")[0] == EXIT_OK
    (tmp_path / "manifest.json").unlink()
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as store:
        store.execute("UPDATE batch SET flows = x'00' WHERE id = (SELECT min(id) FROM batch)")
        store.commit()
    assert run(tmp_path, *RULE)[0] == EXIT_OK
    assert "runs in the store were damaged and were run again" in capsys.readouterr().out
    same_records(precise, tmp_path)


def test_a_stopped_campaign_says_how_far_it_has_come(tmp_path: Path) -> None:
    study = _core.load(str(QUEUE))
    rule = [parse("median(elapsed_s) of download within 0.4 %")]
    plan = Plan(study=study, cells=study.cells, seed=1, replications=1000, until=[rule[0].text])
    done: list[int] = []

    def stop(runs: int) -> None:
        done.append(runs)
        if sum(done) > 25:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedCampaignError, match=r"of [0-9]+ runs up to the next look are stored in"):
        Campaign(plan, tmp_path, stopping=Stopping(rule, study.cells, 1000)).run(Threads(1), stop)
    again = Campaign(plan, tmp_path, stopping=Stopping(rule, study.cells, 1000))
    assert 20 < again.outlook().stored < 60


def test_a_complete_campaign_runs_nothing_again(precise: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (precise / "flows.parquet").stat().st_mtime_ns
    assert run(precise, *RULE)[0] == EXIT_OK
    runs = sum(json.loads((precise / "manifest.json").read_text(encoding="utf-8"))["until"]["replications"])
    assert f"{precise} is complete: {runs} runs. Only the report is written again." in capsys.readouterr().out
    assert (precise / "flows.parquet").stat().st_mtime_ns == before
    assert main(["results", "size", str(precise)]) == EXIT_OK
    printed = capsys.readouterr().out
    assert f"{runs} requested, {runs} stored, 0 missing" in printed
    assert f"until       {RULE[1]} at 95 %" in printed


def test_the_cap_ends_what_is_not_precise_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capped = ("--until", "median(elapsed_s) of download within 0.2 %", "--replications", "12")
    code, manifest = run(tmp_path, *capped)
    assert code == EXIT_OK
    assert manifest["until"]["looks"] == [10, 12]
    assert (manifest["until"]["replications"], manifest["until"]["short"]) == ([12, 12], [0, 1])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "NOT precise: 2 of 2 cells stopped at the maximum of 12 replications (queue=short, queue=long). "
        "To continue, repeat the command with more --replications."
    ) in text
    assert not pl.read_csv(tmp_path / "precision.csv")["met"].any()


def test_a_higher_cap_continues_to_where_a_campaign_would_have_stopped_at_once(
    precise: Path, tmp_path: Path
) -> None:
    assert run(tmp_path, *RULE, "--replications", "12", "--quiet")[1]["until"]["short"] == [0]
    assert run(tmp_path, *RULE, "--quiet")[1]["until"]["short"] == []
    same_records(precise, tmp_path)


def test_a_fixed_number_of_replications_leaves_no_trace_of_a_rule(tmp_path: Path) -> None:
    assert run(tmp_path, *RULE, "--quiet")[0] == EXIT_OK
    code, manifest = run(tmp_path, "--quiet")
    assert (code, "until" in manifest, "until" in manifest["identity"]) == (EXIT_OK, False, False)
    assert not (tmp_path / "precision.csv").exists()
    assert pl.read_parquet(tmp_path / "runs.parquet").height == 20


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            ("median(elapsed_s) of dwnload within 2 %",),
            "no run has a flow 'dwnload' with elapsed_s; did you mean 'downl",
        ),
        (("median(response_time_s) within 2 %",), "no run has a value of response_time_s."),
        (("median(rtt_median_s) of call within 2 %",), "no run has a value of rtt_median_s."),
        (("median(elapsed_s) within 2 %", "--sets", "2"), "--until chooses that number"),
        (
            ("median(elapsed_s) within 2 %", "--replications", "5"),
            "--replications 5: with --until this is the maximum",
        ),
    ],
)
def test_a_wrong_request_ends_with_an_error(
    options: Sequence[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, manifest = run(tmp_path / "out", "--until", *options, "--quiet")
    assert (code, manifest) == (EXIT_INPUT, {})
    assert error in capsys.readouterr().err


def test_a_campaign_killed_at_random_moments_stops_where_an_undisturbed_one_does(tmp_path: Path) -> None:
    # One of its cells chains replications, the other does not.
    file = EXAMPLES / "two-flows.toml"
    rule = ("--until", "median(elapsed_s) of tcp-second within 0.003 %", "--replications", "251", "--quiet")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run(whole, *rule, file=file)[0] == EXIT_OK
    moments = random.Random(16)
    codes = []
    for _ in range(3):
        with Forked("lasthop", "run", file, "--out", killed, *rule, "--jobs", "1") as process:
            while process.poll() is None and not (killed / ".lock").exists():
                time.sleep(0.005)
            time.sleep(moments.uniform(0.1, 0.9))
            process.kill()
        codes.append(process.returncode)
        (killed / ".lock").unlink(missing_ok=True)  # so that the test notices when it is created again
    assert -9 in codes
    assert run(killed, *rule, file=file)[0] == EXIT_OK
    same_records(whole, killed)


def test_exactly_the_runs_are_captured(tmp_path: Path) -> None:
    rule = ("--until", "median(elapsed_s) within 50 %", "--only", "queue=short", "--quiet")
    code, manifest = run(tmp_path, *rule, "--pcap", "--snaplen", "96")
    assert (code, manifest["until"]["replications"]) == (EXIT_OK, [10])
    assert len(list((tmp_path / "traces" / "queue=short" / "set-1").iterdir())) == 10
