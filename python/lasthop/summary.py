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
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop.campaign import factor_column
from lasthop.catalogue import NOT_STATED, Assets, FactorialSpec, TableSpec
from lasthop.factorial import effects, run_metrics, variation
from lasthop.lines import Line
from lasthop.statistics import (
    CONFIDENCE,
    FIVE_NUMBERS,
    QUANTILES,
    Interval,
    Jackknife,
    PercentileMethod,
    mean_interval,
    mean_intervals,
    percentiles,
    quantile_intervals,
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


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as studies name it: the sum of columns of `flows.parquet`, in `unit`."""

    name: str
    direction: str
    columns: tuple[str, ...]
    unit: str


def _drops(direction: str) -> list[Metric]:
    # The studies count a mark as what RED does to an ECN-capable packet, so marks stand among RED's drops.
    return [
        Metric("drops_queue", direction, (f"{direction}_drops_queue",), "packets"),
        Metric("drops_red", direction, (f"{direction}_drops_red", f"{direction}_marks_ecn"), "packets"),
        Metric("drops_error", direction, (f"{direction}_drops_error",), "packets"),
    ]


_ELAPSED = Metric("elapsed_s", "data", ("elapsed_s",), "s")
_THROUGHPUT = Metric("throughput_Bps", "data", ("throughput_Bps",), "B/s")
_TIMES = [_ELAPSED, _THROUGHPUT]
_RETRANSMITTED = Metric("retransmitted_packets", "data", ("retransmitted_packets",), "packets")
_CONGESTION_COLUMNS = ("data_drops_queue", "data_drops_red", "data_marks_ecn")
_LOSSES = [
    Metric("drops_congestion", "data", _CONGESTION_COLUMNS, "packets"),
    Metric("drops_error", "data", ("data_drops_error",), "packets"),
]
_RESPONSE_TIME = Metric("response_time_s", "data", ("response_time_s",), "s")
_OVERALL_TIME = Metric("overall_time_s", "data", ("elapsed_s",), "s")
_SPACING_OF_PACKETS = Metric("spacing_ms", "data", (), "ms")
_SPACING_MEAN = Metric("jitter_ms", "data", ("spacing_mean_ms",), "ms")
TCP_METRICS = [
    *_TIMES,
    _RETRANSMITTED,
    Metric("duplicate_acks", "data", ("duplicate_acks",), "acks"),
    Metric("triple_duplicate_acks", "data", ("triple_duplicate_acks",), "acks"),
    *_drops("data"),
    Metric("sack_blocks", "ack", ("sack_blocks",), "blocks"),
    *_drops("ack"),
]
UDP_METRICS = [*_TIMES, *_drops("data")]

_SPACING = [("p50", "p50", 50.0), ("p75", "p75", 50.0), ("p90", "p90", 50.0)]
_SPACING_EXTREMES = [("max_lowest", "max", 0.0), ("max_highest", "max", 100.0)]


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one metric for one role in one cell, set by set."""

    values: NDArray[np.float64]
    sets: NDArray[np.int64]
    confidence: float

    @classmethod
    def of(cls, rows: pl.DataFrame, columns: Sequence[str], confidence: float = CONFIDENCE) -> Sample:
        """Take the sum of `columns` from `rows`; null becomes NaN."""
        total = rows.select(pl.sum_horizontal(*columns, ignore_nulls=False).cast(pl.Float64))
        return cls(total.to_series().to_numpy(), rows["set"].to_numpy(), confidence)

    @property
    def count(self) -> int:
        """Number of values that are numbers."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    def statistics(self, percents: Sequence[float], method: PercentileMethod) -> NDArray[np.float64]:
        """Mean over the sets of each set's percentiles, with its interval: estimate, low, high by percentile.

        Missing values are left out; NaN if nothing is left.
        """
        present = ~np.isnan(self.values)
        return quantiles_over_sets(self.values[present], self.sets[present], percents, method, self.confidence)

    def mean(self) -> NDArray[np.float64]:
        """Mean over all values, with its interval: estimate, low, high; NaN if there are none."""
        values = self.values[~np.isnan(self.values)]
        return mean_intervals(values, self.confidence) if values.size else np.full(3, np.nan)


def quantiles_over_sets(
    values: NDArray[np.float64],
    sets: NDArray[np.int64],
    percents: Sequence[float],
    method: PercentileMethod,
    confidence: float = CONFIDENCE,
) -> NDArray[np.float64]:
    """Mean over the sets of each set's percentiles along the last axis: estimate, low, high by percentile.

    No value may be NaN. The interval is by order statistics, or with several sets Student's over these.
    """
    numbers = np.unique(sets)
    if numbers.size == 0:
        return np.full((3, len(percents), *values.shape[:-1]), np.nan)
    if numbers.size == 1:
        return quantile_intervals(values, percents, method, confidence)
    per_set = [percentiles(values[..., sets == number], percents, method) for number in numbers]
    return mean_intervals(np.stack(per_set, axis=-1), confidence)


def _line(flow: str, metric: Metric, statistic: str, found: NDArray[np.float64], replications: int) -> Line:
    """Make a line of estimate, low, high."""
    value, low, high = map(float, found)
    return Line(
        flow,
        metric.direction,
        metric.name,
        statistic,
        value,
        replications,
        metric.unit,
        ci_low=low,
        ci_high=high,
    )


def _five_numbers(flow: str, metric: Metric, sample: Sample, method: PercentileMethod) -> Iterator[Line]:
    values = sample.statistics(list(FIVE_NUMBERS.values()), method)
    for statistic, found in zip(FIVE_NUMBERS, values.T, strict=True):
        yield _line(flow, metric, statistic, found, sample.count)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one cell. `reference` are those of the cell that changes are relative to."""

    flows: pl.DataFrame
    pages: pl.DataFrame | None
    spec: TableSpec
    reference: pl.DataFrame | None = None
    looks: int = 1

    def sample(self, rows: pl.DataFrame, columns: Sequence[str]) -> Sample:
        return Sample.of(rows, columns, shared(CONFIDENCE, self.looks))

    @property
    def method(self) -> PercentileMethod:
        return self.spec.percentiles

    def roles(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield the flows of each role, in the order of the roles' names; the role in the table's word."""
        parts = self.flows.partition_by("role", as_dict=True)
        for (role,), flows in sorted(parts.items(), key=lambda item: str(item[0])):
            yield self.spec.roles.get(str(role), str(role)), flows


def _per_flow(cell: _Rows) -> Iterator[Line]:
    for role, flows in cell.roles():
        protocol = flows["protocol"][0]
        for metric in TCP_METRICS if protocol == "tcp" else UDP_METRICS:
            yield from _five_numbers(role, metric, cell.sample(flows, metric.columns), cell.method)


def _overall_time(cell: _Rows) -> Iterator[Line]:
    rows, method = cell.flows, cell.method
    sample = cell.sample(rows.filter(pl.col("protocol") == "tcp"), ["elapsed_s"])
    median = sample.statistics([50.0], method)[:, 0]
    replications = rows.select(pl.struct("set", "replication").n_unique()).item()
    yield _line("all", _OVERALL_TIME, "median", median, int(replications))


def _udp_spacing(cell: _Rows) -> Iterator[Line]:
    method = cell.method
    udp = cell.flows.filter(pl.col("protocol") == "udp")
    for statistic, column, percent in [*_SPACING, *_SPACING_EXTREMES]:
        sample = cell.sample(udp, [f"spacing_{column}_ms"])
        found = sample.statistics([percent], method)[:, 0]
        yield _line("udp", _SPACING_OF_PACKETS, statistic, found, sample.count)


_PERCENT = {"min": 0.0, "median": 50.0, "max": 100.0, "sum_of_maxima": 100.0}


def _one(flow: str, metric: Metric, statistic: str, rows: pl.DataFrame, cell: _Rows) -> Line:
    """Make the line of a percentile, or of the statistic that stands for what the study does not state."""
    sample = cell.sample(rows, metric.columns)
    meant = cell.spec.not_stated if statistic == NOT_STATED else statistic
    found = sample.mean() if meant == "mean" else sample.statistics([_PERCENT[meant]], cell.method)[:, 0]
    return _line(flow, metric, statistic, found, sample.count)


def _mixture(cell: _Rows) -> Iterator[Line]:
    for role, flows in cell.roles():
        udp = flows["protocol"][0] == "udp"
        if udp:
            # The study's "jitter" is the spacing of consecutive packets at the receiver, its mean in each replication.
            for statistic in ("min", "max"):
                yield _one(role, _SPACING_MEAN, statistic, flows, cell)
        else:
            elapsed = cell.sample(flows, _ELAPSED.columns)
            yield from _five_numbers(role, _ELAPSED, elapsed, cell.method)
            yield _line(role, _ELAPSED, "mean", elapsed.mean(), elapsed.count)
        medians = [_THROUGHPUT, *_LOSSES] if udp else [_THROUGHPUT, _RETRANSMITTED, *_LOSSES]
        for metric in medians:
            yield _one(role, metric, "median", flows, cell)


def _worst_class(metric: Metric, cell: _Rows) -> Line:
    """Make the line of the highest median among the classes of a page load's connections."""
    lines = [_one("all", metric, "median", flows, cell) for _, flows in cell.roles()]
    return max(lines, key=lambda line: -math.inf if math.isnan(line.value) else line.value)


def _page(cell: _Rows) -> Iterator[Line]:
    if cell.pages is None:
        return
    yield _one("all", _RESPONSE_TIME, "median", cell.pages, cell)
    whole = cell.flows.filter(pl.col("outcome") != "aborted")  # the tables are of transfers, not of attempts
    main = whole.filter(pl.col("role") == "main")
    if main.is_empty():
        yield _one("all", _THROUGHPUT, "median", whole, cell)
    else:
        yield _one("main", _THROUGHPUT, "median", main, cell)
    for statistic in ("min", "max"):
        yield _one("all", _THROUGHPUT, statistic, whole, cell)
    for metric in _LOSSES:
        yield _worst_class(metric, cell)


def _sum_of_maxima(cell: _Rows) -> Line:
    """Add up, over the classes, the largest drop count in any replication."""
    metric = Metric("drops_sum_of_maxima", "data", tuple(c for loss in _LOSSES for c in loss.columns), "packets")
    lines = [_one("all", metric, "sum_of_maxima", flows, cell) for _, flows in cell.roles()]
    return replace(lines[0], value=sum(line.value for line in lines), ci_low=math.nan, ci_high=math.nan)


def _page_classes(cell: _Rows) -> Iterator[Line]:
    if cell.pages is None:
        return
    yield _one("all", _RESPONSE_TIME, NOT_STATED, cell.pages, cell)
    classes = dict(cell.roles())
    inline = sorted((role for role in classes if role.startswith("inline-")), key=lambda role: int(role[7:]))
    for flow, role, name, statistic in (
        ("main", "main", "throughput_main_median_Bps", "median"),
        ("inline", inline[-1], "throughput_inline_slowest_Bps", NOT_STATED),
        ("inline", inline[0], "throughput_inline_fastest_Bps", NOT_STATED),
    ):
        yield _one(flow, Metric(name, "data", ("throughput_Bps",), "B/s"), statistic, classes[role], cell)
    for metric in _LOSSES:
        yield _worst_class(metric, cell)
    yield _sum_of_maxima(cell)


def _page_change(cell: _Rows) -> Iterator[Line]:
    if cell.pages is None or cell.reference is None:
        return
    own = _one("all", _RESPONSE_TIME, NOT_STATED, cell.pages, cell)
    yield own
    if cell.pages.equals(cell.reference):
        return
    reference = _one("all", _RESPONSE_TIME, NOT_STATED, cell.reference, cell)
    change = 100 * (own.value / reference.value - 1)
    interval = _interval_of_change(cell) if cell.spec.not_stated == "mean" else None
    low, high = (interval.low, interval.high) if interval else (math.nan, math.nan)
    yield replace(own, metric="response_time_change_percent", value=change, unit="percent", ci_low=low, ci_high=high)


def _interval_of_change(cell: _Rows) -> Interval | None:
    """Return the interval of the change of the mean response time, in per cent; replications of a number are pairs."""
    assert cell.pages is not None
    assert cell.reference is not None
    base = cell.reference.select("set", "replication", base="response_time_s")
    times = cell.pages.join(base, on=["set", "replication"]).select("response_time_s", "base").drop_nulls().to_numpy()
    if len(times) < 2:
        return None
    without = (times.sum(axis=0) - times) / (len(times) - 1)
    means = np.vstack([times.mean(axis=0), without])
    return Jackknife.of(100 * (means[:, 0] / means[:, 1] - 1)).interval(shared(CONFIDENCE, cell.looks))


_KINDS: dict[str, Callable[[_Rows], Iterator[Line]]] = {
    "per-flow": _per_flow,
    "overall-time": _overall_time,
    "udp-spacing": _udp_spacing,
    "mixture": _mixture,
    "page": _page,
    "page-classes": _page_classes,
    "page-change": _page_change,
}
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

    def lines(self, levels: Mapping[str, str], spec: TableSpec, factorial: FactorialSpec | None) -> Iterator[Line]:
        """Yield the lines of a table's cell, none if it was not run; `levels` are in the table's words."""
        if spec.kind not in _KINDS_OF_RUNS:
            cell = replace(_cell_of_table(levels, spec, self.flows, self.pages), looks=self.looks)
            return iter(()) if cell.flows.is_empty() else _KINDS[spec.kind](cell)
        rows = None if self.runs is None else self.runs.rows(spec.own_levels(levels))
        if rows is None or rows.is_empty() or factorial is None:
            return iter(())
        return _KINDS_OF_RUNS[spec.kind](rows, factorial)


def _cell_of_table(levels: Mapping[str, str], spec: TableSpec, flows: _Cells, pages: _Cells | None) -> _Rows:
    own = spec.own_levels(levels)
    if pages is None:
        return _Rows(flows.rows(own), None, spec)
    reference = pages.rows(spec.own_levels({**levels, **spec.reference}))
    return _Rows(flows.rows(own), pages.rows(own), spec, reference)


def _summary_of_tables(split: _Split, factors: Sequence[str], assets: Assets) -> pl.DataFrame:
    keys = key_columns(assets)
    kinds: dict[str, TableSpec] = {table: spec for spec in assets.presentation.tables for table in spec.ids}
    records = []
    for table in assets.tables.iter_rows(named=True):
        spec = kinds.get(table["table"])
        if spec is None:
            continue
        for line in split.lines(table_levels(table, factors), spec, assets.presentation.factorial):
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
    for frame, who in frames:
        metrics = [metric for metric in metric_columns(frame, factors) if only is None or metric in only]
        groups = frame.partition_by([*columns, who], as_dict=True, maintain_order=True)
        for group, rows in groups.items() if metrics else ():
            lines = describe(rows, metrics, method, ends_of_mean=who == _HOSTS, looks=looks)
            labels = [pl.lit(level, dtype=pl.String).alias(name) for name, level in zip(names, group, strict=True)]
            parts.append(lines.select(*labels, pl.all()))
    schema = dict.fromkeys([*names, "metric", "statistic"], pl.String()) | _NUMBERS
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
