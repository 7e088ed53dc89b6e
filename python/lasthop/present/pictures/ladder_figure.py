"""Draw ladder diagrams with matplotlib: two hosts, time downwards, a label where each packet arrives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lasthop.present.pictures import marks
from lasthop.present.pictures.ladder import CLIENT, SERVER
from lasthop.present.pictures.marks import Shape
from lasthop.present.pictures.shapes import BadPeriod, Layer, Panel, Picture
from lasthop.present.pictures.static import (
    WIDTHS_IN,
    add_legend,
    legend_handles,
    line,
    new_figure,
    place,
    symbol,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABEL_PT = 6.5
_LABEL_IN = 0.105
"""Vertical distance between labels."""
_BESIDE_IN = 0.1
"""Distance from a host's line to its labels."""
_LEAST_BETWEEN_IN = 1.0
"""Width between the hosts, in addition to the label of a lost packet."""
_HOSTS_IN = 0.24
_LEAST_IN = 1.6
_LEFT_IN, _RIGHT_IN, _BELOW_IN, _GAP_IN = 0.5, 0.05, 0.08, 0.1


@dataclass(frozen=True, slots=True)
class _Rung:
    """A packet: start and end of its arrow, as positions and seconds, and the text next to its end."""

    layer: Layer
    start: tuple[float, float]
    stop: tuple[float, float]
    label: str

    @property
    def column(self) -> float:
        """Position of the label: at the host that the packet reaches, or where it is lost."""
        return self.stop[0]

    @property
    def outwards(self) -> int:
        """Direction of the label from this position: 1 for right, -1 for left."""
        return 1 if self.start[0] == SERVER else -1


def _rungs(panel: Panel) -> list[_Rung]:
    return [
        _Rung(layer, (place, sent), (end, arrived), label)
        for layer in panel.layers
        for sent, place, arrived, end, label in zip(
            layer.x, layer.y, layer.far or (), layer.ends or (), layer.labels or (), strict=False
        )
        if place is not None
    ]


def ladder_figure(picture: Picture, width: str) -> Figure:
    """Return the matplotlib figure of ladders below each other, as wide as a column or a page of a paper."""
    figure, stacked = new_figure(width, len(picture.panels))
    room = WIDTHS_IN[width] - _LEFT_IN - _RIGHT_IN
    rooms = []
    for axes, panel in zip(stacked, picture.panels, strict=True):
        height = _draw_ladder(axes, panel, picture.bad_periods, room)
        handles = legend_handles(panel, _within(panel, picture.bad_periods))
        rooms.append((_GAP_IN + add_legend(axes, handles, room), height))
    notes = wrapped(picture.notes, WIDTHS_IN[width])
    place(figure, stacked, rooms, left=_LEFT_IN, below=_BELOW_IN, notes=notes)
    return figure


def _within(panel: Panel, bad: Sequence[BadPeriod]) -> list[BadPeriod]:
    """Return the bad periods within a ladder's time."""
    rungs = _rungs(panel)
    first, last = min(rung.start[1] for rung in rungs), max(rung.stop[1] for rung in rungs)
    return [period for period in bad if period.start < last and period.stop > first]


def _draw_ladder(axes: Axes, panel: Panel, bad: Sequence[BadPeriod], width_in: float) -> float:
    """Draw a ladder; return its height in inches."""
    rungs = _rungs(panel)
    first, last = min(rung.start[1] for rung in rungs), max(rung.stop[1] for rung in rungs)
    columns = _columns(rungs)
    most = max(len(own) for own in columns.values())
    inches = max(_LEAST_IN, 1.15 * most * _LABEL_IN)
    per_s = inches / max(last - first, 1e-9)
    labels = [(rung, at) for own in columns.values() for rung, at in _spread(own, _LABEL_IN / per_s)]
    bottom = max(last, *(at for _, at in labels)) + _LABEL_IN / per_s
    first = min(first, *(at for _, at in labels))
    top = first - _HOSTS_IN / per_s
    left, between, right = _columns_in(axes, rungs, width_in)
    axes.set_xlim(SERVER - left / between, CLIENT + right / between)
    axes.set_ylim(bottom, top)
    for period in _within(panel, bad):
        span = max(period.start, first), min(period.stop, bottom)
        axes.fill_betweenx(span, SERVER, CLIENT, color=period.mark.color, linewidth=0, zorder=0)
    for host, name in zip((SERVER, CLIENT), panel.rows, strict=True):
        axes.plot([host, host], [first, bottom], color=marks.DARK, linewidth=0.9)
        axes.text(host, first - 0.06 / per_s, name, ha="center", va="bottom")
    for rung in rungs:
        _draw_rung(axes, rung)
    for rung, at in labels:
        _draw_label(axes, rung, at, between, {SERVER: left, CLIENT: right}.get(rung.column))
    for layer in panel.layers:
        if layer.mark.shape is Shape.POINTS:
            hosts = [place for place in layer.y if place is not None]
            axes.plot(hosts, layer.x, linestyle="none", clip_on=False, zorder=4, **symbol(layer.mark))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_ylabel(f"{panel.subject}: time (s)")
    return (bottom - top) * per_s


def _columns(rungs: Sequence[_Rung]) -> dict[tuple[float, int], list[_Rung]]:
    """Return the packets by column of their labels, in the order of their ends."""
    columns: dict[tuple[float, int], list[_Rung]] = {}
    for rung in sorted(rungs, key=lambda rung: (rung.stop[1], rung.start[1])):
        columns.setdefault((rung.column, rung.outwards), []).append(rung)
    return columns


def _spread(rungs: Sequence[_Rung], apart: float) -> Iterator[tuple[_Rung, float]]:
    """Yield packets in order with the positions of their labels, as near to their ends as possible.

    Labels that would overlap form a block around the mean of their preferred positions (the pool adjacent
    violators algorithm for least squares).
    """
    blocks: list[list[float]] = []  # per block, its labels' preferred positions minus the labels above
    for number, rung in enumerate(rungs):
        blocks.append([rung.stop[1] - number * apart])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [[*blocks[-2], *blocks[-1]]]
    placed = [fmean(block) for block in blocks for _ in block]
    yield from (
        (rung, at + number * apart) for number, (rung, at) in enumerate(zip(rungs, placed, strict=True))
    )


def _columns_in(axes: Axes, rungs: Sequence[_Rung], width_in: float) -> tuple[float, float, float]:
    """Return three widths in inches: labels of the server, between the hosts, labels of the client.

    If the width does not suffice, the wider labels are shortened first.
    """
    wanted = {SERVER: _BESIDE_IN, CLIENT: _BESIDE_IN}
    inside = 0.0
    for rung in rungs:
        label = _width_in(axes, rung.label) + 2 * _BESIDE_IN
        if rung.column in wanted:
            wanted[rung.column] = max(wanted[rung.column], label)
        else:
            inside = max(inside, label)
    room = width_in - _LEAST_BETWEEN_IN - inside / 2
    most = max(room / 2, room - min(wanted.values()))
    left, right = (min(own, most) for own in wanted.values())
    return left, width_in - left - right, right


def _width_in(axes: Axes, label: str) -> float:
    text = axes.text(0, 0, label, fontsize=_LABEL_PT)
    width = text.get_window_extent().width / axes.figure.dpi
    text.remove()
    return float(width)


def _draw_rung(axes: Axes, rung: _Rung) -> None:
    mark = rung.layer.mark
    lost = mark.symbol is not None
    arrow = {
        "arrowstyle": "-" if lost else "-|>,head_length=0.35,head_width=0.14",
        **line(mark),
        "shrinkA": 0,
        "shrinkB": 0,
        "mutation_scale": 9,
    }
    axes.annotate("", rung.stop, rung.start, arrowprops=arrow, annotation_clip=False)
    if lost:
        axes.plot(*([value] for value in rung.stop), linestyle="none", zorder=3, **symbol(mark))


def _draw_label(axes: Axes, rung: _Rung, at: float, between_in: float, room_in: float | None) -> None:
    """Draw the label of a packet, with a thin line from the end of its arrow."""
    out = rung.outwards * _BESIDE_IN / between_in
    x, y = rung.stop
    text = rung.label
    style: dict[str, Any] = {"fontsize": _LABEL_PT, "va": "center_baseline", "color": marks.DARK}
    if room_in is None:
        style["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85}
    else:
        while _width_in(axes, text) > room_in - _BESIDE_IN:
            text = f"{text.removesuffix('…')[:-1]}…"
    axes.plot([x, x + 0.8 * out], [y, at], color=marks.PALE, linewidth=0.5, zorder=1)
    axes.text(x + out, at, text, ha="left" if rung.outwards > 0 else "right", zorder=3, **style)
