"""Compute the findings of a finished campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from lasthop.analysis.findings.findings import Findings
from lasthop.analysis.statistics.summary import whole_summary
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.results.tables import Tables
from lasthop.studies.catalogue import Assets
from lasthop.studies.presentation.drawn import Drawn

if TYPE_CHECKING:
    from lasthop.analysis.studies.beside import Side
    from lasthop.studies.claims.file import Claims


def analyse(
    campaign: Campaign,
    assets: Assets | None,
    claims: Claims | None = None,
    drawn: Drawn | None = None,
    beside: Sequence[Side] = (),
) -> Findings:
    """Compute the statistics of a complete campaign, and compare a study's with its published numbers.

    `beside` holds results of the same scenario from other engines.
    """
    tables = Tables.read(campaign.out)
    findings = replace(_statistics(campaign, tables, assets), drawn=drawn or Drawn())
    if "until" in campaign.manifest:
        from lasthop.analysis.findings.precision import conditions_of, precision_table

        conditions = conditions_of(campaign.manifest)
        findings = replace(
            findings,
            conditions=conditions,
            precision=precision_table(conditions, Tables.read_points(campaign.out)),
        )
    if beside:
        from lasthop.analysis.studies.beside import Side, lay_beside

        own = Side(campaign.plan.engine.name, campaign.out, campaign.manifest, tables)
        findings = replace(findings, beside=lay_beside([own, *beside], campaign.plan.study, assets))
    if claims is None:
        return findings
    from lasthop.analysis.claims.answers import answers
    from lasthop.analysis.claims.evaluate import evaluate
    from lasthop.analysis.claims.records import Records

    outcomes = evaluate(claims, Records.read(campaign.out, claims.factors))
    return replace(findings, claims=outcomes, answers=answers(claims.sentences, outcomes))


def _statistics(campaign: Campaign, tables: Tables, assets: Assets | None) -> Findings:
    if assets is None:
        return Findings(campaign, tables)
    from lasthop.analysis.studies.comparison import agreement, compare
    from lasthop.analysis.studies.summary import extra_columns, summary_of

    factors = list(campaign.plan.study.factors)
    summary = summary_of(tables, factors, assets)
    extra = extra_columns(factors, assets)
    comparison = compare(summary, assets, extra)
    met = agreement(comparison, extra, assets.presentation.misprints, assets.presentation.not_stated)
    return Findings(
        campaign, replace(tables, shorts=None), summary, assets=assets, comparison=comparison, agreement=met
    )


def summary_of_points(findings: Findings) -> pl.DataFrame:
    """Return the statistics of every cell; for a space, of the report's statistics over the points."""
    study = findings.campaign.plan.study
    if study.space is None or findings.assets is not None:
        return findings.summary
    tables = Tables.read_points(findings.campaign.out)
    return whole_summary(tables, [*study.factors, *study.space["ranges"]])
