"""The study coexistence: its claims and heat maps on a few of its cells, and the contents of its files."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop.campaign.results.tables import with_computed
from long_tests import ENGINE
from test_report import read

ROOT = Path(__file__).resolve().parents[3]
STUDY = ROOT / "studies" / "coexistence"
LONG = pytest.mark.long(covers=("studies/coexistence", *ENGINE), seconds=325)


@pytest.fixture(scope="module")
def out(study_results: Callable[..., Path]) -> Path:
    return study_results("coexistence")


def test_bbr_takes_a_small_buffer_and_shares_a_large_one(out: Path) -> None:
    flows = with_computed(pl.scan_parquet(out / "flows.parquet")).collect().filter(role="one", control="bbr")
    share = {
        queue: flows.filter(beside="cubic", queue=queue)["throughput_share"].to_list()
        for queue in ("0.5", "4")
    }
    assert min(share["0.5"]) > 0.8
    assert all(0.35 < value < 0.6 for value in share["4"])


def test_claims_on_these_cells_have_verdicts_and_the_others_wait(out: Path) -> None:
    verdicts = dict(pl.read_csv(out / "claims.csv", infer_schema=False).select("id", "verdict").iter_rows())
    assert verdicts["l4s-rates"] == "not run"
    assert {name for name, verdict in verdicts.items() if verdict != "not run"} == {
        "hock-small",
        "hock-losses",
    }
    assert verdicts["hock-small"] == "upheld"


def test_the_report_draws_what_was_run_as_heat_maps(out: Path) -> None:
    page = read(out / "report.html")
    assert "Who gets the link, equal round-trip times" in " ".join(page.text)
    # The figure of the first screen, three per queue, and the figure of one flow beside several.
    assert len(page.figures) == 1 + 3 * 3 + 1
    for figure in page.figures[:4]:
        (trace,) = figure["data"]  # type: ignore[misc]
        assert trace["y"] == trace["x"] == ["cubic", "bbr"]  # type: ignore[index]


def test_every_factor_is_part_of_the_claims_and_sources_are_named() -> None:
    with (STUDY / "claims.toml").open("rb") as file:
        claims = tomllib.load(file)["claim"]
    readme = (STUDY / "README.md").read_text(encoding="utf-8")
    for claim in claims:
        assert f"`{claim['id']}`" in readme, claim["id"]
        assert claim["section"]


def printed_verdicts() -> dict[str, str]:
    """Return the verdict on each claim in the README's table."""
    rows = (line.split(" | ") for line in (STUDY / "README.md").read_text(encoding="utf-8").splitlines())
    return {
        row[0].strip("| `"): row[3].strip("*") for row in rows if len(row) == 5 and row[0].startswith("| `")
    }


def test_documents_count_the_verdicts_of_the_readmes_table() -> None:
    counts = Counter(printed_verdicts().values())
    upheld, failing, undecided = counts["upheld"], counts["not upheld"], counts["undecided"]
    assert (
        f"Of {counts.total()} claims {upheld} are upheld, {failing} are not, and {undecided} are undecided."
        in (STUDY / "README.md").read_text(encoding="utf-8")
    )
    validation = (ROOT / "docs" / "validation" / "index.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"\| \[coexistence\].*", validation)
    assert f"{upheld} are upheld and {failing} not" in line


@pytest.fixture(scope="module")
def whole(study_results: Callable[..., Path]) -> pl.DataFrame:
    """Return the verdicts of the whole study, three sets of its replications."""
    folder = study_results("coexistence", "--sets", "3")
    return pl.read_csv(folder / "claims.csv", infer_schema=False).fill_null("")


@LONG
def test_the_readme_has_the_verdict_on_each_claim(whole: pl.DataFrame) -> None:
    assert printed_verdicts() == dict(whole.select("id", "verdict").iter_rows())


@LONG
def test_every_claim_that_is_not_upheld_is_explained_and_no_other(whole: pl.DataFrame) -> None:
    explained = set(whole.filter(pl.col("explanation") != "")["id"])
    assert explained == set(whole.filter(pl.col("verdict") != "upheld")["id"])


@LONG
def test_more_than_half_of_the_claims_are_upheld(whole: pl.DataFrame) -> None:
    assert whole.filter(verdict="upheld").height > 0.5 * whole.height
