"""Drawing the classes of a router with matplotlib.

The root stands at the left, with a row for each class that holds packets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lasthop.pictures import marks
from lasthop.pictures.classes import Node, TreePanel
from lasthop.pictures.shapes import Picture
from lasthop.pictures.static import WIDTHS_IN, place, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE_IN = 0.125
_PAD_IN = 0.06
_BETWEEN_IN = 0.1
"""Distance from one box to the next below."""
_EDGE_IN = 0.35
"""Distance from a box to the boxes on its right."""
_SIDE_IN, _TITLE_IN = 0.08, 0.26
_WIDEST_IN = 2.4
_TEXT_PT = 7.5
_FILLS = {True: "#ffffff", False: "#eceff1"}
"""Fill of a class that holds packets, and of one that only lends."""


def class_figure(picture: Picture, width: str) -> Figure:
    """Return the matplotlib figure of trees below each other, as wide as a column or a page of a paper."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTHS_IN[width], 1))
    FigureCanvasAgg(figure)
    rooms = []
    stacked = []
    for number, panel in enumerate(picture.panels):
        assert isinstance(panel, TreePanel)
        axes = figure.add_axes((0.1, 0.1, 0.8, 0.8), label=str(number))
        depth = _depth(panel.root)
        box_in = min(_WIDEST_IN, (WIDTHS_IN[width] - 2 * _SIDE_IN - (depth - 1) * _EDGE_IN) / depth)
        height = _draw(axes, panel.root, (0.0, 0.0), box_in)[1]
        axes.set_xlim(0, WIDTHS_IN[width] - 2 * _SIDE_IN)
        axes.set_ylim(height, 0)
        axes.set_axis_off()
        if panel.subject:
            axes.text(0, -_PAD_IN, panel.subject, va="bottom")
        stacked.append(axes)
        rooms.append((_TITLE_IN if panel.subject else _SIDE_IN, height))
    place(
        figure, stacked, rooms, left=_SIDE_IN, below=_SIDE_IN, notes=wrapped(picture.notes, WIDTHS_IN[width])
    )
    return figure


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.children), default=0)


def _draw(axes: Axes, node: Node, corner: tuple[float, float], box_in: float) -> tuple[float, float]:
    """Draw a node with everything to its right, below a corner.

    Return the middle of its box, and the lower end. The axes are in inches, downwards.
    """
    left, top = corner
    lines = [node.name, *(line for said in node.said for line in wrapped([said], box_in - 2 * _PAD_IN))]
    height = len(lines) * _LINE_IN + 2 * _PAD_IN
    middles = []
    end = top
    for child in node.children:
        middle, end = _draw(axes, child, (left + box_in + _EDGE_IN, end), box_in)
        middles.append(middle)
        end += _BETWEEN_IN
    end = max(end - _BETWEEN_IN if middles else top, top + height)
    middle = (middles[0] + middles[-1]) / 2 if middles else top + height / 2
    middle = max(middle, top + height / 2)
    _draw_box(axes, lines, (left, middle - height / 2), (box_in, height), leaf=not middles)
    right = left + box_in
    for other in middles:
        corner_x = right + _EDGE_IN / 2
        path = ([right, corner_x, corner_x, right + _EDGE_IN], [middle, middle, other, other])
        axes.plot(*path, color=marks.DARK, linewidth=0.8, solid_capstyle="projecting")
    return middle, end


def _draw_box(
    axes: Axes, lines: Sequence[str], corner: tuple[float, float], size: tuple[float, float], *, leaf: bool
) -> None:
    from matplotlib.patches import Rectangle

    box = Rectangle(corner, *size, facecolor=_FILLS[leaf], edgecolor=marks.DARK, linewidth=0.8, clip_on=False)
    axes.add_patch(box)
    for number, line in enumerate(lines):
        at = corner[0] + _PAD_IN, corner[1] + _PAD_IN + number * _LINE_IN
        axes.text(*at, line, fontsize=_TEXT_PT, va="top", weight="normal" if number else "bold")
