"""Text and JSON of measurements; errors include the place."""

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
    """Return the text of a file, decompressed if it is gzip. Raises InputError."""
    try:
        content = file.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Cannot read {file}: {error}") from error
    return content.decode("utf-8", errors="replace")


def document(file: Path) -> Part:
    """Return the JSON of a file. Raises InputError."""
    try:
        return Part(file, "", json.loads(text(file)))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{file}: {place}: invalid JSON: {error.msg}; the file may be truncated") from error
    except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise InputError(f"{file}: unusable JSON: {error}") from error


@dataclass(frozen=True)
class Part:
    """A value within a file, with its place."""

    file: Path
    place: str
    value: object

    def fault(self, expected: str) -> InputError:
        """Return the error for this value."""
        text = json.dumps(self.value)
        text = text if len(text) <= 40 else f"{text[:40]}..."
        return InputError(f"{self.file}: {self.place or 'the file'}: expected {expected}, not {text}")

    def table(self) -> dict[str, object]:
        """Return the value if it is a JSON object."""
        if not isinstance(self.value, dict):
            raise self.fault("a JSON object")
        return self.value

    def get(self, key: str) -> Part | None:
        """Return the value of a key, or `None` if it is missing or null."""
        value = self.table().get(key)
        return None if value is None else Part(self.file, f"{self.place}.{key}".lstrip("."), value)

    def __getitem__(self, key: str) -> Part:
        """Return the value of a required key."""
        part = self.get(key)
        if part is None:
            near = nearest(key, self.table())
            hint = f"; the most similar key is '{near}'" if near else ""
            raise InputError(f"{self.file}: {self.place or 'the file'} has no key '{key}'{hint}")
        return part

    def items(self) -> Iterator[Part]:
        if not isinstance(self.value, list):
            raise self.fault("a JSON array")
        for number, value in enumerate(self.value):
            yield Part(self.file, f"{self.place}[{number}]", value)

    def number(self) -> float:
        """Return the value if it is a number below 1e20."""
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
        """Return the value if it is a number of at least 0."""
        if (number := self.number()) < 0:
            raise self.fault("a number of at least 0")
        return number

    def word(self) -> str:
        """Return the value if it is a string."""
        if not isinstance(self.value, str):
            raise self.fault("a string")
        return self.value

    def amount_of(self, key: str, default: float = 0.0) -> float:
        """Return the number of a key, or a default if the key is missing."""
        part = self.get(key)
        return default if part is None else part.amount()
