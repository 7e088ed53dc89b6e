"""Reading the files in a scenario's folder."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from lasthop import _core
from lasthop.common.errors import InputError


def read_text(file: Path) -> str:
    """Return the text of a file; raise `InputError`, with the line of a byte that is not UTF-8."""
    try:
        content = _core.read_file(str(file))
    except _core.ScenarioError as error:
        raise InputError(f"Cannot read {error}.") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{file}:{line}: this line contains a byte that is not UTF-8. Save the file as UTF-8."
        ) from error


def read_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty rows of a CSV file with their lines; raise `InputError` as `read_text` does."""
    rows = csv.reader(io.StringIO(read_text(file), newline=""))
    try:
        yield from ((rows.line_num, row) for row in rows if row)
    except csv.Error as error:
        raise InputError(f"{file}:{rows.line_num}: {error}.") from error
