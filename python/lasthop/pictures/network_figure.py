"""Drawing a network with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lasthop.pictures.network import NetworkPanel
from lasthop.pictures.network_layout import Sheet, heads, lay_out
from lasthop.pictures.shapes import Picture
from lasthop.pictures.static import WIDTHS_IN, place, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEXT_PT = 7.5
_SIDE_IN = 0.08
_HEADS = {"left": "<", "right": ">"}


def network_figure(picture: Picture, width: str) -> Figure:
    """Return the matplotlib figure of a network, as wide as a column or a page of a paper."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    (panel,) = picture.panels
    assert isinstance(panel, NetworkPanel)
    figure = Figure(figsize=(WIDTHS_IN[width], 1))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.1, 0.8, 0.8))
    room = WIDTHS_IN[width] - 2 * _SIDE_IN
    sheet = lay_out(panel.network, room)
    size = room / sheet.width
    axes.set_xlim(0, sheet.width)
    axes.set_ylim(sheet.bottom, sheet.top)
    axes.set_axis_off()
    _draw(axes, sheet, size)
    height = (sheet.bottom - sheet.top) * size
    notes = wrapped(picture.notes, WIDTHS_IN[width])
    place(figure, [axes], [(_SIDE_IN, height)], left=_SIDE_IN, below=_SIDE_IN, notes=notes)
    return figure


def _draw(axes: Axes, sheet: Sheet, size: float) -> None:
    from matplotlib.patches import Rectangle

    for box in sheet.boxes:
        style = "--" if box.is_dashed else "-"
        edge = box.edge or "none"
        axes.add_patch(
            Rectangle(
                box.corner, *box.size, facecolor=box.fill, edgecolor=edge, linewidth=0.6, linestyle=style
            )
        )
    for stroke in sheet.strokes:
        x, y = zip(*stroke.points, strict=True)
        axes.plot(
            x, y, color=stroke.color, linewidth=1.4 * size, solid_joinstyle="round", clip_on=False, zorder=3
        )
        for at, side in heads(stroke):
            axes.scatter(*at, s=13 * size**2, marker=_HEADS[side], color=stroke.color, linewidth=0, zorder=4)
    for text in sheet.texts:
        axes.text(
            *text.at,
            text.text,
            fontsize=_TEXT_PT * size,
            va="top",
            ha="center" if text.is_centred else "left",
            weight="bold" if text.is_bold else "normal",
            zorder=5,
        )
