"""Reading `report.toml`: every error at once, each with file, line, key, reason and nearest valid thing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.dictionary import OF_FLOWS, dictionary
from lasthop.studies.presentation.drawn import PRESENTATION_FILE
from lasthop.studies.presentation.spec import FACTORIAL_KINDS, Presentation
from lasthop.studies.text import read_text

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_Place = tuple[int | str, ...]


def load_presentation(folder: Path) -> Presentation:
    """Read the presentation beside a scenario; a plain one if there is no file. Raises InputError."""
    file = folder / PRESENTATION_FILE
    if not file.is_file():
        return Presentation()
    return read_presentation(read_text(file), str(file))


def read_presentation(text: str, name: str = PRESENTATION_FILE) -> Presentation:
    """Parse the text of the file called `name`.

    Raises InputError, with a line for each thing that is wrong.
    """
    import tomllib  # late, like pydantic: few scenarios have this file

    from pydantic import TypeAdapter, ValidationError

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: {error}.") from error
    for table in data.get("tables", []) if isinstance(data.get("tables"), list) else []:
        if isinstance(table, dict) and isinstance(table.get("ids"), str):
            table["ids"] = _expanded(table["ids"])
    try:
        found = TypeAdapter(Presentation).validate_python(data)
    except ValidationError as error:
        wrong = [(tuple(each["loc"]), _reason(each)) for each in error.errors()]
    else:
        wrong = list(_contradictions(found))
        if not wrong:
            return found
    raise InputError("\n".join(f"{name}{_line(text, place)}: {_words(place)}{why}" for place, why in wrong))


def _expanded(text: str) -> list[str]:
    """Expand `T7 T26-T28` to T7, T26, T27, T28."""
    ids: list[str] = []
    for part in text.replace(",", " ").split():
        match = re.fullmatch(r"T(\d+)-T(\d+)", part)
        ids += [f"T{n}" for n in range(int(match[1]), int(match[2]) + 1)] if match else [part]
    return ids


def _contradictions(found: Presentation) -> Iterator[tuple[_Place, str]]:
    kinds = [*FACTORIAL_KINDS, *found.rows]
    for number, table in enumerate(found.tables):
        if table.kind not in kinds:
            yield ("tables", number, "kind"), _unknown("kind of table", table.kind, kinds)
        elif table.kind in FACTORIAL_KINDS and found.factorial is None:
            yield ("tables", number, "kind"), "[factorial] is missing: the table is of metrics of runs."
    if found.factorial is not None and len(found.factorial.factors) != 3:
        yield (
            ("factorial", "factors"),
            f"there are {len(found.factorial.factors)} factors; a design has three.",
        )
    for kind, rows in found.rows.items():
        for place, row in enumerate(rows):
            columns = dictionary()[row.of]
            for column in (column for own in row.numbers for column in own.summed):
                if column not in columns:
                    yield ("rows", kind, place, "numbers"), _unknown("column", column, columns)
    for number, chosen in enumerate(found.heatmap):
        known = dictionary()["runs"] if chosen.flow is None else [*dictionary()["flows"], *OF_FLOWS]
        if chosen.metric not in known:
            yield ("heatmap", number, "metric"), _unknown("column", chosen.metric, known)


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    return f"there is no {what} '{name}'; did you mean '{nearest(name, known)}'?"


def _reason(error: ErrorDetails) -> str:
    """Say what is wrong with the value, or the key, at the error's place."""
    place = tuple(error["loc"])
    if error["type"] == "unexpected_keyword_argument":
        return _unknown("key", str(place[-1]), [each.name for each in fields(_table_at(place))])
    if error["type"] == "missing":
        return "the key is missing."
    if error["type"] == "literal_error":
        expected = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        given = str(error["input"])
        return f"'{given}' is none of {', '.join(expected)}; did you mean '{nearest(given, expected)}'?"
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {json.dumps(error['input'], default=str)}."


def _table_at(place: _Place) -> type[Any]:
    """Return the class of the table that holds the key at a place."""
    table: type[object] = Presentation
    for step in place[:-1]:
        held = get_type_hints(table).get(str(step))
        inner = next((each for each in _parts(held) if is_dataclass(each)), None)
        table = inner if isinstance(inner, type) else table
    return table


def _parts(hint: object) -> Iterator[object]:
    yield hint
    for argument in get_args(hint):
        yield from _parts(argument)


def _words(place: _Place) -> str:
    """Write a place as in the file: `rows.page.numbers.metric`; the line number tells equal names apart."""
    return ".".join(step for step in place if isinstance(step, str)) + ": "


def _line(text: str, place: _Place) -> str:
    """Return `:LINE` of the innermost heading of a place, or of its key below that.

    It is empty if there is neither.
    """
    lines = text.splitlines()
    path, line, end = "", 0, len(lines)
    for step in place:
        if isinstance(step, str):
            path = f"{path}.{step}" if path else step
            heads = [n for n, each in enumerate(lines) if re.match(rf"\s*\[{re.escape(path)}\]", each)]
            keys = [n for n in range(line, end) if re.match(rf"\s*{re.escape(step)}\s*=", lines[n])]
            line = (heads or keys or [line])[0]
        else:
            heads = [n for n, each in enumerate(lines) if re.match(rf"\s*\[\[{re.escape(path)}\]\]", each)]
            line = heads[step] if step < len(heads) else line
        after = (n for n in range(line + 1, len(lines)) if lines[n].lstrip().startswith("["))
        end = next(after, len(lines))
    return f":{line + 1}" if line or place else ""
