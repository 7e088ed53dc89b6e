"""Standard output and standard error: texts of others are harmless to the terminal, and failures are told."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO, cast

from lasthop.common.errors import OutputError

_CONTROL = re.compile(
    r"\x1b\[(?:(?:[0-4]|3[0-7]|9[0-7])(?:;|(?=m)))*m"
    "|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, those of the direction of writing among them; and the colours that tables have."""


class _Plain:
    """A text stream that shows control characters, of a flow's name say, as their numbers."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_CONTROL.sub(_shown, text))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    @property
    def rich_proxied_file(self) -> TextIO:
        """What progress bars, which move the cursor, are drawn on."""
        return self._stream


def _shown(control: re.Match[str]) -> str:
    text = control[0]
    return f"\\u{ord(text):04x}" if len(text) == 1 else text


class _Guarded(_Plain):
    """A stream that also tells its own failures apart from failures of other files.

    A closed pipe stays what it is.
    """

    def write(self, text: str) -> int:
        with _told_apart():
            return super().write(text)

    def flush(self) -> None:
        with _told_apart():
            self._stream.flush()

    @property
    def rich_proxied_file(self) -> TextIO:
        """This stream: tables hold texts of others."""
        return cast("TextIO", self)


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"Cannot write to standard output: {error.strerror}.") from error


@contextmanager
def guarded_output() -> Iterator[None]:
    """Raise `OutputError` within if standard output cannot be written."""
    stream = sys.stdout
    try:
        with redirect_stdout(_Guarded(stream)):
            yield
            sys.stdout.flush()
    except OutputError:
        # Otherwise the interpreter fails a second time when it flushes the stream at its end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        raise


@contextmanager
def plain_errors() -> Iterator[None]:
    """Write control characters in errors and notes as their numbers."""
    with redirect_stderr(cast("TextIO", _Plain(sys.stderr))):
        yield
