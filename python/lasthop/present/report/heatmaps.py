"""Heat maps: a metric over two factors, with a map for each combination of the other factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from lasthop.campaign.results.tables import Tables, factor_column, with_computed
from lasthop.common.html import style
from lasthop.common.html.style import Figure, Part
from lasthop.common.metrics import units
from lasthop.present.pictures import heatmap
from lasthop.studies.presentation.spec import HeatmapSpec

_ROW_PX = 34
_AROUND_PX = 130
_TOP_PX = 28
"""Space for plotly's buttons."""
_GAP_PX = 2


def heatmap_figures(
    tables: Tables, spec: HeatmapSpec, factors: Mapping[str, list[str]]
) -> Iterator[tuple[str, Figure]]:
    """Yield the maps with their combinations of levels as titles. Cells that were not run are empty."""
    means = _means(tables, spec, factors)
    others = [factor_column(factor) for factor in factors if factor not in spec.factors]
    varied = [column for column in others if means[column].n_unique() > 1]
    values = means[spec.metric].to_list()
    scale, ends = units.scale_of(spec.metric, values), heatmap.limits(spec.metric, values)
    parts = means.partition_by(others, as_dict=True, maintain_order=True) if others else {(): means}
    for levels, part in parts.items():
        place = dict(zip(others, levels, strict=True))
        title = ", ".join(f"{column} = {place[column]}" for column in varied)
        yield title, _figure(part, spec, factors, scale, ends)


def _means(tables: Tables, spec: HeatmapSpec, factors: Mapping[str, list[str]]) -> pl.DataFrame:
    """Return the mean over the replications in each cell with values, in the scenario's order."""
    rows = (
        tables.runs if spec.flow is None else with_computed(tables.flows).filter(pl.col("role") == spec.flow)
    )
    chosen = [pl.col(factor_column(factor)).is_in(levels) for factor, levels in spec.where.items()]
    columns = [factor_column(factor) for factor in factors]
    return (
        rows.filter(*chosen)
        .group_by(columns, maintain_order=True)
        .agg(pl.col(spec.metric).mean())
        .drop_nulls(spec.metric)
        .collect()
    )


def _figure(
    part: pl.DataFrame,
    spec: HeatmapSpec,
    factors: Mapping[str, list[str]],
    scale: units.Scale,
    ends: tuple[float, float],
) -> Figure:
    by = [factor_column(spec.rows), factor_column(spec.columns)]
    rows, columns = (
        [level for level in factors[factor] if level in set(part[column])]
        for factor, column in zip((spec.rows, spec.columns), by, strict=True)
    )
    values = {(row, column): value for row, column, value in part.select(*by, spec.metric).iter_rows()}
    cells = [[values.get((row, column)) for column in columns] for row in rows]
    greatest = max(ends, key=abs)
    colours = heatmap.colours(spec.metric)
    plain = {"type": "category", "showgrid": False, "showline": False, "ticks": ""}
    across = style.axis(spec.columns, tickangle=-35, **plain)
    down = style.axis(spec.rows, autorange="reversed", **plain)
    trace: Part = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": [style.rounded(None if v is None else v * scale.factor for v in line) for line in cells],
        "text": [["" if v is None else heatmap.number(scale, v, greatest) for v in line] for line in cells],
        "texttemplate": "%{text}",
        "colorscale": [[n / (len(colours) - 1), colour] for n, colour in enumerate(colours)],
        "zmin": ends[0] * scale.factor,
        "zmax": ends[1] * scale.factor,
        "showscale": False,
        "xgap": _GAP_PX,
        "ygap": _GAP_PX,
        "hoverongaps": False,
        "hovertemplate": f"{spec.rows} = %{{y}}, {spec.columns} = %{{x}}: %{{z:.4g}} "
        f"{scale.unit}<extra></extra>",
    }
    layout = style.layout(_ROW_PX * len(rows) + _AROUND_PX, xaxis=across, yaxis=down)
    layout["margin"] = style.MARGIN | {"t": _TOP_PX}
    return {"data": [trace], "layout": layout}
