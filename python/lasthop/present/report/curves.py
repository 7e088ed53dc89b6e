"""Curves of short flows as small multiples: metrics over a factor's levels, a line per class of hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop.campaign.results.tables import factor_column
from lasthop.common.html import style
from lasthop.common.html.style import Figure, Part
from lasthop.common.metrics import units
from lasthop.common.statistics.estimates import mean_interval
from lasthop.common.statistics.quantiles import shared
from lasthop.present.pictures.ratio import Ratio, quotients
from lasthop.studies.presentation.spec import CurvesSpec

_ROW_PX = 190
_IN_A_ROW = 3
_DODGE, _DODGE_MARKS = 0.07, 0.13
"""Distance of neighbouring lines' points, in levels, so that intervals do not hide each other."""

Panels = Mapping[str, Sequence[str]]
"""For each panel title its level, the pair of levels of its quotient, or nothing without a factor."""
Key = tuple[object, ...]
"""A level on the x axis, followed by those of a panel, as in `Panels`."""
Values = NDArray[np.float64]


def curve_figures(
    shorts: pl.DataFrame, spec: CurvesSpec, factors: Mapping[str, list[str]], looks: int = 1
) -> Iterator[tuple[str, Figure]]:
    """Yield the figures with their titles. Intervals hold over this many `looks`.

    Levels that were not run have no point, and lines without points no legend entry.
    """
    rows = shorts.filter(
        *(pl.col(factor_column(factor)).is_in(levels) for factor, levels in spec.where.items())
    )
    others = [factor for factor in factors if factor not in spec.factors]
    parts = rows.partition_by([factor_column(factor) for factor in others], as_dict=True, maintain_order=True)
    for levels, part in parts.items() if others else [((), rows)]:
        lines = {
            name: own for name, line in spec.lines.items() if not (own := _of_line(part, line)).is_empty()
        }
        if lines:
            present = set(part[factor_column(spec.x)])
            where = ", ".join(f"{factor} = {level}" for factor, level in zip(others, levels, strict=True))
            ticks = [level for level in factors[spec.x] if level in present]
            panels = _panels(part, spec, factors)
            if panels:
                yield (
                    f"{spec.title}: {where}" if where else spec.title,
                    _figure(lines, spec, ticks, panels, looks),
                )


def _of_line(rows: pl.DataFrame, line: Mapping[str, str]) -> pl.DataFrame:
    columns = {
        "application" if factor == "flow" else factor_column(factor): level for factor, level in line.items()
    }
    return rows.filter(**columns)


def _panels(rows: pl.DataFrame, spec: CurvesSpec, factors: Mapping[str, list[str]]) -> Panels:
    if spec.panels is None:
        return {"": ()}
    present = set(rows[factor_column(spec.panels)])
    if spec.quotients:
        return {title: pair for title, pair in spec.quotients.items() if present.issuperset(pair)}
    return {f"{spec.panels} = {level}": (level,) for level in factors[spec.panels] if level in present}


def _figure(
    lines: Mapping[str, pl.DataFrame], spec: CurvesSpec, ticks: Sequence[str], panels: Panels, looks: int
) -> Figure:
    """Draw a row of panels per metric or, without a factor for panels, a panel per metric, three in a row."""
    places = [(metric, title, levels) for metric in spec.metrics for title, levels in panels.items()]
    alone = spec.panels is None
    in_a_row = _IN_A_ROW if alone else len(panels)
    drawn = style.Panels(len(places), in_a_row, 0.08 if alone else 0.03, 0.14 if alone else 0.035)
    by = [factor_column(factor) for factor in (spec.x, spec.panels) if factor is not None]
    pairs = panels.values() if spec.quotients else ()
    values_of = {
        metric: {name: _values(line, by, metric, pairs) for name, line in lines.items()}
        for metric in spec.metrics
    }
    scales = {metric: _scale(lines.values(), spec, metric) for metric in spec.metrics}
    for index, (metric, title, levels) in enumerate(places):
        last = drawn.is_lowest(index)
        name = spec.x_title if last else None
        x = style.levels_axis(name, ticks, 0.4, showticklabels=last or alone)
        words = _title(spec.metrics[metric], scales[metric]) if alone or drawn.is_first(index) else None
        from_zero = {"rangemode": "normal" if spec.quotients else "tozero"}
        y = style.axis(words, **from_zero, **({} if alone else drawn.beginning(index)))
        values = {
            name: [scales[metric].factor * own.get((tick, *levels), np.empty(0)) for tick in ticks]
            for name, own in values_of[metric].items()
        }
        traces = _traces(values, connected=spec.connected, looks=looks)
        named = [trace | {"showlegend": index == 0} for trace in traces]
        drawn.draw(index, named, x, y, title if index < drawn.across else "")
    return drawn.figure(_ROW_PX * drawn.rows, {"t": 80, "b": 54})


def _scale(lines: Iterable[pl.DataFrame], spec: CurvesSpec, metric: str) -> units.Scale:
    """Return the scale of a metric; quotients have no unit."""
    if spec.quotients:
        return units.Scale("")
    return units.scale_of(metric, (value for rows in lines for value in rows[metric]))


def _title(words: str, scale: units.Scale) -> str:
    return f"{words} ({scale.unit})" if scale.unit else words


def _traces(lines: Mapping[str, Sequence[Values]], *, connected: bool, looks: int) -> Iterator[Part]:
    """Yield a line with intervals for each class of hosts, from its values at each level."""
    middle = (len(lines) - 1) / 2
    dodge = _DODGE if connected else _DODGE_MARKS
    for number, (name, values) in enumerate(lines.items()):
        points = [(place, own) for place, own in enumerate(values) if own.size]
        intervals = [mean_interval(own, shared(0.90, looks)) if own.size > 1 else None for _, own in points]
        half = [interval.high - interval.estimate if interval else None for interval in intervals]
        trace = style.marked(name, number, {"size": 6 if connected else 8}, cliponaxis=False)
        yield trace | {
            "mode": "lines+markers" if connected else "markers",
            "x": [round(place + dodge * (number - middle), 3) for place, _ in points],
            "y": style.rounded(float(own.mean()) for _, own in points),
            "error_y": {"array": style.rounded(half), "thickness": 1.2, "width": 2},
            "hovertemplate": f"{name}\n%{{y:.4g}}<extra></extra>",
        }


def _values(
    rows: pl.DataFrame, by: Sequence[str], metric: str, pairs: Collection[Sequence[str]]
) -> Mapping[Key, Values]:
    """Return a metric's values by replication, or the quotients of these values for each of `pairs`.

    `by` are the columns of the x axis and of the panels' factor, if there is one.
    """
    if not pairs:
        return _lists(rows, by, metric)
    x, panel = by
    same = [x, "set", "replication", "application"]
    values: dict[Key, Values] = {}
    for upper, lower in pairs:
        shares, _ = quotients(rows.select(*same, panel, metric), Ratio(panel, upper, lower), metric, same)
        values |= {(*key, upper, lower): own for key, own in _lists(shares, [x], metric).items()}
    return values


def _lists(rows: pl.DataFrame, by: Sequence[str], metric: str) -> dict[Key, Values]:
    """Return a metric's values that are not null in each group of rows."""
    groups = rows.group_by(by, maintain_order=True).agg(pl.col(metric).cast(pl.Float64).drop_nulls())
    return {tuple(key): np.array(own) for *key, own in groups.iter_rows()}
