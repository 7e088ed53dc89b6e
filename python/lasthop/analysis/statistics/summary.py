"""The statistics of every metric, for `summary.csv`.

Columns: the factors, `flow`, `metric`, `statistic`, `value`, `replications`, `unit`, `ci_low`, `ci_high`;
`flow` is a role, a page load, the name of short flows' hosts, or a hop and a direction. For short flows there
are two more rows for the ends of the mean's 90 % interval, with the statistics `ci_low` and `ci_high`.

With one set, `value` is the statistic over the set's replications. With several sets it is the mean of the
sets' statistics, so noise of single sets averages out, and extremes do not grow with the number of sets. (A
published number is the statistic of one set.) `replications` counts all values used, over all sets.

`ci_low` and `ci_high` are the ends of the value's 95 % interval, empty if the replications do not bound it.
With one set, quantiles have intervals from order statistics, and means have Student's; with several sets the
interval is Student's over the sets' statistics. See `lasthop.common.statistics.estimates`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import polars as pl

from lasthop.analysis.statistics.description import Statistic, describe, describe_one
from lasthop.campaign.results.hops import PLACE
from lasthop.campaign.results.tables import Tables, factor_column
from lasthop.common.metrics.dictionary import PRINTED, PROGRAM
from lasthop.common.statistics.quantiles import PercentileMethod

DIGITS = 6
INTERVAL = ("ci_low", "ci_high")
FLOATS = ("value", *INTERVAL)
NUMBERS: dict[str, pl.DataType] = {
    "value": pl.Float64(),
    "replications": pl.Int64(),
    "unit": pl.String(),
    **dict.fromkeys(INTERVAL, pl.Float64()),
}
STATISTIC: dict[str, pl.DataType] = {"metric": pl.String(), "statistic": pl.String(), **NUMBERS}
"""The columns of a statistic, after the columns that identify it."""
_NOT_METRICS = {"set", "replication", "start_s"}
_ROW = "_row"
_READ_AT_ONCE = 250_000
"""Number of values in memory at a time."""
_HOSTS = "application"
"""The column of `shorts.parquet` that names the hosts."""


def in_cell(levels: Mapping[str, str]) -> pl.Expr:
    """Return the condition for rows that have all these levels."""
    conditions = [pl.col(factor_column(factor)) == level for factor, level in levels.items()]
    return pl.all_horizontal(pl.lit(value=True), *conditions)


def for_each_level(
    frame: pl.DataFrame,
    columns: Sequence[str],
    compute: Callable[[pl.DataFrame, Mapping[str, str]], pl.DataFrame],
) -> pl.DataFrame:
    """Compute a table from each part of `frame` with equal `columns`; stack them, with `columns` in front.

    `compute` also receives the levels in those columns.
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


def whole_summary(tables: Tables, factors: Sequence[str]) -> pl.DataFrame:
    """Compute the statistics of every metric of finished results."""
    programs = _programs(tables.runs)
    return generic_summary(
        tables.flows,
        tables.pages,
        factors,
        shorts=tables.shorts,
        hops=tables.hops,
        stations=tables.stations,
        programs=programs,
        looks=tables.looks,
    )


def _programs(runs: pl.LazyFrame) -> pl.LazyFrame | None:
    """Return the columns of runs about real programs; `None` without programs."""
    columns = runs.collect_schema().names()
    if PROGRAM not in columns:
        return None
    keys = columns[: columns.index("replication") + 1]
    own = [
        name for name in columns if name in ("exit_code", "program_s", "wall_s") or name.startswith(PRINTED)
    ]
    return runs.select(*keys, PROGRAM, *own)


def generic_summary(
    flows: pl.LazyFrame,
    pages: pl.LazyFrame | None,
    factors: Sequence[str],
    method: PercentileMethod = "linear",
    only: Collection[str] | None = None,
    *,
    shorts: pl.LazyFrame | None = None,
    hops: pl.LazyFrame | None = None,
    stations: pl.LazyFrame | None = None,
    programs: pl.LazyFrame | None = None,
    looks: int = 1,
) -> pl.DataFrame:
    """Compute the statistics of every metric, or of those in `only`, in every cell.

    They cover programs, pages, short flows, roles, hops and stations. Intervals hold over this many `looks`.
    """
    columns = [factor_column(factor) for factor in factors]
    records: list[tuple[object, ...]] = []
    places = ((hops, PLACE), (stations, PLACE))
    things = ((programs, PROGRAM), (pages, "role"), (shorts, _HOSTS), (flows, "role"), *places)
    frames = [(frame, who) for frame, who in things if frame is not None]
    names = [*factors, "flow"]
    schemas = [frame.collect_schema() for frame, _ in frames]
    numeric = {
        c: kind for schema in schemas for c, kind in schema.items() if c in columns and kind.is_numeric()
    }
    kinds = [numeric.get(column, pl.String()) for column in (*columns, "flow")]
    for frame, who in frames:
        metrics = [metric for metric in metric_columns(frame, factors) if only is None or metric in only]
        records += by_group(frame, [*columns, who], metrics, method, ends_of_mean=who == _HOSTS, looks=looks)
    whole = pl.DataFrame(records, schema=dict(zip(names, kinds, strict=True)) | STATISTIC, orient="row")
    return whole.with_columns(map(rounded, whole.select(FLOATS))).with_columns(pl.col(FLOATS).fill_nan(None))


def rounded(values: pl.Series) -> pl.Series:
    """Round numbers to `DIGITS` as Python's `round` does, by their exact decimal values."""
    scaled = values * 10.0**DIGITS
    whole = scaled.round()
    # The product is off by at most half its last binary digit, which cannot cross the middle from here.
    from_middle = ((scaled - whole).abs() - 0.5).abs()
    clear = (scaled.abs() < 2.0**50) & (from_middle > scaled.abs() * 2.0**-52)
    # To divide by a scalar, Polars multiplies by its inverse, which is inexact.
    quotient = whole / pl.repeat(10.0**DIGITS, len(whole), eager=True)
    doubtful = (values.is_finite() & ~clear).arg_true()
    return quotient.scatter(doubtful, [round(value, DIGITS) for value in values.gather(doubtful)])


def by_group(
    frame: pl.LazyFrame,
    keys: Sequence[str],
    metrics: Sequence[str],
    method: PercentileMethod = "linear",
    *,
    ends_of_mean: bool = False,
    looks: int = 1,
) -> Iterator[tuple[object, ...]]:
    """Yield the statistics (see `describe`) of each group of rows with equal `keys`, preceded by these keys.

    Only some of the columns are in memory at a time.
    """
    groups = (
        frame.select(keys)
        .collect()
        .with_row_index(_ROW)
        .group_by(keys, maintain_order=True)
        .agg(pl.col(_ROW))
    )
    height = int(groups[_ROW].list.len().sum())
    alone = groups.height == height
    places = [] if alone else [rows.to_numpy() for rows in groups[_ROW]]
    at_once = max(1, _READ_AT_ONCE // max(1, height))
    statistics: list[list[Statistic]] = [[] for _ in range(groups.height)]
    for start in range(0, len(metrics), at_once):
        metrics_read = metrics[start : start + at_once]
        rows = frame.select("set", pl.col(metrics_read).cast(pl.Float64)).collect()
        if alone:  # a single replication
            for lines, row in zip(statistics, rows.select(metrics_read).iter_rows(), strict=True):
                lines.extend(describe_one(row, metrics_read, looks))
            continue
        sets, values = rows["set"].to_numpy(), rows.select(metrics_read).to_numpy()
        described = describe(
            values, sets, places, metrics_read, method, ends_of_mean=ends_of_mean, looks=looks
        )
        for lines, more in zip(statistics, described, strict=True):
            lines.extend(more)
    for group, lines in zip(groups.select(keys).iter_rows(), statistics, strict=True):
        yield from ((*group, *line) for line in lines)
