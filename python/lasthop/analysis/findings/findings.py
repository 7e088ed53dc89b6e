"""Findings in finished runs, as shown by a report."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from lasthop.analysis.statistics.summary import whole_summary
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.results.sections import REPLICATION, WHO, Section, sections
from lasthop.campaign.results.tables import Tables, outside_pages, whole_flows
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.studies.catalogue import Assets
from lasthop.studies.presentation.drawn import Drawn

if TYPE_CHECKING:
    from lasthop.analysis.claims.answers import Answer
    from lasthop.analysis.claims.evaluate import Outcome
    from lasthop.analysis.studies.beside import Beside
    from lasthop.analysis.studies.comparison import Agreement
    from lasthop.campaign.until.looks import Condition
    from lasthop.studies.presentation.spec import Presentation


class Timed(NamedTuple):
    """A metric that a report compares, in its unit; `role` distinguishes the rows of a replication."""

    title: str
    metric: str
    rows: pl.DataFrame


def timed(flows: pl.DataFrame, pages: pl.DataFrame | None) -> list[Timed]:
    """Return the times of page loads and transfers, which studies publish, if there are any."""
    things: list[Timed] = []
    if flows.is_empty():  # the columns have no types
        return things
    whole = whole_flows(flows.lazy())
    if pages is not None:
        loads = pages
        things.append(Timed("Page loads", "response_time_s", loads))
        whole = outside_pages(whole, pages.lazy())
    transfers = whole.filter(pl.col("protocol").is_in(TRANSFER_PROTOCOLS)).collect()
    return _with_values([*things, Timed("Transfers", "elapsed_s", transfers)])


def headlines(parts: Sequence[Section]) -> list[Timed]:
    """Return the metrics by which `lasthop results show` compares levels by default."""
    things = [
        Timed(
            section.title,
            column.metric,
            column.rows.select(*section.factors, *REPLICATION, pl.col(WHO).alias("role"), column.metric),
        )
        for section in parts
        for column in section.compared
        if column.headline
    ]
    return _with_values(things)


def _with_values(things: Sequence[Timed]) -> list[Timed]:
    return [
        thing for thing in things if thing.metric in thing.rows.columns and thing.rows[thing.metric].count()
    ]


def informative(frame: pl.DataFrame, columns: Iterable[str], others: Sequence[str] = ()) -> list[str]:
    """Return the `columns` with several values, except those that another column or `others` determine."""
    varying = [column for column in columns if frame[column].n_unique() > 1]
    for column in reversed(varying):
        rivals = [other for other in (*others, *varying) if other != column]
        if any(frame.group_by(other).agg(pl.col(column).n_unique())[column].max() == 1 for other in rivals):
            varying.remove(column)
    return varying


@dataclass(frozen=True)
class Findings:
    """The records of a campaign and their findings.

    Only a published study has `study_summary`, `comparison` and `assets`.
    """

    campaign: Campaign
    tables: Tables
    study_summary: pl.DataFrame | None = None
    assets: Assets | None = None
    comparison: pl.DataFrame | None = None
    agreement: Sequence[Agreement] = field(default_factory=list)
    claims: Sequence[Outcome] = field(default_factory=list)
    answers: Sequence[Answer] = ()
    """The claims' verdicts on the statements of a source, if the study lists these."""
    drawn: Drawn = field(default_factory=Drawn)
    beside: Beside | None = None
    conditions: Sequence[Condition] = ()
    """The stopping rules of the cells, if any; `precision` has their results."""
    precision: pl.DataFrame | None = None

    @property
    def has_source(self) -> bool:
        """Whether there are numbers or statements of a source to compare with."""
        return bool(self.assets or self.answers)

    @property
    def factors(self) -> dict[str, list[str]]:
        return self.campaign.plan.study.factors

    @functools.cached_property
    def summary(self) -> pl.DataFrame:
        """The statistics of every cell. They are lazy because an answer computes only those it shows."""
        if self.study_summary is not None:
            return self.study_summary
        return whole_summary(self.tables, list(self.factors))

    @functools.cached_property
    def sections(self) -> list[Section]:
        return sections(self.tables)

    @functools.cached_property
    def things(self) -> list[Timed]:
        """The metrics by which levels are compared: the study's, by default the headline metrics."""
        factorial = self.presentation.factorial
        if self.presentation.of_runs and factorial is not None:
            rows = self.tables.runs.with_columns(role=pl.lit("all")).collect()
            return [Timed("Runs", metric, rows) for metric in factorial.metrics]
        if self.assets is None:
            return headlines(self.sections)
        pages = None if self.tables.pages is None else self.tables.pages.collect()
        return timed(self.tables.flows.collect(), pages)

    @property
    def presentation(self) -> Presentation:
        """The study's presentation, by default one that compares the levels of the last factor.

        If the published numbers lack a factor, the levels of that factor are compared.
        """
        from lasthop.studies.presentation.spec import CompareSpec, Presentation

        factors = self.factors
        if self.assets is not None:
            presentation = self.assets.presentation
            extra = self.assets.extra_factors(factors)
            if not extra:
                return presentation
            return replace(presentation, compare=CompareSpec(extra[-1], tuple(factors[extra[-1]])))
        last = next((f for f in reversed(factors) if len(factors[f]) > 1), None)
        return Presentation(compare=CompareSpec(last, tuple(factors[last]) if last else ()))


def times(findings: Findings) -> str:
    """Return the number of replications of a cell, or its range, as text."""
    counts, sets = findings.campaign.counts, findings.campaign.plan.sets
    least, most = min(counts) * sets, max(counts) * sets
    return f"{most}" if least == most else f"{least} to {most}"
