"""Panels drawn for papers: matplotlib, no screen needed. The same panels give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.pictures import marks
from lasthop.pictures.marks import Mark, Shape
from lasthop.pictures.shapes import Layer, Panel, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
# Text widths of two-column papers (IEEE, ACM), in inches, and the heights that go with them.
WIDTHS_IN = {1: 3.45, 2: 7.1}
_HEIGHTS_IN = {1: {"sequence": 2.2, "other": 1.35}, 2: {"sequence": 2.7, "other": 1.5}}
_WATERFALL_ROW_IN = 0.16
_DPI = 300
# Marks are sized for screens, where they have more room.
_POINTS_PER_PX = 0.6
_SYMBOLS: dict[str, Any] = {
    "circle": "o",
    "circle-open": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "star-open": "*",
    "x-thin-open": "x",
    "cross-thin-open": "+",
    "asterisk-open": (6, 2, 0),
    "y-down-open": "1",
}
_DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (4, 2)), "dot": (0, (1.2, 1.4))}
_STYLE: dict[Any, Any] = {
    "font.family": "STIXGeneral",  # shipped with matplotlib: the same letters everywhere
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.solid_capstyle": "butt",
    "pdf.fonttype": 42,  # whole TrueType fonts: publishers refuse type 3
    "svg.fonttype": "path",
    "svg.hashsalt": "lasthop",
}


_LEGEND: dict[str, Any] = {
    "frameon": False,
    "borderaxespad": 0.1,
    "borderpad": 0.2,
    "handlelength": 1.4,
    "handletextpad": 0.5,
    "columnspacing": 1.2,
    "labelspacing": 0.25,
}
_Y_LABELS_IN = 0.45
_GAP_IN = 0.1  # above each panel and its legend
_TIME_AXIS_IN = 0.36
_RIGHT_IN = 0.09


def _line(mark: Mark) -> dict[str, Any]:
    return {"color": mark.color, "linewidth": mark.width * _POINTS_PER_PX, "linestyle": _DASHES[mark.dash]}


def _symbol(mark: Mark) -> dict[str, Any]:
    hollow = (mark.symbol or "").endswith("-open")
    return {
        "marker": _SYMBOLS.get(mark.symbol or "", ""),
        "markersize": mark.size * _POINTS_PER_PX,
        "markerfacecolor": "none" if hollow else mark.color,
        "markeredgecolor": mark.color,
        "markeredgewidth": 0.7 if hollow else 0.0,
    }


def _draw_layer(axes: Axes, layer: Layer) -> None:
    mark = layer.mark
    y = [float("nan") if value is None else value for value in layer.y]
    if mark.shape is Shape.STEPS:
        axes.plot(layer.x, y, drawstyle="steps-post", label=mark.name, **_line(mark))
        return
    if mark.shape is Shape.SPANS and layer.far is not None:
        lengths = [end - start for start, end in zip(layer.x, layer.far, strict=True)]
        axes.barh(y, lengths, left=layer.x, height=0.62, color=mark.color, label=mark.name)
        return
    middle = y
    if layer.far is not None:
        middle = [(low + high) / 2 for low, high in zip(y, layer.far, strict=True)]
        if mark.width:
            axes.vlines(layer.x, y, layer.far, colors=mark.color, linewidth=mark.width * _POINTS_PER_PX)
    line: dict[str, Any] = {"linestyle": "none", "color": mark.color, "label": mark.name, "clip_on": False}
    if mark.symbol is None:  # a bar alone: its legend shows a stroke
        axes.plot([], [], marker="|", markersize=5, markeredgewidth=mark.width * _POINTS_PER_PX, **line)
    else:
        axes.plot(layer.x, middle, **line, **_symbol(mark))


def _legend(axes: Axes, width_in: float, named: set[str]) -> None:
    """Name the marks above the axes, in as many columns as the picture has room for; those in `named` stand higher."""
    handles, names = axes.get_legend_handles_labels()
    once = {name: handle for name, handle in zip(names, handles, strict=True) if name not in named}
    named.update(names)
    if marks.BAD_PERIOD.name in once:
        once[marks.BAD_PERIOD.name] = once.pop(marks.BAD_PERIOD.name)  # last
    filled = (math.ceil(len(once) / rows) for rows in range(1, len(once) + 1))
    for columns in dict.fromkeys(filled):
        legend = axes.legend(
            once.values(), once.keys(), loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, **_LEGEND
        )
        if legend.get_window_extent().width < (width_in - _Y_LABELS_IN) * axes.figure.dpi:
            break


def _draw_panel(axes: Axes, panel: Panel, shaded: Sequence[tuple[float, float]]) -> None:
    for layer in panel.layers:
        if not layer.mark.optional:
            _draw_layer(axes, layer)
    for start, stop in shaded:
        axes.axvspan(start, stop, color=marks.BAD_PERIOD.color, linewidth=0, zorder=0, label=marks.BAD_PERIOD.name)
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), panel.rows)
        axes.set_ylim(len(panel.rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
    elif panel.kind != "sequence":
        axes.set_ylim(bottom=0)
    axes.set_ylabel(panel.label)


def _height_in(panel: Panel, columns: int) -> float:
    if panel.rows:
        return 0.5 + _WATERFALL_ROW_IN * len(panel.rows)
    heights = _HEIGHTS_IN[columns]
    return heights.get(panel.kind, heights["other"])


def _figure(picture: Picture, columns: int) -> Figure:
    from matplotlib.figure import Figure

    width = WIDTHS_IN[columns]
    figure = Figure(figsize=(width, 1))
    stacked = [figure.add_axes((0.1, 0.1, 0.8, 0.8), label=str(number)) for number in range(len(picture.panels))]
    named: set[str] = set()
    margin = (picture.stop - picture.start) * 0.01
    for axes, panel in zip(stacked, picture.panels, strict=True):
        _draw_panel(axes, panel, picture.bad_periods)
        _legend(axes, width, named)
        axes.set_xlim(picture.start - margin, picture.stop + margin)
        axes.tick_params(labelbottom=axes is stacked[-1])
    stacked[-1].set_xlabel("time (s)")
    _stack(figure, stacked, [_height_in(panel, columns) for panel in picture.panels])
    return figure


def _stack(figure: Figure, stacked: Sequence[Axes], heights: Sequence[float]) -> None:
    """Place the axes above each other with equal left edges, and make the figure as high as they need."""
    legends = [axes.get_legend() for axes in stacked]
    above = [_GAP_IN + (legend.get_window_extent().height / figure.dpi if legend else 0) for legend in legends]
    width = figure.get_figwidth()
    total = sum(heights) + sum(above) + _TIME_AXIS_IN
    figure.set_figheight(total)
    left = _Y_LABELS_IN
    for _ in range(2):  # how wide the labels are depends on how high the axes are
        top = total
        for axes, height, room in zip(stacked, heights, above, strict=True):
            top -= room + height
            axes.set_position((left / width, top / total, (width - left - _RIGHT_IN) / width, height / total))
        boxes = [axes.yaxis.get_tightbbox() for axes in stacked]
        left = max([_Y_LABELS_IN, *(box.width / figure.dpi + _RIGHT_IN for box in boxes if box)])
    figure.align_ylabels(list(stacked))


def draw(picture: Picture, path: Path, file_format: str, columns: int) -> None:
    """Draw panels above each other, over one axis of time, into the file `path`; 1 or 2 columns of a paper wide."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc changes nothing
        mpl.rcParams.update(_STYLE)
        figure = _figure(picture, columns)
        undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
        figure.savefig(path, format=file_format, dpi=_DPI, metadata=undated)
