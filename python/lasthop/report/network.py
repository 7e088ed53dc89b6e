"""The network of a scenario as plotly JSON, for the top of the report."""

from __future__ import annotations

from lasthop.pictures.network import Network
from lasthop.pictures.network_layout import Box, Sheet, Stroke, Text, heads, lay_out
from lasthop.report import style
from lasthop.report.style import Figure, Part

_WIDTH_IN = 9.0
_PX_PER_IN = 112
_TEXT_PX = 11


def network_plotly(network: Network) -> Figure:
    """Draw a network."""
    sheet = lay_out(network, _WIDTH_IN)
    size = _WIDTH_IN / sheet.width
    hidden = {"visible": False, "fixedrange": True}
    settings: Part = {
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "shapes": [_box(box) for box in sheet.boxes],
        "annotations": [_text(text, round(_TEXT_PX * size)) for text in sheet.texts],
        "showlegend": False,
        "hovermode": False,
        "xaxis": {**hidden, "range": [0, sheet.width]},
        "yaxis": {**hidden, "range": [round(sheet.bottom, 3), round(sheet.top, 3)]},
    }
    height = round((sheet.bottom - sheet.top) * size * _PX_PER_IN) + 16
    return {"data": _lines(sheet), "layout": style.layout(height, **settings)}


def _lines(sheet: Sheet) -> list[Part]:
    return [trace for stroke in sheet.strokes for trace in (_line(stroke), *_heads(stroke))]


def _line(stroke: Stroke) -> Part:
    x, y = zip(*stroke.points, strict=True)
    line = {"color": stroke.color, "width": 2.2}
    return {"type": "scatter", "mode": "lines", "x": style.rounded(x), "y": style.rounded(y), "line": line}


def _heads(stroke: Stroke) -> list[Part]:
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [round(at[0], 4)],
            "y": [round(at[1], 4)],
            "marker": {"symbol": f"triangle-{side}", "size": 9, "color": stroke.color},
        }
        for at, side in heads(stroke)
    ]


def _box(box: Box) -> Part:
    (left, top), (width, height) = box.corner, box.size
    dash = "dash" if box.is_dashed else "solid"
    return {
        "type": "rect",
        "layer": "below",
        **{"x0": round(left, 3), "x1": round(left + width, 3), "y0": round(top, 3)},
        "y1": round(top + height, 3),
        "fillcolor": box.fill,
        "line": {"color": box.edge, "width": 1, "dash": dash},
    }


def _text(text: Text, size: int) -> Part:
    return {
        "text": text.text,
        "x": round(text.at[0], 3),
        "y": round(text.at[1], 3),
        "xanchor": "center" if text.is_centred else "left",
        "yanchor": "top",
        "align": "left",
        "borderpad": 0,
        "showarrow": False,
        "font": {"size": size, "color": style.INK, "weight": "bold" if text.is_bold else "normal"},
    }
