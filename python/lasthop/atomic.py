"""Files that are written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
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


def write_parquet(frame: pl.DataFrame, path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a Parquet file. A full disk raises OSError, as with any other file."""
    try:
        frame.write_parquet(path, metadata=metadata)
    except pl.exceptions.ComputeError as error:  # how polars sometimes passes on what the operating system says
        raise OSError(str(error)) from error
