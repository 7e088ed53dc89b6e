"""Pictures of many runs for papers, by matplotlib: boxes, bars, distributions, means, bands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.common.metrics.units import Scale, scale
from lasthop.common.statistics.estimates import mean_intervals
from lasthop.common.statistics.quantiles import CONFIDENCE, shared
from lasthop.present.pictures.heatmap import heatmap_figure
from lasthop.present.pictures.logarithmic import make_logarithmic
from lasthop.present.pictures.marks import DARK, FLOW_COLORS, GREY
from lasthop.present.pictures.of_results import (
    BAND,
    BAR,
    BOX,
    CDF,
    EXTREMES,
    HEATMAP,
    LINE,
    Chart,
    Group,
    ResultPanel,
)
from lasthop.present.pictures.static import (
    COLUMN,
    WIDTHS_IN,
    finish_grid,
    level_look,
    name_levels,
    new_grid,
    save,
    wrapped,
)
from lasthop.scenario import levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_HEIGHT_IN = 1.75
_LONGEST_TITLE_IN = 1.6
"""Longest title of a vertical axis; longer titles are wrapped."""
_CHARACTER_IN = 0.062
_WIDEST_BOX = 0.25
_WIDEST_BAR = 0.5
_GROUP_GAP = 0.7
"""Gap between groups of levels, in addition to the distance between two levels."""
_GROUP_IN = 0.16
"""Height of a row of group names."""
_MOST_BELOW = 4
"""The largest number of panels below each other in a column."""
_FROM_ZERO = 0.5
"""The axis starts at zero if the smallest value is below this share of the largest."""


def draw_chart(chart: Chart, path: Path, file_format: str, width: str) -> None:
    """Draw a chart into the file `path`, as wide as a column or a page of a paper."""
    save(lambda: chart_figure(chart, width), path, file_format)


def chart_figure(chart: Chart, width: str) -> Figure:
    """Return the matplotlib figure of a chart: a grid of panels with a common legend."""
    if chart.kind == HEATMAP:
        return heatmap_figure(chart, width)
    width_in = WIDTHS_IN[width]
    across = _across(len(chart.panels), width)
    down = math.ceil(len(chart.panels) / across)
    notes = wrapped(chart.notes, width_in)
    sharing = {"sharex": chart.kind != CDF, "sharey": "row"}
    figure, grid = new_grid(width, len(chart.panels), across, sharing)
    for place, (axes, panel) in enumerate(zip(grid, chart.panels, strict=True)):
        _draw_panel(axes, chart, panel, width_in / across - 0.4)
        if chart.theory:
            _draw_theory(axes, chart, chart.theory[place])
        lowest = place + across >= len(chart.panels)
        axes.tick_params(labelbottom=lowest or chart.kind == CDF)
        axes.set_xlabel(_x_title(chart) if lowest else "")
        axes.set_ylabel(_y_title(chart) if place % across == 0 else "")
    twins = [axes.twinx() for axes in grid] if chart.second else []
    _draw_second(twins, chart, across)
    _set_value_axes(grid[::across], chart)
    groups_in = _set_level_axes(grid, chart, (width_in - 0.6) / across)
    legend_rows = name_levels(figure, chart.hue, _legend(chart)) if chart.hue else 0
    finish_grid(figure, down * _PANEL_HEIGHT_IN + 0.75 + groups_in, legend_rows, notes)
    return figure


def _across(panels: int, width: str) -> int:
    """Return the number of panels side by side."""
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
    return "share of values" if chart.kind == CDF else _broken(chart.title)


def _broken(title: str) -> str:
    return "\n".join(wrapped([title], _LONGEST_TITLE_IN))


def _look(chart: Chart, hue: str) -> dict[str, Any]:
    look = level_look(chart.hue_levels.index(hue))
    return {"color": look["color"], "linestyle": look["linestyle"]}


def _symbol(chart: Chart, hue: str) -> str:
    return str(level_look(chart.hue_levels.index(hue))["marker"])


def _scaled(chart: Chart, group: Group) -> list[float]:
    return [value * chart.scale.factor for value in group.values]


def _draw_panel(axes: Axes, chart: Chart, panel: ResultPanel, width_in: float) -> None:
    {
        BAR: _draw_bars,
        BOX: _draw_boxes,
        LINE: _draw_lines,
        CDF: _draw_distributions,
        BAND: _draw_bands,
    }[chart.kind](axes, chart, panel)
    if chart.ratio is not None and chart.kind != CDF:
        axes.axhline(1.0, color=GREY, linewidth=0.6, zorder=0)
    if panel.title:
        axes.set_title("\n".join(wrapped([panel.title], 0.85 * width_in)), fontsize=8)


def _set_value_axes(grid: Sequence[Axes], chart: Chart) -> None:
    """Start the vertical axes at zero unless the values are far above it."""
    values = [value for panel in chart.panels for group in panel.groups for value in group.values]
    for axes in grid:  # the first of each row, which shares its axis
        spread = chart.over is not None and chart.over.logarithmic and levels.is_logarithmic(values)
        if chart.kind == CDF:
            axes.set_ylim(0, 1.02)
        elif spread or "y" in chart.log:
            make_logarithmic(axes.yaxis)
        elif chart.kind == BAR and min(values) >= 0:
            axes.set_ylim(0, 1.04 * axes.get_ylim()[1])
        elif 0 <= min(values) <= _FROM_ZERO * max(values):
            top = axes.get_ylim()[1]
            axes.set_ylim(-0.02 * top, 1.04 * top)  # values of zero are visible above the edge


def _numbers(chart: Chart) -> list[float] | None:
    """Return the levels' numbers if a line is drawn over a single factor with numeric levels."""
    return levels.numbers(chart.x_levels) if chart.kind == LINE and not _groups(chart) else None


def _places(chart: Chart) -> dict[str, float]:
    """Return the positions of the levels: their numbers, or side by side with a gap between groups."""
    if (numbers := _numbers(chart)) is not None:
        return dict(zip(chart.x_levels, numbers, strict=True))
    places: dict[str, float] = {}
    at = 0.0
    for before, level in itertools.pairwise(["", *chart.x_levels]):
        apart = bool(before) and chart.split(before)[:-1] != chart.split(level)[:-1]
        at += _GROUP_GAP if apart else 0.0
        places[level] = at
        at += 1
    return places


def _groups(chart: Chart) -> list[list[tuple[str, list[str]]]]:
    """Return the groups of levels with their names, for each factor but the innermost, from inside out."""
    paths = [chart.split(level) for level in chart.x_levels]
    rows = []
    for depth in range(len(paths[0]) - 1, 0, -1):
        members: dict[tuple[str, ...], list[str]] = {}
        for path, level in zip(paths, chart.x_levels, strict=True):
            members.setdefault(path[:depth], []).append(level)
        rows.append([(path[-1], own) for path, own in members.items()])
    return rows


def _beside(chart: Chart, hue: str) -> tuple[float, float]:
    """Return the offset of a colour from its level, and its width."""
    count = len(chart.hue_levels)
    room = 0.8 / count
    return (chart.hue_levels.index(hue) - (count - 1) / 2) * room, room


def _draw_bars(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    places = _places(chart)
    for group in panel.groups:
        aside, room = _beside(chart, group.hue)
        low, middle, high = np.percentile(_scaled(chart, group), [25, 50, 75])
        color = _look(chart, group.hue)["color"]
        place = places[group.x] + aside
        hatch = "////" if _look(chart, group.hue)["linestyle"] == "--" else None
        shape = {"width": min(room * 0.85, _WIDEST_BAR), "edgecolor": color, "linewidth": 0.8, "hatch": hatch}
        axes.bar(place, middle, facecolor=(*_rgb(color), 0.45), **shape)
        axes.vlines(place, low, high, color=DARK, linewidth=0.8)


def _draw_boxes(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    places = _places(chart)
    for group in panel.groups:
        aside, room = _beside(chart, group.hue)
        place = places[group.x] + aside
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
            boxprops={
                "facecolor": (*_rgb(look["color"]), 0.25),
                "edgecolor": look["color"],
                "linewidth": 0.8,
            },
            medianprops={**lines, "linewidth": 1.6},
            whiskerprops=lines,
            capprops=lines,
            flierprops={
                "marker": "o",
                "markersize": 2.2,
                "markeredgecolor": look["color"],
                "markeredgewidth": 0.6,
            },
        )


def _rgb(color: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)


def _draw_lines(axes: Axes, chart: Chart, panel: ResultPanel, *, hollow: bool = False) -> None:
    places = _places(chart)
    confidence = shared(CONFIDENCE, chart.looks)
    lines = itertools.groupby(
        sorted(panel.groups, key=lambda group: chart.hue_levels.index(group.hue)),
        lambda group: (group.hue, chart.split(group.x)[:-1]),
    )
    for (hue, _), own in lines:  # a line ends with its group of levels
        groups = list(own)
        means, lows, highs = np.array(
            [mean_intervals(_scaled(chart, group), confidence) for group in groups]
        ).T
        x = [places[group.x] for group in groups]
        bars = np.nan_to_num(np.stack([means - lows, highs - means]))
        own_look = _second_look(chart, hue) if hollow else _look(chart, hue)
        look = {**own_look, "marker": _symbol(chart, hue), "markersize": 3, "linewidth": 1.1}
        axes.errorbar(x, means, yerr=bars, elinewidth=0.8, capsize=2, capthick=0.8, **look)


def _draw_second(twins: Sequence[Axes], chart: Chart, across: int) -> None:
    """Draw the second metric, with hollow symbols and dashed lines, on a right axis common to all panels."""
    if chart.second is None:
        return
    second = replace(chart, y=chart.second.y, scale=chart.second.scale, panels=chart.second.panels)
    for axes, panel in zip(twins, second.panels, strict=True):
        if chart.kind == LINE:
            _draw_lines(axes, second, panel, hollow=True)
        else:
            _draw_medians(axes, second, panel)
        axes.spines["right"].set_visible(True)
        axes.sharey(twins[0])
    _set_value_axes(twins[:1], second)
    for place, axes in enumerate(twins):
        outermost = place % across == across - 1 or axes is twins[-1]
        axes.tick_params(labelright=outermost)
        axes.set_ylabel(_broken(chart.second.title) if outermost else "")


def _draw_theory(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    """Draw what a theory predicts as dashed lines, in one colour if it is the same for all colours."""
    values = {(group.x, tuple(group.at)): group.values for group in panel.groups}
    is_common = all(values[group.x, tuple(group.at)] == group.values for group in panel.groups)
    places = {} if chart.over else _places(chart)
    for hue, own in itertools.groupby(
        sorted(panel.groups, key=lambda group: group.hue), lambda group: group.hue
    ):
        groups = [group for group in own if chart.over or group.x in places]
        if hue not in chart.hue_levels and chart.hue:
            continue
        color = DARK if is_common or not chart.hue else _look(chart, hue)["color"]
        look: dict[str, Any] = {"color": color, "linewidth": 1.0, "linestyle": (0, (4, 2)), "zorder": 1.5}
        if chart.over:
            x = np.array([at for group in groups for at in group.at]) * _range_scale(chart).factor
            axes.plot(x, [y for group in groups for y in _scaled(chart, group)], **look)
        elif chart.kind == LINE:
            axes.plot([places[group.x] for group in groups], [_scaled(chart, g)[0] for g in groups], **look)
        else:
            for group in groups:
                aside, room = _beside(chart, group.hue)
                place, y = places[group.x] + aside, _scaled(chart, group)[0]
                axes.hlines(y, place - room / 2, place + room / 2, **look)


def _second_look(chart: Chart, hue: str) -> dict[str, Any]:
    """Return the look of the second metric: the level's colour, or a separate colour without levels."""
    color = _look(chart, hue)["color"] if chart.hue else FLOW_COLORS[1]
    return {"color": color, "linestyle": "--", "markerfacecolor": "white"}


def _draw_medians(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    places = _places(chart)
    for group in panel.groups:
        place = places[group.x] + _beside(chart, group.hue)[0]
        look = _second_look(chart, group.hue) | {"linestyle": "none", "markersize": 4, "clip_on": False}
        axes.plot([place], [np.median(_scaled(chart, group))], _symbol(chart, group.hue), **look)


def _draw_distributions(axes: Axes, chart: Chart, panel: ResultPanel) -> None:
    for group in panel.groups:
        axes.ecdf(_scaled(chart, group), linewidth=1.1, **_look(chart, group.hue))
    if "x" in chart.log:
        make_logarithmic(axes.xaxis)


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
    if chart.over is not None and (chart.over.logarithmic or "x" in chart.log):
        make_logarithmic(axes.xaxis)


def _set_level_axes(grid: Sequence[Axes], chart: Chart, width_in: float) -> float:
    """Label the horizontal axes with the levels, slanted if there is little space.

    Return the height in inches that labels and names of groups need.
    """
    if chart.kind in (CDF, BAND):
        return 0.0
    values = _numbers(chart)
    groups = _groups(chart)
    names = [chart.split(level)[-1] for level in chart.x_levels]
    crowded = sum(len(name) + 2 for name in names) * _CHARACTER_IN > width_in
    slanted: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    if crowded and groups:
        slanted = {"rotation": 90}
    places = list(_places(chart).values())
    below = 0.0
    for axes in grid:
        if values is not None and (levels.is_logarithmic(values) or "x" in chart.log):
            axes.set_xscale("log")
        axes.set_xticks(places, names, **slanted)
        axes.set_xticks([], minor=True)
        if values is None:
            axes.set_xlim(-0.6, places[-1] + 0.6)
        if groups and axes.xaxis.get_tick_params()["labelbottom"]:
            below = (
                max(label.get_window_extent().height for label in axes.get_xticklabels()) / axes.figure.dpi
                + 0.04
            )
            _name_groups(axes, chart, below)
    return below + len(groups) * _GROUP_IN if groups else 0.0


def _name_groups(axes: Axes, chart: Chart, below_in: float) -> None:
    """Write the names of groups under a line below their levels, `below_in` inches below the axis."""
    from matplotlib.transforms import ScaledTranslation

    def at(inches: float) -> ScaledTranslation:
        return ScaledTranslation(0, -inches, axes.figure.dpi_scale_trans)

    places = _places(chart)
    across = axes.get_xaxis_transform()
    top = below_in + 0.08
    for groups in _groups(chart):
        for name, members in groups:
            left, right = places[members[0]] - 0.4, places[members[-1]] + 0.4
            line: dict[str, Any] = {"color": GREY, "linewidth": 0.6, "clip_on": False}
            axes.plot([left, right], [0, 0], transform=across + at(top), **line)
            text: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 7.5}
            axes.text((left + right) / 2, 0, name, transform=across + at(top + 0.02), **text)
        top += _GROUP_IN
    axes.text(0.5, 0, axes.get_xlabel(), ha="center", va="top", transform=axes.transAxes + at(top + 0.04))
    axes.set_xlabel("")


def _legend(chart: Chart) -> dict[str, dict[str, Any]]:
    """Return the looks of the levels in the legend; only lines have symbols."""
    line: dict[str, Any] = {"linewidth": 1.1, "markersize": 3} if chart.kind == LINE else {"linewidth": 2}
    symbols = {hue: _symbol(chart, hue) if chart.kind == LINE else "" for hue in chart.hue_levels}
    return {hue: _look(chart, hue) | line | {"marker": symbols[hue]} for hue in chart.hue_levels}
