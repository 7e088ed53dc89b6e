"""Runs of real programs: which cells have one, and what it says becomes columns of `runs.parquet`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lasthop import _core
from lasthop.errors import InputError

PRINTED = "printed_"
"""Leads the columns of what programs print."""
_SHOWN = 60
_CANNOT_RUN = (126, 127)
"""Exit codes of shells for a command that cannot be run, and one that is not there."""


def program_of(cell: _core.Cell) -> Mapping[str, Any] | None:
    """Return the flow of a cell that is a real program; `None` if it has none."""
    flows: Sequence[Mapping[str, Any]] = json.loads(cell.scenario)["flow"]
    return next((flow for flow in flows if flow["kind"] == "program"), None)


def columns_of(program: Mapping[str, Any], facts: Mapping[str, Any], wall_s: float) -> dict[str, list[Any]]:
    """Return the columns that a run of a program adds to those of `runs.parquet`, a row each."""
    if facts["exit_code"] in _CANNOT_RUN:
        raise InputError(f"The program {program['name']} cannot be run (exit code {facts['exit_code']}).")
    own = {
        "program": program["name"],
        "exit_code": facts["exit_code"],
        "program_s": facts["program_s"],
        "wall_s": round(wall_s, 6),
    }
    if program.get("json"):
        own |= printed_numbers(facts["printed"], facts["exit_code"])
    return {name: [value] for name, value in own.items()}


def printed_numbers(text: str, exit_code: int) -> dict[str, float]:
    """Return the numbers in what a program printed as JSON, by the path to each; none of a program that failed.

    Raises `InputError` for a program that says it did its work and printed something else.
    """
    try:
        printed = json.loads(text)
    except ValueError:
        if exit_code:
            return {}
        shown = text.strip()[:_SHOWN]
        raise InputError(f"--json: the program printed no JSON: {shown!r}") from None
    return dict(_numbers(printed, ()))


def _numbers(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """Yield the numbers in objects; lists, whose lengths may differ, are left out."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, (*path, re.sub(r"\W+", "_", str(key))))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield PRINTED + "_".join(path), float(value)


def joined(tables: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """Lay tables below each other; what one lacks is missing there."""
    names = list(dict.fromkeys(name for table in tables for name in table))
    rows = [len(next(iter(table.values()), ())) for table in tables]
    return {
        name: [cell for table, count in zip(tables, rows, strict=True) for cell in table.get(name) or [None] * count]
        for name in names
    }
