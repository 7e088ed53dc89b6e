"""Text and JSON of measurements: unpacked, and read with the place of whatever is wrong."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lasthop.common.errors import InputError, nearest


def text(file: Path) -> str:
    """Return what a file holds, unpacked if it is gzip. Raises InputError."""
    try:
        content = file.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error
    return content.decode("utf-8", errors="replace")


def document(file: Path) -> Part:
    """Return the JSON of a file. Raises InputError."""
    try:
        return Part(file, "", json.loads(text(file)))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{file}: {place}: not JSON: {error.msg}; the file may be cut short") from error
    except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise InputError(f"{file}: not JSON that a program wrote: {error}") from error


@dataclass(frozen=True)
class Part:
    """A value within a file, which knows its place there."""

    file: Path
    place: str
    value: object

    def fault(self, expected: str) -> InputError:
        """Return the error for this value."""
        shown = json.dumps(self.value)
        shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
        return InputError(f"{self.file}: {self.place or 'the file'}: found {shown}, expected {expected}")

    def table(self) -> dict[str, object]:
        """Return it if it is a table."""
        if not isinstance(self.value, dict):
            raise self.fault("a table in braces")
        return self.value

    def get(self, key: str) -> Part | None:
        """Return the value of a key of a table, or None if it is missing or null."""
        found = self.table().get(key)
        return None if found is None else Part(self.file, f"{self.place}.{key}".lstrip("."), found)

    def __getitem__(self, key: str) -> Part:
        """Return the value of a key that must be there."""
        found = self.get(key)
        if found is None:
            near = nearest(key, self.table())
            hint = f"; nearest there is '{near}'" if near else ""
            raise InputError(f"{self.file}: {self.place or 'the file'} has no '{key}'{hint}")
        return found

    def items(self) -> Iterator[Part]:
        if not isinstance(self.value, list):
            raise self.fault("a list in brackets")
        for number, one in enumerate(self.value):
            yield Part(self.file, f"{self.place}[{number}]", one)

    def number(self) -> float:
        """Return it if it is a number of ordinary size."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.fault("a number")
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if not abs(number) < 1e20:
            raise self.fault("a number below 1e20")
        return number

    def amount(self) -> float:
        """Return it if it is a number from 0."""
        if (number := self.number()) < 0:
            raise self.fault("a number from 0")
        return number

    def word(self) -> str:
        """Return it if it is a text."""
        if not isinstance(self.value, str):
            raise self.fault("a text")
        return self.value

    def amount_of(self, key: str, otherwise: float = 0.0) -> float:
        """Return the number from 0 of a key, or another number if the key is missing."""
        found = self.get(key)
        return otherwise if found is None else found.amount()
