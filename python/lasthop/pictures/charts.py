"""Pictures of many runs for papers, by matplotlib: boxes, distributions, means against one or two factors, bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.metrics.units import Scale, scale
from lasthop.pictures import levels
from lasthop.pictures.heatmap import heatmap_figure
from lasthop.pictures.marks import DARK, FLOW_COLORS, FLOW_SYMBOLS, GREY
from lasthop.pictures.results import BAND, BOX, CDF, EXTREMES, HEATMAP, LINE, Chart, Group, ResultPanel
from lasthop.pictures.static import COLUMN, LEGEND, WIDTHS_IN, save, wrapped
from lasthop.statistics.estimates import mean_intervals
from lasthop.statistics.quantiles import CONFIDENCE, shared

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_PANEL_HEIGHT_IN = 1.75
_LONGEST_TITLE_IN = 1.6
"""Of a vertical axis; longer ones are broken."""
_ROW_IN = 0.16
_CHARACTER_IN = 0.062
_SYMBOLS = dict(zip(FLOW_SYMBOLS, "os^D", strict=True))
_WIDEST_BOX = 0.25
_MOST_BELOW = 4
"""So many panels stand below each other in one column."""
_FROM_ZERO = 0.5
"""The axis begins at zero if the smallest value is less than this share of the largest."""


def draw_chart(chart: Chart, path: Path, file_format: str, width: str) -> None:
    """Draw a chart into the file `path`, as wide as a column or a page of a paper."""
    save(lambda: chart_figure(chart, width), path, file_format)


def chart_figure(chart: Chart, width: str) -> Figure:
    """Return the matplotlib figure of a chart: its panels side by side and below each other, with one legend."""
    if chart.kind == HEATMAP:
        return heatmap_figure(chart, width)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width_in = WIDTHS_IN[width]
    across = _across(len(chart.panels), width)
    down = math.ceil(len(chart.panels) / across)
    notes = wrapped(chart.notes, width_in)
    figure = Figure(figsize=(width_in, 1), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(down, across, squeeze=False, sharex=chart.kind != CDF, sharey="row")
    for place, axes in enumerate(grid.flat):
        if place >= len(chart.panels):
            axes.set_visible(False)
            continue
        _draw_panel(axes, chart, chart.panels[place], width_in / across - 0.4)
        lowest = place + across >= len(chart.panels)
        axes.tick_params(labelbottom=lowest or chart.kind == CDF)
        axes.set_xlabel(_x_title(chart) if lowest else "")
        axes.set_ylabel(_y_title(chart) if place % across == 0 else "")
    _lay_out_values(list(grid[:, 0]), chart)
    _lay_out_levels(list(grid.flat), chart, (width_in - 0.6) / across)
    legend_rows = _add_legend(figure, chart, width_in)
    if notes:
        figure.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=7)
    figure.set_figheight(down * _PANEL_HEIGHT_IN + (legend_rows + len(notes)) * _ROW_IN + 0.75)
    return figure


def _across(panels: int, width: str) -> int:
    """Return how many panels stand side by side."""
    if width == COLUMN:
        return 1 if panels <= _MOST_BELOW else 2
    if panels <= 3:
        return panels
    return 3 if panels % 3 == 0 or panels % 2 else 2


def _x_title(chart: Chart) -> str:
    if chart.over is not None:
        unit = _range_scale(chart).unit
        return f"{chart.x} ({unit})" if unit else chart.x
    return chart.title if chart.kind == CDF else chart.x


def _range_scale(chart: Chart) -> Scale:
    assert chart.over is not None
    return scale(chart.over.unit, [chart.over.high])


def _y_title(chart: Chart) -> str:
    return "share of values" if chart.kind == CDF else "\n".join(wrapped([chart.title], _LONGEST_TITLE_IN))


def _look(chart: Chart, hue: str) -> dict[str, Any]:
    place = chart.hue_levels.index(hue)
    again = place >= len(FLOW_COLORS)
    return {"color": FLOW_COLORS[place % len(FLOW_COLORS)], "linestyle": "--" if again else "-"}


def _symbol(chart: Chart, hue: str) -> str:
    return _SYMBOLS[FLOW_SYMBOLS[chart.hue_levels.index(hue) % len(FLOW_SYMBOLS)]]


def _scaled(chart: Chart, group: Group) -> list[float]:
    return [value * chart.scale.factor for value in group.values]


def _draw_panel(axes: Axes, chart: Chart, panel: ResultPanel, width_in: float) -> None:
    {BOX: _draw_boxes, LINE: _draw_lines, CDF: _draw_distributions, BAND: _draw_bands}[chart.kind](axes, chart, panel)
    if chart.ratio is not None and chart.kind != CDF:
        axes.axhline(1.0, color=GREY, linewidth=0.6, zorder=0)
    if panel.title:
        axes.set_title("\n".join(wrapped([panel.title], 0.85 * width_in)), fontsize=8)


def _lay_out_values(grid: Sequence[Axes], chart: Chart) -> None:
    """Let the vertical axes begin at zero unless the values are far above it."""
    values = [value for panel in chart.panels for group in panel.groups for value in group.values]
    for axes in grid:  # a row shares its axis: setting the first of them sets all
        if chart.kind == CDF:
            axes.set_ylim(0, 1.02)
        elif chart.over is not None and chart.over.logarithmic and levels.is_logarithmic(values):
            _make_logarithmic(axes.set_yscale, axes.yaxis)
        elif 0 <= min(values) <= _FROM_ZERO * max(values):
            top = axes.get_ylim()[1]
            axes.set_ylim(-0.02 * top, 1.04 * top)  # values of zero show above the edge


def _draw_boxes(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    count = len(chart.hue_levels)
    room = 0.8 / count
    for group in panel.groups:
        place = chart.x_levels.index(group.x) + (chart.hue_levels.index(group.hue) - (count - 1) / 2) * room
        look = _look(chart, group.hue)
        values = _scaled(chart, group)
        if len(values) == 1:
            axes.plot([place], values, _symbol(chart, group.hue), color=look["color"], markersize=3.5)
            continue
        lines = {**look, "linewidth": 0.8}
        axes.boxplot(
            [values],
            positions=[place],
            widths=min(room * 0.75, _WIDEST_BOX),
            whis=(0, 100) if chart.whiskers == EXTREMES else 1.5,
            manage_ticks=False,
            patch_artist=True,
            boxprops={"facecolor": (*_rgb(look["color"]), 0.25), "edgecolor": look["color"], "linewidth": 0.8},
            medianprops={**lines, "linewidth": 1.6},
            whiskerprops=lines,
            capprops=lines,
            flierprops={"marker": "o", "markersize": 2.2, "markeredgecolor": look["color"], "markeredgewidth": 0.6},
        )


def _rgb(color: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)


def _draw_lines(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    places = dict(zip(chart.x_levels, levels.numbers(chart.x_levels) or range(len(chart.x_levels)), strict=True))
    for hue in chart.hue_levels:
        groups = [group for group in panel.groups if group.hue == hue]
        if not groups:
            continue
        confidence = shared(CONFIDENCE, chart.looks)
        means, lows, highs = np.array([mean_intervals(_scaled(chart, group), confidence) for group in groups]).T
        x = [places[group.x] for group in groups]
        bars = np.nan_to_num(np.stack([means - lows, highs - means]))
        look = {**_look(chart, hue), "marker": _symbol(chart, hue), "markersize": 3, "linewidth": 1.1}
        axes.errorbar(x, means, yerr=bars, elinewidth=0.8, capsize=2, capthick=0.8, **look)


def _draw_distributions(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    for group in panel.groups:
        axes.ecdf(_scaled(chart, group), linewidth=1.1, **_look(chart, group.hue))


def _draw_bands(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    factor = _range_scale(chart).factor
    for group in panel.groups:
        color = _look(chart, group.hue)["color"]
        x, values = np.array(group.at, dtype=float) * factor, np.array(_scaled(chart, group))
        axes.plot(x, values, ".", color=color, markersize=4, alpha=0.55, markeredgewidth=0)
        if len(values) <= chart.window:
            continue
        neighbours = np.lib.stride_tricks.sliding_window_view(values, chart.window)
        low, middle, high = np.percentile(neighbours, [10, 50, 90], axis=1)
        centres = np.median(np.lib.stride_tricks.sliding_window_view(x, chart.window), axis=1)
        axes.fill_between(centres, low, high, color=color, alpha=0.2, linewidth=0)
        axes.plot(centres, middle, linewidth=1.2, **_look(chart, group.hue))
    if chart.over is not None and chart.over.logarithmic:
        _make_logarithmic(axes.set_xscale, axes.xaxis)


def _make_logarithmic(set_scale: Callable[[str], object], axis: Axis) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    set_scale("log")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _lay_out_levels(grid: Sequence[Axes], chart: Chart, width_in: float) -> None:
    """Put the levels under the axes: where their numbers are, or side by side; slanted if there is no room."""
    if chart.kind in (CDF, BAND):
        return
    shown = [axes for axes in grid if axes.get_visible()]
    values = levels.numbers(chart.x_levels) if chart.kind == LINE else None
    crowded = sum(len(level) + 2 for level in chart.x_levels) * _CHARACTER_IN > width_in
    slanted: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    for axes in shown:
        if values is not None and levels.is_logarithmic(values):
            axes.set_xscale("log")
        places = list(range(len(chart.x_levels))) if values is None else values
        axes.set_xticks(places, chart.x_levels, **slanted)
        axes.set_xticks([], minor=True)
        if values is None:
            axes.set_xlim(-0.6, len(places) - 0.4)


def _add_legend(figure: Figure, chart: Chart, width_in: float) -> int:
    """Name the levels of the colours above the panels; return in how many rows."""
    if not chart.hue:
        return 0
    from matplotlib.lines import Line2D

    symbols = {hue: _symbol(chart, hue) if chart.kind == LINE else "" for hue in chart.hue_levels}
    title: list[Artist] = [Line2D([], [], linestyle="none")]
    handles = title + [
        Line2D([], [], **_look(chart, hue), marker=symbols[hue], markersize=3, linewidth=2 if not symbols[hue] else 1.1)
        for hue in chart.hue_levels
    ]
    names = [f"{chart.hue}:", *chart.hue_levels]
    for columns in range(len(names), 0, -1):
        legend = figure.legend(handles, names, loc="outside upper left", ncols=columns, labelcolor=DARK, **LEGEND)
        if legend.get_window_extent().width <= width_in * figure.dpi or columns == 1:
            return math.ceil(len(names) / columns)
        legend.remove()
    return 0
