"""Heat maps of a metric over two factors, with a number and a colour in each cell. For papers, by matplotlib.

The report draws its own heat maps with the same colours and numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lasthop.common.metrics.dictionary import SHARE
from lasthop.common.metrics.units import Scale
from lasthop.present.pictures.marks import DARK
from lasthop.present.pictures.of_results import Chart, ResultPanel
from lasthop.present.pictures.static import COLUMN, WIDTHS_IN, finish_grid, new_grid, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The ends differ for colour-blind readers (Okabe and Ito 2008); printed in grey, both are dark.
_ABOUT_A_HALF = ("#0072b2", "#7fb8d8", "#ffffff", "#eaae7f", "#d55e00")
_FROM_NOTHING = ("#ffffff", "#9ecae1", "#3182bd", "#08306b")
_HALF = {SHARE}
"""Shares of two flows, for which a half is neutral."""
_MOST_CELLS_ACROSS = 6
"""With more levels, a panel has half of the page's width."""
_CELL_IN = 0.21
_AROUND_IN = 0.85
_LIGHT = 0.5


def colours(metric: str) -> Sequence[str]:
    """Return the colours of a metric's cells from the least to the greatest value, evenly spaced."""
    return _ABOUT_A_HALF if metric in _HALF else _FROM_NOTHING


def limits(metric: str, values: Iterable[float]) -> tuple[float, float]:
    """Return the values at the ends of the colour scale, in the unit of the records."""
    if metric in _HALF:
        return 0.0, 1.0
    finite = [value for value in values if math.isfinite(value)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    return (low, high) if high > low else (low, low + 1.0)


def number(scale: Scale, value: float, greatest: float) -> str:
    """Return the number in a cell with about three digits; `greatest` is the greatest of all cells."""
    largest = abs(greatest) * scale.factor
    decimals = 0 if largest >= 10 or scale.whole else 1 if largest >= 1 else 2
    return scale.number(value, decimals=decimals) if math.isfinite(value) else ""


def heatmap_figure(chart: Chart, width: str) -> Figure:
    """Return the matplotlib figure of a heat map: a panel for each combination of the other factors."""
    width_in = WIDTHS_IN[width]
    narrow = len(chart.x_levels) <= _MOST_CELLS_ACROSS
    across = min(len(chart.panels), 1 if width == COLUMN else 3 if narrow else 2)
    down = math.ceil(len(chart.panels) / across)
    notes = wrapped([f"Numbers: {chart.title}.", *chart.notes], width_in)
    figure, grid = new_grid(width, len(chart.panels), across, {})
    values = [_mean(group.values) for panel in chart.panels for group in panel.groups]
    ends = limits(_coloured(chart), values)
    for axes, panel in zip(grid, chart.panels, strict=True):
        _draw_panel(axes, chart, panel, ends)
        axes.set_title("\n".join(wrapped([panel.title], width_in / across)), fontsize=8)
    finish_grid(figure, down * (len(chart.hue_levels) * _CELL_IN + _AROUND_IN), 0, notes)
    return figure


def _coloured(chart: Chart) -> str:
    """Return the metric that determines the colours; empty for ratios."""
    return chart.y if chart.ratio is None else ""


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _draw_panel(axes: Axes, chart: Chart, panel: ResultPanel, ends: tuple[float, float]) -> None:
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    rows = [level for level in chart.hue_levels if any(group.hue == level for group in panel.groups)]
    columns = [level for level in chart.x_levels if any(group.x == level for group in panel.groups)]
    cells = np.full((len(rows), len(columns)), np.nan)
    for group in panel.groups:
        cells[rows.index(group.hue), columns.index(group.x)] = _mean(group.values)
    scheme = LinearSegmentedColormap.from_list("lasthop", list(colours(_coloured(chart))))
    shades = scheme(Normalize(*ends)(np.nan_to_num(cells)))
    axes.imshow(np.where(np.isnan(cells)[..., None], 1.0, shades), aspect="auto")
    greatest = max(ends, key=abs)
    for (row, column), value in np.ndenumerate(cells):
        red, green, blue, _ = shades[row, column]
        light = 0.3 * red + 0.59 * green + 0.11 * blue > _LIGHT
        text = number(chart.scale, value, greatest)
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=DARK if light else "#ffffff")
    axes.set_xticks(range(len(columns)), columns, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.hue)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    # White lines between the cells.
    axes.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="#ffffff", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
