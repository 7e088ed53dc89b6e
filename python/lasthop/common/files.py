"""Writing files atomically."""

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
"""Number of rows in a group of a Parquet file, the unit of writing and reading."""


def replace_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file in the folder of `path`, then rename it to `path`."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        write(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    replace_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert errors of writing `path` to `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error}.") from error


def check_name(path: Path) -> None:
    """Raise `InputError` for a name that is not UTF-8: polars cannot open such files."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"The name {str(path)!a} is not UTF-8, as tables require: rename it.") from None


def write_parquet(
    frame: pl.DataFrame | pl.LazyFrame,
    path: Path,
    metadata: dict[str, str] | None = None,
    columns: Mapping[str, dict[str, str]] | None = None,
) -> None:
    """Write a Parquet file with metadata of the file and of its columns; a lazy frame is streamed.

    A full disk raises `OSError`.
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
    """A file that stores the error of a failed write, which polars does not report for the footer."""

    def __init__(self, file: io.FileIO) -> None:
        self.failure: OSError | None = None
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.failure = error
            raise
