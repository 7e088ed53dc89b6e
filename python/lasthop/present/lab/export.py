"""The lab as a file that needs no server: a page with the runs of a small grid of knob positions."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lasthop.common.errors import InputError
from lasthop.common.files import replace_atomically
from lasthop.present.lab.desk import Desk
from lasthop.present.lab.lessons import lessons
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.page import page
from lasthop.present.lab.picture import split

_MOST_CELLS = 24
_AMOUNT = re.compile(r"(?P<number>[0-9.]+)\s*(?P<unit>\S+)")
_USUAL_KNOBS = ("down.link.rate", "down.queue.limit")
_FACTORS = {"rate": (0.5, 1.0, 2.0), "queue": (0.25, 1.0, 4.0)}

Position = tuple[object, ...]


def export(opened: Opened, file: Path) -> int:
    """Write a new file; return the number of runs in it.

    The grid consists of the cells or, of a single cell, of two knobs. Raises `InputError` if the file
    exists or cannot be written, or if the scenario is wrong.
    """
    if file.exists():
        raise InputError(f"{file} already exists and is not overwritten; choose another name for --export.")
    desk = Desk(opened, lambda: False)
    first = _ask(desk, {"ask": "look", "text": opened.text})[0]
    grid = list(_grid(opened, first))
    runs = [_run(desk, opened.text, knobs, position, levels) for knobs, position, levels in grid]
    exported = {"knobs": _knobs(grid, first), "runs": runs, "levels": grid[0][2]}
    html = page(opened, exported=exported)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(file, lambda temporary: temporary.write_text(html, encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot write to {file}: {error}.") from error
    return len(runs)


def _ask(desk: Desk, question: Mapping[str, object]) -> tuple[dict[str, object], bytes]:
    answer = desk.answer(question)
    header, _ = split(answer)
    if errors := header.get("errors"):
        lines = [
            f"line {error['line']}: {error['text']}" if error["line"] else error["text"] for error in errors
        ]
        raise InputError("\n".join(lines))
    return header, answer


def _grid(opened: Opened, first: Mapping[str, Any]) -> Iterator[tuple[list[str], Position, dict[str, str]]]:
    """Yield knobs, their positions, and the levels of a cell."""
    cells = opened.parse(opened.text).cells
    if len(cells) > 1:
        for cell in cells[:_MOST_CELLS]:
            yield [], (), cell.levels
        return
    controls = {control["path"]: control for control in first["controls"]}
    own = next((lesson["knobs"] for lesson in lessons() if lesson["scenario"] == opened.text), _USUAL_KNOBS)
    knobs = [path for path in own if path in controls]
    for position in itertools.product(*(_positions(controls[path]) for path in knobs)):
        yield knobs, position, {}


def _positions(control: Mapping[str, Any]) -> list[object]:
    """Return the positions of a knob: around its value, or all its choices."""
    value = control["value"]
    if control["kind"] == "switch":
        return [False, True]
    if control["kind"] == "choice":
        return [choice["value"] for choice in control["choices"]]
    amount = _AMOUNT.fullmatch(str(value))
    if amount is None or control["kind"] not in _FACTORS:
        return [value]
    number, unit = float(amount["number"]), amount["unit"]
    return [f"{number * factor:.10g} {unit}" for factor in _FACTORS[control["kind"]]]


def _key(position: Position, levels: Mapping[str, str]) -> str:
    return json.dumps([list(position), levels], separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _run(
    desk: Desk, text: str, knobs: list[str], position: Position, levels: Mapping[str, str]
) -> dict[str, str]:
    changes = [{"path": path, "value": value} for path, value in zip(knobs, position, strict=True)]
    question = {"text": text, "changes": changes, "levels": levels}
    try:
        _, look = _ask(desk, {**question, "ask": "look"})
    except InputError as error:
        place = ", ".join(f"{path} = {value}" for path, value in zip(knobs, position, strict=True))
        raise InputError(f"At {place}: {error}") from error
    story = desk.answer({**question, "ask": "story"})
    return {"key": _key(position, levels), "look": _packed(look), "story": _packed(story)}


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _knobs(
    grid: list[tuple[list[str], Position, dict[str, str]]], first: Mapping[str, Any]
) -> list[dict[str, object]]:
    """Return the knobs with their positions, and the initial position of each."""
    values = {control["path"]: str(control["value"]) for control in first["controls"]}
    knobs = []
    for place, path in enumerate(grid[0][0]):
        positions = list(dict.fromkeys(position[place] for _, position, _ in grid))
        start = next((number for number, item in enumerate(positions) if str(item) == values[path]), 0)
        knobs.append({"path": path, "positions": positions, "start": start})
    return knobs
