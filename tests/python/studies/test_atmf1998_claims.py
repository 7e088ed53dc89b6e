"""The claims of atmf1998 on the numbers that the study itself printed."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest

from claims_tools import Cell, Scenario
from lasthop.analysis.claims.evaluate import Outcome, evaluate
from lasthop.analysis.claims.records import Records
from lasthop.studies.claims.file import load_claims

STUDY = Path(__file__).resolve().parents[3] / "studies" / "atmf1998"
FACTORS = {
    "link": ["wan", "meo", "geo"],
    "variant": ["vanilla", "reno", "newreno", "sack"],
    "queue": ["epd", "sd"],
    "buffer_rtt": ["0.5", "1", "2"],
}
DESIGN = Scenario(
    FACTORS,
    [Cell(dict(zip(FACTORS, levels, strict=True))) for levels in itertools.product(*FACTORS.values())],
)
PUBLISHED = pl.read_csv(STUDY / "published.csv", infer_schema=False)
SHARES = PUBLISHED.filter(
    pl.col("metric").str.starts_with("percent_variation"),
    pl.col("flow").is_in(["TCP Flavor", "Buffer Size", "Drop Policy"]),
)


def evaluated(file: Path) -> list[Outcome]:
    """Evaluate claims on T4.

    One simulation per cell was printed; taken twice, its numbers decide by their sign. The study did not
    print that packets were dropped in each cell.
    """
    once = (
        PUBLISHED.filter(pl.col("metric").is_in(["efficiency", "fairness"]), statistic="value", flow="all")
        .with_columns(pl.col("value").cast(pl.Float64))
        .pivot(on="metric", index=list(FACTORS), values="value")
        .rename({"fairness": "fairness_maxmin"})
        .with_columns(data_drops_epd=pl.lit(1.0), data_drops_selective=pl.lit(1.0))
    )
    runs = pl.concat([once.with_columns(replication=pl.lit(number)) for number in (1, 2)])
    return evaluate(load_claims(file, DESIGN), Records({"runs": runs}, list(FACTORS)))


def test_the_printed_numbers_uphold_the_claims_on_the_link_that_they_are_of() -> None:
    outcomes = [outcome for outcome in evaluated(STUDY / "claims.toml") if outcome.claim.holds]
    run = {outcome.claim.id: outcome.verdict for outcome in outcomes if outcome.verdict != "not run"}
    assert len(run) == 19
    assert {name for name, verdict in run.items() if verdict != "upheld"} == {"A031"}
    refuted = {outcome.claim.id for outcome in outcomes if outcome.claim.contradicts_source}
    assert refuted == {"A031"}
    assert all(outcome.claim.where.startswith("link=wan") for outcome in outcomes if outcome.claim.id in run)


@pytest.mark.parametrize(("flow", "metric", "percent"), SHARES.select("flow", "metric", "value").rows())
def test_the_printed_shares_come_out_to_the_last_digit(
    tmp_path: Path, flow: str, metric: str, percent: str
) -> None:
    """The source cuts the shares of fairness after the last digit."""
    column = {"efficiency": "efficiency", "fairness": "fairness_maxmin"}[metric.rpartition("_")[2]]
    first = {"TCP Flavor": "variant", "Buffer Size": "buffer_rtt", "Drop Policy": "queue"}[flow]
    order = sorted(("variant", "buffer_rtt", "queue"), key=lambda name: name != first)
    through = ", ".join(f"{name}='*'" for name in order)
    file = tmp_path / "claims.toml"
    holds = f"100 * explained({column}(), {through}) == {percent}"
    file.write_text(
        f'[[claim]]\nid = "C"\ntext = "said"\nholds = "{holds}"\nwithin = 0.1\nwhere = {{ link = "wan" }}\n',
        encoding="utf-8",
    )
    (outcome,) = evaluated(file)
    assert outcome.decisive is not None
    assert outcome.decisive.left == pytest.approx(float(percent), abs=0.01)
