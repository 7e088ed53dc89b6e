"""The network of a scenario as SVG, in the colours of the page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from lasthop.pictures.network import Network
from lasthop.pictures.network_layout import Box, Sheet, Stroke, Text, heads, lay_out

_WIDTH_IN = 8.0
_PX_PER_IN = 100
_TEXT_PX = 9.5


def network_svg(network: Network) -> str:
    """Draw a network."""
    sheet = lay_out(network, _WIDTH_IN)
    box = f"0 {_px(sheet.top)} {_px(sheet.width)} {_px(sheet.bottom - sheet.top)}"
    parts = "".join(_parts(sheet))
    return f'<svg viewBox="{box}" role="img" aria-label="The network" font-size="{_TEXT_PX}">{parts}</svg>'


def _px(inches: float) -> str:
    return f"{inches * _PX_PER_IN:.1f}"


def _parts(sheet: Sheet) -> Iterator[str]:
    yield from map(_rectangle, sheet.boxes)
    for stroke in sheet.strokes:
        yield _line(stroke)
        yield from (_head(at, side, stroke.color) for at, side in heads(stroke))
    yield from map(_text, sheet.texts)


def _rectangle(box: Box) -> str:
    (x, y), (width, height) = map(_px, box.corner), map(_px, box.size)
    dashed = ' stroke-dasharray="4 3"' if box.is_dashed else ""
    shape = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'<rect {shape} fill="currentColor" fill-opacity="0.05" stroke="currentColor"{dashed}/>'


def _line(stroke: Stroke) -> str:
    points = " ".join(f"{_px(x)},{_px(y)}" for x, y in stroke.points)
    return f'<polyline points="{points}" fill="none" stroke="{stroke.color}" stroke-width="2"/>'


def _head(at: tuple[float, float], side: str, color: str) -> str:
    back = -0.07 if side == "right" else 0.07
    corners = [at, (at[0] + back, at[1] - 0.035), (at[0] + back, at[1] + 0.035)]
    points = " ".join(f"{_px(x)},{_px(y)}" for x, y in corners)
    return f'<polygon points="{points}" fill="{color}"/>'


def _text(text: Text) -> str:
    anchor = "middle" if text.is_centred else "start"
    weight = ' font-weight="bold"' if text.is_bold else ""
    at = f'x="{_px(text.at[0])}" y="{_px(text.at[1] + 0.1)}"'
    return f'<text {at} text-anchor="{anchor}" fill="currentColor"{weight}>{escape(text.text)}</text>'
