"""Converting tables of engines, which are buffers of columns, to data frames."""

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl
from arro3.core import Array

Number = Literal["Q", "d"]
Gathered = Mapping[str, list[str] | tuple[Number, bytes, bytes]]
"""A table from `_core.gather`."""


def gathered_frame(columns: Gathered) -> pl.DataFrame:
    """Convert a table from `_core.gather` to a data frame."""
    series = {
        name: pl.Series(name, own, dtype=pl.String) for name, own in columns.items() if isinstance(own, list)
    }
    numbers: dict[Number, dict[str, tuple[bytes, bytes]]] = {}
    for name, own in columns.items():
        if isinstance(own, tuple):
            numbers.setdefault(own[0], {})[name] = own[1:]
    for kind, several in numbers.items():
        # All columns of a type at once: creating a series costs as much as filling it. For numpy arrays
        # polars would load more code, which takes longer than all this.
        whole = pl.Series(
            Array.from_buffer(memoryview(b"".join(own for own, _ in several.values())).cast(kind))
        )
        validity = b"".join(own for _, own in several.values())
        if b"\0" in validity:
            whole = whole.set(pl.Series(Array.from_buffer(validity)) == 0, None)
        if kind == "Q":
            whole = whole.cast(pl.Int64)
        rows = len(whole) // len(several)
        series |= {name: whole.slice(place * rows, rows).alias(name) for place, name in enumerate(several)}
    return pl.DataFrame([series[name] for name in columns])


_TEXT = frozenset({"direction", "event", "host", "sack", "name"})


def as_frame(table: Mapping[str, Sequence[object]]) -> pl.DataFrame:
    """Convert a table of a trace to a typed data frame."""
    frame = pl.DataFrame(dict(table), strict=False, infer_schema_length=None)
    # polars infers no type for a column without values, as in a trace without packets or TCP events.
    types = {
        name: pl.String if name in _TEXT else pl.Int64
        for name, dtype in frame.schema.items()
        if dtype == pl.Null
    }
    return frame.cast(types)  # type: ignore[arg-type]
