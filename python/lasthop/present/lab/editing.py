"""Change a value in the text of a scenario, preserving comments and order."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from lasthop.common.errors import InputError
from lasthop.scenario.facts import ONLY_HOP

Key = str | int


def edit(text: str, path: str, value: str | float | bool, levels: Mapping[str, str]) -> str:
    """Return the text with `value` at `path`, in the level of the cell that sets it or else in the scenario.

    Raises `InputError` if the text is not valid TOML, or if it does not contain the value in a place that can
    be changed.
    """
    keys: list[Key] = [int(key) if key.isdigit() else key for key in path.split(".")]
    try:
        wanted: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The text is not valid TOML, so no control can change it: {error}.") from error
    if keys[:2] == ["hop", ONLY_HOP] and "hop" not in wanted:
        # The keys of the only hop are at the top level, such as `[down]`.
        keys = keys[2:]
    place = [*_owner(wanted, keys, levels), *keys]
    with suppress(KeyError, IndexError, TypeError):
        _put(wanted, place, value, dict)
        for make_table in (tomlkit.table, tomlkit.inline_table):
            changed = _change(text, place, value, make_table)
            # A table with a header would absorb subsequent keys.
            if changed is not None and tomllib.loads(changed) == wanted:
                return changed
    raise InputError(f"`{path}` is not set in this text. Add it to the text, or change the extended file.")


def _change(text: str, place: Sequence[Key], value: object, make_table: Callable[[], object]) -> str | None:
    """Return the text with the value, with missing tables from `make_table`; `None` if this fails."""
    with suppress(TOMLKitError, ValueError):
        document = tomlkit.parse(text)
        _put(document, place, value, make_table)
        changed = tomlkit.dumps(document)
        tomllib.loads(changed)
        return changed
    return None


def _owner(document: Mapping[str, object], keys: Sequence[Key], levels: Mapping[str, str]) -> list[Key]:
    """Return the table that sets the value: levels override the scenario, the last factor's first."""
    places: list[list[Key]] = [["factor", factor, level] for factor, level in reversed(list(levels.items()))]
    # A list in a level replaces the scenario's list.
    sought = keys[:1] if len(keys) > 1 and isinstance(keys[1], int) else keys
    return next((place for place in places if _has(document, [*place, *sought])), [])


def _has(node: Any, keys: Sequence[Key]) -> bool:  # noqa: ANN401  parsed TOML is of any type
    try:
        for key in keys:
            node = node[key]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _put(node: Any, keys: Sequence[Key], value: object, make_table: Callable[[], object]) -> None:  # noqa: ANN401
    for key in keys[:-1]:
        if isinstance(key, str) and key not in node:
            node[key] = tomlkit.inline_table() if isinstance(node, InlineTable) else make_table()
        node = node[key]
    node[keys[-1]] = value
