"""Scatter plots of published against measured medians and numbers of single runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import polars as pl

from lasthop.analysis.studies.comparison import CENTRES, RATIO, RULES, misprinted
from lasthop.common.html import style
from lasthop.common.html.style import Figure, Part
from lasthop.common.metrics import units

_ZERO_AT = 0.5
_COUNT_TICKS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]
_TICKS = [digit * 10**power for power in range(-3, 8) for digit in (1, 1.5, 2, 3, 4, 6, 8)]
_PANEL_PX = 270
_ABOVE_PX = 36
_BELOW_AXIS_PX, _LEGEND_LINE_PX = 54, 20
_IN_A_ROW = 3
_SHARE_OFF = 0.05


class _Scale(Enum):
    RATIO = "ratio"  # logarithmic; dotted lines at ten per cent
    COUNT = "count"  # logarithmic, with a separate mark for zero
    LINEAR = "linear"
    SHARE = "share"  # linear; dotted lines at 0.05


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    metrics: Sequence[str]
    by: str
    scale: _Scale = _Scale.RATIO


def _first_varying(rows: pl.DataFrame, keys: Sequence[str]) -> str:
    """Return the first of `keys` that varies, or else the first."""
    return next((key for key in keys if rows[key].n_unique() > 1), keys[0])


def _panels(rows: pl.DataFrame, keys: Sequence[str]) -> list[_Panel]:
    cell_factor = keys[0]
    rates = [name for name in RULES if name.startswith("throughput")]
    changes = [name for name in RULES if name.endswith("_percent")]
    ratios = [name for name, rule in RULES.items() if rule is RATIO]
    counts = [name for name, rule in RULES.items() if not rule.relative and name not in (*changes, *ratios)]
    panels = [
        _Panel("response time (s)", ["response_time_s"], cell_factor),
        _Panel("change of response time (%)", changes, cell_factor, _Scale.LINEAR),
        _Panel("elapsed time (s)", ["elapsed_s"], cell_factor),
        _Panel("throughput", rates, cell_factor),
        _Panel("counts (packets, ACKs)", counts, "metric", _Scale.COUNT),
        *(_Panel(name, [name], _first_varying(rows, keys), _Scale.SHARE) for name in ratios),
    ]
    return [p for p in panels if rows["metric"].is_in(p.metrics).any()]


def _in_own_unit(panel: _Panel, part: pl.DataFrame) -> tuple[_Panel, pl.DataFrame]:
    """Convert rates to a readable unit."""
    if not panel.metrics[0].endswith("_Bps"):
        return panel, part
    scale = units.scale("B/s", part["measured"])
    scaled = part.with_columns(pl.col("published", "measured") * scale.factor)
    return replace(panel, title=f"throughput ({scale.unit})"), scaled


def _axis_settings(scale: _Scale, values: Sequence[float]) -> tuple[list[float], dict[str, object]]:
    """Return the range of both axes of a panel that shows `values`, and the settings that they share."""
    low, high = min(values), max(values)
    if scale in (_Scale.LINEAR, _Scale.SHARE):
        margin = 0.05 * (high - low) or 1.0
        span = [low - margin, high + margin]
        return span, {"range": span}
    ticks: dict[str, object] = {"tickvals": _TICKS, "ticktext": [f"{tick:g}" for tick in _TICKS]}
    if scale is _Scale.COUNT:
        ticks = {"tickvals": _COUNT_TICKS, "ticktext": ["0", *(f"{tick:g}" for tick in _COUNT_TICKS[1:])]}
    span = [math.log10(low) - 0.05, math.log10(high) + 0.05]
    return span, {"type": "log", "range": span, **ticks}


def _diagonal(span: Sequence[float], ref: str, scale: _Scale) -> list[dict[str, object]]:
    low, high = span if scale in (_Scale.LINEAR, _Scale.SHARE) else (10**end for end in span)
    factors = [0.9, 1.0, 1.1] if scale is _Scale.RATIO else [1.0]
    lines = [(low * factor, high * factor, factor == 1) for factor in factors]
    if scale is _Scale.SHARE:
        lines += [(low + off, high + off, False) for off in (-_SHARE_OFF, _SHARE_OFF)]
    return [
        {
            "type": "line",
            "xref": f"x{ref}",
            "yref": f"y{ref}",
            "x0": low,
            "x1": high,
            "y0": start,
            "y1": end,
            "layer": "below",
            "line": {"color": "#aab1ba", "width": 1, "dash": "solid" if equal else "dot"},
        }
        for start, end, equal in lines
    ]


def published_figure(comparison: pl.DataFrame, misprints: Sequence[str] = ()) -> Figure | None:
    """Draw a panel per kind of metric; on the diagonal, published and measured numbers are equal.

    `None` if no published median was measured. Numbers whose note contains one of the phrases `misprints` are
    omitted.
    """
    rows = comparison.filter(
        pl.col("statistic").is_in(CENTRES), pl.col("measured").is_not_null(), ~misprinted(misprints)
    )
    keys = rows.columns[rows.columns.index("table") + 1 : rows.columns.index("flow")]
    panels = _panels(rows, keys)
    if not panels:
        return None
    shapes: list[Part] = []
    legends: Part = {}
    lines = max(rows.filter(pl.col("metric").is_in(panel.metrics))[panel.by].n_unique() for panel in panels)
    below = _BELOW_AXIS_PX + _LEGEND_LINE_PX * lines
    rows_of_panels = math.ceil(len(panels) / _IN_A_ROW)
    height = rows_of_panels * (_PANEL_PX + below) - below
    drawn = style.Panels(len(panels), _IN_A_ROW, gap_x=0.08, gap_y=below / height)
    for index, kind in enumerate(panels):
        ref = style.axis_number(index)
        panel, part = _in_own_unit(kind, rows.filter(pl.col("metric").is_in(kind.metrics)))
        if panel.scale is _Scale.COUNT:
            part = part.with_columns(pl.col("published", "measured").clip(lower_bound=_ZERO_AT))
        span, shared = _axis_settings(panel.scale, [*part["published"], *part["measured"]])
        shapes += _diagonal(span, ref, panel.scale)
        y = style.axis("measured" if drawn.is_first(index) else None, **shared)
        x = style.axis(f"published {panel.title}", **shared)
        drawn.draw(index, _points(part, panel, keys, ref), x, y)
        (bottom, _), (left, _) = drawn.domains[index]
        legends[f"legend{ref}"] = {
            "x": left,
            "y": bottom - _BELOW_AXIS_PX / height,
            "yanchor": "top",
            "font": {"size": 12},
            "visible": part[panel.by].n_unique() > 1,
        }
    settings: Part = {"shapes": shapes, **legends}
    return drawn.figure(height, {"t": _ABOVE_PX, "b": below}, 0, **settings)


def _points(part: pl.DataFrame, panel: _Panel, keys: Sequence[str], ref: str) -> list[Part]:
    traces = []
    groups = part.partition_by(panel.by, as_dict=True, maintain_order=True)
    for number, ((group,), points) in enumerate(groups.items()):
        text = [
            " · ".join(str(v) for v in row if v)
            for row in points.select("table", *keys, "flow", "metric").iter_rows()
        ]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": units.label(str(group)) if panel.by == "metric" else str(group),
                "legend": f"legend{ref}",
                "showlegend": True,
                "x": style.rounded(points["published"]),
                "y": style.rounded(points["measured"]),
                "text": text,
                "hovertemplate": "%{text}\npublished %{x:.4g}, measured %{y:.4g}<extra></extra>",
                "marker": {
                    "size": 7,
                    "opacity": 0.75,
                    "color": style.SERIES[number % len(style.SERIES)],
                    "symbol": "diamond" if panel.by == "metric" else "circle",
                    "line": {"color": "#ffffff", "width": 0.5},
                },
            }
        )
    return traces
