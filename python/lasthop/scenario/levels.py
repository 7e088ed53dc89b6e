"""Levels that are numbers: `3`, `64k`, `iw10`, `20 ms`."""

import re
from collections.abc import Sequence

_LEVEL = re.compile(r"(?P<before>[a-z_ -]*?)\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[a-zµ%/]*)", re.IGNORECASE)
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_PREFIXES = {"k": 1e3, "m": 1e6, "g": 1e9}
_MULTIPLIED = ("", "b", "bit", "bit/s", "bps", "b/s")
_LOGARITHMIC = 20.0
"""The least ratio of the largest to the smallest number for a logarithmic axis."""


def numbers(levels: Sequence[str]) -> list[float] | None:
    """Return the values of levels if all are numbers of the same kind; otherwise `None`."""
    matches = [match for level in levels if (match := _number(level)) is not None]
    kinds = {kind for kind, _ in matches}
    values = [value for _, value in matches]
    return values if len(kinds) == 1 and len(set(values)) == len(levels) else None


def in_order(levels: Sequence[str]) -> list[str]:
    """Sort levels by their numbers, if they are numbers."""
    values = numbers(levels)
    return (
        list(levels) if values is None else [level for _, level in sorted(zip(values, levels, strict=True))]
    )


def is_logarithmic(values: Sequence[float]) -> bool:
    """Whether numbers spread so far that they need a logarithmic axis."""
    return min(values) > 0 and max(values) / min(values) >= _LOGARITHMIC


def _number(level: str) -> tuple[tuple[str, str], float] | None:
    """Return the kind of a number, which is the text around it, and its value."""
    match = _LEVEL.fullmatch(level.strip())
    if match is None:
        return None
    before, number, unit = match["before"].lower(), float(match["number"]), match["unit"].lower()
    if unit in _TIMES:
        return (before, "s"), number * _TIMES[unit]
    if unit[:1] in _PREFIXES and unit[1:] in _MULTIPLIED:
        return (before, unit[1:]), number * _PREFIXES[unit[0]]
    return (before, unit), number
