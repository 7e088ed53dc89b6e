"""The sections of an answer (page loads, short flows, flows, runs) and the headline metrics of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from lasthop.engines.programs import PRINTED
from lasthop.errors import InputError, nearest
from lasthop.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.results.flows import LOST, with_computed
from lasthop.results.tables import Tables, factor_column, is_empty
from lasthop.statistics.summary import PROGRAM

WHO = "flow"
"""The column of a section's rows that names the page load, hosts or role."""
REPLICATION = ["set", "replication"]
COMPLETED = "closed"
"""Outcome of a flow that did all its work."""
_TOLD = ("protocol", "outcome")
"""What else is asked of a section's rows."""
_PAGES = ["response_time_s", LOST, "retransmitted_packets", "timeouts"]
_SHORTS = [
    "fct_mean_s",
    "fct_p95_s",
    "throughput_mean_Bps",
    "lost_per_packet",
    "retransmitted_per_packet",
    "timeouts_per_flow",
]
_FLOWS = [
    "elapsed_s",
    "throughput_Bps",
    "lost_per_packet",
    "retransmitted_packets",
    "timeouts",
    "queue_delay_p95_s",
]
OF_KINDS = (("mos",), ("completion_p50_s", "completion_p95_s"), ("bitrate_mean_bps", "stalls", "stalled_s"))
"""What counts most of some kinds of traffic, shown where a flow has it. Levels are compared by the first of each."""
_RUNS = ["duration_s", "efficiency", "fairness_jain", "utilisation", "queue_mean_packets"]
_MOST_PRINTED = 4
"""So many of the numbers that programs print are shown unless more are asked for."""
_SUMMED = [LOST, "retransmitted_packets", "timeouts"]
"""Counts of a page load's connections that are added up."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric by which levels are compared, and the rows that have it."""

    metric: str
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an answer: its rows, one per replication and `flow`, and the metrics that it shows.

    `rows` has a column per factor, then `set`, `replication`, `flow`, of flows and page loads their `protocol` and
    `outcome`, and the metrics. `factors` names the factor of each such column.
    """

    title: str
    rows: pl.DataFrame
    factors: Mapping[str, str]
    metrics: Sequence[str]
    compared: Sequence[Compared] = ()
    looks: int = 1
    """As in `Tables`."""

    @property
    def varied(self) -> list[str]:
        """The columns of the factors of which there are several levels."""
        return [factor for factor in self.factors if self.rows[factor].n_unique() > 1]


@dataclass(frozen=True, slots=True)
class _Kind:
    title: str
    rows: pl.LazyFrame
    who: str | None
    headline: Sequence[str]


def sections(tables: Tables, metrics: Sequence[str] = ()) -> list[Section]:
    """Return the sections of a campaign's records; with `metrics` those that have them, and these alone.

    Raises InputError for a metric that no table has.
    """
    names, kinds = _factors(tables), _kinds(tables)
    if metrics:
        _check(metrics, tables)
        chosen = [(kind, [m for m in metrics if m in _numeric(kind.rows, names)]) for kind in kinds]
        found = [_section(kind, names, own, compared=own) for kind, own in chosen if own]
        return [replace(section, looks=tables.looks) for section in found]
    # Runs as wholes are told of only where nothing else is.
    shown = [kind for kind in kinds[:-1] if not is_empty(kind.rows)] or kinds[-1:]
    found = []
    for kind in shown:
        columns = kind.rows.collect_schema()
        own = [metric for metric in kind.headline if metric in columns]
        if kind.title == "Flows":
            own += _present(kind.rows, [metric for of_kind in OF_KINDS for metric in of_kind if metric in columns])
        found.append(_section(kind, names, own))
    return [replace(section, looks=tables.looks) for section in found]


def metrics_of(tables: Tables) -> list[str]:
    """Return every metric that the tables have."""
    names = _factors(tables)
    return list(dict.fromkeys(name for kind in _kinds(tables) for name in _numeric(kind.rows, names)))


def by_replication(section: Section, by: Sequence[str]) -> pl.DataFrame:
    """Average over the flows and cells of each replication; a metric that is missing in one of them has no mean."""
    values = [pl.col(metric).cast(pl.Float64) for metric in section.metrics]
    keys = [*by, WHO, *REPLICATION]
    # With a row for each there is nothing to average, and tens of thousands of groups would take much memory.
    numbers = section.rows.group_by([*by, WHO, "set"]).agg(pl.len(), several=pl.col("replication").n_unique())
    if (numbers["len"] == numbers["several"]).all():
        return section.rows.select(*keys, *values)
    return section.rows.group_by(keys, maintain_order=True).agg(
        pl.when(value.is_not_null().all()).then(value.mean()) for value in values
    )


def _factors(tables: Tables) -> dict[str, str]:
    """Return the columns of the factors, each with its factor."""
    columns = tables.runs.collect_schema().names()
    return {column: _factor_name(column) for column in columns[: columns.index("set")]}


def _factor_name(column: str) -> str:
    name = column.removeprefix("factor_")
    return name if factor_column(name) == column else column


def _kinds(tables: Tables) -> list[_Kind]:
    """Return what the tables are about, runs last."""
    flows = with_computed(tables.flows)
    kinds = []
    if tables.pages is not None:
        kinds.append(_Kind("Page loads", with_counts(tables.pages, flows), "page", _PAGES))
        # The connections of a page load are parts of it.
        flows = flows.filter(pl.col("application") == pl.col("flow"))
    if tables.shorts is not None:
        kinds.append(_Kind("Short flows", tables.shorts, "application", _SHORTS))
    if not is_empty(flows):
        kinds.append(_Kind("Flows", flows, "role", _FLOWS))
    if PROGRAM in (columns := tables.runs.collect_schema().names()):
        printed = [name for name in columns if name.startswith(PRINTED)]
        kinds.insert(0, _Kind("Programs", tables.runs, PROGRAM, ["program_s", *printed[:_MOST_PRINTED]]))
    return [*kinds, _Kind("Runs", tables.runs, None, _RUNS)]


def with_counts(pages: pl.LazyFrame, flows: pl.LazyFrame) -> pl.LazyFrame:
    """Add what the connections of each page load lost, sent again and waited for."""
    columns = pages.collect_schema().names()
    keys = columns[: columns.index("replication") + 1]
    sums = flows.group_by([*keys, "application"]).agg(pl.col(_SUMMED).sum()).rename({"application": "page"})
    return pages.join(sums, on=[*keys, "page"], how="left", maintain_order="left")


def _numeric(rows: pl.LazyFrame, names: Mapping[str, str]) -> list[str]:
    skip = {*names, *REPLICATION, "start_s"}
    return [name for name, kind in rows.collect_schema().items() if kind.is_numeric() and name not in skip]


def _check(metrics: Sequence[str], tables: Tables) -> None:
    known = metrics_of(tables)
    for metric in metrics:
        if metric not in known:
            raise InputError(
                f"--metric {metric}: the results have no such metric; did you mean '{nearest(metric, known)}'? "
                f"Metrics: {', '.join(known)}."
            )


def _present(rows: pl.LazyFrame, metrics: Sequence[str]) -> list[str]:
    """Return the metrics of which some row has a value."""
    counts = rows.select(pl.col(metrics).count()).collect()
    return [metric for metric in metrics if counts[metric][0]]


def _section(
    kind: _Kind, names: Mapping[str, str], metrics: Sequence[str], compared: Sequence[str] | None = None
) -> Section:
    who = pl.lit("all").alias(WHO) if kind.who is None else pl.col(kind.who).alias(WHO)
    told = [name for name in _TOLD if name in kind.rows.collect_schema()]
    rows = kind.rows.with_columns(who).select(*names, *REPLICATION, WHO, *told, *metrics).collect()
    if compared is not None:
        return Section(kind.title, rows, names, metrics, [Compared(metric, rows) for metric in compared])
    if kind.title == "Flows":
        # A stream lasts as long as its sender is told to.
        is_transfer = pl.col("protocol").is_in(TRANSFER_PROTOCOLS)
        rows = rows.with_columns(pl.when(is_transfer).then(pl.col("elapsed_s")).alias("elapsed_s"))
        return Section(kind.title, rows, names, metrics, _of_flows(rows))
    return Section(kind.title, rows, names, metrics, [Compared(metrics[0], rows)])


def _of_flows(rows: pl.DataFrame) -> list[Compared]:
    """Compare transfers by their time, or by throughput where the time limit ends some; streams by loss and delay.

    What counts most of a kind of traffic stands in place of these.
    """
    found = []
    for metric in (metric for metric, *_ in OF_KINDS if metric in rows.columns):
        found.append(Compared(metric, rows.filter(pl.col(metric).is_not_null())))
        rows = rows.filter(pl.col(metric).is_null())
    is_transfer = rows["protocol"].is_in(TRANSFER_PROTOCOLS)
    transfers, streams = (rows if held.all() else rows.filter(held) for held in (is_transfer, ~is_transfer))
    whole = transfers["elapsed_s"].null_count() == 0 and bool((transfers["outcome"] == COMPLETED).all())
    found += [Compared("elapsed_s" if whole else "throughput_Bps", transfers)]
    found += [Compared(metric, streams) for metric in ("lost_per_packet", "queue_delay_p95_s")]
    return [one for one in found if not one.rows.is_empty()]
