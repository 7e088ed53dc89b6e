"""The study sce2019 against its published numbers and statements."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from long_tests import ENGINE

STUDY = Path(__file__).resolve().parents[3] / "studies" / "sce2019"
COVERS = ("studies/sce2019", "python/lasthop/studies", "python/lasthop/analysis/studies", *ENGINE)
CELL = ["rate", "queue", "control", "rtt"]
AGAIN = {"T37": "T22", "T38": "T23", "T42": "T27", "T82": "T67", "T83": "T68", "T87": "T72"}


def near(rows: pl.DataFrame, tolerance: float) -> float:
    """Share of the rows within a relative tolerance."""
    assert rows.height > 0
    return float((rows["measured"] / rows["published"] - 1).abs().le(tolerance).mean())  # type: ignore[arg-type]


# ---- A few cells -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few(study_results: Callable[..., Path]) -> pl.DataFrame:
    return pl.read_parquet(study_results("sce2019") / "flows.parquet").filter(rate="5")


def rates(flows: pl.DataFrame) -> dict[str, float]:
    """Return Mbit/s of each flow."""
    return {row["role"]: row["throughput_Bps"] * 8e-6 for row in flows.iter_rows(named=True)}


def test_a_queue_for_each_flow_gives_cubic_and_reno_their_published_rates(few: pl.DataFrame) -> None:
    """Table 53 has 2.48 and 2.18 Mbit/s, table 23 2.46 and 2.22."""
    pair = few.filter(control="cubic-reno", rtt="20", queue="triple-isolate")
    assert rates(pair) == {"one": pytest.approx(2.48, rel=0.05), "other": pytest.approx(2.18, rel=0.1)}


def test_cake_marks_and_drops_nothing(few: pl.DataFrame) -> None:
    """All flows are ECN-capable."""
    assert few["data_marks_ecn"].min() > 0  # type: ignore[operator]
    assert few["data_drops_aqm"].sum() == 0


def test_the_longer_round_trip_time_leaves_a_reno_flow_less(few: pl.DataFrame) -> None:
    """Table 13 has 4.64 and 3.88 Mbit/s."""
    short, long = (rates(few.filter(control="reno", rtt=rtt))["one"] for rtt in ("20", "80"))
    assert short == pytest.approx(4.64, rel=0.05)
    assert long == pytest.approx(3.88, rel=0.1)


# ---- The whole study -------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module", params=[pytest.param("all", marks=pytest.mark.long(covers=COVERS, seconds=400))]
)
def results(study_results: Callable[..., Path]) -> Path:
    return study_results("sce2019", "--replications", "3")


def groups(comparison: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of the README's table of agreement."""
    parts = {
        "of single flows": ~pl.col("control").str.contains("-"),
        "of pairs in one queue": (pl.col("queue") == "flowblind") & ~pl.col("table").is_in(list(AGAIN)),
        "of pairs in one queue, measured again": pl.col("table").is_in(list(AGAIN)),
        "of pairs in a queue each": (pl.col("queue") == "triple-isolate")
        & pl.col("control").str.contains("-"),
    }
    metrics = {"throughput": "throughput_Bps", "round-trip time": "rtt_median_s"}
    return {
        **{
            f"{metric} {name}": comparison.filter(part, metric=column)
            for metric, column in metrics.items()
            for name, part in parts.items()
        },
        **{f"all {metric}s": comparison.filter(metric=column) for metric, column in metrics.items()},
        "all": comparison,
    }


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 1 or share < 0.995 else f"{100 * share:.1f} %"


def test_the_readme_has_the_agreement(comparison: pl.DataFrame) -> None:
    readme = (STUDY / "README.md").read_text(encoding="utf-8")
    for name, rows in groups(comparison).items():
        shares = " | ".join(percent(near(rows, tolerance)) for tolerance in (0.05, 0.10, 0.25))
        assert f"| {name} | {rows.height} | {shares} |" in readme


def test_the_readme_has_the_verdict_on_each_claim(results: Path) -> None:
    readme = (STUDY / "README.md").read_text(encoding="utf-8")
    printed = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| ([a-z ]+) \|$", readme, re.MULTILINE))
    claims = pl.read_csv(results / "claims.csv", infer_schema=False)
    assert claims.height == 22
    assert printed == dict(
        claims.filter(pl.col("verdict") != "uncomputable").select("id", "verdict").iter_rows()
    )


# ---- The published numbers -------------------------------------------------------------------------------


def published() -> list[dict[str, str]]:
    with (STUDY / "published.csv").open() as file:
        return list(csv.DictReader(file))


def test_each_published_number_belongs_to_a_cell_of_its_table() -> None:
    with (STUDY / "tables.csv").open() as file:
        cells = {tuple(row[name] for name in ["table", *CELL]) for row in csv.DictReader(file)}
    rows = published()
    assert len(rows) == 976
    assert {tuple(row[name] for name in ["table", *CELL]) for row in rows} == cells


def test_the_tables_measured_again_have_the_cells_of_the_first_ones() -> None:
    key = [*CELL, "flow", "metric"]
    rows = {(row["table"], *(row[name] for name in key)) for row in published()}
    for again, first in AGAIN.items():
        cells = {row[1:] for row in rows if row[0] == again}
        assert len(cells) == 40
        assert cells == {row[1:] for row in rows if row[0] == first}
