"""The claims of atmf1998 on the numbers that the study itself printed."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl

from claims_tools import Cell, Scenario
from lasthop.studies.claims.evaluate import evaluate
from lasthop.studies.claims.file import load_claims
from lasthop.studies.claims.records import Records

STUDY = Path(__file__).resolve().parents[2] / "studies" / "atmf1998"
FACTORS = {
    "link": ["wan", "meo", "geo"],
    "variant": ["vanilla", "reno", "newreno", "sack"],
    "queue": ["epd", "sd"],
    "buffer_rtt": ["0.5", "1", "2"],
}


def test_the_printed_numbers_uphold_the_claims_on_the_links_that_they_are_of() -> None:
    """One simulation a cell was printed; taken twice, its numbers decide by their sign."""
    cells = [Cell(dict(zip(FACTORS, levels, strict=True))) for levels in itertools.product(*FACTORS.values())]
    claims = load_claims(STUDY / "claims.toml", Scenario(FACTORS, cells))
    printed = pl.read_csv(STUDY / "published.csv", infer_schema=False).filter(
        pl.col("metric").is_in(["efficiency", "fairness"]), statistic="value", flow="all"
    )
    once = (
        printed.with_columns(pl.col("value").cast(pl.Float64))
        .pivot(on="metric", index=list(FACTORS), values="value")
        .rename({"fairness": "fairness_maxmin"})
    )
    runs = pl.concat([once.with_columns(replication=pl.lit(number)) for number in (1, 2)])
    verdicts = {o.claim.id: o.verdict for o in evaluate(claims, Records({"runs": runs}, list(FACTORS)))}
    assert verdicts == {
        "wan-order": "upheld",
        "satellite-sack": "not run",
        "wan-reno-drop": "upheld",
        "wan-fairest": "upheld",
        "satellite-fairness": "not run",
    }
