"""Standard output and standard error: control characters are escaped, and write errors are reported."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO, cast

from lasthop.common.control_characters import CHARACTERS, escape
from lasthop.common.errors import OutputError

_CONTROL = re.compile(rf"\x1b\[(?:(?:[0-4]|3[0-7]|9[0-7])(?:;|(?=m)))*m|{CHARACTERS}")
"""Control characters, and the colours of tables, which are kept."""


class _Plain:
    """A text stream that escapes control characters, for example in the name of a flow."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_CONTROL.sub(escape, text))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    @property
    def rich_proxied_file(self) -> TextIO:
        """The stream for progress bars, which move the cursor."""
        return self._stream


class _Guarded(_Plain):
    """A stream that also raises `OutputError` if it cannot be written, unless its pipe was closed."""

    def write(self, text: str) -> int:
        with _output_errors():
            return super().write(text)

    def flush(self) -> None:
        with _output_errors():
            self._stream.flush()

    @property
    def rich_proxied_file(self) -> TextIO:
        """This stream, because tables contain names from files."""
        return cast("TextIO", self)


@contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"Cannot write to standard output: {error.strerror}.") from error


@contextmanager
def guarded_output() -> Iterator[None]:
    """Raise `OutputError` in this context if standard output cannot be written."""
    stream = sys.stdout
    try:
        with redirect_stdout(_Guarded(stream)):
            yield
            sys.stdout.flush()
    except OutputError:
        # Otherwise the interpreter fails again when it flushes the stream on exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        raise


@contextmanager
def plain_errors() -> Iterator[None]:
    """Escape control characters in errors and notes."""
    with redirect_stderr(cast("TextIO", _Plain(sys.stderr))):
        yield
