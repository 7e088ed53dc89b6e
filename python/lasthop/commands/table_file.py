"""The file with every column that a command writes beside what it prints."""

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
    """Refuse a file that cannot be written, before the work is done."""
    check_name(out)
    if out.suffix not in formats:
        meant = f"{out.stem or 'table'}{nearest(out.suffix, formats)}"
        raise InputError(
            f"--out {out}: the suffix says the format, {', '.join(formats)}; did you mean '{meant}'?"
        )
    if out.exists():
        raise InputError(f"{out} exists, and nothing is overwritten: name a file that does not.")


def write_output(frame: pl.DataFrame, out: Path) -> None:
    with writing(out):
        replace_atomically(out, lambda path: WRITERS[out.suffix](frame, path))
