"""What a finished campaign writes besides its raw rows: tables of statistics and claims, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from lasthop.campaign.campaign import Campaign
from lasthop.report.page import write_report
from lasthop.report.results import Results
from lasthop.results.atomic import replace_atomically
from lasthop.results.tables import Tables
from lasthop.statistics.summary import whole_summary
from lasthop.studies.catalogue import Assets
from lasthop.studies.presentation.spec import Drawn

if TYPE_CHECKING:
    from lasthop.studies.beside import Side
    from lasthop.studies.claims.file import Claims

SUMMARY = "summary.csv"
COMPARISON = "comparison.csv"
ENGINES = "engines.csv"
PRECISION = "precision.csv"
CLAIMS = "claims.csv"
CLAIMS_BY_CELL = "claims_cells.csv"
STATEMENTS = "statements.csv"
REPORT = "report.html"


def analyse(
    campaign: Campaign,
    assets: Assets | None,
    claims: Claims | None = None,
    drawn: Drawn | None = None,
    beside: Sequence[Side] = (),
) -> Results:
    """Compute the statistics of a complete campaign and, for a study, hold them against what was published.

    `beside` are results of the same scenario from other engines.
    """
    tables = Tables.read(campaign.out)
    results = replace(_statistics(campaign, tables, assets), drawn=drawn or Drawn())
    if "until" in campaign.manifest:
        from lasthop.until.show import conditions_of, precision_table

        conditions = conditions_of(campaign.manifest)
        results = replace(
            results, conditions=conditions, precision=precision_table(conditions, Tables.read_points(campaign.out))
        )
    if beside:
        from lasthop.studies.beside import Side, lay_beside

        own = Side(campaign.plan.engine.name, campaign.out, campaign.manifest, tables)
        results = replace(results, beside=lay_beside([own, *beside], campaign.plan.study, assets))
    if claims is None:
        return results
    from lasthop.studies.claims.answers import answers
    from lasthop.studies.claims.evaluate import evaluate
    from lasthop.studies.claims.records import Records

    outcomes = evaluate(claims, Records.read(campaign.out, claims.factors))
    return replace(results, claims=outcomes, answers=answers(claims.sentences, outcomes))


def _statistics(campaign: Campaign, tables: Tables, assets: Assets | None) -> Results:
    factors = list(campaign.plan.study.factors)
    if assets is None:
        return Results(campaign, tables, whole_summary(tables, factors))
    from lasthop.studies.comparison import agreement, compare
    from lasthop.studies.summary import extra_columns, summary_of

    summary = summary_of(tables, factors, assets)
    extra = extra_columns(factors, assets)
    comparison = compare(summary, assets, extra)
    met = agreement(comparison, extra, assets.presentation.misprints, assets.presentation.not_stated)
    return Results(campaign, replace(tables, shorts=None), summary, assets=assets, comparison=comparison, agreement=met)


def summary_of_points(results: Results) -> pl.DataFrame:
    """Return the statistics of every cell, where the report has those over the points of a space."""
    study = results.campaign.plan.study
    if study.space is None or results.assets is not None:
        return results.summary
    tables = Tables.read_points(results.campaign.out)
    return whole_summary(tables, [*study.factors, *study.space["ranges"]])


def write_outputs(results: Results) -> Path:
    """Write the CSV files and the report into the campaign's folder; return where the report is."""
    out = results.campaign.out
    replace_atomically(out / SUMMARY, summary_of_points(results).write_csv)
    if results.comparison is not None:
        replace_atomically(out / COMPARISON, results.comparison.write_csv)
    if results.beside is not None:
        replace_atomically(out / ENGINES, results.beside.numbers.write_csv)
    if results.precision is not None:
        replace_atomically(out / PRECISION, results.precision.write_csv)
    if results.claims:
        from lasthop.studies.claims.tables import cells_frame, claims_frame, statements_frame

        replace_atomically(out / CLAIMS, claims_frame(results.claims).write_csv)
        replace_atomically(out / CLAIMS_BY_CELL, cells_frame(results.claims).write_csv)
        if results.answers:
            replace_atomically(out / STATEMENTS, statements_frame(results.answers).write_csv)
    replace_atomically(out / REPORT, lambda path: write_report(results, path))
    return out / REPORT
