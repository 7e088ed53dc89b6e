"""Box plots of a metric by factor level, next to the published quartiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lasthop.analysis.statistics.description import summarise
from lasthop.common.html import style
from lasthop.common.html.style import Figure, Part
from lasthop.common.statistics.quantiles import FIVE_NUMBERS, PercentileMethod

_OFFSET_MEASURED = -0.14
_OFFSET_PUBLISHED = 0.26
_MOST_DOTS = 1000
_IN_A_ROW = 3
_ROW_PX = 246
_ROOM = 0.05


@dataclass(frozen=True, slots=True)
class BoxPanel:
    """A panel: a role's values for every level, and published five-number summaries of levels, if any."""

    title: str
    values: Mapping[str, Sequence[float]]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BoxAxes:
    """The axes of all panels of a figure: levels of the factor `name`, and a quantity with its unit.

    Displayed values are multiplied by `factor`. `name` is `None` without a factor.
    """

    levels: Sequence[str]
    name: str | None
    quantity: str
    factor: float = 1.0

    def scaled(self, values: Iterable[float]) -> list[float]:
        """Return values in the displayed unit."""
        return [round(value * self.factor, 4) for value in values]


def _dots(values: Sequence[float]) -> Sequence[float]:
    """Return the values that get a dot: all or, if there are many, an even selection."""
    if len(values) <= _MOST_DOTS:
        return values
    import numpy as np

    return [values[place] for place in np.linspace(0, len(values) - 1, _MOST_DOTS).astype(int)]


def _jitter(count: int) -> list[float]:
    # A fixed low-discrepancy sequence instead of random jitter, so that equal data give equal pictures.
    return [((i * 0.6180339887) % 1.0 - 0.5) * 0.24 for i in range(count)]


def _box(name: str, boxes: Sequence[tuple[float, Sequence[float]]], axes: BoxAxes, **look: object) -> Part:
    """Draw boxes at their places, from their `FIVE_NUMBERS`."""
    ends = {
        end: axes.scaled(five[number] for _, five in boxes)
        for number, end in enumerate(("lowerfence", "q1", "median", "q3", "upperfence"))
    }
    common = {"type": "box", "name": name, "legendgroup": name, "hoverinfo": "y"}
    return {**common, "x": [place for place, _ in boxes], **ends, **look}


def _measured(panel: BoxPanel, axes: BoxAxes, method: PercentileMethod) -> list[Part]:
    rows = [(i, level, summarise(panel.values.get(level, ()), method)) for i, level in enumerate(axes.levels)]
    offset = _OFFSET_MEASURED if panel.published else 0.0
    boxes = [(i + offset, level, s) for i, level, s in rows if s is not None]
    fives = [(place, (s.min, s.p25, s.median, s.p75, s.max)) for place, _, s in boxes]
    line = {"color": style.MEASURED, "width": 1.5}
    points: Part = {
        "type": "scatter",
        "mode": "markers",
        "name": "replications",
        "legendgroup": "replications",
        "x": [
            round(place + j, 3) for place, level, _ in boxes for j in _jitter(len(_dots(panel.values[level])))
        ],
        "y": axes.scaled(value for _, level, _ in boxes for value in _dots(panel.values[level])),
        "marker": {"size": 4.5, "color": style.MEASURED, "opacity": 0.6},
        "hovertemplate": "%{y:.2f}<extra></extra>",
    }
    return [_box("measured", fives, axes, width=0.42, line=line, fillcolor=style.MEASURED_FILL), points]


def _published(panel: BoxPanel, axes: BoxAxes) -> list[Part]:
    """Draw published boxes, or a line if only a median or a mean was published."""
    published = [
        (i + _OFFSET_PUBLISHED, panel.published[level])
        for i, level in enumerate(axes.levels)
        if level in panel.published
    ]
    parts: list[Part] = []
    if boxes := [
        (at, [own[n] for n in FIVE_NUMBERS]) for at, own in published if set(FIVE_NUMBERS) <= set(own)
    ]:
        line = {"color": style.PUBLISHED, "width": 1.5}
        parts.append(_box("published", boxes, axes, width=0.24, line=line, fillcolor=style.PUBLISHED_FILL))
    for middle in ("median", "mean"):
        lone = [
            (at, own[middle]) for at, own in published if middle in own and not set(FIVE_NUMBERS) <= set(own)
        ]
        marks: Part = {
            "type": "scatter",
            "mode": "markers",
            "name": f"published {middle}",
            "legendgroup": "published",
            "x": [at for at, _ in lone],
            "y": axes.scaled(value for _, value in lone),
            "marker": {"symbol": "line-ew-open", "size": 12, "line": {"width": 2.5}, "color": style.INK},
            "hovertemplate": "%{y:.2f}<extra></extra>",
        }
        parts += [marks] if lone else []
    return parts


def box_figure(panels: Sequence[BoxPanel], axes: BoxAxes, method: PercentileMethod) -> Figure:
    """Draw panels over a common y axis. Boxes span the quartiles, whiskers the extremes."""
    drawn = style.Panels(len(panels), _IN_A_ROW, 0.03, 0.24)
    for index, panel in enumerate(panels):
        traces = _measured(panel, axes, method) + _published(panel, axes)
        name = axes.name if drawn.is_lowest(index) else None
        x = style.levels_axis(name, axes.levels, 0.6, tickfont={"size": 12})
        first = drawn.is_first(index)
        common = {"matches": "y", "showticklabels": first} if index else {"range": _range(panels, axes)}
        y = style.axis(axes.quantity if first else None, **common)
        drawn.draw(index, traces, x, y, panel.title)
    _name_once(drawn.data)
    has_published = any(panel.published for panel in panels)
    margin = {"t": 64 if has_published else 48, "b": 60}
    settings: Part = {"boxmode": "overlay", "showlegend": has_published}
    return drawn.figure(_ROW_PX * drawn.rows, margin, 22, **settings)


def _range(panels: Sequence[BoxPanel], axes: BoxAxes) -> list[float]:
    """Return the least and the greatest value of all panels, with a margin."""
    measured = (
        end for panel in panels for values in panel.values.values() for end in (min(values), max(values))
    )
    published = (value for panel in panels for five in panel.published.values() for value in five.values())
    every = axes.scaled([*measured, *published])
    low, high = min(every), max(every)
    room = _ROOM * ((high - low) or abs(high) or 1.0)
    return [low - room, high + room]


def _name_once(data: Sequence[Part]) -> None:
    named: set[object] = set()
    for trace in data:
        trace["showlegend"] = trace["name"] not in named
        named.add(trace["name"])
