"""The paired differences between levels in a report, and their forest plots."""

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
"""The number of rows of forest plots that are initially open; further plots are folded."""


def compared(findings: Findings) -> list[Difference]:
    """Compare levels as the study does; without published numbers, with the first level of each factor."""
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
    in it. Statistics come from `lasthop.present.answer.differences`.
    """
    factor = presentation.compare.factor
    if factor is None or factor not in factors or not things:
        return []
    column = factor_column(factor)
    names = {factor_column(name): name for name in factors}
    # One list for all cases, so that the same factors identify all of them.
    cells = pl.concat([thing.rows.select(list(names)) for thing in things]).unique(maintain_order=True)
    others = informative(cells, (name for name in names if name != column), [column])
    named_factors = {column: factor, **{other: names[other] for other in others}}
    diffs = [
        diff
        for thing in things
        for diff in _of_thing(thing, named_factors, presentation.compare.references, looks)
    ]
    return corrected(diffs)


def _of_thing(
    thing: Timed, factors: Mapping[str, str], references: Sequence[str], looks: int
) -> list[Difference]:
    """Compare the levels of the first of `factors` in each case; p values are not corrected."""
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
    diffs = []
    for reference, parts in of_references.items():
        section = Section("", pl.concat(parts), factors, [thing.metric], looks=looks)
        pairs = pairs_of(section, column, Compared(thing.metric, section.rows), reference)
        # `where` of a difference omits levels that do not vary among these cases.
        first = section.rows.row(0, named=True)
        alike = {name: str(first[key]) for key, name in where.items()}
        for diff in against(section, pairs):
            levels_by_name = alike | dict(diff.where)
            diffs.append(replace(diff, where=tuple((name, levels_by_name[name]) for name in where.values())))
    return sorted(diffs, key=lambda diff: places[tuple(level for _, level in diff.where)])


def place(diff: Difference) -> str:
    """Return the case of a difference as text: levels of the other factors, and the flow."""
    return " · ".join(level if name == WHO else f"{name} = {level}" for name, level in diff.where)


def first_place(diff: Difference) -> str:
    """Return the first level of the case as text; empty if there is none."""
    return place(replace(diff, where=diff.where[:1]))


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A line of a forest plot; `css` is `more` or `less` if the level differs significantly.

    `p` belongs to the paired t test, `ranks_p` to the signed-rank test; `median` is the pairs' median.
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
    """The lines of a case, with the mean of its reference."""

    title: str
    reference: str
    rows: Sequence[ForestRow]


@dataclass(frozen=True, slots=True)
class Forest:
    """Comparisons of a metric over a common axis; `open` is whether they are initially visible."""

    title: str
    factor: str
    unit: str
    axis: Axis
    groups: Sequence[ForestGroup]
    open: bool = True

    @property
    def lines(self) -> int:
        return sum(len(group.rows) for group in self.groups)


_Tested: TypeAlias = tuple[Difference, PairedDifference]


def forests(diffs: Sequence[Difference], seed: int) -> list[Forest]:
    """Return a plot per metric and factor; if it has many lines, per level of the first other factor."""
    whole: dict[tuple[str, str], list[Difference]] = {}
    for diff in diffs:
        whole.setdefault((diff.metric, diff.factor), []).append(diff)
    views: list[Forest] = []
    for members in whole.values():
        parts: dict[str, list[Difference]] = {}
        for diff in members:
            parts.setdefault(first_place(diff) if len(members) > _MOST_ROWS else "", []).append(diff)
        for title, own in parts.items():
            is_open = sum(view.lines for view in views) < _MOST_ROWS
            views.append(_forest(title, [(diff, signed_ranks(diff, seed)) for diff in own], is_open=is_open))
    return views


def _forest(title: str, members: Sequence[_Tested], *, is_open: bool) -> Forest:
    metric, factor = members[0][0].metric, members[0][0].factor
    ends = [end for diff, _ in members for end in (diff.mean, diff.low, diff.high)]
    axis, scale = Axis.over(ends), units.scale_of(metric, ends)
    groups: dict[tuple[str, str], list[_Tested]] = {}
    for diff, ranks in members:
        words = place(diff).removeprefix(title).removeprefix(" · ")
        groups.setdefault((words, diff.reference), []).append((diff, ranks))
    views = [
        ForestGroup(
            words,
            f"{factor} = {reference}: {units.human(metric, own[0][0].reference_mean)}",
            [_row(diff, ranks, axis, scale) for diff, ranks in own],
        )
        for (words, reference), own in groups.items()
    ]
    words = f"{units.label(metric)}, by {factor}"
    whole = " · ".join([words[:1].upper() + words[1:], *([title] if title else [])])
    return Forest(whole, factor, scale.unit, axis.scaled(scale.factor), views, is_open)


def _row(diff: Difference, ranks: PairedDifference, axis: Axis, scale: units.Scale) -> ForestRow:
    has_interval = math.isfinite(diff.low)
    return ForestRow(
        level=diff.level,
        difference=_signed(scale, diff.mean),
        interval=f"{_signed(scale, diff.low)} … {'?' if math.isinf(diff.high) else _signed(scale, diff.high)}"
        if has_interval
        else "–",
        share=minus(f"{100 * diff.relative:+.0f} %") if math.isfinite(diff.relative) else "–",
        p=_probability(diff.p),
        ranks_p=_probability(ranks.p_value),
        median=_median(ranks.median, scale) if has_interval else "",
        pairs=diff.pairs,
        css=("more" if diff.mean > 0 else "less") if diff.significant else "",
        bar=axis.view(
            Interval(diff.mean, diff.low, diff.high)
            if has_interval
            else Interval(diff.mean, diff.mean, diff.mean)
        ),
    )


def _signed(scale: units.Scale, value: float) -> str:
    return minus(scale.number(value, signed=True))


def _probability(p: float) -> str:
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _median(interval: Interval, scale: units.Scale) -> str:
    middle, low, high = (_signed(scale, end) for end in (interval.estimate, interval.low, interval.high))
    return f"Median of the pairs {middle} {scale.unit}, 95 % bootstrap interval {low} … {high}"
