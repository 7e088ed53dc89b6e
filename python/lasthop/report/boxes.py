"""Box plots of a metric by factor level, with the published quartiles beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from lasthop.report import style
from lasthop.report.style import Figure
from lasthop.statistics import FIVE_NUMBERS, PercentileMethod, summarise

_OFFSET_MEASURED = -0.14
_OFFSET_PUBLISHED = 0.26
_FITS_CHARACTERS = 140


@dataclass(frozen=True, slots=True)
class BoxPanel:
    """One panel: a role's values for every level, and the published five numbers of the levels that have them."""

    title: str
    values: Mapping[str, Sequence[float]]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def _jitter(count: int) -> list[float]:
    # A fixed low-discrepancy spread instead of random jitter: the same data give the same picture.
    return [((i * 0.6180339887) % 1.0 - 0.5) * 0.24 for i in range(count)]


def _measured(panel: BoxPanel, levels: Sequence[str], method: PercentileMethod, index: int) -> list[Figure]:
    rows = [(i, level, summarise(panel.values.get(level, []), method)) for i, level in enumerate(levels)]
    offset = _OFFSET_MEASURED if panel.published else 0.0
    boxes = [(i, level, s) for i, level, s in rows if s is not None]
    ref = "" if index == 0 else str(index + 1)
    axes = {"xaxis": f"x{ref}", "yaxis": f"y{ref}"}
    box: Figure = {
        "type": "box",
        "name": "measured",
        "legendgroup": "measured",
        "showlegend": index == 0,
        "x": [i + offset for i, _, _ in boxes],
        "q1": [round(s.p25, 4) for _, _, s in boxes],
        "median": [round(s.median, 4) for _, _, s in boxes],
        "q3": [round(s.p75, 4) for _, _, s in boxes],
        "lowerfence": [round(s.min, 4) for _, _, s in boxes],
        "upperfence": [round(s.max, 4) for _, _, s in boxes],
        "width": 0.42,
        "line": {"color": style.MEASURED, "width": 1.5},
        "fillcolor": style.MEASURED_FILL,
        "hoverinfo": "y",
        **axes,
    }
    points: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": "replications",
        "legendgroup": "replications",
        "showlegend": index == 0,
        "x": [round(i + offset + j, 3) for i, lv, s in boxes for j in _jitter(s.count)],
        "y": [round(v, 3) for _, level, _ in boxes for v in panel.values[level]],
        "marker": {"size": 3.5, "color": style.MEASURED, "opacity": 0.55},
        "hovertemplate": "%{y:.2f}<extra></extra>",
        **axes,
    }
    return [box, points]


def _published(panel: BoxPanel, levels: Sequence[str], index: int) -> list[Figure]:
    known = [(i, panel.published[level]) for i, level in enumerate(levels) if level in panel.published]
    if not known:
        return []
    ref = "" if index == 0 else str(index + 1)
    names = {"q1": "p25", "median": "median", "q3": "p75", "lowerfence": "min", "upperfence": "max"}
    return [
        {
            "type": "box",
            "name": "published",
            "legendgroup": "published",
            "showlegend": index == 0,
            "x": [i + _OFFSET_PUBLISHED for i, _ in known],
            **{key: [five[statistic] for _, five in known] for key, statistic in names.items()},
            "width": 0.24,
            "line": {"color": style.PUBLISHED, "width": 1.5},
            "fillcolor": style.PUBLISHED_FILL,
            "hoverinfo": "y",
            "xaxis": f"x{ref}",
            "yaxis": f"y{ref}",
        }
    ]


def box_figure(panels: Sequence[BoxPanel], levels: Sequence[str], y_title: str, method: PercentileMethod) -> Figure:
    """Draw panels side by side over a common y axis. Boxes span the quartiles, whiskers the extremes."""
    data: list[Figure] = []
    axes: Figure = {}
    annotations = []
    domains = style.columns_of(len(panels), gap=0.03)
    for index, (panel, domain) in enumerate(zip(panels, domains, strict=True)):
        data += _measured(panel, levels, method, index) + _published(panel, levels, index)
        ref = "" if index == 0 else str(index + 1)
        axes[f"xaxis{ref}"] = style.axis(
            domain=domain,
            anchor=f"y{ref}",
            tickvals=list(range(len(levels))),
            ticktext=list(levels),
            tickangle=0 if max(map(len, levels), default=0) * len(levels) * len(panels) <= _FITS_CHARACTERS else -30,
            tickfont={"size": 12},
            range=[-0.6, len(levels) - 0.4],
            showgrid=False,
        )
        shared = {} if index == 0 else {"matches": "y", "showticklabels": False}
        axes[f"yaxis{ref}"] = style.axis(y_title if index == 0 else None, anchor=f"x{ref}", **shared)
        annotations.append(style.panel_title(panel.title, sum(domain) / 2))
    legend = {"orientation": "h", "x": 0, "y": 1.09, "yanchor": "bottom", "font": {"size": 12}}
    settings = style.layout(370, annotations=annotations, legend=legend, boxmode="overlay", **axes)
    settings["margin"] = settings["margin"] | {"t": 64, "b": 60}
    return {"data": data, "layout": settings}


def values_by_level(rows: pl.DataFrame, column: str, metric: str) -> dict[str, list[float]]:
    """Collect a metric's values by the level in `column`, replications in order, missing ones left out."""
    kept = rows.filter(pl.col(metric).is_not_null())
    return {
        str(level): part[metric].cast(pl.Float64).to_list()
        for (level,), part in kept.partition_by(column, as_dict=True, maintain_order=True).items()
    }


def published_by_level(rows: pl.DataFrame, factor: str) -> dict[str, dict[str, float]]:
    """Collect the published five numbers by level; levels without all five are left out."""
    found: dict[str, dict[str, float]] = {}
    for level, statistic, value in rows.select(factor, "statistic", "value").iter_rows():
        found.setdefault(level, {})[statistic] = value
    return {level: five for level, five in found.items() if set(FIVE_NUMBERS) <= set(five)}
