"""The study bbr2016 against the numbers of rebbr and the statements of its sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from long_tests import ENGINE

ROOT = Path(__file__).resolve().parents[3]
STUDY = ROOT / "studies" / "bbr2016"
README = (STUDY / "README.md").read_text(encoding="utf-8")
LONG = pytest.mark.long(
    covers=(
        "studies/bbr2016",
        "python/lasthop/studies",
        "python/lasthop/analysis/claims",
        "python/lasthop/analysis/studies",
        *ENGINE,
    ),
    seconds=330,
)


def near(rows: pl.DataFrame, tolerance: float) -> float:
    """Share of the rows within a relative tolerance."""
    assert rows.height > 0
    return float((rows["measured"] / rows["published"] - 1).abs().le(tolerance).mean())  # type: ignore[arg-type]


# ---- A few cells -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few(study_results: Callable[..., Path]) -> Path:
    return study_results("bbr2016")


def test_without_pacing_bbr_tolerates_losses_that_a_paced_one_does_not(few: Path) -> None:
    hops = pl.read_parquet(few / "hops.parquet").filter(hop="link", direction="up", control="bbr", loss="0.3")
    rate = dict(hops.group_by("experiment").agg(pl.mean("throughput_Bps")).iter_rows())
    assert rate["figure8"] > 2 * rate["paper"]


def test_the_summary_has_what_left_the_link(few: Path) -> None:
    summary = pl.read_csv(few / "summary.csv", infer_schema_length=None)
    hops = pl.read_parquet(few / "hops.parquet").filter(hop="link", direction="up", experiment="figure8")
    assert summary["flow"].unique().to_list() == ["link up"]
    assert summary["value"].sum() == pytest.approx(
        hops.group_by("control", "loss").agg(pl.mean("throughput_Bps"))["throughput_Bps"].sum(), rel=1e-6
    )


# ---- The whole study -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(study_results: Callable[..., Path]) -> Path:
    return study_results("bbr2016", "--replications", "3")


def groups(comparison: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of the README's table of agreement."""
    loss = pl.col("loss").cast(pl.Float64)
    control = pl.col("control")
    bbr = control == "bbr"
    parts = {
        "CUBIC, Reno, and BBR up to 15 %": pl.col("control").is_in(["cubic", "reno"])
        | (bbr & (loss <= 0.15)),
        "BBR up to 15 %": bbr & (loss <= 0.15),
        "BBR from 20 %": bbr & (loss > 0.15),
        "CUBIC": control == "cubic",
        "Reno": control == "reno",
        "BIC": control == "bic",
        "Vegas": control == "vegas",
        "Westwood": control == "westwood",
        "all": pl.lit(True),
    }
    return {name: comparison.filter(part) for name, part in parts.items()}


@LONG
def test_the_readme_has_the_agreement(comparison: pl.DataFrame) -> None:
    for name, rows in groups(comparison).items():
        shares = " | ".join(f"{100 * near(rows, tolerance):.0f} %" for tolerance in (0.10, 0.15, 0.25))
        assert f"| {name} | {rows.height} | {shares} |" in README


def printed_verdicts() -> dict[str, str]:
    """Return the verdict on each claim in the README's table."""
    return dict(re.findall(r"^\| `(\w+)` \|.*\| \*{0,2}([a-z ]+)\*{0,2} \|", README, re.MULTILINE))


@LONG
def test_the_readme_has_the_verdict_on_each_claim(results: Path) -> None:
    claims = pl.read_csv(results / "claims.csv", infer_schema=False).fill_null("")
    assert printed_verdicts() == dict(claims.select("id", "verdict").iter_rows())
    explained = set(claims.filter(pl.col("explanation") != "")["id"])
    assert explained == set(claims.filter(verdict="not upheld")["id"])


def test_documents_count_the_verdicts_of_the_readmes_table() -> None:
    counts = Counter(printed_verdicts().values())
    text = f"Of {counts.total()} statements {counts['upheld']} are upheld, {counts['not upheld']} are not"
    assert text in README
    validation = (ROOT / "docs" / "validation" / "index.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"\| \[bbr2016\].*", validation)
    assert f"of {counts.total()} statements {counts['upheld']} upheld, {counts['not upheld']} not" in line
