"""What a finished campaign leaves besides its raw rows: `summary.csv`, `comparison.csv`, `report.html`."""

from __future__ import annotations

from pathlib import Path

from lasthop.atomic import replace_atomically
from lasthop.campaign import Campaign
from lasthop.catalogue import Assets
from lasthop.comparison import agreement, compare
from lasthop.report.page import write_report
from lasthop.report.results import Results
from lasthop.summary import extra_columns, generic_summary, study_summary

SUMMARY = "summary.csv"
COMPARISON = "comparison.csv"
REPORT = "report.html"


def analyse(campaign: Campaign, assets: Assets | None) -> Results:
    """Compute the statistics of a complete campaign and, for a study, hold them against the published numbers."""
    flows, pages = campaign.flows(), campaign.pages()
    factors = list(campaign.plan.study.factors)
    if assets is None:
        return Results(campaign, flows, generic_summary(flows, pages, factors), pages)
    summary = study_summary(flows, pages, factors, assets, campaign.run_rows())
    extra = extra_columns(factors, assets)
    comparison = compare(summary, assets, extra)
    met = agreement(comparison, extra, assets.presentation.misprints)
    return Results(campaign, flows, summary, pages, assets, comparison, met)


def write_outputs(results: Results) -> Path:
    """Write the CSV files and the report into the campaign's folder; return where the report is."""
    out = results.campaign.out
    replace_atomically(out / SUMMARY, results.summary.write_csv)
    if results.comparison is not None:
        replace_atomically(out / COMPARISON, results.comparison.write_csv)
    replace_atomically(out / REPORT, lambda path: write_report(results, path))
    return out / REPORT
