"""From rows of flows to the statistics of every metric, for `summary.csv`.

Columns: the factors, `flow`, `metric`, `statistic`, `value`, `replications`, `unit`, `ci_low`, `ci_high`; `flow` is a
role, a page load or the name of short flows' hosts. Of short flows there are also two rows for the ends of the mean's
90 % interval, with the statistics `ci_low` and `ci_high`.

With one set, `value` is the statistic over the set's replications. With several sets it is the mean over the sets of
each set's statistic: that is what a published number, itself the statistic of one set, is an instance of; noise of
single sets averages out, and extremes do not grow with the number of sets. `replications` counts all values used, over
all sets.

`ci_low` and `ci_high` are the ends of the value's 95 % interval, empty where the replications do not bound it. With one
set the interval is by order statistics, or Student's for a mean; with several sets it is Student's over the sets'
statistics. See `lasthop.statistics.estimates`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from lasthop.metrics.units import unit_of
from lasthop.results.tables import factor_column
from lasthop.statistics.estimates import (
    CONFIDENCE,
    QUANTILES,
    PercentileMethod,
    mean_interval,
    mean_intervals,
    quantiles_over_sets,
    shared,
)

DIGITS = 6
INTERVAL = ("ci_low", "ci_high")
"""The columns of the ends of a statistic's interval."""
FLOATS = ("value", *INTERVAL)
NUMBERS: dict[str, pl.DataType] = {
    "value": pl.Float64(),
    "replications": pl.Int64(),
    "unit": pl.String(),
    **dict.fromkeys(INTERVAL, pl.Float64()),
}
_NOT_METRICS = {"set", "replication", "start_s"}
_ROW = "_row"
_READ_AT_ONCE = 250_000
"""Values that are in memory together."""
PROGRAM = "program"
"""The column of `runs.parquet` that names a real program."""
_HOSTS = "application"
"""The column of `shorts.parquet` that names the hosts."""


def in_cell(levels: Mapping[str, str]) -> pl.Expr:
    """Return what is true of the rows that have all these levels."""
    held = [pl.col(factor_column(factor)) == level for factor, level in levels.items()]
    return pl.all_horizontal(pl.lit(value=True), *held)


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


def metric_columns(flows: pl.LazyFrame, factors: Sequence[str]) -> list[str]:
    """Return the numeric columns that are measurements."""
    skip = _NOT_METRICS | {factor_column(factor) for factor in factors}
    return [name for name, dtype in flows.collect_schema().items() if dtype.is_numeric() and name not in skip]


def generic_summary(
    flows: pl.LazyFrame,
    pages: pl.LazyFrame | None,
    factors: Sequence[str],
    method: PercentileMethod = "linear",
    only: Collection[str] | None = None,
    *,
    shorts: pl.LazyFrame | None = None,
    programs: pl.LazyFrame | None = None,
    looks: int = 1,
) -> pl.DataFrame:
    """Compute the statistics of every metric for every program, page, short flow and role in every cell.

    Of the metrics `only`, if given. Intervals hold over so many `looks`.
    """
    columns = [factor_column(factor) for factor in factors]
    parts: list[pl.DataFrame] = []
    things = ((programs, PROGRAM), (pages, "page"), (shorts, _HOSTS), (flows, "role"))
    frames = [(frame, who) for frame, who in things if frame is not None]
    names = [*factors, "flow"]
    schemas = [frame.collect_schema() for frame, _ in frames]
    numeric = {c: kind for schema in schemas for c, kind in schema.items() if c in columns and kind.is_numeric()}
    kinds = [numeric.get(column, pl.String()) for column in (*columns, "flow")]
    for frame, who in frames:
        metrics = [metric for metric in metric_columns(frame, factors) if only is None or metric in only]
        described = functools.partial(describe, method=method, ends_of_mean=who == _HOSTS, looks=looks)
        for group, lines in by_group(frame, [*columns, who], metrics, described):
            labels = [
                pl.lit(level, dtype=kind).alias(name) for name, kind, level in zip(names, kinds, group, strict=True)
            ]
            parts.append(lines.select(*labels, pl.all()))
    schema = dict(zip(names, kinds, strict=True)) | dict.fromkeys(["metric", "statistic"], pl.String()) | NUMBERS
    whole = pl.concat([pl.DataFrame(schema=schema), *parts])
    rounded = [pl.Series(name, [round(value, DIGITS) for value in whole[name]]) for name in FLOATS]
    return whole.with_columns(rounded).with_columns(pl.col(FLOATS).fill_nan(None))


def by_group(
    frame: pl.LazyFrame, keys: Sequence[str], metrics: Sequence[str], described: Callable[..., pl.DataFrame]
) -> Iterator[tuple[tuple[object, ...], pl.DataFrame]]:
    """Yield what is `described` of the metrics in each group of rows with equal `keys`; read few columns at a time."""
    groups = frame.select(keys).collect().with_row_index(_ROW).group_by(keys, maintain_order=True).agg(pl.col(_ROW))
    at_once = max(1, _READ_AT_ONCE // max(1, int(groups[_ROW].list.len().sum())))
    found: list[list[pl.DataFrame]] = [[] for _ in range(groups.height)]
    for start in range(0, len(metrics), at_once):
        metrics_read = metrics[start : start + at_once]
        rows = frame.select("set", *metrics_read).collect()
        for lines, places in zip(found, groups[_ROW], strict=True):
            lines.append(described(rows[places], metrics_read))
    for group, lines in zip(groups.select(keys).iter_rows(), found, strict=True):
        if lines:
            yield group, pl.concat(lines)


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
    return pl.DataFrame(records, schema={"metric": pl.String(), "statistic": pl.String(), **NUMBERS}, orient="row")
