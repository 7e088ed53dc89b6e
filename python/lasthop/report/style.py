"""Colours and layout shared by all figures.

Figures are plain plotly JSON (`data` and `layout`): plotly.js draws them, and any plotly client can load
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypedDict

Part = dict[str, object]
"""A trace, an axis or another part of a figure."""


class Figure(TypedDict):
    """A figure as plotly takes it."""

    data: Sequence[Part]
    layout: Part


INK = "#22272e"
MUTED = "#6b7480"
GRID = "#e9ecef"
MEASURED = "#2f6690"
MEASURED_FILL = "rgba(47,102,144,0.22)"
PUBLISHED = "#8a8f98"
PUBLISHED_FILL = "rgba(138,143,152,0.14)"
SERIES = ["#2f6690", "#c8553d", "#3a7d44", "#8a5fa8", "#c98a1b", "#4a9fa5", "#7d6b5d"]
CONTRASTING = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"]
"""Colours that colour-blind readers can tell apart as well (Okabe and Ito 2008)."""
SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"]
FONT = "'Source Sans 3', 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

MARGIN = {"l": 64, "r": 16, "t": 36, "b": 48}
"""Pixels around the panels."""

_TEXTS = frozenset({"text", "name", "ticktext", "hovertemplate", "x", "y", "categoryarray"})
"""Keys of plotly whose texts it shows."""
_AXIS: dict[str, object] = {
    "gridcolor": GRID,
    "linecolor": "#c5cad1",
    "showline": True,
    "ticks": "outside",
    "ticklen": 4,
    "tickcolor": "#c5cad1",
    "zeroline": False,
    "automargin": True,
}


def literal(value: object, key: str = "") -> object:
    """Return a part of a figure for plotly, with texts escaped, because plotly reads texts as HTML.

    A line ends at a newline, and the box of a hover text stands in <extra>.
    """
    if isinstance(value, dict):
        return {name: literal(part, name) for name, part in value.items()}
    if isinstance(value, list) and not (value and isinstance(value[0], float | int)):
        return [literal(part, key) for part in value]
    if not isinstance(value, str) or key not in _TEXTS:
        return value
    text = escape(value, quote=False).replace("\n", "<br>")
    return re.sub("&lt;(/?extra)&gt;", r"<\1>", text) if key == "hovertemplate" else text


def axis(title: str | None = None, **settings: object) -> dict[str, object]:
    """Return an axis in the common style; `title` names the quantity and its unit."""
    titled = {"title": {"text": title, "standoff": 8, "font": {"size": 13}}} if title else {}
    return {**_AXIS, **titled, **settings}


def layout(height: int, **settings: object) -> dict[str, object]:
    """Return a layout in the common style; `height` in pixels."""
    common: dict[str, object] = {
        "height": height,
        "margin": MARGIN,
        "font": {"family": FONT, "size": 13, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "hoverlabel": {"font": {"family": FONT, "size": 12}},
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "font": {"size": 12}},
    }
    return common | settings


def axis_number(index: int) -> str:
    """Return plotly's suffix of `x`, `y`, `xaxis` and `yaxis` for the panel with this index, from 0."""
    return str(index + 1) if index else ""


def legend_above(height: int, gap: int) -> dict[str, object]:
    """Return a legend `gap` pixels above panels that are together `height` pixels high."""
    return {"orientation": "h", "x": 0, "y": 1 + gap / height, "yanchor": "bottom", "font": {"size": 12}}


def panel_title(text: str, x: float, y: float = 1.0) -> dict[str, object]:
    """Return an annotation centred above a panel; positions are shares of the figure."""
    return {
        "text": text,
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "center",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 13, "color": MUTED},
    }


def columns_of(count: int, gap: float = 0.06) -> list[list[float]]:
    """Return the horizontal domains of `count` panels side by side."""
    width = (1 - gap * (count - 1)) / count
    return [[round(i * (width + gap), 4), round(i * (width + gap) + width, 4)] for i in range(count)]


def grid_of(
    count: int, in_a_row: int, gap_x: float = 0.06, gap_y: float = 0.1
) -> list[tuple[list[float], list[float]]]:
    """Return the horizontal and vertical domains of `count` panels, in equal rows from the top."""
    rows = math.ceil(count / in_a_row)
    columns = columns_of(math.ceil(count / rows), gap_x)
    heights = columns_of(rows, gap_y)[::-1]
    return [(columns[i % len(columns)], heights[i // len(columns)]) for i in range(count)]


def rounded(values: Iterable[float | None], digits: int = 4) -> list[float | None]:
    """Round for the page: full precision is in the Parquet files."""
    return [None if v is None or math.isnan(v) else round(v, digits) for v in values]
