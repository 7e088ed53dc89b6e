"""Drawings of boxes, lines and texts, in inches from the upper left corner: as SVG, or by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from lasthop.campaign.plan import Plan
from lasthop.present.pictures import marks
from lasthop.present.pictures.shapes import Panel, Picture, made_by
from lasthop.present.pictures.static import WIDTHS_IN, new_figure, place, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE = 0.125
"""Height of a line of text."""
_TEXT_PT = 7.5
_SIDE, _TITLE = 0.08, 0.26
_PX_PER_IN, _TEXT_PX = 100, 9.5
_HEADS = {"left": "<", "right": ">"}

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle from its upper left corner."""

    corner: Point
    size: Point
    fill: str
    edge: str = marks.DARK
    is_dashed: bool = False


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line through points, with arrow heads at its ends: `start`, `end`, none or both."""

    points: Sequence[Point]
    color: str
    heads: frozenset[str] = frozenset()
    width_pt: float = 1.4

    def tips(self) -> Iterator[tuple[Point, str]]:
        """Yield the positions of the heads, and the side to which each points."""
        for head, tip, before in (("start", 0, 1), ("end", -1, -2)):
            if head in self.heads:
                at = self.points[tip]
                yield at, "right" if at[0] > self.points[before][0] else "left"


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; `at` is the left end of its upper edge or, if centred, the middle of this edge."""

    at: Point
    text: str
    is_bold: bool = False
    is_centred: bool = False


@dataclass(slots=True)
class Sheet:
    width: float
    top: float = 0.0
    bottom: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SheetPanel(Panel):
    """A panel that is a drawing, laid out for a width in inches."""

    lay_out: Callable[[float], Sheet] = Sheet


@dataclass(frozen=True, slots=True)
class ScenarioPicture:
    """Drawings of the scenario of a cell, which need no run; `shown` describes them."""

    panels: list[Panel]
    shown: str
    cell: str
    plan: Plan

    def of(self, panels: Sequence[Panel]) -> Picture:
        return Picture(list(panels), 0.0, 0.0, [])

    def remarks(self) -> list[str]:
        return []

    def caption(self, panels: Sequence[Panel]) -> str:
        subjects = ", ".join([self.shown, *(panel.subject for panel in panels if panel.subject)])
        return f"{subjects}. {self.plan.study.name}, {self.cell}, {made_by(self.plan)}."


def sheet_figure(picture: Picture, width: str) -> Figure:
    """Return the matplotlib figure of drawings below each other, as wide as a column or a page of a paper."""
    figure, stacked = new_figure(width, len(picture.panels))
    room = WIDTHS_IN[width] - 2 * _SIDE
    rooms = []
    for axes, panel in zip(stacked, picture.panels, strict=True):
        assert isinstance(panel, SheetPanel)
        sheet = panel.lay_out(room)
        size = room / sheet.width  # scales down wide drawings
        axes.set_xlim(0, sheet.width)
        axes.set_ylim(sheet.bottom, sheet.top)
        axes.set_axis_off()
        axes.set_title(panel.subject, loc="left", fontsize=8, pad=4)
        _draw(axes, sheet, size)
        rooms.append((_TITLE if panel.subject else _SIDE, (sheet.bottom - sheet.top) * size))
    place(figure, stacked, rooms, left=_SIDE, below=_SIDE, notes=wrapped(picture.notes, WIDTHS_IN[width]))
    return figure


def _draw(axes: Axes, sheet: Sheet, size: float) -> None:
    from matplotlib.patches import Rectangle

    for box in sheet.boxes:
        dashes = "--" if box.is_dashed else "-"
        look: Any = {"facecolor": box.fill, "edgecolor": box.edge, "linewidth": 0.6, "linestyle": dashes}
        axes.add_patch(Rectangle(box.corner, *box.size, clip_on=False, **look))
    for stroke in sheet.strokes:
        line: Any = {"color": stroke.color, "linewidth": stroke.width_pt * size, "solid_joinstyle": "round"}
        axes.plot(*zip(*stroke.points, strict=True), clip_on=False, zorder=3, **line)
        for at, side in stroke.tips():
            axes.scatter(*at, s=13 * size**2, marker=_HEADS[side], color=stroke.color, linewidth=0, zorder=4)
    for text in sheet.texts:
        style: Any = {
            "ha": "center" if text.is_centred else "left",
            "weight": "bold" if text.is_bold else "normal",
        }
        axes.text(*text.at, text.text, fontsize=_TEXT_PT * size, va="top", zorder=5, **style)


def svg(sheet: Sheet, name: str) -> str:
    """Return a drawing as SVG, in the colours of its page; `name` is for screen readers."""
    # Slightly wider than the sheet, so that edges of boxes at its sides are complete.
    box = f"-1 {_px(sheet.top)} {_px(sheet.width + 0.02)} {_px(sheet.bottom - sheet.top)}"
    label = f'role="img" aria-label="{escape(name)}"'
    parts = "".join(_parts(sheet))
    return f'<svg class="sheet" viewBox="{box}" {label} font-size="{_TEXT_PX}">{parts}</svg>'


def _px(inches: float) -> str:
    return f"{inches * _PX_PER_IN:.1f}"


def _parts(sheet: Sheet) -> Iterator[str]:
    for box in sheet.boxes:
        (left, top), (width, height) = map(_px, box.corner), map(_px, box.size)
        dashed = ' stroke-dasharray="4 3"' if box.is_dashed else ""
        shape = f'x="{left}" y="{top}" width="{width}" height="{height}"'
        yield f'<rect {shape} fill="currentColor" fill-opacity="0.05" stroke="currentColor"{dashed}/>'
    for stroke in sheet.strokes:
        line = f'fill="none" stroke="{stroke.color}" stroke-width="2"'
        yield f'<polyline points="{_points(stroke.points)}" {line}/>'
        for (x, y), side in stroke.tips():
            back = x + (-0.07 if side == "right" else 0.07)
            corners = _points([(x, y), (back, y - 0.035), (back, y + 0.035)])
            yield f'<polygon points="{corners}" fill="{stroke.color}"/>'
    for text in sheet.texts:
        anchor = "middle" if text.is_centred else "start"
        weight = ' font-weight="bold"' if text.is_bold else ""
        at = f'x="{_px(text.at[0])}" y="{_px(text.at[1] + 0.1)}" text-anchor="{anchor}"'
        yield f'<text {at} fill="currentColor"{weight}>{escape(text.text)}</text>'


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_px(x)},{_px(y)}" for x, y in points)
