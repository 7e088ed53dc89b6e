"""The keys in which the cells of a scenario differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lasthop._core import Cell

_OF_LINKS = frozenset({"rate", "delay"})
_OF_FLOWS = frozenset({"bytes", "packets", "rate", "request", "response", "main", "inline", "inline_count"})
_FOLLOWS = frozenset({"limit", "send_buffer", "time_limit"})
"""Keys that are usually adapted to the rate, the delay or the size."""

Changes = Mapping[str, tuple[object, object]]
"""Values before and after by their keys; a value may be a whole table."""


@dataclass(frozen=True, slots=True)
class Flat:
    """A scenario's values by their keys, such as `down.queue.limit`, with flows and classes by name.

    `tables` maps the key of each table to all values below it, by the rest of their keys.
    """

    values: Mapping[str, object]
    tables: Mapping[str, Mapping[str, object]]

    @classmethod
    def of(cls, scenario: Mapping[str, object]) -> Flat:
        values = dict(_flat("", scenario))
        tables: dict[str, dict[str, object]] = {}
        for key, value in values.items():
            for dot in (place for place, letter in enumerate(key) if letter == "."):
                tables.setdefault(key[:dot], {})[key[dot + 1 :]] = value
        return cls(values, tables)

    def at(self, key: str) -> object:
        """Return the value at a key, or the table below it."""
        return self.tables.get(key) or self.values.get(key)


def task_factors(cells: Sequence[Cell], factors: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the factors that change only what is asked of a network: rates, delays and sizes of transfers.

    Which of their levels is faster is known beforehand, so levels of other factors are compared within them.
    """
    return [factor for factor, levels in factors.items() if _is_task(cells, factor, levels)]


def _is_task(cells: Sequence[Cell], factor: str, levels: Sequence[str]) -> bool:
    pairs = [pair_of(cells, factor, levels[0], name) for name in levels[1:]]
    keys = {key for pair in pairs if pair is not None for key in changes_between(*pair)}
    own = {key for key in keys if key.rpartition(".")[2] not in _FOLLOWS}
    return bool(own) and all(map(_defines_task, own))


def _defines_task(key: str) -> bool:
    parts = key.split(".")
    if parts[0] == "flow":
        return len(parts) > 2 and parts[2] in _OF_FLOWS
    return key.rpartition(".link.")[2].split(".")[0] in _OF_LINKS


def pair_of(cells: Sequence[Cell], factor: str, base: str, name: str) -> tuple[Flat, Flat] | None:
    """Return the scenarios of two cells that differ only in this factor; `None` if there are none."""
    others = {_others(cell, factor): cell for cell in cells if cell.levels.get(factor) == base}
    for cell in cells:
        if cell.levels.get(factor) == name and (like := others.get(_others(cell, factor))):
            return Flat.of(json.loads(like.scenario)), Flat.of(json.loads(cell.scenario))
    return None


def _others(cell: Cell, factor: str) -> tuple[tuple[str, str], ...]:
    return tuple((other, level) for other, level in cell.levels.items() if other != factor)


def _flat(key: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the values with their keys; entries of lists with names (flows, classes) by name."""
    named = (
        isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value)
    )
    if named and isinstance(value, list):
        value = {item["name"]: {k: v for k, v in item.items() if k != "name"} for item in value}
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}" if key else name, inner)
    else:
        yield key, value


def changes_between(base: Flat, own: Flat) -> Changes:
    """Return the differences, before and after; a table that only one side has counts as a single change."""
    changes: dict[str, tuple[object, object]] = {}
    for key in dict.fromkeys((*own.values, *base.values)):
        whole = _root(key, base, own)
        before, after = base.at(whole), own.at(whole)
        if before != after:
            changes.setdefault(whole, (before, after))
    return changes


def _root(key: str, *flats: Flat) -> str:
    """Return the shortest beginning of a key at which one of the scenarios has no table."""
    parts = key.split(".")
    for end in range(1, len(parts)):
        beginning = ".".join(parts[:end])
        if any(beginning not in flat.tables for flat in flats):
            return beginning
    return key
