"""Merging stored results into the tables of a plan.

They are merged in parts, so that memory does not grow with the number of runs. The parts, and so the bytes of
the tables, follow from the plan alone, not from the batches in which results were stored.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import polars as pl

from lasthop.campaign.results.folder import FLOWS, HOPS, PAGES, RUNS, SHORTS, STATIONS
from lasthop.campaign.results.store import PIECE, DamagedBatchError, Store
from lasthop.campaign.results.tables import PART_OF
from lasthop.common.files import write_parquet
from lasthop.engines.records import TABLES

FILES = {"flows": FLOWS, "pages": PAGES, "shorts": SHORTS, "hops": HOPS, "stations": STATIONS, "runs": RUNS}
BATCH = "_batch"
CELL = "_cell"
_OPTIONAL = ("pages", "shorts", "hops", "stations")
"""Tables that are omitted if no run has a row."""
_PART_ROWS = 8192
"""A part has about this many rows of flows and runs."""
_KEYS = [BATCH, PIECE, "replication"]


class DamagedBatchesError(Exception):
    """Batches of the store cannot be read; `numbers` lists them."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__(numbers)
        self.numbers = numbers


class Runs(NamedTuple):
    """Stored runs, in the order of their rows in the tables.

    `places` has a row per run: its batch, piece and replication in the store, the set and the index of the
    cell. `levels` has a row per cell and a column per factor.
    """

    places: pl.DataFrame
    levels: pl.DataFrame


def merge_tables(
    store: Store,
    runs: Runs,
    folder: Path,
    metadata: Mapping[str, str],
    meanings: Mapping[str, Mapping[str, dict[str, str]]],
) -> list[str]:
    """Write the tables of some runs as Parquet files into `folder`; return the files' names.

    The files contain `metadata` and each column's `meanings`. Raises `DamagedBatchesError`.
    """
    merging = {table: _Table(folder / table) for table in TABLES}
    for part in _parts(store, runs):
        for table, rows in part.items():
            merging[table].add(rows)
    written = []
    for table, merged in merging.items():
        if merged.rows or table not in _OPTIONAL:
            write_parquet(merged.whole(), folder / FILES[table], dict(metadata), meanings[table])
            written.append(FILES[table])
    return written


def read_runs(store: Store, runs: Runs) -> dict[str, pl.DataFrame]:
    """Return the tables of some runs, as `merge_tables` would write them."""
    parts = list(_parts(store, runs))
    tables = {}
    for table in TABLES:
        frame = pl.concat([part[table] for part in parts if table in part], how="diagonal_relaxed")
        tables[table] = frame.with_columns(_as_floats(frame.schema, frame.height, _non_null(frame)))
    return tables


def _parts(store: Store, runs: Runs) -> Iterator[dict[str, pl.DataFrame]]:
    """Yield the tables in parts. A table without rows appears once, for its columns."""
    stored: dict[int, dict[str, pl.DataFrame]] = {}
    seen: set[str] = set()
    for part in runs.places.iter_slices(_runs_in_part(store, runs.places)):
        batches = part[BATCH].unique(maintain_order=True)
        try:
            # The last batch of a part is often the first batch of the next.
            stored = {batch: stored[batch] if batch in stored else store.tables(batch) for batch in batches}
        except DamagedBatchError:
            raise DamagedBatchesError(_damaged(store, runs.places)) from None
        tables = {}
        for table in TABLES:
            frames = {batch: stored[batch][table] for batch in batches}
            if table not in seen or any(frame.height for frame in frames.values()):
                tables[table] = _with_labels(part, _stack(frames), runs.levels)
        if tables["runs"].height != part.height:
            raise DamagedBatchesError(_incomplete(part, stored))
        seen.update(tables)
        yield tables


def _runs_in_part(store: Store, places: pl.DataFrame) -> int:
    """Return the number of runs in a part, estimated from the first run."""
    try:
        flows = store.tables(places[BATCH][0])["flows"]
    except DamagedBatchError:
        return len(places)
    own = [flows[key].cast(pl.Int64) == places[key][0] for key in _KEYS[1:]]
    return max(1, _PART_ROWS // (1 + int((own[0] & own[1]).sum())))


def _damaged(store: Store, places: pl.DataFrame) -> list[int]:
    """Return all batches that cannot be read, to repeat their runs together."""
    damaged = []
    for batch in places[BATCH].unique().sort():
        try:
            store.tables(batch)
        except DamagedBatchError:
            damaged.append(batch)
    return damaged


def _incomplete(part: pl.DataFrame, stored: Mapping[int, Mapping[str, pl.DataFrame]]) -> list[int]:
    """Return the batches that lack runs of their pieces, as some number in the store is damaged."""
    rows = _stack({batch: tables["runs"] for batch, tables in stored.items()})
    lacking = part.join(rows.with_columns(pl.col(*_KEYS).cast(pl.Int64)), on=_KEYS, how="anti")
    return lacking[BATCH].unique().sort().to_list()


def _stack(frames: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
    """Stack the rows of several batches, with the batch numbers in a column."""
    filled = {batch: frame for batch, frame in frames.items() if frame.height}
    filled = filled or dict(itertools.islice(frames.items(), 1))
    alike = len({tuple(frame.schema.items()) for frame in filled.values()}) == 1
    # Lazy polars would take longer for many small frames than the rest of a merge.
    rows = pl.concat(filled.values(), how="vertical" if alike else "diagonal_relaxed")
    numbers = itertools.chain.from_iterable(
        itertools.repeat(batch, frame.height) for batch, frame in filled.items()
    )
    return rows.hstack([pl.Series(BATCH, list(numbers), dtype=pl.Int64)])


def _with_labels(part: pl.DataFrame, rows: pl.DataFrame, levels: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the runs in `part`, in their order, preceded by the levels of their factors."""
    rows = rows.with_columns(pl.col(*_KEYS).cast(pl.Int64))
    joined = part.join(rows, on=_KEYS, how="inner", maintain_order="left_right")
    front = [
        *levels.columns,
        "set",
        "replication",
        *(name for name in ("flow", "role") if "flow" in rows.columns),
    ]
    labels = [column.gather(joined[CELL]) for column in levels]
    own = [name for name in joined.columns if name not in (*front, BATCH, PIECE, CELL)]
    if PART_OF in own:  # an engine returns texts, or no rows
        joined = joined.with_columns(pl.col(PART_OF).cast(pl.String).replace("", None))
    return joined.hstack(labels).select(*front, *own)


@dataclass(slots=True)
class _Table:
    """A table that is being merged; several parts are spooled to files whose names begin with `path`."""

    path: Path
    rows: int = 0
    _only: pl.DataFrame | None = None
    _files: list[Path] = field(default_factory=list)
    _non_null: set[str] = field(default_factory=set)
    """Columns that have a value."""

    def add(self, part: pl.DataFrame) -> None:
        if self._only is not None:
            self._spool(self._only)
        if self._files:
            self._spool(part)
        self._only = None if self._files else part
        self.rows += part.height
        self._non_null |= _non_null(part)

    def _spool(self, part: pl.DataFrame) -> None:
        file = self.path.with_name(f"{self.path.name}-{len(self._files)}")
        part.write_ipc(file, compression="lz4")
        self._files.append(file)

    def whole(self) -> pl.LazyFrame:
        parts = [pl.scan_ipc(file, glob=False) for file in self._files]
        frame = pl.concat(parts, how="diagonal_relaxed") if self._only is None else self._only.lazy()
        return frame.with_columns(_as_floats(frame.collect_schema(), self.rows, self._non_null))


def _non_null(frame: pl.DataFrame) -> set[str]:
    return {column.name for column in frame if column.null_count() < len(column)}


def _as_floats(schema: Mapping[str, pl.DataType], rows: int, non_null: Collection[str]) -> pl.Expr:
    """Cast the columns without a value to floats, except texts: they contain no counts."""
    hollow = [
        name
        for name, kind in schema.items()
        if kind == pl.Null or (rows and name not in non_null and kind != pl.String)
    ]
    return pl.col(hollow).cast(pl.Float64)
