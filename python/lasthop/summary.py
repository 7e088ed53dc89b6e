"""From rows of flows to `summary.csv`.

Columns of a study's summary: `study`, `table`, the factors, `flow` (role), `direction`, `metric`, `statistic`, `value`,
`replications`, `unit` - the key columns of its `published.csv` in its spellings. Factors that the published numbers do
not know come first, and each combination of their levels has all the numbers. Without a study: the factors, `flow`,
`metric`, `statistic`, `value`, `replications`, `unit`.

With one set, `value` is the statistic over the set's replications. With several sets it is the mean over the sets of
each set's statistic: that is what a published number, itself the statistic of one set, is an instance of; noise of
single sets averages out, and extremes do not grow with the number of sets. `replications` counts all values used, over
all sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop.campaign import factor_column
from lasthop.catalogue import Assets, TableSpec
from lasthop.statistics import FIVE_NUMBERS, PercentileMethod, percentiles

_DIGITS = 6
_NOT_METRICS = {"set", "replication", "start_s"}


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


_TIMES = [
    Metric("elapsed_s", "data", ("elapsed_s",), "s"),
    Metric("throughput_Bps", "data", ("throughput_Bps",), "B/s"),
]
TCP_METRICS = [
    *_TIMES,
    Metric("retransmitted_packets", "data", ("retransmitted_packets",), "packets"),
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

    @classmethod
    def of(cls, rows: pl.DataFrame, columns: Sequence[str]) -> Sample:
        """Take the sum of `columns` from `rows`; null becomes NaN."""
        total = rows.select(pl.sum_horizontal(*columns, ignore_nulls=False).cast(pl.Float64))
        return cls(total.to_series().to_numpy(), rows["set"].to_numpy())

    @property
    def count(self) -> int:
        """Number of values that are numbers."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    def statistics(self, percents: Sequence[float], method: PercentileMethod) -> NDArray[np.float64]:
        """Mean over the sets of each set's percentiles; missing values are left out, NaN if nothing is left."""
        per_set = []
        for number in np.unique(self.sets):
            values = self.values[self.sets == number]
            values = values[~np.isnan(values)]
            if values.size:
                per_set.append(percentiles(values, percents, method))
        return np.mean(per_set, axis=0) if per_set else np.full(len(percents), np.nan)

    def mean(self) -> float:
        """Mean over all values; NaN if there are none."""
        values = self.values[~np.isnan(self.values)]
        return float(values.mean()) if values.size else float("nan")


@dataclass(frozen=True, slots=True)
class _Line:
    flow: str
    direction: str
    metric: str
    statistic: str
    value: float
    replications: int
    unit: str


def _five_numbers(flow: str, metric: Metric, sample: Sample, method: PercentileMethod) -> Iterator[_Line]:
    values = sample.statistics(list(FIVE_NUMBERS.values()), method)
    for statistic, value in zip(FIVE_NUMBERS, values, strict=True):
        yield _Line(flow, metric.direction, metric.name, statistic, float(value), sample.count, metric.unit)


def _per_flow(rows: pl.DataFrame, method: PercentileMethod) -> Iterator[_Line]:
    for (role,), flows in sorted(rows.partition_by("role", as_dict=True).items(), key=lambda item: str(item[0])):
        protocol = flows["protocol"][0]
        for metric in TCP_METRICS if protocol == "tcp" else UDP_METRICS:
            yield from _five_numbers(str(role), metric, Sample.of(flows, metric.columns), method)


def _overall_time(rows: pl.DataFrame, method: PercentileMethod) -> Iterator[_Line]:
    sample = Sample.of(rows.filter(pl.col("protocol") == "tcp"), ["elapsed_s"])
    value = sample.statistics([50.0], method)[0]
    replications = rows.select(pl.struct("set", "replication").n_unique()).item()
    yield _Line("all", "data", "overall_time_s", "median", float(value), int(replications), "s")


def _udp_spacing(rows: pl.DataFrame, method: PercentileMethod) -> Iterator[_Line]:
    udp = rows.filter(pl.col("protocol") == "udp")
    for statistic, column, percent in [*_SPACING, *_SPACING_EXTREMES]:
        sample = Sample.of(udp, [f"spacing_{column}_ms"])
        value = sample.statistics([percent], method)[0]
        yield _Line("udp", "data", "spacing_ms", statistic, float(value), sample.count, "ms")


_KINDS = {"per-flow": _per_flow, "overall-time": _overall_time, "udp-spacing": _udp_spacing}


def key_columns(assets: Assets) -> list[str]:
    """Return the key columns of a study's numbers: all of `published.csv` up to `statistic`."""
    columns = assets.published.columns
    return columns[: columns.index("statistic") + 1]


def cell_rows(flows: pl.DataFrame, levels: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of the cell that has all these levels."""
    return flows.filter(*(pl.col(factor_column(factor)) == level for factor, level in levels.items()))


def table_levels(row: Mapping[str, str | None], factors: Sequence[str]) -> dict[str, str]:
    """Return the levels that a row of `tables.csv` names; an empty field names none."""
    return {factor: level for factor in factors if (level := row.get(factor))}


def for_each_level(
    frame: pl.DataFrame, columns: Sequence[str], compute: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """Compute a table from each part of `frame` with equal `columns`; stack them, with `columns` in front."""
    if not columns:
        return compute(frame)
    parts = frame.partition_by(columns, as_dict=True, include_key=False, maintain_order=True)
    return pl.concat(
        compute(part).select(*(pl.lit(v).alias(c) for c, v in zip(columns, levels, strict=True)), pl.all())
        for levels, part in parts.items()
    )


def extra_columns(factors: Sequence[str], assets: Assets) -> list[str]:
    """Return the columns of the factors that the published numbers do not know."""
    return [factor_column(factor) for factor in assets.extra_factors(factors)]


def study_summary(flows: pl.DataFrame, factors: Sequence[str], assets: Assets) -> pl.DataFrame:
    """Compute every number of every table of a study whose cell was run."""
    return for_each_level(flows, extra_columns(factors, assets), lambda part: _summary_of_tables(part, factors, assets))


def _summary_of_tables(flows: pl.DataFrame, factors: Sequence[str], assets: Assets) -> pl.DataFrame:
    keys = key_columns(assets)
    kinds: dict[str, TableSpec] = {table: spec for spec in assets.presentation.tables for table in spec.ids}
    records = []
    for table in assets.tables.iter_rows(named=True):
        spec = kinds.get(table["table"])
        rows = cell_rows(flows, table_levels(table, factors))
        if spec is None or rows.is_empty():
            continue
        for line in _KINDS[spec.kind](rows, spec.percentiles):
            measured = {
                "flow": line.flow,
                "direction": line.direction,
                "metric": line.metric,
                "statistic": line.statistic,
            }
            record: dict[str, str | float | int | None] = {key: measured.get(key, table.get(key)) for key in keys}
            record |= {"value": round(line.value, _DIGITS), "replications": line.replications, "unit": line.unit}
            records.append(record)
    schema = dict.fromkeys(keys, pl.String()) | {"value": pl.Float64(), "replications": pl.Int64(), "unit": pl.String()}
    return pl.DataFrame(records, schema=schema, orient="row").with_columns(pl.col("value").fill_nan(None))


def unit_of(metric: str) -> str:
    """Return the unit that the name of a column of `flows.parquet` states."""
    for suffix, unit in (("_Bps", "B/s"), ("_ms", "ms"), ("_s", "s"), ("_bytes", "B"), ("_acks", "acks")):
        if metric.endswith(suffix):
            return unit
    if metric.endswith("_packets") or "_drops_" in metric or "_marks_" in metric or "retransmissions" in metric:
        return "packets"
    return ""


def metric_columns(flows: pl.DataFrame, factors: Sequence[str]) -> list[str]:
    """Return the numeric columns that are measurements."""
    skip = _NOT_METRICS | {factor_column(factor) for factor in factors}
    return [name for name, dtype in flows.schema.items() if dtype.is_numeric() and name not in skip]


def generic_summary(flows: pl.DataFrame, factors: Sequence[str], method: PercentileMethod = "linear") -> pl.DataFrame:
    """Compute min, quartiles, max and mean of every metric for every role in every cell."""
    columns = [factor_column(factor) for factor in factors]
    metrics = metric_columns(flows, factors)
    statistics = [*FIVE_NUMBERS, "mean"]
    records = []
    for group, rows in flows.partition_by([*columns, "role"], as_dict=True, maintain_order=True).items():
        for metric in metrics:
            sample = Sample.of(rows, [metric])
            if sample.count == 0:
                continue
            values = [*sample.statistics(list(FIVE_NUMBERS.values()), method), sample.mean()]
            for statistic, value in zip(statistics, values, strict=True):
                records.append((*group, metric, statistic, round(float(value), _DIGITS), sample.count, unit_of(metric)))
    schema = dict.fromkeys([*factors, "flow", "metric", "statistic"], pl.String()) | {
        "value": pl.Float64(),
        "replications": pl.Int64(),
        "unit": pl.String(),
    }
    return pl.DataFrame(records, schema=schema, orient="row")
