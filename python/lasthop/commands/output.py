"""A standard output that says in words why it cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

from lasthop.errors import OutputError


class _Guarded:
    """A text stream that tells its own failures apart from failures of other files.

    A closed pipe stays what it is.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _told_apart():
            return self._stream.write(text)

    def flush(self) -> None:
        with _told_apart():
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


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
