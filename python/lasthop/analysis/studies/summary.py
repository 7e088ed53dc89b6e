"""The `summary.csv` of a study, from its records.

Columns: `study`, `table`, the factors, `flow` (role), `direction`, `metric`, `statistic`, `value`,
`replications`, `unit`, `ci_low`, `ci_high`. Key columns and their values are spelled as in `published.csv`.
Factors that the published numbers do not have come first; each combination of their levels has all numbers.

`lasthop.analysis.statistics.summary` describes the numbers. In addition, a change has the jackknife's
interval; sums and shares of variation have none. For tables of whole runs and of their analysis of variance,
see `lasthop.analysis.studies.factorial`; there `value` is the mean over all replications of all sets, and
`replications` counts the replications of a cell.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.analysis.statistics.summary import (
    DIGITS,
    FLOATS,
    INTERVAL,
    NUMBERS,
    for_each_level,
    in_cell,
    whole_summary,
)
from lasthop.analysis.studies.lines import Line
from lasthop.analysis.studies.numbers import Cell
from lasthop.campaign.results.tables import Tables, factor_column
from lasthop.studies.catalogue import Assets
from lasthop.studies.presentation.spec import FACTORIAL_KINDS, Presentation, TableSpec


def key_columns(assets: Assets) -> list[str]:
    """Return the key columns of a study's numbers: all of `published.csv` up to `statistic`."""
    columns = assets.published.columns
    return columns[: columns.index("statistic") + 1]


def table_levels(row: Mapping[str, str | None], factors: Sequence[str]) -> dict[str, str]:
    """Return the levels in the fields of a row of `tables.csv` that are not empty."""
    return {factor: level for factor in factors if (level := row.get(factor))}


def extra_columns(factors: Sequence[str], assets: Assets) -> list[str]:
    """Return the columns of the factors that the published numbers do not have."""
    return [factor_column(factor) for factor in assets.extra_factors(factors)]


def study_summary(
    flows: pl.DataFrame,
    pages: pl.DataFrame | None,
    factors: Sequence[str],
    assets: Assets,
    runs: pl.DataFrame | None = None,
    *,
    hops: pl.DataFrame | None = None,
    looks: int = 1,
) -> pl.DataFrame:
    """Compute the numbers of all tables of a study whose cells were run. Tables of runs require `runs`.

    Intervals hold over this many `looks`.
    """
    extra = extra_columns(factors, assets)

    def of_level(part: pl.DataFrame, levels: Mapping[str, str]) -> pl.DataFrame:
        own_pages, own_runs, own_hops = (
            None if rows is None else _Cells(rows.filter(in_cell(levels)), factors)
            for rows in (pages, runs, hops)
        )
        split = _Split(_Cells(part, factors), own_pages, own_runs, own_hops, looks)
        return _summary_of_tables(split, factors, assets)

    return for_each_level(flows, extra, of_level)


def summary_of(tables: Tables, factors: Sequence[str], assets: Assets | None) -> pl.DataFrame:
    """Compute the statistics in a study's tables; without `assets`, those of every metric."""
    if assets is None:
        return whole_summary(tables, factors)
    pages, hops = (None if table is None else table.collect() for table in (tables.pages, tables.hops))
    return study_summary(
        tables.flows.collect(), pages, factors, assets, tables.runs.collect(), hops=hops, looks=tables.looks
    )


class _Cells:
    """A frame's rows by cell, split once for all tables, of which a study has hundreds."""

    def __init__(self, frame: pl.DataFrame, factors: Sequence[str]) -> None:
        self._frame = frame
        # A factor with a fixed level has no column.
        self._factors = [factor for factor in factors if factor_column(factor) in frame.columns]

    @functools.cached_property
    def _parts(self) -> dict[tuple[object, ...], pl.DataFrame]:
        columns = [factor_column(factor) for factor in self._factors]
        return self._frame.partition_by(columns, as_dict=True, maintain_order=True)

    def rows(self, levels: Mapping[str, str]) -> pl.DataFrame:
        """Return the rows that have all these levels."""
        wanted = [(self._factors.index(factor), level) for factor, level in levels.items()]
        parts = [
            part for key, part in self._parts.items() if all(key[place] == level for place, level in wanted)
        ]
        return pl.concat(parts) if parts else self._frame.clear()


@dataclass(frozen=True, slots=True)
class _Split:
    flows: _Cells
    pages: _Cells | None
    runs: _Cells | None
    hops: _Cells | None
    looks: int

    def lines(self, levels: Mapping[str, str], spec: TableSpec, study: Presentation) -> Iterator[Line]:
        """Yield the lines of a table's cell, none if it was not run; `levels` have the table's names."""
        if spec.kind not in FACTORIAL_KINDS:
            cell = self._cell(levels, spec, study)
            return iter(()) if cell.flows.is_empty() else cell.lines()
        rows = None if self.runs is None else self.runs.rows(spec.own_levels(levels))
        if rows is None or rows.is_empty() or study.factorial is None:
            return iter(())
        from lasthop.analysis.studies.factorial import LINES  # late: few studies are full-factorial

        return LINES[spec.kind](rows, study.factorial, self.looks)

    def _cell(self, levels: Mapping[str, str], spec: TableSpec, study: Presentation) -> Cell:
        own = spec.own_levels(levels)
        pages = reference = None
        if self.pages is not None:
            pages = self.pages.rows(own)
            reference = self.pages.rows(spec.own_levels({**levels, **spec.reference}))
        hops = None if self.hops is None else self.hops.rows(own)
        return Cell(own, self.flows.rows(own), pages, reference, spec, study, self.looks, hops)


def _summary_of_tables(split: _Split, factors: Sequence[str], assets: Assets) -> pl.DataFrame:
    keys = key_columns(assets)
    kinds: dict[str, TableSpec] = {table: spec for spec in assets.presentation.tables for table in spec.ids}
    records = []
    for table in assets.tables.iter_rows(named=True):
        spec = kinds.get(table["table"])
        if spec is None:
            continue
        for line in split.lines(table_levels(table, factors), spec, assets.presentation):
            measured = {
                **line.levels,
                "flow": line.flow,
                "direction": line.direction,
                "metric": line.metric,
                "statistic": line.statistic,
            }
            record: dict[str, str | float | int | None] = {
                key: table.get(key) or measured.get(key) for key in keys
            }
            record |= {
                "value": round(line.value, DIGITS),
                "replications": line.replications,
                "unit": line.unit,
            }
            records.append(record | {end: round(getattr(line, end), DIGITS) for end in INTERVAL})
    schema = dict.fromkeys(keys, pl.String()) | NUMBERS
    return pl.DataFrame(records, schema=schema, orient="row").with_columns(pl.col(FLOATS).fill_nan(None))
