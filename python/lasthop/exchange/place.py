"""Places in files: errors that name file and line, and the lines of a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lasthop.common.errors import InputError

_BYTES_MAX = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, from 1; 0 is the file as a whole."""

    file: Path
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)

    def fault(self, message: str) -> InputError:
        return InputError(f"{self}: {message}.")

    def other(self, name: str) -> Path:
        """Return the file with this name, as seen from the folder of this one."""
        return self.file.parent / name


def text_of(file: Path, named_at: Place | None = None) -> str:
    """Return the text of a file that was given, or named in another file."""
    at = f"{named_at}: " if named_at is not None else ""
    try:
        if file.stat().st_size > _BYTES_MAX:
            raise InputError(f"{at}{file} is larger than {_BYTES_MAX >> 20} MiB; give a shorter recording.")
        content = file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{at}Cannot read {file}: {reason}.") from error
    return decoded(content, file)


def decoded(content: bytes, file: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Place(file, line).fault("the text is not UTF-8; save the file as UTF-8") from None


def shown(word: str) -> str:
    """Return a word of a file for a message."""
    return repr(word if len(word) <= 40 else f"{word[:40]}...")
