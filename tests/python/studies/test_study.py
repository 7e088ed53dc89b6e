from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pytest
from scipy import stats

import fake_core
from conftest import copy_study
from lasthop import _core
from lasthop.analysis.statistics.summary import generic_summary
from lasthop.analysis.studies.comparison import agreement, agreement_lines, compare, judge
from lasthop.analysis.studies.summary import key_columns, study_summary
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.plan import Plan
from lasthop.campaign.runner import Threads
from lasthop.common.errors import InputError
from lasthop.common.statistics.estimates import percentiles, quantiles_over_sets
from lasthop.studies.catalogue import Assets, load_assets
from lasthop.studies.presentation.read import read_presentation


def run(engine: fake_core.Engine, file: Path, out: Path, sets: int = 1) -> Campaign:
    study = cast("_core.Study", engine.load(str(file)))
    campaign = Campaign(Plan(study, study.cells, 1, 4, sets), out)
    campaign.run(Threads(1), lambda _: None)
    return campaign


def assets_of(file: Path) -> Assets:
    assets = load_assets(file, fake_core.KULVE)
    assert assets is not None
    return assets


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.DataFrame, pl.DataFrame, Assets]:
    folder = tmp_path_factory.mktemp("measured")
    file = copy_study(folder)
    engine = fake_core.Engine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core, "load", engine.load)
        flows = run(engine, file, folder / "out").finished.flows()
    assets = assets_of(file)
    return flows, study_summary(flows, None, list(fake_core.KULVE), assets), assets


Measured = tuple[pl.DataFrame, pl.DataFrame, Assets]


def test_summary_covers_every_table_of_the_study(measured: Measured) -> None:
    _, summary, assets = measured
    cells = ["table", "link", "workload", "variant"]
    assert set(summary.select(cells).rows()) == set(assets.tables.select(cells).rows())


def test_summary_covers_every_published_number(measured: Measured) -> None:
    _, summary, assets = measured
    keys = key_columns(assets)
    assert assets.published.join(summary, on=keys, how="anti", nulls_equal=True).is_empty()
    assert not summary.select(keys).is_duplicated().any()


def test_summary_uses_the_published_units(measured: Measured) -> None:
    _, summary, assets = measured
    joined = assets.published.join(summary, on=key_columns(assets), nulls_equal=True, suffix="_ours")
    assert joined.filter(pl.col("unit") != pl.col("unit_ours")).is_empty()


def test_summary_has_the_columns_of_the_published_file(measured: Measured) -> None:
    _, summary, assets = measured
    assert summary.columns == [*key_columns(assets), "value", "replications", "unit", "ci_low", "ci_high"]
    assert key_columns(assets)[-1] == "statistic"


def value_of(frame: pl.DataFrame, **keys: str) -> float:
    rows = frame.filter(**keys)
    assert rows.height == 1
    return float(rows["value"][0])


def test_red_drops_include_marks_and_the_lower_rule_applies(measured: Measured) -> None:
    flows, summary, _ = measured
    part = flows.filter(link="e0", workload="2tcp0udp", variant="eifel+ecn", role="tcp-faster")
    expected = percentiles((part["data_drops_red"] + part["data_marks_ecn"]).to_numpy(), [50], "lower")[0]
    actual = value_of(
        summary, table="T31", flow="tcp-faster", direction="data", metric="drops_red", statistic="median"
    )
    assert actual == expected


def test_overall_time_pools_the_tcp_flows(measured: Measured) -> None:
    flows, summary, _ = measured
    part = flows.filter(link="e0", workload="2tcp1udp", variant="eifel", protocol="tcp")
    assert part.height == 8
    expected = percentiles(part["elapsed_s"].to_numpy(), [50], "linear")[0]
    assert value_of(summary, table="T9", variant="eifel") == pytest.approx(expected)


def test_spacing_takes_medians_of_percentiles_and_extremes_of_maxima(measured: Measured) -> None:
    flows, summary, _ = measured
    udp = flows.filter(link="e0", workload="2tcp1udp", variant="eifel", protocol="udp")
    find = {"table": "T11", "variant": "eifel"}
    assert value_of(summary, statistic="max_lowest", **find) == pytest.approx(udp["spacing_max_ms"].min())
    assert value_of(summary, statistic="max_highest", **find) == pytest.approx(udp["spacing_max_ms"].max())
    expected = percentiles(udp["spacing_p90_ms"].to_numpy(), [50], "lower")[0]
    assert value_of(summary, statistic="p90", **find) == pytest.approx(expected)


def test_several_sets_give_the_mean_of_the_sets_statistics(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path
) -> None:
    flows = run(engine, study_file, tmp_path / "out", sets=3).finished.flows()
    summary = study_summary(flows, None, list(fake_core.KULVE), assets_of(study_file))
    part = flows.filter(link="r1", workload="2tcp0udp5s", variant="eifel", role="tcp-first")
    maxima = part.group_by("set").agg(pl.col("duplicate_acks").max())["duplicate_acks"]
    find = {"table": "T51", "flow": "tcp-first", "metric": "duplicate_acks", "statistic": "max"}
    assert value_of(summary, **find) == pytest.approx(maxima.mean())
    assert summary.filter(**find)["replications"][0] == 12


def test_missing_values_are_left_out_and_counted(measured: Measured) -> None:
    _, summary, _ = measured
    row = summary.filter(table="T70", flow="tcp-slower", metric="elapsed_s", statistic="max")
    assert row["replications"][0] == 3
    assert row["value"][0] is not None


def test_cells_that_were_not_run_are_left_out(measured: Measured) -> None:
    flows, _, assets = measured
    part = study_summary(flows.filter(link="e0", variant="eifel"), None, list(fake_core.KULVE), assets)
    assert set(part["link"]) == {"e0"}
    assert set(part["variant"]) == {"eifel"}
    comparison = compare(part, assets)
    assert set(comparison["variant"]) == {"eifel"}
    assert comparison["measured"].null_count() == 0


@pytest.mark.parametrize(
    ("metric", "published", "value", "within"),
    [
        ("elapsed_s", 100.0, 105.0, True),
        ("elapsed_s", 100.0, 94.9, False),
        ("throughput_Bps", 4000.0, 4201.0, False),
        ("drops_queue", 18.0, 20.0, True),
        ("drops_queue", 18.0, 15.9, False),
        ("drops_queue", 0.0, 2.0, True),
        ("drops_red", 10.0, 13.0, True),
        ("drops_red", 10.0, 13.5, False),
        ("elapsed_s", 0.0, 0.04, True),
        ("elapsed_s", 0.0, 0.06, False),
        ("elapsed_s", 10.0, None, None),
        ("efficiency", 0.80, 0.85, True),
        ("fairness", 0.80, 0.749, False),
        ("mood", 1.0, 1.0, None),
    ],
)
def test_rules(metric: str, published: float, value: float | None, within: bool | None) -> None:
    assert judge(metric, published, value)[0] is within


def test_comparison_has_every_published_number_once(measured: Measured) -> None:
    _, summary, assets = measured
    comparison = compare(summary, assets)
    assert comparison.height == assets.published.height
    columns = ["published", "measured", "ratio", "difference", "within", "rule", "note"]
    assert comparison.columns == [*key_columns(assets), *columns]
    zero = comparison.filter(pl.col("published") == 0)
    assert zero.height > 0
    assert zero["ratio"].null_count() == zero.height


def test_agreement_is_full_when_the_published_numbers_are_measured(measured: Measured) -> None:
    _, _, assets = measured
    same = assets.published.select(*key_columns(assets), "value", "replications", "unit")
    rows = agreement(compare(same, assets))
    assert all(row.hits == row.total for row in rows)
    times = [row for row in rows if row.tolerance == "5 %"]
    assert [row.scope for row in times] == ["all", "e0", "r1", "r3", "r6"]
    assert times[0].total == sum(row.total for row in times[1:])
    # 24 appendix tables with two TCP flows each; UDP's fixed duration does not count.
    assert times[0].total == 48


def test_agreement_counts_misses(measured: Measured) -> None:
    _, _, assets = measured
    off = assets.published.select(*key_columns(assets), pl.col("value") * 1.07, "replications", "unit")
    rows = {(row.what, row.scope, row.tolerance): row for row in agreement(compare(off, assets))}
    assert rows["median elapsed time of TCP flows", "all", "5 %"].hits == 0
    assert rows["median elapsed time of TCP flows", "all", "10 %"].share == 1.0


def with_assumptions(flows: pl.DataFrame, slower_by: float) -> pl.DataFrame:
    """The flows unchanged, and those of link e0 again with their times multiplied."""
    changed = flows.filter(link="e0").with_columns(pl.col("elapsed_s") * slower_by, assumption=pl.lit("slow"))
    return pl.concat(
        [flows.with_columns(assumption=pl.lit("default")), changed.select(*flows.columns, "assumption")]
    )


def test_a_factor_that_the_study_does_not_know_is_compared_level_by_level(measured: Measured) -> None:
    flows, plain, assets = measured
    factors = [*fake_core.KULVE, "assumption"]
    summary = study_summary(with_assumptions(flows, 2.0), None, factors, assets)
    assert summary.columns == ["assumption", *plain.columns]
    assert summary.filter(assumption="default").drop("assumption").equals(plain)
    slow = summary.filter(assumption="slow")
    assert set(slow["link"]) == {"e0"}
    find = {"table": "T27", "flow": "tcp-slower", "metric": "elapsed_s", "statistic": "median"}
    assert value_of(slow, **find) == pytest.approx(2 * value_of(plain, **find))
    comparison = compare(summary, assets, ["assumption"])
    assert comparison.columns[0] == "assumption"
    assert comparison.filter(assumption="default").drop("assumption").equals(compare(plain, assets))
    published = comparison.filter(assumption="slow", **find)["published"].to_list()
    assert published == comparison.filter(assumption="default", **find)["published"].to_list()


def test_agreement_of_a_level_takes_the_first_level_where_it_was_not_run(measured: Measured) -> None:
    _, _, assets = measured
    same = assets.published.select(*key_columns(assets), "value", "replications", "unit")
    off = same.filter(link="e0").with_columns(pl.col("value") * 1.2)
    levels = [same.select(pl.lit("default").alias("assumption"), pl.all())]
    levels.append(off.select(pl.lit("slow").alias("assumption"), pl.all()))
    rows = agreement(compare(pl.concat(levels), assets, ["assumption"]), ["assumption"])
    times = {(row.level, row.scope): row for row in rows if row.tolerance == "10 %"}
    assert [times["default", scope].share for scope in ("all", "e0", "r1")] == [1.0, 1.0, 1.0]
    assert [times["slow", scope].share for scope in ("e0", "r1", "r3", "r6")] == [0.0, 1.0, 1.0, 1.0]
    assert times["slow", "all"].total == times["default", "all"].total
    lines = agreement_lines(rows)
    assert [line.split()[0] for line in lines[-2:]] == ["default", "slow"]
    assert lines[-2].split()[1:3] == ["100", "100"]
    assert max(map(len, lines)) <= 120


def test_a_scenario_is_compared_with_published_numbers_if_it_has_their_factors(study_file: Path) -> None:
    other = study_file.with_name("sensitivity.toml")
    assets = load_assets(other, [*fake_core.KULVE, "assumption"])
    assert assets is not None
    assert assets.extra_factors([*fake_core.KULVE, "assumption"]) == ["assumption"]
    assert load_assets(other, ["link", "variant"]) is None
    assert load_assets(study_file.parent.parent / "study.toml", fake_core.KULVE) is None


def test_with_several_sets_the_interval_is_students_over_their_statistics() -> None:
    values = np.random.default_rng(4).exponential(size=30)
    sets = np.repeat([1, 2, 3], 10)
    actual = quantiles_over_sets(values, sets, [50.0, 95.0], "linear")
    for place, percent in enumerate((50, 95)):
        of_sets = [np.percentile(values[sets == number], percent) for number in (1, 2, 3)]
        low, high = stats.t.interval(0.95, 2, loc=np.mean(of_sets), scale=stats.sem(of_sets))
        assert list(actual[:, place]) == pytest.approx([np.mean(of_sets), low, high])


def test_rows_of_a_study_have_the_ends_that_four_replications_bound(measured: Measured) -> None:
    _, summary, _ = measured
    for statistic, bound, unbound in (("min", "ci_high", "ci_low"), ("max", "ci_low", "ci_high")):
        rows = summary.filter(statistic=statistic, replications=4)
        assert rows.height > 0
        assert rows[bound].equals(rows["value"].alias(bound))
        assert rows[unbound].null_count() == rows.height


def test_generic_summary_has_all_numeric_metrics(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    flows = run(engine, scenario_file, tmp_path / "out").finished.flows()
    summary = generic_summary(flows.lazy(), None, ["queue"])
    numbers = ["value", "replications", "unit", "ci_low", "ci_high"]
    assert summary.columns == ["queue", "flow", "metric", "statistic", *numbers]
    assert {"elapsed_s", "ack_drops_error", "timeouts"} <= set(summary["metric"])
    assert set(summary["statistic"]) == {"min", "p25", "median", "p75", "p95", "p99", "max", "mean", "iqr"}
    assert {"set", "replication", "start_s"}.isdisjoint(summary["metric"])
    mean = flows.filter(queue="5 packets", role="tcp1")["elapsed_s"].mean()
    assert value_of(
        summary, queue="5 packets", flow="tcp1", metric="elapsed_s", statistic="mean"
    ) == pytest.approx(mean)


ROW = '[[rows.own]]\nflow = "all"\n'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("percentils = 1", ":1: percentils: there is no key 'percentils'; did you mean 'percentiles'?"),
        (
            'percentiles = "lowest"',
            ":1: percentiles: 'lowest' is none of linear, lower; did you mean 'lower'?",
        ),
        ("# x\n[[figure]]\ntitle = 'x'", ":2: figure.cell: the key is missing."),
        (
            "[[figure]]\ntitle = 'x'\ncell = 'a'\n[[figure]]\ntitle = 'x'\ncell = 'a'\nreplicaton = 3",
            ":7: figure.replicaton: there is no key 'replicaton'; did you mean 'replication'?",
        ),
        (
            f"{ROW}numbers = []\n[[tables]]\ntitle = 'x'\nids = 'T1'\nkind = 'owm'",
            ":7: tables.kind: there is no kind of table 'owm'; did you mean 'own'?",
        ),
        (
            "[[tables]]\nids = 'T1'\nkind = 'effects'\ntitle = 'x'",
            ":3: tables.kind: this kind of table needs [factorial], which is missing.",
        ),
        (
            f"{ROW}numbers = [\n{{ metric = 'elapsd_s' }}]",
            ":3: rows.own.numbers: there is no column 'elapsd_s'; did you mean 'elapsed_s'?",
        ),
        (
            f"{ROW}numbers = [{{ metric = 'x', statistics = ['medan'] }}]",
            ":3: rows.own.numbers.statistics: 'medan' is none of min, p25, median, p75, max, mean, not "
            "stated; did you mean 'median'?",
        ),
        ("tables = 3", ":1: tables: input should be a valid tuple, not 3."),
        (
            "[factorial]\nmetrics = {}\nfactors = { a = { name = 'x', levels = {} } }",
            ":3: factorial.factors: there are 1 factors; a design has three.",
        ),
    ],
)
def test_a_wrong_presentation_is_an_error_with_line_and_remedy(text: str, error: str) -> None:
    with pytest.raises(InputError) as raised:
        read_presentation(text)
    assert str(raised.value) == f"report.toml{error}"


def test_all_errors_of_a_presentation_are_reported_at_once() -> None:
    with pytest.raises(InputError) as raised:
        read_presentation("colour = 1\n[[figure]]\nsize = 3")
    assert len(str(raised.value).splitlines()) == 4


def test_table_numbers_expand() -> None:
    actual = read_presentation(
        f'{ROW}numbers = []\n[[tables]]\nids = "T7 T11-T13"\nkind = "own"\ntitle = "x"'
    )
    assert actual.tables[0].ids == ("T7", "T11", "T12", "T13")


def test_figures_of_the_study_name_cells_that_exist(engine: fake_core.Engine, study_file: Path) -> None:
    keys = {cell.key for cell in engine.load(str(study_file)).cells}
    figures = assets_of(study_file).presentation.figure
    assert figures
    assert {figure.cell for figure in figures} <= keys
