"""Paired differences between the levels of factors: which are taken for a report, and their forest plots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from lasthop import units
from lasthop.answer.differences import Difference, differences, holm, tested
from lasthop.answer.sections import REPLICATION, WHO, sections
from lasthop.campaign import factor_column
from lasthop.catalogue import Presentation
from lasthop.report.intervals import Axis, IntervalView, minus
from lasthop.report.results import Results, Timed, telling
from lasthop.statistics import Interval

_MOST_ROWS = 50
"""So many rows of forest plots are open; further plots are folded."""


def compared(results: Results) -> list[Difference]:
    """Compare levels as the study does; without published numbers, those of every factor with the factor's first."""
    if results.assets is None:
        return differences(sections(results.tables))
    return against_references(results.things, list(results.factors), results.presentation)


def against_references(things: Sequence[Timed], factors: Sequence[str], presentation: Presentation) -> list[Difference]:
    """Compare each level of the presentation's factor with its reference, replication by replication.

    The reference of a case (equal levels of all other factors) is the first of `presentation.references` that it has.
    Statistics are those of `lasthop.answer.differences`.
    """
    factor = presentation.factor
    if factor is None or factor not in factors or not things:
        return []
    column = factor_column(factor)
    names = {factor_column(name): name for name in factors}
    # One list for all, so that all are told apart by the same factors.
    cells = pl.concat([thing.rows.select(list(names)) for thing in things]).unique(maintain_order=True)
    others = telling(cells, (name for name in names if name != column), [column])
    found = [
        replace(
            one,
            factor=factor,
            metric=thing.metric,
            where=tuple(zip(_named(others, names), map(str, case), strict=True)),
        )
        for thing in things
        for case, part in thing.rows.partition_by([*others, "role"], as_dict=True, maintain_order=True).items()
        for one in _case(part, column, thing.metric, presentation.references)
    ]
    corrected = holm([one.p for one in found])
    return [replace(one, p=float(p)) for one, p in zip(found, corrected, strict=True)]


def _named(others: Sequence[str], names: dict[str, str]) -> list[str]:
    return [*(names[other] for other in others), WHO]


def _case(rows: pl.DataFrame, column: str, metric: str, references: Sequence[str]) -> Iterator[Difference]:
    """Yield how each level of `column` differs from the reference; factor, metric and place are the caller's to add."""
    levels = rows.partition_by(column, as_dict=True, maintain_order=True)
    reference = next((name for name in references if (name,) in levels), None)
    if reference is None:
        return
    value = pl.col(metric).cast(pl.Float64)
    base = levels[(reference,)].select(*REPLICATION, base=value)
    for (level,), own in levels.items():
        if level == reference:
            continue
        pairs = own.select(*REPLICATION, value=value).join(base, on=REPLICATION, maintain_order="left")
        pairs = pairs.with_columns(difference=pl.col("value") - pl.col("base")).drop_nulls("difference")
        if pairs.is_empty():
            continue
        mean, deviation, middle = pairs.select(
            pl.col("difference").mean(), pl.col("difference").std().alias("deviation"), pl.col("base").mean()
        ).row(0)
        mean, half, p = tested(mean, deviation, pairs.height, middle, counts=False)
        yield Difference("", str(level), reference, "", (), pairs.height, mean, mean - half, mean + half, middle, p)


def place(one: Difference) -> str:
    """Name the case of a difference: levels of the other factors, and the flow."""
    return " · ".join(level if name == WHO else f"{name} = {level}" for name, level in one.where)


def first_place(one: Difference) -> str:
    """Name the first of what tells the case apart; empty if there is nothing."""
    return place(replace(one, where=one.where[:1]))


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A line of a forest plot; `css` is `more` or `less` if the level differs significantly."""

    level: str
    difference: str
    interval: str
    share: str
    p: str
    pairs: int
    css: str
    bar: IntervalView


@dataclass(frozen=True, slots=True)
class ForestGroup:
    """The lines of one case, whose reference had this mean."""

    title: str
    reference: str
    rows: Sequence[ForestRow]


@dataclass(frozen=True, slots=True)
class Forest:
    """Comparisons of one metric over one axis; `open` is whether they are shown at once."""

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


def forests(found: Sequence[Difference]) -> list[Forest]:
    """Lay differences out: a plot per metric and factor, and per level of the first other factor if there are many."""
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
            views.append(_forest(title, own, is_open=is_open))
    return views


def _forest(title: str, members: Sequence[Difference], *, is_open: bool) -> Forest:
    metric, factor = members[0].metric, members[0].factor
    ends = [end for one in members for end in (one.mean, one.low, one.high)]
    axis, scale = Axis.over(ends), units.scale_of(metric, ends)
    groups: dict[tuple[str, str], list[Difference]] = {}
    for one in members:
        words = place(one).removeprefix(title).removeprefix(" · ")
        groups.setdefault((words, one.reference), []).append(one)
    laid = [
        ForestGroup(
            words,
            f"{factor} = {reference}: {units.human(metric, own[0].reference_mean)}",
            [_row(one, axis, scale) for one in own],
        )
        for (words, reference), own in groups.items()
    ]
    words = f"{units.label(metric)}, by {factor}"
    whole = " · ".join([words[:1].upper() + words[1:], *([title] if title else [])])
    return Forest(whole, factor, scale.unit, axis.scaled(scale.factor), laid, is_open)


def _row(one: Difference, axis: Axis, scale: units.Scale) -> ForestRow:
    low, high = (minus(scale.number(end, signed=True)) for end in (one.low, one.high))
    known = math.isfinite(one.low)
    return ForestRow(
        level=one.level,
        difference=minus(scale.number(one.mean, signed=True)),
        interval=f"{low} … {high}" if known else "–",
        share=minus(f"{100 * one.relative:+.0f} %") if math.isfinite(one.relative) else "–",
        p="–" if math.isnan(one.p) else "< 0.001" if one.p < 0.001 else f"{one.p:.3f}",
        pairs=one.pairs,
        css=("more" if one.mean > 0 else "less") if one.significant else "",
        bar=axis.view(Interval(one.mean, one.low, one.high) if known else Interval(one.mean, one.mean, one.mean)),
    )
