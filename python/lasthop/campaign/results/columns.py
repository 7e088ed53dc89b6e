"""Tables of the engines as data frames, made from the buffers that hold their columns."""

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl
from arro3.core import Array

Number = Literal["Q", "d"]
Gathered = Mapping[str, list[str] | tuple[Number, bytes, bytes]]
"""A table in the form that `_core.gather` returns."""


def gathered_frame(columns: Gathered) -> pl.DataFrame:
    """Make a data frame of a table from `_core.gather`."""
    series = {
        name: pl.Series(name, own, dtype=pl.String) for name, own in columns.items() if isinstance(own, list)
    }
    numbers: dict[Number, dict[str, tuple[bytes, bytes]]] = {}
    for name, own in columns.items():
        if isinstance(own, tuple):
            numbers.setdefault(own[0], {})[name] = own[1:]
    for kind, several in numbers.items():
        # All columns of a type at once: creating a series costs as much as writing it. For an array of numpy,
        # polars would have to load more code, which takes longer than all this.
        whole = pl.Series(
            Array.from_buffer(memoryview(b"".join(own for own, _ in several.values())).cast(kind))
        )
        known = b"".join(own for _, own in several.values())
        if b"\0" in known:
            whole = whole.set(pl.Series(Array.from_buffer(known)) == 0, None)
        if kind == "Q":
            whole = whole.cast(pl.Int64)
        rows = len(whole) // len(several)
        series |= {name: whole.slice(place * rows, rows).alias(name) for place, name in enumerate(several)}
    return pl.DataFrame([series[name] for name in columns])


_TEXT = frozenset({"direction", "event", "host", "sack", "name"})


def as_frame(table: Mapping[str, Sequence[object]]) -> pl.DataFrame:
    """Return a table of a trace as a typed data frame."""
    frame = pl.DataFrame(dict(table), strict=False, infer_schema_length=None)
    # A column without a value has no type. Without a packet or a TCP event, no column has one.
    types = {
        name: pl.String if name in _TEXT else pl.Int64
        for name, dtype in frame.schema.items()
        if dtype == pl.Null
    }
    return frame.cast(types)  # type: ignore[arg-type]
