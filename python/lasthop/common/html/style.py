"""Colours and layout of all figures, which are plotly JSON (`data` and `layout`)."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TypedDict

Part = dict[str, object]
"""A trace, an axis or another part of a figure."""


class Figure(TypedDict):
    """A figure of plotly."""

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
"""Colours that colour-blind readers can distinguish, too (Okabe and Ito 2008)."""
SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"]
FONT = "'Source Sans 3', 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

MARGIN = {"l": 64, "r": 16, "t": 36, "b": 48}
"""Pixels around the panels."""

_TEXTS = frozenset({"text", "name", "ticktext", "hovertemplate", "x", "y", "categoryarray"})
"""Keys of plotly with visible texts."""
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
    """Return a part of a figure with escaped texts, because plotly interprets texts as HTML.

    Newlines become line breaks, and <extra> in hover texts is not escaped.
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
    """Return plotly's suffix of `x`, `y`, `xaxis` and `yaxis` for the panel with this index."""
    return str(index + 1) if index else ""


def levels_axis(title: str | None, levels: Sequence[str], beside: float, **settings: object) -> Part:
    """Return an axis with the levels at equal distances, and margins of `beside` at its ends."""
    ends = [-beside, len(levels) - 1 + beside]
    ticks = {"tickvals": list(range(len(levels))), "ticktext": list(levels)}
    return axis(title, **ticks, range=ends, showgrid=False, **settings)


def marked(name: str, number: int, marker: Part, **settings: object) -> Part:
    """Return the trace of a series, with its number's colour and, unless `marker` has one, symbol."""
    color, symbol = (kinds[number % len(kinds)] for kinds in (CONTRASTING, SYMBOLS))
    look: Part = {"mode": "lines+markers", "line": {"color": color, "width": 1.5}}
    named = {"type": "scatter", "name": name, "legendgroup": name, **look}
    return {**named, "marker": {"color": color, "symbol": symbol, **marker}, **settings}


class Panels:
    """The panels of a figure, in equal rows from the top, with a legend above them."""

    def __init__(self, count: int, in_a_row: int, gap_x: float = 0.05, gap_y: float = 0.0) -> None:
        """Lay out `count` panels; gaps are shares of the figure."""
        self.rows = math.ceil(count / in_a_row)
        self.across = math.ceil(count / self.rows)
        self.count = count
        self.domains = list(
            itertools.product(_domains(self.rows, gap_y)[::-1], _domains(self.across, gap_x))
        )[:count]
        self.data: list[Part] = []
        self._settings: Part = {}
        self._titles: list[Part] = []

    def is_first(self, index: int) -> bool:
        """Whether a panel is the leftmost in its row."""
        return index % self.across == 0

    def is_lowest(self, index: int) -> bool:
        """Whether no panel is below this one."""
        return index + self.across >= self.count

    def beginning(self, index: int) -> Part:
        """Return the settings by which a vertical axis matches that of the first panel in its row."""
        first = axis_number(index - index % self.across)
        return {} if self.is_first(index) else {"matches": f"y{first}", "showticklabels": False}

    def draw(self, index: int, traces: Iterable[Part], x: Part, y: Part, title: str = "") -> None:
        """Draw a panel with these axes."""
        ref = axis_number(index)
        y_domain, x_domain = self.domains[index]
        self._settings[f"xaxis{ref}"] = x | {"domain": x_domain, "anchor": f"y{ref}"}
        self._settings[f"yaxis{ref}"] = y | {"domain": y_domain, "anchor": f"x{ref}"}
        self.data += [{**trace, "xaxis": f"x{ref}", "yaxis": f"y{ref}"} for trace in traces]
        if title:
            self._titles.append(_panel_title(title, sum(x_domain) / 2, y_domain[1]))

    def figure(
        self, height: int, margin: Mapping[str, int], legend_px: int = 26, **settings: object
    ) -> Figure:
        """Return the figure, whose panels are `height` pixels high; its legend is `legend_px` above them."""
        around = {**MARGIN, **margin}
        above = {"orientation": "h", "x": 0, "y": 1 + legend_px / height, "yanchor": "bottom"}
        common = {"annotations": self._titles, "legend": above | {"font": {"size": 12}}, "margin": around}
        whole = height + around["t"] + around["b"]
        return {"data": self.data, "layout": layout(whole, **{**common, **self._settings, **settings})}


def _panel_title(text: str, x: float, y: float) -> Part:
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


def _domains(count: int, gap: float) -> list[list[float]]:
    """Return the extents of `count` adjacent panels as shares of the figure."""
    width = (1 - gap * (count - 1)) / count
    return [[round(i * (width + gap), 4), round(i * (width + gap) + width, 4)] for i in range(count)]


def rounded(values: Iterable[float | None], digits: int = 4) -> list[float | None]:
    """Round for the page; the Parquet files have full precision."""
    return [None if v is None or math.isnan(v) else round(v, digits) for v in values]
