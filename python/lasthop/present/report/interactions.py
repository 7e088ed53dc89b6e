"""The figures of a full-factorial study: interactions of its factors, and their shares of the variation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import polars as pl

from lasthop.analysis.findings.findings import informative
from lasthop.analysis.studies.lines import SHARE, VALUE
from lasthop.analysis.studies.summary import key_columns
from lasthop.common.html import style
from lasthop.common.html.style import Figure, Part
from lasthop.studies.catalogue import Assets
from lasthop.studies.presentation.spec import FactorialSpec

_ROW_PX = 232
_BAR_PX = 34
_DODGE = 0.05
"""Distance of neighbouring lines' points, in levels, so that intervals do not hide each other."""
_WHOLE = "Total Variation"
_REST = "Rest"


def _of_kind(frame: pl.DataFrame, assets: Assets, kind: str) -> pl.DataFrame:
    ids = [table for spec in assets.presentation.tables if spec.kind == kind for table in spec.ids]
    return frame.filter(pl.col("table").is_in(ids))


def _groups(summary: pl.DataFrame, assets: Assets, spec: FactorialSpec) -> list[str]:
    """Return the columns of factors outside the design that distinguish its repetitions, such as the path."""
    keys = key_columns(assets)
    cells = [key for key in keys[keys.index("table") + 1 : keys.index("flow")] if key not in spec.factors]
    return informative(summary, cells) or cells[:1]


def _split(frame: pl.DataFrame, columns: Sequence[str]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the parts with equal `columns` and their names, in the order of the rows."""
    if not columns:
        yield "", frame
        return
    for levels, part in frame.partition_by(columns, as_dict=True, maintain_order=True).items():
        yield " · ".join(map(str, levels)), part


def factorial_figures(summary: pl.DataFrame, assets: Assets) -> Iterator[tuple[str, Figure]]:
    """Yield the figures with their titles: interactions by metric, then the shares of the variation."""
    spec = assets.presentation.factorial
    cells, shares = (_of_kind(summary, assets, kind) for kind in ("run-metrics", "variation"))
    if spec is None or cells.is_empty():
        return
    groups = _groups(cells, assets, spec)
    published_cells = dict(_split(_of_kind(assets.published, assets, "run-metrics"), groups))
    across = list(spec.factors.values())[1].name
    for metric in spec.metrics.values():
        rows = [
            (name, part, published_cells.get(name))
            for name, part in _split(cells.filter(metric=metric), groups)
        ]
        yield f"{metric.capitalize()} over {across}", _interaction(rows, spec, metric)
    if not shares.is_empty():
        published = dict(_split(_of_kind(assets.published, assets, "variation"), groups))
        bars = []
        for name, part in _split(shares, groups):
            if name in published:
                bars.append((f"{name}, published", published[name]))
            bars.append((name, part))
        yield "Allocation of variation", _bars(bars, spec)


Rows = Sequence[tuple[str, pl.DataFrame, pl.DataFrame | None]]
"""For each row of panels: its name, the measured rows, and the published rows."""


def _interaction(rows: Rows, spec: FactorialSpec, metric: str) -> Figure:
    """Draw a row of panels per path: a panel per level of the third factor, over the levels of the second."""
    _, across, panels = spec.factors
    ticks = list(spec.factors[across].levels.values())
    in_a_row = len(spec.factors[panels].levels)
    drawn = style.Panels(len(rows) * in_a_row, in_a_row, gap_y=0.13)
    places = itertools.product(rows, spec.factors[panels].levels.items())
    for index, ((name, measured, published), (level, word)) in enumerate(places):
        x = style.levels_axis(spec.factors[across].name if drawn.is_lowest(index) else None, ticks, 0.35)
        y = style.axis(metric if drawn.is_first(index) else None, **drawn.beginning(index))
        lines = _lines(measured.filter(pl.col(panels) == level), spec, hollow=False)
        traces = [trace | {"showlegend": index == 0} for trace in lines]
        if published is not None:
            marks = published.filter(pl.col(panels) == level, metric=metric)
            traces += _lines(marks, spec, hollow=True)
        drawn.draw(index, traces, x, y, " · ".join(filter(None, (name, word))))
    if any(published is not None for _, _, published in rows):
        sign = {"symbol": "circle-open", "size": 8, "color": style.MUTED, "line": {"width": 1.5}}
        nowhere = {"mode": "markers", "x": [None], "y": [None], "marker": sign}
        drawn.data.append({"type": "scatter", "name": "published", **nowhere})
    return drawn.figure(_ROW_PX * drawn.rows, {"t": 76, "b": 54})


def _lines(part: pl.DataFrame, spec: FactorialSpec, *, hollow: bool) -> Iterator[Part]:
    """Yield a line per level of the first factor, with intervals if any; only marks if `hollow`."""
    lines, across, _ = spec.factors
    places = {level: place for place, level in enumerate(spec.factors[across].levels)}
    middle = (len(spec.factors[lines].levels) - 1) / 2
    for number, (level, word) in enumerate(spec.factors[lines].levels.items()):
        own = part.filter(pl.col(lines) == level).sort(pl.col(across).replace_strict(places))
        values = own.filter(statistic=VALUE)
        symbol = f"{style.SYMBOLS[number % len(style.SYMBOLS)]}-open"
        marker: Part = {"symbol": symbol, "size": 11, "line": {"width": 1.5}} if hollow else {"size": 7}
        trace = style.marked(word, number, marker, showlegend=False) | {
            "mode": "markers" if hollow else "lines+markers",
            "x": [round(places[name] + _DODGE * (number - middle), 3) for name in values[across]],
            "y": style.rounded(values["value"]),
            "hovertemplate": f"{word}{', published' if hollow else ''}\n%{{y:.4f}}<extra></extra>",
        }
        ends = [own.filter(statistic=end)["value"] for end in ("ci_low", "ci_high")]
        if ends[0].len():
            below, above = values["value"] - ends[0], ends[1] - values["value"]
            bars = {"array": style.rounded(above), "arrayminus": style.rounded(below), "symmetric": False}
            trace["error_y"] = {**bars, "thickness": 1.2, "width": 3}
        yield trace


def _bars(bars: Sequence[tuple[str, pl.DataFrame]], spec: FactorialSpec) -> Figure:
    """Draw a stacked bar per path, in a panel per metric; the unexplained share is white."""
    names = [name for name, _ in bars]
    flows = bars[-1][1].filter(
        pl.col("metric").str.starts_with(SHARE), ~pl.col("flow").is_in([_WHOLE, _REST])
    )
    drawn = style.Panels(len(spec.metrics), len(spec.metrics))
    for index, metric in enumerate(spec.metrics.values()):
        traces: list[Part] = []
        for number, flow in enumerate(flows["flow"].unique(maintain_order=True)):
            shares = [
                part.filter(flow=flow, metric=f"{SHARE}_{metric}", statistic=VALUE)["value"]
                for _, part in bars
            ]
            trace: Part = {
                "type": "bar",
                "orientation": "h",
                "name": flow,
                "legendgroup": flow,
                "showlegend": index == 0,
                "y": names,
                "x": style.rounded((own[0] if own.len() else None for own in shares), 2),
                "marker": {"color": style.CONTRASTING[number % len(style.CONTRASTING)]},
                "hovertemplate": f"{flow}\n%{{x:.1f}} %<extra>%{{y}}</extra>",
            }
            traces.append(trace)
        x = style.axis("share of the variation (%)", range=[0, 100])
        y = style.axis(autorange="reversed", showgrid=False, showticklabels=index == 0, ticks="")
        drawn.draw(index, traces, x, y, metric)
    return drawn.figure(_BAR_PX * len(bars), {"t": 84, "b": 50}, barmode="stack", bargap=0.3)
