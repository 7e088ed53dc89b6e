"""The tables of finished results: flows, runs, page loads, short flows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lasthop import _core
from lasthop.results.folder import FLOWS, PAGES, RUNS, SHORTS, read_manifest, scan_rows
from lasthop.results.manifest import looks_of
from lasthop.results.shorts import with_rates
from lasthop.results.space import read_space

_MEASURED = {
    column for table, columns in _core.MEANINGS.items() if table != "series" for column, *_ in columns
}
_OWN_COLUMNS = frozenset({"set", "replication", "role"} | _MEASURED)


def factor_column(factor: str) -> str:
    """Return the column that holds a factor's level; a factor named like a measured column gets a prefix."""
    return f"factor_{factor}" if factor in _OWN_COLUMNS else factor


@dataclass(frozen=True, slots=True)
class Tables:
    """The records of a campaign. They may be larger than memory, so take only the columns that are needed."""

    flows: pl.LazyFrame
    runs: pl.LazyFrame
    pages: pl.LazyFrame | None
    shorts: pl.LazyFrame | None
    looks: int = 1
    """Number of looks that share an interval's error: above one if the campaign stopped when precise."""

    @classmethod
    def read(cls, folder: Path) -> Tables:
        """Open the tables of a results folder; in a space, every point is a replication."""
        tables, space = cls.read_points(folder), read_space(folder)
        runs = tables.runs
        pages, shorts = (None if t is None else space.folded(t, runs) for t in (tables.pages, tables.shorts))
        flows, folded = space.folded(tables.flows, runs), space.folded(runs, runs)
        return cls(flows, folded, pages, shorts, tables.looks)

    @classmethod
    def read_points(cls, folder: Path) -> Tables:
        """Open the tables of a results folder as they are."""
        pages, shorts = (
            scan_rows(folder / name) if (folder / name).is_file() else None for name in (PAGES, SHORTS)
        )
        return cls(
            scan_rows(folder / FLOWS),
            scan_rows(folder / RUNS),
            pages,
            None if shorts is None else with_rates(shorts),
            looks_of(read_manifest(folder)),
        )


def height(rows: pl.LazyFrame) -> int:
    """Return the number of rows."""
    return int(rows.select(pl.len()).collect().item())


def is_empty(rows: pl.LazyFrame) -> bool:
    """Tell whether there are no rows. Then the columns have no types."""
    return not height(rows.head(1))
