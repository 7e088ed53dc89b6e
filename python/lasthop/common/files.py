"""Files that are written whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import polars as pl

from lasthop.common.errors import InputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ROW_GROUP = 16_384
"""Number of rows in a piece of a Parquet file, which is written and read piece by piece."""


def replace_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it to `path`."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        write(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file whole, or not at all."""
    replace_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise `InputError` if `path` cannot be written within."""
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error}.") from error


def check_name(path: Path) -> None:
    """Refuse a name with bytes that are not text: polars cannot open such files."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"The name {str(path)!a} is no UTF-8, as tables need: choose another name."
        ) from None


def write_parquet(
    frame: pl.DataFrame | pl.LazyFrame,
    path: Path,
    metadata: dict[str, str] | None = None,
    columns: Mapping[str, dict[str, str]] | None = None,
) -> None:
    """Write a Parquet file with `metadata` of the file and of its columns; a lazy frame piece by piece.

    A full disk raises OSError.
    """
    lazy = frame.lazy()
    schema = None
    if columns is not None:
        from arro3.core import Schema, Table

        plain = Table.from_arrow(lazy.collect_schema().to_frame()).schema
        schema = Schema(
            [field.with_metadata(columns.get(field.name, {})) for field in map(plain.field, plain.names)]
        )
    with path.open("wb", buffering=0) as file:
        output = _Output(file)
        try:
            target = cast("IO[bytes]", output)
            lazy.sink_parquet(target, metadata=metadata, arrow_schema=schema, row_group_size=_ROW_GROUP)
        except pl.exceptions.PolarsError:
            if output.failure is None:
                raise
            raise output.failure from None


class _Output(io.RawIOBase):
    """A file that remembers why it could not be written.

    Of a footer that does not fit, polars does not tell it.
    """

    def __init__(self, file: io.FileIO) -> None:
        self.failure: OSError | None = None
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, content: ReadableBuffer, /) -> int:
        """Write as much as the file system takes at once, and return the number of bytes."""
        try:
            return self._file.write(content)
        except OSError as error:
            self.failure = error
            raise
