"""The packet trace of a replication: panels above each other, drawn by plotly."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from lasthop.common.html import style
from lasthop.common.html.style import Figure, Part
from lasthop.engines.engine import Trace
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.marks import Mark, Shape
from lasthop.present.pictures.panels import USUAL_KINDS, panels
from lasthop.present.pictures.shapes import Layer, Panel, Picture
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.scenario.facts import Facts

_HEIGHTS_PX = {"sequence": 320, "stack": 250}
_OTHER_HEIGHT_PX = 170
_ROW_HEIGHT_PX = 22
_GAP_PX = 34
_LEGEND_PX, _LEGEND_LINE_PX = 190, 19
_SHADE_PAPER = {
    "type": "rect",
    "xref": "x",
    "yref": "paper",
    "y0": 0,
    "y1": 1,
    "line": {"width": 0},
    "layer": "below",
}


def _look(mark: Mark) -> dict[str, object]:
    if mark.shape is Shape.STEPS:
        return {
            "mode": "lines",
            "line": {"color": mark.color, "width": mark.width, "shape": "hv", "dash": mark.dash},
        }
    # A bar without a symbol still needs a point to hover over and an entry in the legend.
    symbol = (
        {"symbol": mark.symbol, "size": mark.size} if mark.symbol else {"symbol": "line-ns-open", "size": 3}
    )
    return {"mode": "markers", "marker": {"color": mark.color, **symbol}}


def _bars(layer: Layer) -> dict[str, object]:
    """Return points in the middle of bars, with the bars as error bars, so that they scale with the zoom."""
    low, high = layer.y, layer.far or ()
    pairs = [(a, b) for a, b in zip(low, high, strict=True) if a is not None]
    bars: dict[str, object] = {
        "y": style.rounded((a + b) / 2 for a, b in pairs),
        "customdata": list(layer.labels or ()),
        "hovertemplate": "%{x:.3f} s\nbytes %{customdata}",
    }
    if layer.mark.width:
        half = style.rounded((b - a) / 2 for a, b in pairs)
        bars["error_y"] = {
            "array": half,
            "thickness": layer.mark.width,
            "width": 0,
            "color": layer.mark.color,
        }
    return bars


def _band(layer: Layer) -> dict[str, object]:
    """Return the outline of the area between two step lines: along the upper line, back along the lower."""
    steps = list(zip(layer.x, layer.x[1:], layer.y, layer.far or (), strict=False))
    forth = [(x, high) for start, stop, _, high in steps for x in (start, stop)]
    back = [(x, low) for start, stop, low, _ in reversed(steps) for x in (stop, start)]
    outline = [*forth, *back]
    return {
        "x": style.rounded([x for x, _ in outline], 3),
        "y": style.rounded([y for _, y in outline]),
        "mode": "lines",
        "line": {"width": 0, "color": layer.mark.color},
        "fill": "toself",
        "fillcolor": layer.mark.color,
        "hoveron": "fills",
        "hoverinfo": "text",
        "hovertemplate": None,
    }


def _trace(layer: Layer, axis: str, unit: str) -> Part:
    mark = layer.mark
    drawn: Part = {
        "type": "scatter",
        "name": mark.name,
        "legendgroup": mark.name,
        "x": style.rounded(layer.x, 3),
        "yaxis": axis,
        "legend": axis.replace("y", "legend"),
        "hovertemplate": f"%{{x:.3f}} s\n%{{y:.4~r}} {unit}",
        **({} if mark.shape is Shape.BANDS else _look(mark)),
    }
    if mark.shape is Shape.SPANS:  # plotly's horizontal bars: a base, and lengths as x
        lengths = [end - start for start, end in zip(layer.x, layer.far or (), strict=True)]
        spans = {
            "type": "bar",
            "orientation": "h",
            "base": drawn["x"],
            "width": 0.62,
            "marker": {"color": mark.color},
        }
        hover = {"hovertemplate": "%{base:.3f} s + %{x:.3f} s"}
        drawn |= spans | hover | {"x": style.rounded(lengths, 3), "y": list(layer.y)}
        del drawn["mode"]
    elif mark.shape is Shape.BANDS:
        drawn |= _band(layer)
    elif layer.far is not None:
        drawn |= _bars(layer)
    else:
        drawn["y"] = style.rounded(layer.y)
    if layer.flow:
        whose = f"{mark.quantity} of {layer.flow}"
        template = {"hovertemplate": f"{drawn['hovertemplate']}<extra>{whose}</extra>"}
        drawn |= {"meta": layer.flow, **({"text": whose} if mark.shape is Shape.BANDS else template)}
    return drawn | ({"visible": "legendonly"} if mark.optional else {})


def _named_once(drawn: Sequence[Part]) -> None:
    """Show each kind once in its panel's legend, where a click toggles it in all panels."""
    named: set[tuple[object, object]] = set()
    for trace in drawn:
        key = trace["legend"], trace["name"]
        trace["showlegend"] = key not in named
        named.add(key)


def _axis_name(row: int) -> str:
    return f"y{style.axis_number(row)}"


def _height_px(panel: Panel) -> int:
    if panel.rows:
        return max(_ROW_HEIGHT_PX * len(panel.rows), _LEGEND_LINE_PX * _entries(panel))
    return max(_HEIGHTS_PX.get(panel.kind, _OTHER_HEIGHT_PX), _LEGEND_LINE_PX * _entries(panel))


def _entries(panel: Panel) -> int:
    """Return the largest number of lines in a panel's legend, including one for bad periods."""
    return len({layer.mark.name for layer in panel.layers}) + 1


def picture_figure(picture: Picture) -> Figure:
    """Return panels above each other, over a common time axis, as plotly JSON; bad periods are shaded."""
    drawn = [
        _trace(layer, _axis_name(row), p.unit) for row, p in enumerate(picture.panels) for layer in p.layers
    ]
    shapes = [
        {
            **_SHADE_PAPER,
            "x0": round(period.start, 3),
            "x1": round(period.stop, 3),
            "fillcolor": period.mark.color,
        }
        for period in picture.bad_periods
    ]
    for bad in dict.fromkeys(period.mark for period in picture.bad_periods):
        entry = {
            "type": "scatter",
            "name": bad.name,
            "x": [None],
            "y": [None],
            "yaxis": "y",
            "legend": "legend",
        }
        drawn.append(entry | _look(bad))
    _named_once(drawn)
    return {"data": drawn, "layout": _layout(picture, shapes)}


def trace_figure(trace: Trace, facts: Facts) -> tuple[Figure, str]:
    """Draw the overview of a run: page loads, sequence numbers, windows, round-trip times, queues, rates.

    If there are more flows than colours, the text lists the coloured flows, and the reader can highlight any
    flow.
    """
    tables = TraceTables.of(trace, facts)
    cast = Cast.of(tables, one_by_one=True)
    drawn = panels(tables, [*USUAL_KINDS, *_shared(tables)], cast)
    picture = tables.picture(drawn, notes=cast.notes(drawn), flows=cast.flows)
    figure = picture_figure(picture)
    if len(cast.flows) > len(cast.looks):
        figure["layout"]["meta"] = {"flows": [flow.name for flow in cast.flows]}
    return figure, " ".join(picture.notes)


def _shared(tables: TraceTables) -> tuple[str, ...]:
    """Return the kinds of panels about sharing the link, if several flows had data to send at a time."""
    several = not tables.series.filter(pl.col("sending_flows") > 1).is_empty()
    return ("stack", "fairness") if several else ()


def _layout(picture: Picture, shapes: list[dict[str, object]]) -> dict[str, object]:
    heights = [_height_px(panel) for panel in picture.panels]
    total = sum(heights) + _GAP_PX * (len(heights) - 1)
    axes: Part = {}
    top = float(total)
    last = len(heights) - 1
    for row, (panel, height) in enumerate(zip(picture.panels, heights, strict=True)):
        domain = [max(0.0, round((top - height) / total, 4)), round(top / total, 4)]
        anchor = {"anchor": "x" if row == last else "free", "position": 0, "domain": domain}
        settings: dict[str, object] = {"rangemode": "tozero"}
        if panel.rows:
            count = len(panel.rows)
            settings = {
                "tickvals": list(range(count)),
                "ticktext": list(panel.rows),
                "range": [count - 0.5, -0.5],
            }
        ref = style.axis_number(row)
        axes[f"yaxis{ref}"] = style.axis(panel.label, **anchor, **settings)
        # The legend is next to the panel: above it, many entries would cover the previous panel.
        axes[f"legend{ref}"] = {
            "x": 1.01,
            "y": domain[1],
            "yanchor": "top",
            "font": {"size": 12},
            "tracegroupgap": 0,
        }
        top -= height + _GAP_PX
    span = picture.stop - picture.start
    limits = [round(picture.start, 2), round(picture.stop + span * 0.01, 2)]
    axes["xaxis"] = style.axis("time since the start of the run (s)", anchor=_axis_name(last), range=limits)
    margin = {"l": 76, "r": _LEGEND_PX, "t": 36, "b": 48}
    page_settings = {"shapes": shapes, "margin": margin, "hovermode": "closest", "barmode": "overlay"}
    return style.layout(total + margin["t"] + margin["b"], **page_settings, **axes)
