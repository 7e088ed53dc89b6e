"""Files that are written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl

_ROW_GROUP = 16_384
"""Rows that a Parquet file is written, and can be read, by."""


def replace_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in `path`'s place."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        write(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
        schema = Schema([field.with_metadata(columns.get(field.name, {})) for field in map(plain.field, plain.names)])
    with disk_errors():
        lazy.sink_parquet(path, metadata=metadata, arrow_schema=schema, row_group_size=_ROW_GROUP)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Raise OSError for what polars sometimes passes on from the operating system as an error of its own."""
    try:
        yield
    except pl.exceptions.ComputeError as error:
        raise OSError(str(error)) from error
