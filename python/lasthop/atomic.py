"""Files that are written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl


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
    frame: pl.DataFrame,
    path: Path,
    metadata: dict[str, str] | None = None,
    columns: Mapping[str, dict[str, str]] | None = None,
) -> None:
    """Write a Parquet file with `metadata` of the file and of its columns. A full disk raises OSError."""
    schema = None
    if columns is not None:
        from arro3.core import Schema, Table

        plain = Table.from_arrow(frame.clear()).schema
        schema = Schema([field.with_metadata(columns.get(field.name, {})) for field in map(plain.field, plain.names)])
    try:
        frame.write_parquet(path, metadata=metadata, arrow_schema=schema)
    except pl.exceptions.ComputeError as error:  # how polars sometimes passes on what the operating system says
        raise OSError(str(error)) from error
