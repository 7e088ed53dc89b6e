"""Draw panels for papers with matplotlib, without a screen. The same panels give the same bytes."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lasthop.present.pictures import marks
from lasthop.present.pictures.logarithmic import make_logarithmic
from lasthop.present.pictures.marks import FLOW_COLORS, FLOW_SYMBOLS, Mark, Shape
from lasthop.present.pictures.phases import draw_phases
from lasthop.present.pictures.shapes import BadPeriod, Layer, Panel, Picture, joined
from lasthop.present.pictures.svg_font import with_font

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
COLUMN, PAGE = "column", "page"
# Widths for two-column papers, in inches (89 and 183 mm), and heights that suit them.
WIDTHS_IN = {COLUMN: 3.5, PAGE: 7.2}
_HEIGHTS_IN = {COLUMN: {"sequence": 2.2, "other": 1.35}, PAGE: {"sequence": 2.7, "other": 1.5}}
_WATERFALL_ROW_IN = 0.16
_MOST_ROWS = 50
"""The largest number of rows of full height. With more, rows are thinner, and only some have names."""
_DPI = 300
# Sizes of marks are for screens, which have more space.
_POINTS_PER_PX = 0.6
SYMBOLS: dict[str, Any] = {
    "circle": "o",
    "circle-open": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "star-open": "*",
    "star-diamond-open": (4, 1, 0),
    "x-thin-open": "x",
    "cross-thin-open": "+",
    "asterisk-open": (6, 2, 0),
    "y-down-open": "1",
    "y-up-open": "2",
    "y-left-open": "3",
    "y-right-open": "4",
    "hash-open": "$#$",
    "diamond-open": "D",
    "triangle-up-open": "^",
    "square-open": "s",
    "hexagon-open": "h",
    "octagon-open": "8",
    "pentagon-open": "p",
    "triangle-down-open": "v",
    "triangle-left-open": "<",
    "diamond-wide-open": "d",
    "cross-open": "P",
    "circle-x-open": "X",
    "circle-cross-open": "8",
    "star-triangle-down-open": "H",
}
_DASHES: dict[str, str | tuple[float, tuple[float, ...]]] = {
    "solid": "-",
    "dash": (0, (4, 2)),
    "dot": (0, (1.2, 1.4)),
}
_FONT = "STIXGeneral"  # part of matplotlib, so equal everywhere
STYLE: dict[Any, Any] = {
    "font.family": "serif",
    # Editors of SVG files that ignore the embedded font take the next, whose letters are about as wide.
    "font.serif": [_FONT, "STIX Two Text", "Times New Roman", "Times"],
    "text.parse_math": False,  # names may contain dollar signs
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
    "pdf.fonttype": 42,  # TrueType fonts, because publishers reject type 3
    "svg.fonttype": "none",  # text, which can be selected and edited, not outlines
    "svg.hashsalt": "lasthop",
}

LEGEND: dict[str, Any] = {
    "frameon": False,
    "borderaxespad": 0.1,
    "borderpad": 0.2,
    "handlelength": 1.4,
    "handletextpad": 0.5,
    "columnspacing": 1.2,
    "labelspacing": 0.25,
}
_MARGIN_IN = 0.09
_GAP_IN = 0.1  # above each panel and its legend
_TIME_AXIS_IN = 0.36
_NOTE_LINE_IN = 0.13
_ROW_IN = 0.16  # of a legend or note at a grid
_Y_LABEL_IN = 0.14
_BESIDE_LABEL_IN = 0.03
_LONGEST_NAME = 40  # characters
_SWATCH_PT = 3.0
_NOTE_PT = 7
_CHARACTERS_PER_IN = 23
_LEAST_SYMBOL_PX = 4
_LEFT_IN = 0.75
"""More than the labels of most vertical axes need. Until their width is known, it stands for it."""
_FIRST_SHARE = 1e-3
"""The beginning of a logarithmic time axis, as a share of its end, if the run begins earlier."""
_BEYOND = 1.15
"""The factor between a value and the end of a logarithmic axis beyond it."""
_COUNTS = ("packets", "segments")
_SPAN_HEIGHT = 0.62
"""Height of a row in a waterfall."""


def line(mark: Mark) -> dict[str, Any]:
    """Return the look of a mark's line."""
    dashes = _DASHES[mark.dash]
    return {"color": mark.color, "linewidth": mark.width * _POINTS_PER_PX, "linestyle": dashes}


def symbol(mark: Mark) -> dict[str, Any]:
    """Return the look of a mark's symbol."""
    hollow = (mark.symbol or "").endswith("-open")
    return {
        "marker": SYMBOLS.get(mark.symbol or "", ""),
        "markersize": mark.size * _POINTS_PER_PX,
        "markerfacecolor": "none" if hollow else mark.color,
        "markeredgecolor": mark.color,
        "markeredgewidth": 0.7 if hollow else 0.0,
    }


def _draw_layer(axes: Axes, layer: Layer) -> None:
    mark = layer.mark
    if mark.shape is Shape.SPANS:
        _draw_spans(axes, layer)
        return
    y = [float("nan") if value is None else value for value in layer.y]
    if mark.shape is Shape.STEPS:
        axes.plot(layer.x, y, drawstyle="steps-post", **line(mark))
        return
    if mark.shape is Shape.BANDS and layer.far is not None:
        axes.fill_between(layer.x, y, layer.far, step="post", color=mark.color, linewidth=0)
        return
    middle = y
    if layer.far is not None:
        middle = [(low + high) / 2 for low, high in zip(y, layer.far, strict=True)]
        if mark.width:
            axes.vlines(layer.x, y, layer.far, colors=mark.color, linewidth=mark.width * _POINTS_PER_PX)
    if mark.symbol is not None:
        axes.plot(layer.x, middle, linestyle="none", clip_on=False, **symbol(mark))


def _draw_spans(axes: Axes, layer: Layer) -> None:
    """Draw bars as a single artist, because a page of a thousand objects has several thousand bars."""
    from matplotlib.collections import PolyCollection

    half = _SPAN_HEIGHT / 2
    corners = [
        [(start, y - half), (start, y + half), (end, y + half), (end, y - half)]
        for start, end, y in zip(layer.x, layer.far or (), layer.y, strict=True)
        if y is not None
    ]
    axes.add_collection(PolyCollection(corners, facecolors=layer.mark.color, linewidths=0))


def _short_name(name: str) -> str:
    """Shorten a name for a legend."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


def legend_handles(panel: Panel, shaded: Sequence[BadPeriod]) -> dict[str, Artist]:
    """Return the legend's entries: flows by colour, then kinds of marks, in grey if flows differ in colour.

    A single kind of mark is named by the axis.
    """
    drawn = [layer.mark for layer in panel.layers if not layer.mark.optional]
    owners = {mark.owner: mark.color for mark in reversed(drawn) if mark.owner}
    # A band needs no entry: it has its flow's colour and a distinct shape.
    kinds = {mark.quantity or mark.name: mark for mark in drawn if mark.shape is not Shape.BANDS}
    handles: dict[str, Artist] = {
        _short_name(name): _swatch(color) for name, color in reversed(owners.items())
    }
    if len(kinds) > 1 or len(kinds) < len({mark.quantity or mark.name for mark in drawn}):
        shared = marks.Look("", marks.DARK)
        handles |= {
            name: _sample(mark.of(shared) if len(owners) > 1 and mark.owner else mark)
            for name, mark in kinds.items()
        }
    return handles | {mark.name: _sample(mark) for mark in (period.mark for period in shaded)}


def _swatch(color: str) -> Artist:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, linewidth=_SWATCH_PT)


def _sample(mark: Mark) -> Artist:
    from matplotlib.lines import Line2D

    if mark.shape is Shape.STEPS:
        return Line2D([], [], **line(mark))
    if mark.shape is Shape.ARROWS:
        return Line2D([], [], **line(mark), **symbol(mark))
    if mark.shape in (Shape.SPANS, Shape.BANDS):
        return _swatch(mark.color)
    if mark.shape is Shape.BARS and mark.size < _LEAST_SYMBOL_PX:  # the symbol only makes short bars visible
        width = mark.width * _POINTS_PER_PX
        return Line2D(
            [], [], linestyle="none", color=mark.color, marker="|", markersize=5, markeredgewidth=width
        )
    return Line2D([], [], linestyle="none", **symbol(mark))


def add_legend(axes: Axes, handles: Mapping[str, Artist], room_in: float) -> float:
    """Add a legend above the axes, in as many columns as fit; return its height in inches."""
    if not handles:
        return 0.0
    filled = (math.ceil(len(handles) / rows) for rows in range(1, len(handles) + 1))
    height = 0.0
    for columns in dict.fromkeys(filled):
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": columns}
        legend = axes.legend(handles.values(), handles.keys(), **place, **LEGEND)
        extent = legend.get_window_extent()
        height = float(extent.height / axes.figure.dpi)
        if extent.width <= room_in * axes.figure.dpi:
            break
    return height


def _draw_panel(axes: Axes, panel: Panel, shaded: Sequence[BadPeriod]) -> None:
    for layer in joined(layer for layer in panel.layers if not layer.mark.optional):
        _draw_layer(axes, layer)
    for period in () if panel.across else shaded:
        axes.axvspan(period.start, period.stop, color=period.mark.color, linewidth=0, zorder=0)
    if panel.rows:
        named = range(0, len(panel.rows), math.ceil(len(panel.rows) / _MOST_ROWS))
        axes.set_yticks(named, [panel.rows[row] for row in named])
        axes.set_ylim(len(panel.rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
    elif panel.kind == "sequence":
        axes.set_ylim(0, _top_of_sequence(panel))
    else:
        axes.set_ylim(0, panel.top or (None if panel.peak() else 1))
        if not panel.peak():
            axes.text(0.5, 0.5, "always empty", transform=axes.transAxes, ha="center", color=marks.GREY)
    if panel.unit in _COUNTS:
        axes.locator_params(axis="y", integer=True)
    is_coloured = panel.kind == "sequence" and panel.of_flows  # as in the legend
    axes.set_ylabel(panel.title if is_coloured else panel.label)


def _top_of_sequence(panel: Panel) -> float | None:
    """Return the upper end of the axis; an advertised window far above all segments is not visible."""
    sent = [layer.peak() for layer in panel.layers if layer.mark.name != marks.ADVERTISED.name]
    return 1.15 * max(sent) if max(sent, default=0) > 0 else None


def _height_in(panel: Panel, width: str) -> float:
    if panel.rows:
        return 0.5 + _WATERFALL_ROW_IN * min(len(panel.rows), _MOST_ROWS)
    heights = _HEIGHTS_IN[width]
    return heights.get(panel.kind, heights["other"])


def new_figure(width: str, panels: int) -> tuple[Figure, list[Axes]]:
    """Return a figure as wide as a column or a page, with axes to be positioned by `place`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTHS_IN[width], 1))
    FigureCanvasAgg(figure)  # a common renderer to measure texts, instead of one for each text
    return figure, [figure.add_axes((0.1, 0.1, 0.8, 0.8), label=str(number)) for number in range(panels)]


def new_grid(width: str, panels: int, across: int, grid: dict[str, Any]) -> tuple[Figure, list[Axes]]:
    """Return a figure as wide as a column or a page, with axes that matplotlib positions in rows."""
    figure, _ = new_figure(width, 0)
    figure.set_layout_engine("constrained")
    every = figure.subplots(math.ceil(panels / across), across, squeeze=False, **grid).flat
    for axes in every[panels:]:
        axes.set_visible(False)
    return figure, list(every[:panels])


def finish_grid(figure: Figure, height_in: float, legend_rows: int, notes: Sequence[str]) -> None:
    """Add notes below a grid, and set the height of the figure for axes, legend and notes."""
    if notes:
        figure.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=_NOTE_PT)
    figure.set_figheight(height_in + (legend_rows + len(notes)) * _ROW_IN)


def level_look(place: int) -> dict[str, Any]:
    """Return the colour, dashes and symbol of the level of a factor."""
    line = "-" if place < len(FLOW_COLORS) else "--"
    symbol = SYMBOLS[FLOW_SYMBOLS[place % len(FLOW_SYMBOLS)]]
    return {"color": FLOW_COLORS[place % len(FLOW_COLORS)], "linestyle": line, "marker": symbol}


def name_levels(figure: Figure, factor: str, looks: Mapping[str, Mapping[str, Any]]) -> int:
    """Add a legend of a factor's levels above a grid, in as many columns as fit; return its rows."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linestyle="none"), *(Line2D([], [], **look) for look in looks.values())]
    names = [f"{factor}:", *looks]
    for columns in range(len(names), 0, -1):
        place: dict[str, Any] = {"loc": "outside upper left", "ncols": columns, "labelcolor": marks.DARK}
        legend = figure.legend(handles, names, **place, **LEGEND)
        if legend.get_window_extent().width <= figure.get_figwidth() * figure.dpi or columns == 1:
            break
        legend.remove()
    return math.ceil(len(names) / columns)


def figure_of(picture: Picture, width: str) -> Figure:
    """Return the matplotlib figure of a picture, as wide as a column or a page of a paper."""
    figure, stacked = new_figure(width, len(picture.panels))
    heights = [_height_in(panel, width) for panel in picture.panels]
    over_time = [axes for axes, panel in zip(stacked, picture.panels, strict=True) if not panel.across]
    unlabelled: list[list[str]] = []
    for axes, panel, height in zip(stacked, picture.panels, heights, strict=True):
        _draw_panel(axes, panel, picture.bad_periods)
        _set_scales(axes, panel, picture)
        if panel.across:
            axes.set_xlabel(panel.across)
        else:
            axes.tick_params(labelbottom=axes is over_time[-1])
        size = (figure.get_figwidth() - _LEFT_IN - _MARGIN_IN, height)
        below = not picture.bad_periods
        unlabelled.append(draw_phases(axes, panel.phases, size, below=below) if panel.phases else [])
    if over_time:
        over_time[-1].set_xlabel("time (s)")
    _break_labels(stacked, heights)
    left = _left_in(figure, stacked, heights)
    room = figure.get_figwidth() - left - _MARGIN_IN
    rooms, named, above = [], set[str](), 0.0
    for axes, panel, height, kinds in zip(stacked, picture.panels, heights, unlabelled, strict=True):
        handles = legend_handles(panel, () if panel.across else picture.bad_periods)
        handles |= {kind: _sample(marks.PHASES[kind]) for kind in kinds}
        new = {name: handle for name, handle in handles.items() if name not in named}
        rooms.append((above + _GAP_IN + add_legend(axes, new, room), height))
        above = _TIME_AXIS_IN if axes.get_xlabel() else 0.0
        named.update(handles)
    notes = wrapped(picture.notes, figure.get_figwidth())
    place(figure, stacked, rooms, left=left, below=_TIME_AXIS_IN, notes=notes)
    return figure


def _set_scales(axes: Axes, panel: Panel, picture: Picture) -> None:
    """Set the limits of the horizontal axis, and make those axes logarithmic that are to be."""
    drawn = [layer for layer in panel.layers if not layer.mark.optional]
    across = [x for layer in drawn for x in layer.x if x > 0]
    if "x" in picture.log and panel.across and across:
        make_logarithmic(axes.xaxis, (min(across), max(across)))
    elif "x" in picture.log and not panel.across:
        make_logarithmic(axes.xaxis, (max(picture.start, picture.stop * _FIRST_SHARE), picture.stop))
    elif panel.across:
        axes.set_xlim(0, None)
    else:
        margin = (picture.stop - picture.start) * 0.01
        axes.set_xlim(picture.start - margin, picture.stop + margin)
    heights = [y for layer in drawn for values in (layer.y, layer.far or ()) for y in values if y and y > 0]
    if "y" in picture.log and heights and not panel.rows:
        make_logarithmic(axes.yaxis, (min(heights) / _BEYOND, panel.top or max(heights) * _BEYOND))


def _break_labels(stacked: Sequence[Axes], heights: Sequence[float]) -> None:
    """Wrap the labels of vertical axes that exceed these lengths, so that they do not overlap."""
    for axes, height in zip(stacked, heights, strict=True):
        label = axes.yaxis.label
        long = label.get_window_extent().height / axes.figure.dpi
        if long > height:
            text = label.get_text()
            label.set_text(textwrap.fill(text, int(len(text) * height / long)))


def _labels_in(stacked: Sequence[Axes]) -> float:
    """Return the width in inches of the labels of the vertical axes, without ticks."""
    broken = [axes.yaxis.label for axes in stacked if "\n" in axes.yaxis.label.get_text()]
    widths = [label.get_window_extent().width / stacked[0].figure.dpi + _BESIDE_LABEL_IN for label in broken]
    return max([_Y_LABEL_IN, *widths])


def _left_in(figure: Figure, stacked: Sequence[Axes], heights: Sequence[float]) -> float:
    """Return the room in inches that the labels of the vertical axes need."""
    guess = 0.6
    place(figure, stacked, [(_GAP_IN, height) for height in heights], left=guess, below=_TIME_AXIS_IN)
    left = 0.0
    for axes in stacked:
        ticks = [label.get_window_extent().x0 for label in axes.get_yticklabels() if label.get_text()]
        left = max(left, guess - min(ticks, default=guess * figure.dpi) / figure.dpi)
    return left + _labels_in(stacked) + _MARGIN_IN


def place(
    figure: Figure,
    stacked: Sequence[Axes],
    rooms: Sequence[tuple[float, float]],
    *,
    left: float,
    below: float,
    notes: Sequence[str] = (),
) -> None:
    """Position the axes above each other with the lines of `notes` below, and set the figure's height.

    All lengths are in inches. `rooms` are the heights above each of the axes, and of the axes; `left` is the
    left end of the axes; `below` is the height below the lowest axes.
    """
    width = figure.get_figwidth()
    below += _GAP_IN + _NOTE_LINE_IN * len(notes) if notes else 0
    top = total = sum(above + height for above, height in rooms) + below
    figure.set_figheight(total)
    for axes, (above, height) in zip(stacked, rooms, strict=True):
        top -= above + height
        axes.set_position((left / width, top / total, (width - left - _MARGIN_IN) / width, height / total))
        to_labels = left - _MARGIN_IN - _labels_in(stacked) + _Y_LABEL_IN / 2
        axes.yaxis.set_label_coords(-to_labels / (width - left - _MARGIN_IN), 0.5)
    for line, text in enumerate(reversed(notes)):
        y = (line * _NOTE_LINE_IN + _MARGIN_IN / 2) / total
        figure.text(_MARGIN_IN / width, y, text, fontsize=_NOTE_PT, va="bottom")


def wrapped(notes: Sequence[str], width_in: float) -> list[str]:
    """Wrap sentences to a width."""
    room = int(width_in * _CHARACTERS_PER_IN)
    return [line for note in notes for line in textwrap.wrap(note, room)]


def save(make: Callable[[], Figure], target: Path | BinaryIO, file_format: str) -> None:
    """Make a figure in the style for papers and write it; the same figure gives the same bytes."""
    with styled():
        undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
        figure = make()
        _write_logarithms_plainly(figure)
        file = io.BytesIO()
        figure.savefig(file, format=file_format, dpi=_DPI, metadata=undated)
    data = file.getvalue()
    if file_format == "svg":
        data = with_font(data.decode(), _FONT).encode()
    target.write_bytes(data) if isinstance(target, Path) else target.write(data)


def _axes_of_numbers(figure: Figure) -> Iterator[Axis]:
    from matplotlib.ticker import FixedFormatter

    both = (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis))
    return (axis for axis in both if not isinstance(axis.get_major_formatter(), FixedFormatter))


def parse_numbers(figure: Figure) -> None:
    """Enable formulas in the ticks of numeric axes, which the user may make logarithmic.

    The style for papers disables them elsewhere, because names may contain dollar signs.
    """
    for axis in _axes_of_numbers(figure):
        for tick in (*axis.majorTicks, *axis.minorTicks):
            tick.label1.set_parse_math(True)


def _write_logarithms_plainly(figure: Figure) -> None:
    """Replace formulas by numbers at the ticks of axes that the user made logarithmic."""
    from matplotlib.ticker import Formatter, LogFormatterMathtext

    class Plain(Formatter):
        def __init__(self, formulas: Formatter) -> None:
            self.formulas = formulas

        def set_locs(self, locs: Any) -> None:  # noqa: ANN401  as in matplotlib
            self.formulas.set_locs(locs)

        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if self.formulas(x, pos) else ""

    for axis in _axes_of_numbers(figure):
        if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
            axis.set_major_formatter(Plain(axis.get_major_formatter()))
        if isinstance(axis.get_minor_formatter(), LogFormatterMathtext):
            axis.set_minor_formatter(Plain(axis.get_minor_formatter()))


@contextmanager
def styled() -> Iterator[None]:
    """Use the style for papers, regardless of the user's matplotlibrc."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield
