"""Pictures of a number in all cells of a row as SVG: a dot for each control, with its 95 % interval."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from lasthop.common.html.style import CONTRASTING, GRID, INK, MUTED
from lasthop.evaluate.dossier import Measured, Value
from lasthop.evaluate.rows import Law

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 170, 24, 8, 40
_LINE = 13
_GAP = 9
_TICKS = 6
_STROKES = {"dotted": "2 3", "dashed": "8 4", "dash-dotted": "8 3 2 3"}


def cells_of(measured: Measured) -> dict[str, list[Value]]:
    """Return the values by cell, in the order of the scenario."""
    cells: dict[str, list[Value]] = {}
    for value in measured.values:
        cells.setdefault(", ".join(f"{f} {level}" for f, level in value.place.items()), []).append(value)
    return cells


def strokes(laws: Sequence[Law]) -> dict[str, str]:
    """Return the line style of each law."""
    return dict(zip((law.name for law in laws), _STROKES, strict=False))


def picture(measured: Measured, names: Mapping[str, str], laws: Sequence[Law] = ()) -> str:
    """Draw a number with the values of laws; empty if no cell has the number."""
    ends = [end for value in measured.values if (i := value.interval) for end in (i.low, i.high, i.estimate)]
    if not ends:
        return ""
    cells = cells_of(measured)
    styles = strokes(laws)
    expected = {
        name: [(law.name, law.values[level]) for law in laws for level in values[0].place.values()]
        for name, values in cells.items()
    }
    ends += [value for pairs in expected.values() for _, value in pairs]
    axis = _axis(min(0.0, *ends), max(ends))
    low, high = axis[0], axis[-1]
    height = _TOP + _BOTTOM + sum(len(values) * _LINE + _GAP for values in cells.values())

    def x(value: float) -> float:
        return round(_LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT), 1)

    parts = [
        f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{_TOP}" y2="{height - _BOTTOM}" stroke="{GRID}"/>'
        f'<text x="{x(tick)}" y="{height - _BOTTOM + 15}" text-anchor="middle">{tick:g}</text>'
        for tick in axis
    ]
    at = _TOP + _GAP
    colour = colours(names)
    for name, values in cells.items():
        middle = at + (len(values) - 1) * _LINE / 2 + 4
        parts.append(f'<text x="{_LEFT - 12}" y="{middle}" text-anchor="end">{escape(name)}</text>')
        parts += [
            f'<line x1="{x(value)}" x2="{x(value)}" y1="{at - 8}" y2="{at + (len(values) - 1) * _LINE + 8}" '
            f'stroke="{INK}" stroke-dasharray="{_STROKES[styles[law]]}"><title>{escape(law)}</title></line>'
            for law, value in expected[name]
        ]
        for value in values:
            if (i := value.interval) is not None:
                parts.append(_dot(x(i.low), x(i.high), x(i.estimate), at, colour[value.control]))
            at += _LINE
        at += _GAP
    number = measured.number
    title = f"{number.name} ({number.unit})" if number.unit else number.name
    centre = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{centre}" y="{height - 6}" text-anchor="middle" fill="{INK}">{escape(title)}</text>'
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" aria-label="{escape(title)}" '
        f'font-size="12.5" fill="{MUTED}">{"".join(parts)}</svg>'
    )


def colours(names: Mapping[str, str]) -> dict[str, str]:
    return {control: CONTRASTING[place % len(CONTRASTING)] for place, control in enumerate(names)}


def _dot(low: float, high: float, middle: float, y: float, colour: str) -> str:
    return (
        f'<line x1="{low}" x2="{high}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2" opacity="0.55"/>'
        f'<circle cx="{middle}" cy="{y}" r="4" fill="{colour}"/>'
    )


def _axis(low: float, high: float) -> list[float]:
    """Return ticks at round numbers that enclose both ends."""
    span = (high - low) or 1.0
    step = 10 ** math.floor(math.log10(span / _TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= _TICKS)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [tick * step for tick in range(first, max(last, first + 1) + 1)]
