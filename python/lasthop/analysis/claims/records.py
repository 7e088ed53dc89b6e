"""The tables of a results folder as the values of a column in each cell, by replication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop.campaign.results.folder import (
    FLOWS,
    HOPS,
    PAGES,
    RUNS,
    SHORTS,
    STATIONS,
    read_manifest,
    read_rows,
)
from lasthop.campaign.results.hops import PLACE
from lasthop.campaign.results.manifest import looks_of
from lasthop.campaign.results.tables import factor_column, whole_flows, with_computed, with_derived
from lasthop.common.errors import nearest
from lasthop.common.statistics.quantiles import CONFIDENCE, shared
from lasthop.studies.claims.design import Key
from lasthop.studies.claims.language import REPLICATION, ClaimError, ends, number

_FILES = {"runs": RUNS, "pages": PAGES, "shorts": SHORTS, "flows": FLOWS, "hops": HOPS, "stations": STATIONS}
_WHO = {"pages": "role", "shorts": "application", "flows": "role", "hops": PLACE, "stations": PLACE}
"""The column that identifies the rows of a replication."""
_PAIRED_BY = ["set", "replication"]
_CELL, _NUMBER, _VALUE = "_cell", "_number", "_value"

Values = NDArray[np.float64]


class Records:
    """The tables of a campaign.

    A column is looked up in `runs`, `pages`, `shorts`, `flows`, `hops` and `stations`, in this order. If
    flows are named, the first table with these flows is used. A replication's value is the mean over its
    rows, or another aggregate of them.
    """

    def __init__(
        self,
        tables: Mapping[str, pl.DataFrame],
        factors: Sequence[str],
        looks: int = 1,
        beside: Records | None = None,
    ) -> None:
        """Use tables with the names above; `factors` are in the scenario's order.

        Intervals must hold over all `looks`. Values are in the order of the sets and replications of the
        records `beside`, by default of these records.
        """
        self.factors = list(factors)
        self.confidence = shared(CONFIDENCE, looks)
        self._tables = {name: self._own(tables[name]) for name in _FILES if name in tables}
        own = pl.concat([table.select(_PAIRED_BY) for table in self._tables.values()])
        pairs = own.unique().sort(_PAIRED_BY)
        self._pairs: pl.DataFrame = pairs.with_row_index(_NUMBER) if beside is None else beside._pairs
        self.cells = frozenset(
            key
            for table in self._tables.values()
            for key in (table.select(self.factors).unique().rows() if self.factors else [()])
        )
        self._absent = np.full(len(self._pairs), np.nan)
        self._chosen: dict[tuple[str, ...] | None, NDArray[np.bool_]] = {}
        self._columns: dict[tuple[str, tuple[str, ...] | None, str], dict[Key, Values]] = {}
        # Replication numbers continue from set to set.
        number = pl.col("replication") - pl.col("replication").min().over("set") + 1
        self.sets, self._numbers = pairs.select("set", number).to_numpy().T
        self.of_sets = [self.sets == number for number in np.unique(self.sets)]

    @classmethod
    def read(
        cls, folder: Path, factors: Sequence[str], looks: int = 1, beside: Records | None = None
    ) -> Records:
        """Read the tables of a results folder. Its campaign may have had more than `looks` looks."""
        files = {name: folder / file for name, file in _FILES.items()}
        tables = {
            name: with_derived(file.name, read_rows(file).lazy()).collect()
            for name, file in files.items()
            if file.is_file()
        }
        if "flows" in tables:
            tables["flows"] = with_computed(tables["flows"].lazy()).collect()
        return cls(tables, factors, max(looks, looks_of(read_manifest(folder))), beside)

    def _own(self, table: pl.DataFrame) -> pl.DataFrame:
        # A column that shares its name with a factor, such as `protocol` of flows, is not the factor.
        prefixed = {f"factor_{f}": f for f in self.factors if f"factor_{f}" in table.columns}
        others = {f for f in self.factors if f in prefixed.values() or factor_column(f) != f}
        table = table.drop(others, strict=False).rename(prefixed)
        absent = [pl.lit("").alias(f) for f in self.factors if f not in table.columns]
        numbers = [] if "set" in table.columns else [pl.lit(1, pl.Int64).alias("set")]
        return table.with_columns(*absent, *numbers).with_columns(pl.col(_PAIRED_BY).cast(pl.Int64))

    def chosen(self, words: tuple[str, ...] | None) -> NDArray[np.bool_]:
        """Return a mask of the pairs of set and replication in these numbers and ranges; `None` means all."""
        if words not in self._chosen:
            ranges = [ends(REPLICATION, word) for word in words or ("..",)]
            inside = [(low <= self._numbers) & (self._numbers <= high) for low, high in ranges]
            self._chosen[words] = np.asarray(np.any(inside, axis=0))
        return self._chosen[words]

    def pair(self, number: int) -> tuple[int, int]:
        """Return the set, and the replication within it, of the values at this position."""
        return int(self.sets[number]), int(self._numbers[number])

    def values(self, column: str, flows: tuple[str, ...] | None, key: Key, rows: str = "mean") -> Values:
        """Return a column's value for each set and replication of a cell; a missing value is NaN.

        The value of a factor is its level, which must be a number. `flows` names roles, page loads,
        applications, hops with their directions (`wifi down`), stations (`wifi tv down`), or patterns such as
        `tcp-*`; `None` means all rows. `rows` is the aggregate of a replication's rows: mean, sum, min or
        max. Raises ClaimError if no table has the column, or the flows.
        """
        if column in self.factors:
            return np.full(len(self._pairs), _level(column, key[self.factors.index(column)]))
        if (column, flows, rows) not in self._columns:
            self._columns[column, flows, rows] = self._collect(column, flows, rows)
        return self._columns[column, flows, rows].get(key, self._absent)

    def _collect(self, column: str, flows: tuple[str, ...] | None, rows: str) -> dict[Key, Values]:
        table = self._rows(column, flows)
        value_of_rows = getattr(pl.col(column).cast(pl.Float64), rows)()
        values = (
            table.group_by([*self.factors, *_PAIRED_BY], maintain_order=True)
            .agg(pl.when(pl.col(column).is_not_null().all()).then(value_of_rows).alias(_VALUE))
            .join(self._pairs, on=_PAIRED_BY)
        )
        # A frame for each cell would dominate the run time. The constant is for scenarios without factors.
        cells = values.group_by(pl.lit(0).alias(_CELL), *self.factors).agg(
            pl.col(_NUMBER), pl.col(_VALUE).fill_null(np.nan)
        )
        values_of: dict[Key, Values] = {}
        for _, *key, numbers, own in cells.iter_rows():
            values_of[tuple(key)] = self._absent.copy()
            values_of[tuple(key)][numbers] = own
        return values_of

    def _rows(self, column: str, flows: tuple[str, ...] | None) -> pl.DataFrame:
        having = {name: table for name, table in self._tables.items() if _is_metric(table, column)}
        if not having:
            metrics = {c for table in self._tables.values() for c in table.columns if _is_metric(table, c)}
            raise ClaimError(
                f"no table of the results has a metric '{column}'; did you mean '{nearest(column, metrics)}'?"
            )
        if flows is None:
            return whole_flows(next(iter(having.values())).lazy()).collect()
        known_flows: set[str] = set()
        for name, table in having.items():
            if name not in _WHO:
                continue
            known_flows |= set(table[_WHO[name]].unique())
            # A pattern selects parts of flows only if it matches no whole flow.
            for rows in (whole_flows(table.lazy()).collect(), table):
                names = rows[_WHO[name]].unique().to_list()
                chosen = [flow for flow in names if any(fnmatchcase(flow, pattern) for pattern in flows)]
                if chosen and all(any(fnmatchcase(flow, pattern) for flow in chosen) for pattern in flows):
                    return rows.filter(pl.col(_WHO[name]).is_in(chosen))
        if not known_flows:
            raise ClaimError(f"'{column}' is a metric of whole runs; omit flow.")
        absent = next((f for f in flows if not any(fnmatchcase(k, f) for k in known_flows)), flows[0])
        raise ClaimError(
            f"no flow '{absent}' has a metric '{column}'; did you mean '{nearest(absent, known_flows)}'? "
            f"Flows: {', '.join(sorted(known_flows))}."
        )


def _level(factor: str, level: str) -> float:
    value = number(level)
    if value is None:
        raise ClaimError(f"the value of the factor '{factor}' is its level, but '{level}' is not a number.")
    return value


def _is_metric(table: pl.DataFrame, column: str) -> bool:
    return column in table.columns and column not in _PAIRED_BY and table.schema[column].is_numeric()
