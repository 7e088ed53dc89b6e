"""From rows of flows to `summary.csv`.

Columns of a study's summary: `study`, `table`, the factors, `flow` (role), `direction`, `metric`, `statistic`, `value`,
`replications`, `unit`, `ci_low`, `ci_high` - the key columns of its `published.csv` in its spellings. Factors that the
published numbers do not know come first, and each combination of their levels has all the numbers. Without a study: the
factors, `flow`, `metric`, `statistic`, `value`, `replications`, `unit`, `ci_low`, `ci_high`; `flow` is a role, a page
load or the name of short flows' hosts. Of short flows there are also two rows for the ends of the mean's 90 % interval,
with the statistics `ci_low` and `ci_high`.

With one set, `value` is the statistic over the set's replications. With several sets it is the mean over the sets of
each set's statistic: that is what a published number, itself the statistic of one set, is an instance of; noise of
single sets averages out, and extremes do not grow with the number of sets. `replications` counts all values used, over
all sets.

`ci_low` and `ci_high` are the ends of the value's 95 % interval, empty where the replications do not bound it. With one
set the interval is by order statistics, or Student's for a mean; with several sets it is Student's over the sets'
statistics. See `lasthop.statistics`. A change has the jackknife's interval, sums and shares of variation have none.

Tables of runs as wholes and of their analysis of variance: see `lasthop.factorial`; there `value` is the mean over all
replications of all sets, and `replications` counts those of a cell.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from lasthop.campaign import factor_column
from lasthop.catalogue import Assets
from lasthop.factorial import effects, run_metrics, variation
from lasthop.lines import Line
from lasthop.presentation.spec import FactorialSpec, Presentation, TableSpec
from lasthop.presentation.tables import Cell
from lasthop.statistics import (
    CONFIDENCE,
    QUANTILES,
    PercentileMethod,
    mean_interval,
    mean_intervals,
    quantiles_over_sets,
    shared,
)
from lasthop.units import unit_of

_DIGITS = 6
INTERVAL = ("ci_low", "ci_high")
"""The columns of the ends of a statistic's interval."""
_FLOATS = ("value", *INTERVAL)
_NUMBERS: dict[str, pl.DataType] = {
    "value": pl.Float64(),
    "replications": pl.Int64(),
    "unit": pl.String(),
    **dict.fromkeys(INTERVAL, pl.Float64()),
}
_NOT_METRICS = {"set", "replication", "start_s"}
_HOSTS = "application"
"""The column of `shorts.parquet` that names the hosts."""


_KINDS_OF_RUNS: dict[str, Callable[[pl.DataFrame, FactorialSpec], Iterator[Line]]] = {
    "run-metrics": run_metrics,
    "variation": variation,
    "effects": effects,
}


def key_columns(assets: Assets) -> list[str]:
    """Return the key columns of a study's numbers: all of `published.csv` up to `statistic`."""
    columns = assets.published.columns
    return columns[: columns.index("statistic") + 1]


def in_cell(levels: Mapping[str, str]) -> pl.Expr:
    """Return what is true of the rows that have all these levels."""
    held = [pl.col(factor_column(factor)) == level for factor, level in levels.items()]
    return pl.all_horizontal(pl.lit(value=True), *held)


def table_levels(row: Mapping[str, str | None], factors: Sequence[str]) -> dict[str, str]:
    """Return the levels that a row of `tables.csv` names; an empty field names none."""
    return {factor: level for factor in factors if (level := row.get(factor))}


def for_each_level(
    frame: pl.DataFrame,
    columns: Sequence[str],
    compute: Callable[[pl.DataFrame, Mapping[str, str]], pl.DataFrame],
) -> pl.DataFrame:
    """Compute a table from each part of `frame` with equal `columns`; stack them, with `columns` in front.

    `compute` also gets the levels in those columns.
    """
    if not columns:
        return compute(frame, {})
    parts = frame.partition_by(columns, as_dict=True, include_key=False, maintain_order=True)
    return pl.concat(
        compute(part, dict(zip(columns, map(str, levels), strict=True))).select(
            *(pl.lit(v).alias(c) for c, v in zip(columns, levels, strict=True)), pl.all()
        )
        for levels, part in parts.items()
    )


def extra_columns(factors: Sequence[str], assets: Assets) -> list[str]:
    """Return the columns of the factors that the published numbers do not know."""
    return [factor_column(factor) for factor in assets.extra_factors(factors)]


def study_summary(
    flows: pl.DataFrame,
    pages: pl.DataFrame | None,
    factors: Sequence[str],
    assets: Assets,
    runs: pl.DataFrame | None = None,
    *,
    looks: int = 1,
) -> pl.DataFrame:
    """Compute every number of every table of a study whose cell was run. Tables of runs are left out without `runs`.

    Intervals hold over so many `looks`.
    """
    extra = extra_columns(factors, assets)

    def of_level(part: pl.DataFrame, levels: Mapping[str, str]) -> pl.DataFrame:
        own_pages, own_runs = (
            None if rows is None else _Cells(rows.filter(in_cell(levels)), factors) for rows in (pages, runs)
        )
        return _summary_of_tables(_Split(_Cells(part, factors), own_pages, own_runs, looks), factors, assets)

    return for_each_level(flows, extra, of_level)


class _Cells:
    """A frame's rows by cell, split once, when a table asks for them: a study has hundreds of tables."""

    def __init__(self, frame: pl.DataFrame, factors: Sequence[str]) -> None:
        self._frame = frame
        # A factor whose level is fixed has no column.
        self._factors = [factor for factor in factors if factor_column(factor) in frame.columns]

    @functools.cached_property
    def _parts(self) -> dict[tuple[object, ...], pl.DataFrame]:
        columns = [factor_column(factor) for factor in self._factors]
        return self._frame.partition_by(columns, as_dict=True, maintain_order=True)

    def rows(self, levels: Mapping[str, str]) -> pl.DataFrame:
        """Return the rows that have all these levels."""
        wanted = [(self._factors.index(factor), level) for factor, level in levels.items()]
        parts = [part for key, part in self._parts.items() if all(key[place] == level for place, level in wanted)]
        return pl.concat(parts) if parts else self._frame.clear()


@dataclass(frozen=True, slots=True)
class _Split:
    """The records by cell."""

    flows: _Cells
    pages: _Cells | None
    runs: _Cells | None
    looks: int

    def lines(self, levels: Mapping[str, str], spec: TableSpec, study: Presentation) -> Iterator[Line]:
        """Yield the lines of a table's cell, none if it was not run; `levels` are in the table's words."""
        if spec.kind not in _KINDS_OF_RUNS:
            cell = self._cell(levels, spec, study)
            return iter(()) if cell.flows.is_empty() else cell.lines()
        rows = None if self.runs is None else self.runs.rows(spec.own_levels(levels))
        if rows is None or rows.is_empty() or study.factorial is None:
            return iter(())
        return _KINDS_OF_RUNS[spec.kind](rows, study.factorial)

    def _cell(self, levels: Mapping[str, str], spec: TableSpec, study: Presentation) -> Cell:
        own = spec.own_levels(levels)
        pages = reference = None
        if self.pages is not None:
            pages = self.pages.rows(own)
            reference = self.pages.rows(spec.own_levels({**levels, **spec.reference}))
        return Cell(own, self.flows.rows(own), pages, reference, spec, study, self.looks)


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
            record: dict[str, str | float | int | None] = {key: table.get(key) or measured.get(key) for key in keys}
            record |= {"value": round(line.value, _DIGITS), "replications": line.replications, "unit": line.unit}
            records.append(record | {end: round(getattr(line, end), _DIGITS) for end in INTERVAL})
    schema = dict.fromkeys(keys, pl.String()) | _NUMBERS
    return pl.DataFrame(records, schema=schema, orient="row").with_columns(pl.col(_FLOATS).fill_nan(None))


def metric_columns(flows: pl.DataFrame, factors: Sequence[str]) -> list[str]:
    """Return the numeric columns that are measurements."""
    skip = _NOT_METRICS | {factor_column(factor) for factor in factors}
    return [name for name, dtype in flows.schema.items() if dtype.is_numeric() and name not in skip]


def generic_summary(
    flows: pl.DataFrame,
    pages: pl.DataFrame | None,
    factors: Sequence[str],
    method: PercentileMethod = "linear",
    only: Collection[str] | None = None,
    *,
    shorts: pl.DataFrame | None = None,
    looks: int = 1,
) -> pl.DataFrame:
    """Compute the statistics of every metric for every page, short flow and role in every cell.

    Of the metrics `only`, if given. Intervals hold over so many `looks`.
    """
    columns = [factor_column(factor) for factor in factors]
    parts: list[pl.DataFrame] = []
    frames = [(frame, who) for frame, who in ((pages, "page"), (shorts, _HOSTS), (flows, "role")) if frame is not None]
    names = [*factors, "flow"]
    numeric = {c: kind for frame, _ in frames for c, kind in frame.schema.items() if c in columns and kind.is_numeric()}
    kinds = [numeric.get(column, pl.String()) for column in (*columns, "flow")]
    for frame, who in frames:
        metrics = [metric for metric in metric_columns(frame, factors) if only is None or metric in only]
        groups = frame.partition_by([*columns, who], as_dict=True, maintain_order=True)
        for group, rows in groups.items() if metrics else ():
            lines = describe(rows, metrics, method, ends_of_mean=who == _HOSTS, looks=looks)
            labels = [
                pl.lit(level, dtype=kind).alias(name) for name, kind, level in zip(names, kinds, group, strict=True)
            ]
            parts.append(lines.select(*labels, pl.all()))
    schema = dict(zip(names, kinds, strict=True)) | dict.fromkeys(["metric", "statistic"], pl.String()) | _NUMBERS
    whole = pl.concat([pl.DataFrame(schema=schema), *parts])
    rounded = [pl.Series(name, [round(value, _DIGITS) for value in whole[name]]) for name in _FLOATS]
    return whole.with_columns(rounded).with_columns(pl.col(_FLOATS).fill_nan(None))


def describe(
    rows: pl.DataFrame,
    metrics: Sequence[str],
    method: PercentileMethod = "linear",
    *,
    ends_of_mean: bool = False,
    looks: int = 1,
) -> pl.DataFrame:
    """Compute the statistics of metrics over `rows`; of a metric without values none.

    Columns: `metric`, `statistic`, `value`, `replications`, `unit`, `ci_low`, `ci_high`; a missing end is NaN.
    """
    confidence = shared(CONFIDENCE, looks)
    values = rows.select(pl.col(metrics).cast(pl.Float64)).to_numpy().T
    sets = rows["set"].to_numpy()
    present = ~np.isnan(values)
    # Metrics that have values in the same rows are computed at once.
    patterns: dict[bytes, list[int]] = {}
    for place, where in enumerate(present):
        patterns.setdefault(where.tobytes(), []).append(place)
    found: dict[int, dict[str, Sequence[float]]] = {}
    for places in patterns.values():
        kept = present[places[0]]
        if not kept.any():
            continue
        block = np.ascontiguousarray(values[places][:, kept])
        quantiles = quantiles_over_sets(block, sets[kept], list(QUANTILES.values()), method, confidence)
        means = mean_intervals(block, confidence)
        for number, place in enumerate(places):
            lines = dict(zip(QUANTILES, quantiles[:, :, number].T.tolist(), strict=True))
            lines["mean"] = means[:, number].tolist()
            if ends_of_mean and kept.sum() > 1:
                narrower = mean_interval(block[number], shared(0.90, looks))
                nothing = math.nan, math.nan
                lines |= {"ci_low": (narrower.low, *nothing), "ci_high": (narrower.high, *nothing)}
            found[place] = lines
    records = [
        (metric, statistic, value, count, unit_of(metric), low, high)
        for place, metric in enumerate(metrics)
        if (count := int(present[place].sum()))
        for statistic, (value, low, high) in found[place].items()
    ]
    return pl.DataFrame(records, schema={"metric": pl.String(), "statistic": pl.String(), **_NUMBERS}, orient="row")
