"""What a report is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from lasthop.beside import Beside
from lasthop.campaign import Campaign
from lasthop.catalogue import Assets, CurvesSpec, Presentation
from lasthop.claims.evaluate import Outcome
from lasthop.comparison import Agreement


@dataclass(frozen=True, slots=True)
class Timed:
    """What has a duration, in seconds, in the column `metric`; `role` tells the rows of a replication apart."""

    title: str
    metric: str
    quantity: str
    rows: pl.DataFrame


def transfers(flows: pl.DataFrame) -> pl.DataFrame:
    """Return the flows that stand for themselves: all but the connections of page loads."""
    return flows.filter(pl.col("application") == pl.col("flow"))


def timed(flows: pl.DataFrame, pages: pl.DataFrame | None, shorts: pl.DataFrame | None = None) -> list[Timed]:
    """Return the page loads, short flows and transfers, whichever there are."""
    found = []
    if shorts is not None:
        named = shorts.with_columns(role=pl.col("application"))
        found.append(Timed("Short flows", "fct_mean_s", "mean completion time (s)", named))
    if flows.is_empty():  # its columns have no types
        return found
    if pages is not None:
        loads = pages.with_columns(role=pl.col("page"))
        found.append(Timed("Page loads", "response_time_s", "response time (s)", loads))
    tcp = transfers(flows).filter(pl.col("protocol") == "tcp")
    if not tcp.is_empty():
        found.append(Timed("Transfers", "elapsed_s", "elapsed time (s)", tcp))
    return found


def telling(frame: pl.DataFrame, columns: Iterable[str], given: Sequence[str] = ()) -> list[str]:
    """Return those of `columns` that have several values, and none that another column, or one `given`, determines."""
    kept = [column for column in columns if frame[column].n_unique() > 1]
    for column in reversed(kept):
        others = [other for other in (*given, *kept) if other != column]
        if any(frame.group_by(other).agg(pl.col(column).n_unique())[column].max() == 1 for other in others):
            kept.remove(column)
    return kept


@dataclass(frozen=True, slots=True)
class Results:
    """The records of a campaign and what was made of them; `comparison` and `assets` belong to a published study."""

    campaign: Campaign
    flows: pl.DataFrame
    summary: pl.DataFrame
    pages: pl.DataFrame | None = None
    shorts: pl.DataFrame | None = None
    assets: Assets | None = None
    comparison: pl.DataFrame | None = None
    agreement: Sequence[Agreement] = field(default_factory=list)
    claims: Sequence[Outcome] = field(default_factory=list)
    curves: Sequence[CurvesSpec] = ()
    beside: Beside | None = None

    @property
    def factors(self) -> dict[str, list[str]]:
        """The scenario's factors with their levels."""
        return self.campaign.plan.study.factors

    @property
    def presentation(self) -> Presentation:
        """The study's presentation, or a plain one that compares the levels of the last factor.

        A factor that the published numbers do not know is what is compared.
        """
        factors = self.factors
        if self.assets is not None:
            presentation = self.assets.presentation
            extra = self.assets.extra_factors(factors)
            return (
                replace(presentation, factor=extra[-1], references=tuple(factors[extra[-1]])) if extra else presentation
            )
        last = next((f for f in reversed(factors) if len(factors[f]) > 1), None)
        return Presentation(factor=last, references=tuple(factors[last]) if last else ())
