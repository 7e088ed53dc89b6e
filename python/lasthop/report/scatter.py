"""Published medians against measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from lasthop.comparison import RULES
from lasthop.report import style
from lasthop.report.style import Figure

_ZERO_AT = 0.5
_COUNT_TICKS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]
_TICKS = [digit * 10**power for power in range(-3, 8) for digit in (1, 1.5, 2, 3, 4, 6, 8)]


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    metrics: Sequence[str]
    by: str
    counts: bool


def _panels(rows: pl.DataFrame, cell_factor: str) -> list[_Panel]:
    counts = [name for name, rule in RULES.items() if not rule.relative]
    panels = [
        _Panel("elapsed time (s)", ["elapsed_s"], cell_factor, counts=False),
        _Panel("throughput (B/s)", ["throughput_Bps"], cell_factor, counts=False),
        _Panel("counts (packets, ACKs)", counts, "metric", counts=True),
    ]
    return [p for p in panels if rows["metric"].is_in(p.metrics).any()]


def _ticks(counts: bool) -> dict[str, Any]:
    if counts:
        return {"tickvals": _COUNT_TICKS, "ticktext": ["0", *(f"{tick:g}" for tick in _COUNT_TICKS[1:])]}
    return {"tickvals": _TICKS, "ticktext": [f"{tick:g}" for tick in _TICKS]}


def _range(values: Sequence[float]) -> list[float]:
    import math

    return [math.log10(min(values)) - 0.05, math.log10(max(values)) + 0.05]


def _diagonal(span: list[float], ref: str, counts: bool) -> list[dict[str, Any]]:
    low, high = 10 ** span[0], 10 ** span[1]
    factors = [1.0] if counts else [0.9, 1.0, 1.1]
    return [
        {
            "type": "line",
            "xref": f"x{ref}",
            "yref": f"y{ref}",
            "x0": low,
            "x1": high,
            "y0": low * factor,
            "y1": high * factor,
            "layer": "below",
            "line": {"color": "#aab1ba", "width": 1, "dash": "solid" if factor == 1 else "dot"},
        }
        for factor in factors
    ]


def published_figure(comparison: pl.DataFrame) -> Figure:
    """Draw one panel per kind of metric, log axes; on the diagonal both are equal. Counts of zero are drawn at "0"."""
    rows = comparison.filter(pl.col("statistic") == "median", pl.col("measured").is_not_null())
    rows = rows.filter(pl.col("flow") != "all", pl.col("direction").is_in(["data", "ack"]))
    keys = rows.columns[rows.columns.index("table") + 1 : rows.columns.index("flow")]
    panels = _panels(rows, keys[0])
    data: list[Figure] = []
    axes: Figure = {}
    shapes: list[dict[str, Any]] = []
    for index, (panel, domain) in enumerate(zip(panels, style.columns_of(len(panels), 0.08), strict=True)):
        ref = "" if index == 0 else str(index + 1)
        part = rows.filter(pl.col("metric").is_in(panel.metrics))
        if panel.counts:
            part = part.with_columns(pl.col("published", "measured").clip(lower_bound=_ZERO_AT))
        span = _range([*part["published"], *part["measured"]])
        shapes += _diagonal(span, ref, panel.counts)
        axis = {"type": "log", "range": span, **_ticks(panel.counts)}
        axes[f"xaxis{ref}"] = style.axis(f"published {panel.title}", domain=domain, anchor=f"y{ref}", **axis)
        axes[f"yaxis{ref}"] = style.axis("measured" if index == 0 else None, anchor=f"x{ref}", **axis)
        data += _points(part, panel, keys, index, ref)
    legend = {"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top", "font": {"size": 12}, "tracegroupgap": 4}
    return {"data": data, "layout": style.layout(460, shapes=shapes, legend=legend, **axes)}


def _name(group: str) -> str:
    return group.replace("_", " ").replace("acks", "ACKs").replace("red", "RED").replace("sack", "SACK")


def _points(part: pl.DataFrame, panel: _Panel, keys: Sequence[str], index: int, ref: str) -> list[Figure]:
    traces = []
    groups = part.partition_by(panel.by, as_dict=True, maintain_order=True)
    for number, ((group,), points) in enumerate(groups.items()):
        text = [
            " · ".join(str(v) for v in row if v) for row in points.select("table", *keys, "flow", "metric").iter_rows()
        ]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": _name(str(group)),
                "legendgroup": str(group),
                "showlegend": index == 0 or panel.by == "metric",
                "x": style.rounded(points["published"]),
                "y": style.rounded(points["measured"]),
                "text": text,
                "hovertemplate": "%{text}<br>published %{x:.4g}, measured %{y:.4g}<extra></extra>",
                "marker": {
                    "size": 7,
                    "opacity": 0.75,
                    "color": style.SERIES[number % len(style.SERIES)],
                    "symbol": "diamond" if panel.by == "metric" else "circle",
                    "line": {"color": "#ffffff", "width": 0.5},
                },
                "xaxis": f"x{ref}",
                "yaxis": f"y{ref}",
            }
        )
    return traces
