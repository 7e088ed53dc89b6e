"""Types of the JSON in the manifest and in the store, which is checked when it is read."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast, get_args, get_origin, get_type_hints, is_typeddict

Shape = type | list[Any] | tuple[Any, ...] | Mapping[str, object]
"""The shape of a value: text, whole number, number, boolean, anything; a list; these entries; a table.

Keys of a table that end in a question mark are optional, and other keys are allowed. The key `*` means any
key.
"""
_WORDS = {str: "a string", int: "a whole number from 0", float: "a number", bool: "true or false"}
_SURROGATES = re.compile("[\ud800-\udfff]")
"""Characters that JSON can escape but that cannot be encoded."""
_MOST = 2**64
"""Numbers must be below this, as seeds are."""


class Identity(TypedDict):
    """Everything that determines the results of a campaign."""

    format: int
    lasthop_version: str
    lasthop_rules: str
    lasthop_commit: str
    scenario: str
    scenario_digest: str
    engine: str
    kernel: NotRequired[str]
    seed: int
    replications: int
    sets: int
    until: NotRequired[list[str]]
    code: NotRequired[dict[str, str]]
    inputs: NotRequired[dict[str, str]]
    cells: list[str]


class Simulation(TypedDict):
    runs: int
    wall_s: float


class DifferenceFacts(TypedDict):
    """A difference of Linux from a scenario's TCP settings."""

    what: str
    effect: str


class Notes(TypedDict):
    """An engine's facts about its runs; differences by cell."""

    priority: object
    differences: dict[str, list[DifferenceFacts]]


RangeFacts = TypedDict(
    "RangeFacts",
    {
        "column": str,
        "unit": str,
        "from": float,
        "to": float,
        "counts": bool,
        "scale": str,
        "levels": dict[str, float],
    },
)
"""A factor with a range, and its levels by the texts in its column."""


class SpaceFacts(TypedDict):
    """The points at which factors with a range were sampled."""

    method: str
    points: int
    ranges: dict[str, RangeFacts]


class UntilFacts(TypedDict):
    conditions: list[str]
    looks: list[int]
    shares: int
    replications: list[int]
    short: list[int]


class HostFacts(TypedDict):
    """The machine that ran a campaign."""

    system: str
    processor: str
    cores: int
    python: str
    guest: NotRequired[str]


class Assumed(TypedDict):
    """A value that a scenario does not state."""

    key: str
    value: str
    why: str
    cells: int


class Manifest(TypedDict):
    """The manifest of a campaign. `simulation` and `tables` are missing before its first run."""

    identity: Identity
    scenario_file: NotRequired[str]
    repeatable: bool
    assumed: list[Assumed]
    space: NotRequired[SpaceFacts]
    task: NotRequired[list[str]]
    measure: NotRequired[str]
    host: HostFacts
    simulation: NotRequired[Simulation]
    snap_length: NotRequired[int]
    until: NotRequired[UntilFacts]
    live: NotRequired[Notes]
    tables: NotRequired[dict[str, str]]


class StoreFacts(TypedDict, total=False):
    identity: Identity
    asked: list[tuple[str, int]]
    counts: list[int]
    simulation: Simulation
    snap_length: int


def _shape(hint: Any) -> Shape:  # noqa: ANN401  any type of JSON
    """The shape of a type of JSON: of a `TypedDict`, a list, a tuple, a table or a plain value."""
    origin, parts = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        return {
            key if hint.__total__ and get_origin(own) is not NotRequired else f"{key}?": _shape(own)
            for key, own in hints.items()
        }
    if origin is NotRequired:
        return _shape(parts[0])
    if origin is list:
        return [_shape(parts[0])]
    if origin is tuple:
        return tuple(map(_shape, parts))
    if origin is dict:
        return {"*": _shape(parts[1])}
    plain: type = hint
    return plain


# Keys that only the manifest of a finished campaign has.
_FINISHED: Mapping[str, Shape] = {
    "simulation": _shape(Simulation),
    "tables": {
        "flows.parquet": str,
        "runs.parquet": str,
        "pages.parquet?": str,
        "shorts.parquet?": str,
        "hops.parquet?": str,
        "stations.parquet?": str,
    },
}
_MANIFEST: Shape = {
    name if (name := key.removesuffix("?")) in _FINISHED else key: _FINISHED.get(name, own)
    for key, own in cast("Mapping[str, Shape]", _shape(Manifest)).items()
}
_STORE = _shape(StoreFacts)
NOTES: Shape = {"priority": object, "differences": [_shape(DifferenceFacts)]}
"""An engine's facts about the runs of a cell."""


def manifest(file: Path) -> Manifest:
    """Read a manifest; raise `ValueError` with the key and the reason if it is not one."""
    content: Manifest = parse(file.read_text(encoding="utf-8"), _MANIFEST)
    cells, until = len(content["identity"]["cells"]), content.get("until")
    if until and (
        len(until["replications"]) != cells or not until["looks"] or max(until["short"], default=0) >= cells
    ):
        raise ValueError("`until` does not match the cells")
    return content


def store_facts(rows: Sequence[tuple[str, str]]) -> StoreFacts:
    """Read the facts about a store; raise `ValueError` with the key and the reason if they are invalid."""
    facts = {key: _json(value) for key, value in rows}
    check(facts, _STORE)
    together = ("identity", "asked", "counts")
    if any(key in facts for key in together):
        for key in together:
            if key not in facts:
                raise ValueError(f"`{key}` is missing")
        units, cells = len(facts["asked"]), len(facts["identity"]["cells"])
        if len(facts["counts"]) != units or not cells or units % cells:
            raise ValueError("`asked` does not match the cells")
    return cast("StoreFacts", facts)


def parse(text: str, shape: Shape) -> Any:  # noqa: ANN401  JSON of any shape
    """Read JSON; raise `ValueError` with the key and the reason if it has another shape."""
    value = _json(text)
    check(value, shape)
    return value


def _json(text: str) -> Any:  # noqa: ANN401
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except TypeError as error:
        raise ValueError("it is not text") from error


def check(value: object, shape: Shape, place: str = "") -> None:
    """Raise `ValueError` with the key and the reason if a value of JSON has another shape."""
    if isinstance(shape, Mapping):
        _check_table(value, shape, place)
    elif isinstance(shape, list | tuple):
        if not isinstance(value, list):
            raise ValueError(f"{_named(place)} is not a list")
        if isinstance(shape, tuple) and len(value) != len(shape):
            raise ValueError(f"{_named(place)} does not have {len(shape)} entries")
        for number, each in enumerate(value):
            check(each, shape[number] if isinstance(shape, tuple) else shape[0], f"{place}[{number}]")
    elif shape is not object and not _fits(value, shape):
        raise ValueError(f"{_named(place)} is not {_WORDS[shape]}")


def _check_table(value: object, shape: Mapping[str, Any], place: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{_named(place)} is not a table")
    for key, own in shape.items():
        name = key.removesuffix("?")
        for each in value if key == "*" else [name]:
            at = f"{place}.{each}" if place else each
            if each in value:
                check(value[each], own, at)
            elif key == name:
                raise ValueError(f"{_named(at)} is missing")


def _fits(value: object, kind: type) -> bool:
    if isinstance(value, str):
        return kind is str and "\0" not in value and (value.isascii() or not _SURROGATES.search(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return isinstance(value, kind)
    return kind in (float, type(value)) and (0 if kind is int else -_MOST) <= value < _MOST


def _named(place: str) -> str:
    return f"`{place}`" if place else "the document"
