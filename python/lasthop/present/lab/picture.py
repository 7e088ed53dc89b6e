"""A run for the page: a header in JSON, followed by the numbers of all layers as 32-bit floats."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.marks import Look, Mark
from lasthop.present.pictures.panels import panels
from lasthop.present.pictures.shapes import Layer, Panel
from lasthop.present.pictures.trace_tables import FlowOf, TraceTables

KINDS = ("sequence", "cwnd", "queue", "goodput", "rtt")
_HEAD = struct.Struct("<I")
_DROPS = {mark.name for mark in marks.DROPS.values()}

DARK = {
    marks.BLACK: "#f2f4f7",
    marks.DARK: "#c3cad3",
    marks.GREY: "#8f99a6",
    marks.PALE: "#59626e",
    marks.BLUE: "#4aa3df",
    marks.INDIGO: "#9f92e8",
    marks.OLIVE: "#b9b84a",
    marks.CRIMSON: "#ff6b7d",
    marks.VERMILLION: "#ff8a3d",
    **{
        mark.color: color
        for mark, color in zip(marks.BAD_PERIODS.values(), ("#2a2f36", "#38301f", "#1f2d3a"), strict=True)
    },
}
"""Replacements on a dark page for colours that are suitable for white only."""


class Numbers:
    """Arrays of numbers for the page, each identified by its start and its length."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._length = 0

    def add(self, values: Sequence[float | None]) -> list[int]:
        """Add an array; gaps become NaN."""
        array = np.array(values, dtype=np.float32)
        place = [self._length, len(array)]
        self._parts.append(array)
        self._length += len(array)
        return place

    def after(self, header: Mapping[str, object]) -> bytes:
        """Return the header's length, the header, and the numbers, aligned to four bytes."""
        head = json.dumps(header, separators=(",", ":")).encode()
        head += b" " * (-len(head) % 4)
        return b"".join([_HEAD.pack(len(head)), head, *(part.tobytes() for part in self._parts)])


def split(answer: bytes) -> tuple[dict[str, Any], bytes]:
    """Return header and numbers of an answer."""
    (length,) = _HEAD.unpack_from(answer)
    end = _HEAD.size + length
    header: dict[str, object] = json.loads(answer[_HEAD.size : end])
    return header, answer[end:]


def picture(tables: TraceTables, numbers: Numbers) -> dict[str, object]:
    """Return the panels of a run, with remarks; the values are added to `numbers`."""
    cast = Cast.of(tables)
    panels_ = panels(tables, KINDS, cast)
    picture_ = tables.picture(panels_, notes=cast.notes(panels_), flows=cast.flows)
    legend: dict[Mark, int] = {}
    drawn = [_panel(panel, numbers, legend) for panel in picture_.panels]
    return {
        "panels": drawn,
        "marks": [_mark(mark) for mark in legend],
        "end": picture_.stop,
        "bad": [
            {"start": period.start, "stop": period.stop, "color": period.mark.color}
            for period in picture_.bad_periods
        ],
        "notes": list(picture_.notes),
        "flows": [
            {"name": flow.name, "color": look.color, "protocol": flow.protocol}
            for flow, look in _coloured(cast)
        ],
    }


def _coloured(cast: Cast) -> list[tuple[FlowOf, Look]]:
    return [(flow, cast.looks[flow.number]) for flow in cast.flows if flow.number in cast.looks]


def _panel(panel: Panel, numbers: Numbers, legend: dict[Mark, int]) -> dict[str, object]:
    return {
        "kind": panel.kind,
        "quantity": panel.quantity,
        "unit": panel.unit,
        "subject": panel.subject,
        "top": panel.top,
        "layers": [_layer(layer, numbers, legend) for layer in panel.layers if not layer.mark.optional],
    }


def _layer(layer: Layer, numbers: Numbers, legend: dict[Mark, int]) -> dict[str, object]:
    return {
        "mark": legend.setdefault(layer.mark, len(legend)),
        "flow": layer.flow,
        "x": numbers.add(layer.x),
        "y": numbers.add(layer.y),
        "far": None if layer.far is None else numbers.add(layer.far),
    }


def _mark(mark: Mark) -> dict[str, object]:
    about = "drop" if mark.name in _DROPS else "timeout" if mark.name == marks.TIMER.name else ""
    return {
        "name": mark.name,
        "color": mark.color,
        "shape": mark.shape.value,
        "symbol": mark.symbol or "",
        "size": mark.size,
        "width": mark.width,
        "dash": mark.dash,
        "owner": mark.owner,
        "quantity": mark.quantity or mark.name,
        "about": about,
    }
