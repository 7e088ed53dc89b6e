"""Reading `report.toml`, with all errors at once."""

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
    """Read the presentation in a scenario's folder; without one, return the default. Raises `InputError`."""
    file = folder / PRESENTATION_FILE
    if not file.is_file():
        return Presentation()
    return read_presentation(read_text(file), str(file))


def read_presentation(text: str, name: str = PRESENTATION_FILE) -> Presentation:
    """Parse the text of the file `name`; raise `InputError` with a line for each error."""
    import tomllib  # loaded late, like pydantic: few scenarios have this file

    from pydantic import TypeAdapter, ValidationError

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: {error}.") from error
    for table in data.get("tables", []) if isinstance(data.get("tables"), list) else []:
        if isinstance(table, dict) and isinstance(table.get("ids"), str):
            table["ids"] = _expand_ids(table["ids"])
    try:
        presentation = TypeAdapter(Presentation).validate_python(data)
    except ValidationError as error:
        errors = [(tuple(each["loc"]), _reason(each)) for each in error.errors()]
    else:
        errors = list(_contradictions(presentation))
        if not errors:
            return presentation
    raise InputError("\n".join(f"{name}{_line(text, place)}: {_path(place)}{why}" for place, why in errors))


def _expand_ids(text: str) -> list[str]:
    """Expand `T7 T26-T28` to T7, T26, T27, T28."""
    ids: list[str] = []
    for part in text.replace(",", " ").split():
        match = re.fullmatch(r"T(\d+)-T(\d+)", part)
        ids += [f"T{n}" for n in range(int(match[1]), int(match[2]) + 1)] if match else [part]
    return ids


def _contradictions(presentation: Presentation) -> Iterator[tuple[_Place, str]]:
    kinds, factorial = [*FACTORIAL_KINDS, *presentation.rows], presentation.factorial
    for number, table in enumerate(presentation.tables):
        if table.kind not in kinds:
            yield ("tables", number, "kind"), _unknown("kind of table", table.kind, kinds)
        elif table.kind in FACTORIAL_KINDS and factorial is None:
            yield ("tables", number, "kind"), "this kind of table needs [factorial], which is missing."
    if factorial is not None and len(factorial.factors) != 3:
        yield ("factorial", "factors"), f"there are {len(factorial.factors)} factors; a design has three."
    for kind, rows in presentation.rows.items():
        for place, row in enumerate(rows):
            columns = dictionary()[row.of]
            for column in (column for own in row.numbers for column in own.summed):
                if column not in columns:
                    yield ("rows", kind, place, "numbers"), _unknown("column", column, columns)
    for number, heatmap in enumerate(presentation.heatmap):
        valid = dictionary()["runs"] if heatmap.flow is None else [*dictionary()["flows"], *OF_FLOWS]
        if heatmap.metric not in valid:
            yield ("heatmap", number, "metric"), _unknown("column", heatmap.metric, valid)


def _unknown(kind: str, name: str, valid: Iterable[str]) -> str:
    return f"there is no {kind} '{name}'; did you mean '{nearest(name, valid)}'?"


def _reason(error: ErrorDetails) -> str:
    """Describe an error of a value or a key."""
    place = tuple(error["loc"])
    if error["type"] == "unexpected_keyword_argument":
        return _unknown("key", str(place[-1]), [each.name for each in fields(_table_at(place))])
    if error["type"] == "missing":
        return "the key is missing."
    if error["type"] == "literal_error":
        expected = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        value = str(error["input"])
        return f"'{value}' is none of {', '.join(expected)}; did you mean '{nearest(value, expected)}'?"
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {json.dumps(error['input'], default=str)}."


def _table_at(place: _Place) -> type[Any]:
    """Return the class of the table that contains the key at a place."""
    table: type[object] = Presentation
    for step in place[:-1]:
        hint = get_type_hints(table).get(str(step))
        inner = next((each for each in _parts(hint) if is_dataclass(each)), None)
        table = inner if isinstance(inner, type) else table
    return table


def _parts(hint: object) -> Iterator[object]:
    yield hint
    for argument in get_args(hint):
        yield from _parts(argument)


def _path(place: _Place) -> str:
    """Format a place like `rows.page.numbers.metric`; the line number distinguishes equal names."""
    return ".".join(step for step in place if isinstance(step, str)) + ": "


def _line(text: str, place: _Place) -> str:
    """Return `:LINE` of the innermost heading of a place, or of its key below that; empty without either."""
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
