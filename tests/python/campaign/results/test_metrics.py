"""Descriptions of the columns of results: `lasthop results metrics`, and metadata of the Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow.parquet
import pytest

from lasthop.analysis.studies.comparison import RULES
from lasthop.campaign.results.tables import with_rates
from lasthop.common.metrics.dictionary import COMPUTED, dictionary, find
from lasthop.common.metrics.units import unit_of
from lasthop.studies.presentation.read import load_presentation

ROOT = Path(__file__).resolve().parents[4]
TABLES = ("flows", "pages", "shorts", "runs")
UNITS = {"_s": "s", "_ms": "ms", "_us": "µs", "_Bps": "B/s", "_bytes": "B", "_packets": "packets"}
"""The unit that the end of a name states."""


@pytest.mark.parametrize(
    ("example", "tables"), [("web-page", ("flows", "pages")), ("short-flows", ("shorts", "runs"))]
)
def test_every_column_of_the_results_is_described_in_its_file(
    example: str, tables: tuple[str, ...], lasthop_main: Callable[..., int], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert (
        lasthop_main("run", ROOT / f"examples/{example}.toml", "--replications", "1", "--quiet", "--out", out)
        == 0
    )
    for table in tables:
        meanings = dictionary()[table]
        for field in pyarrow.parquet.read_schema(out / f"{table}.parquet"):
            in_file = {key.decode(): value.decode() for key, value in field.metadata.items()}
            if field.name in meanings:
                assert in_file == {
                    "unit": meanings[field.name].unit,
                    "description": meanings[field.name].definition,
                }
            else:
                assert in_file == {
                    "description": f"Level of the factor {field.name.removeprefix('factor_')}."
                }


def test_a_name_and_its_unit_agree() -> None:
    for metrics in dictionary().values():
        for metric in metrics.values():
            stated = next((unit for end, unit in UNITS.items() if metric.name.endswith(end)), None)
            if stated is not None:
                assert metric.unit == stated, metric


def test_every_metric_has_words_of_its_own() -> None:
    for metrics in dictionary().values():
        labels = [metric.label for metric in metrics.values()]
        assert len(labels) == len(set(labels)), labels
        for metric in metrics.values():
            assert metric.definition.endswith("."), metric
            assert metric.definition == " ".join(metric.definition.split()), metric


def test_studies_and_comparisons_know_their_metrics() -> None:
    shorts = pl.DataFrame({name: [1] for name in dictionary()["shorts"]})
    computed = set(with_rates(shorts).columns) - set(shorts.columns)
    assert computed < set(dictionary()[COMPUTED])
    listing = [
        number
        for folder in sorted((ROOT / "studies").iterdir())
        for rows in load_presentation(folder).rows.values()
        for row in rows
        for number in row.numbers
    ]
    assert {number.metric for number in listing} >= {"overall_time_s", "elapsed_s", "response_time_s"}
    for number in listing:
        assert find(number.metric) is not None, number
        assert {unit_of(column) for column in number.columns} <= {unit_of(number.metric), ""}, number
    for name in RULES:
        assert find(name) is not None, name


def test_metrics_are_listed_by_table_and_by_name(
    lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert lasthop_main("results", "metrics") == 0
    everything = capsys.readouterr().out
    for name in (
        "elapsed_s",
        "response_time_s",
        "fct_p95_s",
        "efficiency",
        "lateness_p99_us",
        "lost_per_packet",
    ):
        assert f"\n{name} " in everything
    assert lasthop_main("results", "metrics", "timeouts", "pages") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in (*TABLES, COMPUTED)] == ["flows", "pages", "shorts"]
    out = tmp_path / "metrics.csv"
    assert lasthop_main("results", "metrics", "--out", out) == 0
    listed = pl.read_csv(out)
    assert listed.columns == ["table", "name", "label", "unit", "definition"]
    assert listed.height == sum(map(len, dictionary().values()))


def test_the_error_of_an_unknown_name_suggests_the_nearest(
    lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("results", "metrics", "elapsd_s") == 2
    assert "did you mean 'elapsed_s'?" in capsys.readouterr().err
