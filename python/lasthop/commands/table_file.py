"""The table file of `--out`."""

from collections.abc import Callable, Collection
from pathlib import Path

import polars as pl

from lasthop.common.errors import InputError, nearest
from lasthop.common.files import check_name, replace_atomically, write_parquet, writing

WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    ".csv": lambda frame, path: frame.write_csv(path),
    ".json": lambda frame, path: frame.write_json(path),
    ".parquet": write_parquet,
}


def check_output(out: Path, formats: Collection[str] = WRITERS.keys()) -> None:
    """Raise `InputError` if the file cannot be written, before the work starts."""
    check_name(out)
    if out.suffix not in formats:
        suggestion = f"{out.stem or 'table'}{nearest(out.suffix, formats)}"
        raise InputError(
            f"--out {out}: the suffix must be a format ({', '.join(formats)}); did you mean '{suggestion}'?"
        )
    if out.exists():
        raise InputError(f"{out} already exists; choose another file.")


def write_output(frame: pl.DataFrame, out: Path) -> None:
    with writing(out):
        replace_atomically(out, lambda path: WRITERS[out.suffix](frame, path))
