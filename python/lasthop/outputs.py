"""What a finished campaign leaves besides its raw rows: tables of statistics and of claims, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lasthop.atomic import replace_atomically
from lasthop.campaign import Campaign
from lasthop.catalogue import Assets, CurvesSpec
from lasthop.claims.evaluate import evaluate
from lasthop.claims.file import Claims
from lasthop.claims.records import Records
from lasthop.claims.tables import cells_frame, claims_frame
from lasthop.comparison import agreement, compare
from lasthop.report.page import write_report
from lasthop.report.results import Results
from lasthop.shorts import with_rates
from lasthop.summary import extra_columns, generic_summary, study_summary

SUMMARY = "summary.csv"
COMPARISON = "comparison.csv"
CLAIMS = "claims.csv"
CLAIMS_BY_CELL = "claims_cells.csv"
REPORT = "report.html"


def analyse(
    campaign: Campaign, assets: Assets | None, claims: Claims | None = None, curves: Sequence[CurvesSpec] = ()
) -> Results:
    """Compute the statistics of a complete campaign and, for a study, hold them against what was published."""
    results = replace(_statistics(campaign, assets), curves=curves)
    if claims is None:
        return results
    return replace(results, claims=evaluate(claims, Records.read(campaign.out, claims.factors)))


def _statistics(campaign: Campaign, assets: Assets | None) -> Results:
    flows, pages = campaign.flows(), campaign.pages()
    factors = list(campaign.plan.study.factors)
    if assets is None:
        shorts = campaign.shorts()
        shorts = None if shorts is None else with_rates(shorts)
        summary = generic_summary(flows, pages, factors, shorts=shorts)
        return Results(campaign, flows, summary, pages, shorts)
    summary = study_summary(flows, pages, factors, assets, campaign.run_rows())
    extra = extra_columns(factors, assets)
    comparison = compare(summary, assets, extra)
    met = agreement(comparison, extra, assets.presentation.misprints)
    return Results(campaign, flows, summary, pages, assets=assets, comparison=comparison, agreement=met)


def write_outputs(results: Results) -> Path:
    """Write the CSV files and the report into the campaign's folder; return where the report is."""
    out = results.campaign.out
    replace_atomically(out / SUMMARY, results.summary.write_csv)
    if results.comparison is not None:
        replace_atomically(out / COMPARISON, results.comparison.write_csv)
    if results.claims:
        replace_atomically(out / CLAIMS, claims_frame(results.claims).write_csv)
        replace_atomically(out / CLAIMS_BY_CELL, cells_frame(results.claims).write_csv)
    replace_atomically(out / REPORT, lambda path: write_report(results, path))
    return out / REPORT
