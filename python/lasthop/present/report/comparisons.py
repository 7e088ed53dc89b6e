"""Paired differences between the levels of factors: the ones that a report shows, and their forest plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl

from lasthop.analysis.findings.findings import Findings, Timed, informative
from lasthop.campaign.results.sections import REPLICATION, WHO, Compared, Section
from lasthop.campaign.results.tables import factor_column
from lasthop.common.metrics import units
from lasthop.common.statistics.estimates import Interval, PairedDifference
from lasthop.present.answer.differences import (
    Difference,
    against,
    corrected,
    differences,
    pairs_of,
    signed_ranks,
)
from lasthop.present.report.intervals import Axis, IntervalView, minus
from lasthop.studies.presentation.spec import Presentation

_MOST_ROWS = 50
"""This many rows of forest plots are open; further plots are folded."""


def compared(findings: Findings) -> list[Difference]:
    """Compare levels as the study does.

    Without published numbers, compare each factor with its first level.
    """
    if findings.assets is None:
        return differences(findings.sections)
    return against_references(
        findings.things, list(findings.factors), findings.presentation, findings.tables.looks
    )


def against_references(
    things: Sequence[Timed], factors: Sequence[str], presentation: Presentation, looks: int = 1
) -> list[Difference]:
    """Compare each level of the presentation's factor with its reference, replication by replication.

    The reference of a case (equal levels of all other factors) is the first of the presentation's references
    that it has.
    Statistics come from `lasthop.present.answer.differences`.
    """
    factor = presentation.compare.factor
    if factor is None or factor not in factors or not things:
        return []
    column = factor_column(factor)
    names = {factor_column(name): name for name in factors}
    # One list for all cases, so that the same factors tell all of them apart.
    cells = pl.concat([thing.rows.select(list(names)) for thing in things]).unique(maintain_order=True)
    others = informative(cells, (name for name in names if name != column), [column])
    factors_told = {column: factor, **{other: names[other] for other in others}}
    found = [
        one
        for thing in things
        for one in _of_thing(thing, factors_told, presentation.compare.references, looks)
    ]
    return corrected(found)


def _of_thing(
    thing: Timed, factors: Mapping[str, str], references: Sequence[str], looks: int
) -> list[Difference]:
    """Compare the levels of the first of `factors` in each case, case by case; p values are not corrected."""
    column, *others = factors
    where = {**{other: factors[other] for other in others}, WHO: WHO}
    rows = thing.rows.select(pl.col("role").alias(WHO), *factors, *REPLICATION, thing.metric)
    of_references: dict[str, list[pl.DataFrame]] = {}
    places: dict[tuple[str, ...], int] = {}
    for case, part in rows.partition_by(list(where), as_dict=True, maintain_order=True).items():
        places[tuple(map(str, case))] = len(places)
        levels = part[column].unique()
        if (reference := next((name for name in references if name in levels), None)) is not None:
            of_references.setdefault(reference, []).append(part)
    found = []
    for reference, parts in of_references.items():
        section = Section("", pl.concat(parts), factors, [thing.metric], looks=looks)
        pairs = pairs_of(section, column, Compared(thing.metric, section.rows), reference)
        # Levels that do not vary among these cases are left out.
        first = section.rows.row(0, named=True)
        alike = {name: str(first[key]) for key, name in where.items()}
        for one in against(section, pairs):
            told = alike | dict(one.where)
            found.append(replace(one, where=tuple((name, told[name]) for name in where.values())))
    return sorted(found, key=lambda one: places[tuple(level for _, level in one.where)])


def place(one: Difference) -> str:
    """Name the case of a difference: levels of the other factors, and the flow."""
    return " · ".join(level if name == WHO else f"{name} = {level}" for name, level in one.where)


def first_place(one: Difference) -> str:
    """Name the first level that tells the case apart; empty if there is none."""
    return place(replace(one, where=one.where[:1]))


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A line of a forest plot; `css` is `more` or `less` if the level differs significantly.

    `p` belongs to the paired t test, `ranks_p` to the signed-rank test; `median` gives the median of the
    pairs.
    """

    level: str
    difference: str
    interval: str
    share: str
    p: str
    ranks_p: str
    median: str
    pairs: int
    css: str
    bar: IntervalView


@dataclass(frozen=True, slots=True)
class ForestGroup:
    """The lines of one case, with the mean of its reference."""

    title: str
    reference: str
    rows: Sequence[ForestRow]


@dataclass(frozen=True, slots=True)
class Forest:
    """Comparisons of one metric over one axis; `open` says whether they are shown at once."""

    title: str
    factor: str
    unit: str
    axis: Axis
    groups: Sequence[ForestGroup]
    open: bool = True

    @property
    def lines(self) -> int:
        """Number of comparisons."""
        return sum(len(group.rows) for group in self.groups)


_Tested: TypeAlias = tuple[Difference, PairedDifference]


def forests(found: Sequence[Difference], seed: int) -> list[Forest]:
    """Lay differences out.

    There is a plot per metric and factor, and per level of the first other factor if there are many.
    """
    whole: dict[tuple[str, str], list[Difference]] = {}
    for one in found:
        whole.setdefault((one.metric, one.factor), []).append(one)
    views: list[Forest] = []
    for members in whole.values():
        parts: dict[str, list[Difference]] = {}
        for one in members:
            parts.setdefault(first_place(one) if len(members) > _MOST_ROWS else "", []).append(one)
        for title, own in parts.items():
            is_open = sum(view.lines for view in views) < _MOST_ROWS
            views.append(_forest(title, [(one, signed_ranks(one, seed)) for one in own], is_open=is_open))
    return views


def _forest(title: str, members: Sequence[_Tested], *, is_open: bool) -> Forest:
    metric, factor = members[0][0].metric, members[0][0].factor
    ends = [end for one, _ in members for end in (one.mean, one.low, one.high)]
    axis, scale = Axis.over(ends), units.scale_of(metric, ends)
    groups: dict[tuple[str, str], list[_Tested]] = {}
    for one, ranks in members:
        words = place(one).removeprefix(title).removeprefix(" · ")
        groups.setdefault((words, one.reference), []).append((one, ranks))
    laid = [
        ForestGroup(
            words,
            f"{factor} = {reference}: {units.human(metric, own[0][0].reference_mean)}",
            [_row(one, ranks, axis, scale) for one, ranks in own],
        )
        for (words, reference), own in groups.items()
    ]
    words = f"{units.label(metric)}, by {factor}"
    whole = " · ".join([words[:1].upper() + words[1:], *([title] if title else [])])
    return Forest(whole, factor, scale.unit, axis.scaled(scale.factor), laid, is_open)


def _row(one: Difference, ranks: PairedDifference, axis: Axis, scale: units.Scale) -> ForestRow:
    known = math.isfinite(one.low)
    return ForestRow(
        level=one.level,
        difference=_signed(scale, one.mean),
        interval=f"{_signed(scale, one.low)} … {'?' if math.isinf(one.high) else _signed(scale, one.high)}"
        if known
        else "–",
        share=minus(f"{100 * one.relative:+.0f} %") if math.isfinite(one.relative) else "–",
        p=_probability(one.p),
        ranks_p=_probability(ranks.p_value),
        median=_median(ranks.median, scale) if known else "",
        pairs=one.pairs,
        css=("more" if one.mean > 0 else "less") if one.significant else "",
        bar=axis.view(
            Interval(one.mean, one.low, one.high) if known else Interval(one.mean, one.mean, one.mean)
        ),
    )


def _signed(scale: units.Scale, value: float) -> str:
    return minus(scale.number(value, signed=True))


def _probability(p: float) -> str:
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _median(interval: Interval, scale: units.Scale) -> str:
    middle, low, high = (_signed(scale, end) for end in (interval.estimate, interval.low, interval.high))
    return f"Median of the pairs {middle} {scale.unit}, 95 % bootstrap interval {low} … {high}"
