"""The study l4s2020 against its published rates and statements."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from long_tests import ENGINE

STUDY = Path(__file__).resolve().parents[3] / "studies" / "l4s2020"
COVERS = ("studies/l4s2020", "python/lasthop/studies", "python/lasthop/analysis/studies", *ENGINE)
CELL = ["scenario", "rate", "queue", "pair", "rtt"]


@pytest.fixture(
    scope="module", params=[pytest.param("all", marks=pytest.mark.long(covers=COVERS, seconds=230))]
)
def results(study_results: Callable[..., Path]) -> Path:
    return study_results("l4s2020", "--replications", "3")


@pytest.fixture(scope="module")
def rates(comparison: pl.DataFrame) -> pl.DataFrame:
    """The published rates of scenario 1 next to the measured ones."""
    return comparison.filter(pl.col("scenario").cast(pl.String) == "1")


def near(rows: pl.DataFrame, tolerance: float) -> float:
    """Share of the rows within a relative tolerance."""
    assert rows.height > 0
    return float((rows["measured"] / rows["published"] - 1).abs().le(tolerance).mean())  # type: ignore[arg-type]


def test_most_rates_agree(rates: pl.DataFrame) -> None:
    assert rates.height == 184
    assert near(rates, 0.10) >= 0.78
    assert near(rates, 0.20) >= 0.90
    assert near(rates.filter(queue="dualpi2"), 0.20) >= 0.88
    assert near(rates.filter(queue="fq_codel"), 0.10) == 1


def test_the_faster_flow_is_the_published_one(comparison: pl.DataFrame) -> None:
    pairs = comparison.filter(flow="one").join(comparison.filter(flow="other"), on=CELL, suffix="_other")
    ratio = pl.col("published") / pl.col("published_other")
    uneven = pairs.filter((ratio > 1.2) | (ratio < 1 / 1.2))
    assert uneven.height == 63
    same = (uneven["measured"] > uneven["measured_other"]) == (
        uneven["published"] > uneven["published_other"]
    )
    assert same.mean() >= 0.95  # type: ignore[operator]


def test_the_readme_counts_the_verdicts(results: Path) -> None:
    counts = Counter(pl.read_csv(results / "statements.csv", infer_schema=False)["verdict"])
    text = (
        f"Of {counts.total()} statements, {counts['upheld']} are upheld, {counts['not upheld']} is not, "
        f"{counts['undecided']} are undecided"
    )
    assert text in " ".join((STUDY / "README.md").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def few(study_results: Callable[..., Path]) -> pl.DataFrame:
    return pl.read_parquet(study_results("l4s2020") / "flows.parquet")


def test_prague_of_2020_gets_twice_the_rate_of_cubic_behind_dualpi2_over_10_mbit(
    few: pl.DataFrame,
) -> None:
    """Published: 6.0 and 3.2 Mbit/s, with a packet time above the threshold."""
    cell = few.filter(pair="prague-cubic", rtt="20+20")
    rate = {row["role"]: row["throughput_Bps"] * 8e-6 for row in cell.iter_rows(named=True)}
    assert rate["one"] == pytest.approx(6.01, rel=0.1)
    assert rate["other"] == pytest.approx(3.23, rel=0.15)


def of_pairs(rows: pl.DataFrame, metric: str) -> dict[tuple[str, str], float]:
    """A metric by queue and congestion control."""
    return {(row["queue"], row["pair"]): row[metric] for row in rows.iter_rows(named=True)}


def test_prague_delays_itself_for_longer_than_cubic_when_the_rate_halves(few: pl.DataFrame) -> None:
    """Published: about 100 ms for around 5 s, a seventh of the time measured here."""
    rows = few.filter(scenario="2", rtt="80")
    greatest, most = of_pairs(rows, "queue_delay_max_s"), of_pairs(rows, "queue_delay_p95_s")
    assert greatest["fq_codel", "prague"] == pytest.approx(0.1, rel=0.25)
    assert most["fq_codel", "prague"] > 0.8 * greatest["fq_codel", "prague"]
    assert most["fq_codel", "cubic"] < 0.2 * greatest["fq_codel", "cubic"]


def test_prague_behind_dualpi2_leaves_half_of_a_bursty_link(few: pl.DataFrame) -> None:
    rows = few.filter(scenario="2", rtt="20-bursty")
    rate, rtt = of_pairs(rows, "throughput_Bps"), of_pairs(rows, "rtt_median_s")
    assert rate["fq_codel", "cubic"] * 8e-6 > 0.9 * 25
    assert rate["dualpi2", "prague"] == pytest.approx(0.5 * rate["fq_codel", "cubic"], rel=0.25)
    assert rtt["dualpi2", "prague"] < rtt["fq_codel", "cubic"]


def test_red_marks_above_its_thresholds(few: pl.DataFrame) -> None:
    """With drops there, Prague halves its window and leaves Reno 11 Mbit/s of 50."""
    cell = few.filter(scenario="6", queue="red-150000")
    assert cell["data_drops_red"].sum() == 0
    assert cell["data_marks_ecn"].min() > 0  # type: ignore[operator]
    assert cell.filter(role="one")["throughput_Bps"].item() * 8e-6 > 40


def test_each_published_rate_belongs_to_a_cell_and_two_flows() -> None:
    with (STUDY / "published.csv").open() as published, (STUDY / "tables.csv").open() as tables:
        cells = [tuple(row[name] for name in CELL) for row in csv.DictReader(published)]
        assert len(cells) == 218
        assert set(cells) <= {tuple(row[name] for name in CELL) for row in csv.DictReader(tables)}
    assert all(cells.count(cell) == 2 for cell in set(cells))
