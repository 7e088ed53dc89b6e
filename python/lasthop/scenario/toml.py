"""Writing scenarios that are built in Python as TOML."""

import json
import math
from collections.abc import Mapping, Sequence
from os import PathLike, fspath

from lasthop import _core
from lasthop.common.errors import InputError


def to_toml(table: Mapping[str, object]) -> str:
    """Return a table as the text of a file.

    Values are texts, numbers, booleans, lists and tables of these, and classes of
    `lasthop.common.algorithms`. Any other value raises `InputError`.
    """
    return _core.to_toml(json.dumps(_table(table, ())))


def _table(table: Mapping[str, object], path: tuple[str, ...]) -> dict[str, object]:
    for key in table:
        if not isinstance(key, str):
            raise InputError(f"{_place(path)}: the key {key!r} is {_kind(key)}, but keys must be texts.")
    return {key: _value(value, (*path, key)) for key, value in table.items()}


def _value(value: object, path: tuple[str, ...]) -> object:
    if isinstance(value, (bool, str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, type):
        from lasthop.common.algorithms import name_of

        return name_of(value)
    if isinstance(value, PathLike):
        return str(fspath(value))
    if isinstance(value, Mapping):
        return _table(value, path)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_value(item, (*path, f"[{at}]")) for at, item in enumerate(value)]
    raise InputError(
        f"{_place(path)}: {value!r} is {_kind(value)}, but values must be texts, numbers, lists or tables."
    )


def _kind(value: object) -> str:
    return f"of the type {type(value).__name__}"


def _place(path: Sequence[str]) -> str:
    return ".".join(path).replace(".[", "[") or "The scenario"
