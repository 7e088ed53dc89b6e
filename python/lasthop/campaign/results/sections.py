"""The sections of an answer, from page loads to runs, and the main metrics of each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import polars as pl

from lasthop.campaign.results.hops import PLACE
from lasthop.campaign.results.tables import (
    Tables,
    factor_name,
    is_empty,
    outside_pages,
    parts_of_flows,
    whole_flows,
    with_computed,
)
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.dictionary import LOST, PRINTED, PROGRAM, TRANSFERS, in_column
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS

WHO = "flow"
"""The column of a section's rows with the page load, kind of hosts or role."""
REPLICATION = ["set", "replication"]
COMPLETED = "closed"
"""Outcome of a flow that completed."""
_EXTRA = ("protocol", "outcome")
"""Further columns of a section's rows."""
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
"""The main metrics of some kinds of traffic, shown for flows that have them."""
HOPS = [
    "utilisation",
    "queue_delay_p50_s",
    "queue_delay_p95_s",
    "queue_delay_p99_s",
    "drops_queue",
    "drops_red",
    "drops_aqm",
    "drops_error",
    "marks",
]
"""The main metrics of hops."""
STATIONS = ["airtime_share", "frames", "collisions", "frame_packets_mean", "failed_packets"]
"""The main metrics of the stations of a medium."""
_RUNS = ["duration_s", "efficiency", "fairness_jain", "utilisation", "queue_mean_packets"]
_LINK = ["utilisation", "fairness_jain"]
"""Metrics of whole runs that are shown along with flows."""
_MOST_PRINTED = 4
"""The default maximum of numbers shown from a program's output."""
_OF_TRANSFER = ("program_s", "received_bytes", "matches", "exit_code")
"""The printed numbers of each transfer."""
_MOST_ROLES = 4
_SUMMED = [LOST, "retransmitted_packets", "timeouts"]
"""Counts that are summed over the connections of a page load."""


class Topic(IntEnum):
    """The topic of a comparison, in the order of an answer."""

    CALL = 0
    VIDEO = 1
    PAGES = 2
    REQUESTS = 3
    PROGRAMS = 4
    STREAMS = 5
    TRANSFERS = 6
    LINK = 7


_OF_FLOWS = {
    Topic.CALL: ("mos", "queue_delay_p95_s", "lost_per_packet"),
    Topic.REQUESTS: ("completion_p50_s", "completion_p95_s"),
    Topic.VIDEO: ("bitrate_mean_bps", "stalled_s", "startup_delay_s"),
}
"""Metrics by which flows are compared if they have the first one."""


class Compared(NamedTuple):
    """A metric by which levels are compared, and the rows that have it; a `headline` is also drawn."""

    metric: str
    rows: pl.DataFrame
    topic: Topic = Topic.TRANSFERS
    headline: bool = True


@dataclass(frozen=True, slots=True)
class Section:
    """A table of an answer: its rows, one per replication and `flow`, and its metrics.

    A section without metrics is compared but not shown. `rows` has a column per factor, then `set`,
    `replication`, `flow`, for flows and page loads their `protocol` and `outcome`, and the metrics. `factors`
    maps each factor column to its factor.
    """

    title: str
    rows: pl.DataFrame
    factors: Mapping[str, str]
    metrics: Sequence[str]
    compared: Sequence[Compared] = ()
    looks: int = 1
    """As in `Tables`."""
    noun: str = WHO
    """The header of the first column."""
    left_out: Sequence[str] = ()
    """The roles of connections that carry parts of flows, which have no rows."""
    task: Sequence[str] = ()
    window: str = ""
    """As in `Tables`."""

    @property
    def varied(self) -> list[str]:
        """The columns of factors with several levels."""
        return [factor for factor in self.factors if self.rows[factor].n_unique() > 1]

    @property
    def tested(self) -> list[str]:
        """The columns of factors whose levels are compared: those that do not define the task, if any."""
        return [name for name in self.varied if self.factors[name] not in self.task] or self.varied


class _Kind(NamedTuple):
    title: str
    rows: pl.LazyFrame
    who: pl.Expr
    headline: Sequence[str]
    topic: Topic
    compared: Sequence[str] = ()
    """The metrics by which levels are compared, the main one first."""
    noun: str = WHO
    left_out: Sequence[str] = ()


def sections(tables: Tables, metrics: Sequence[str] = (), *, parts: bool = False) -> list[Section]:
    """Return the sections of a campaign's records; with `metrics`, only those that have any of them.

    With `parts`, connections that carry parts of a flow have rows in addition to the flow's. Raises
    `InputError` for an unknown metric.
    """
    names, kinds = _factors(tables), _kinds(tables, parts=parts)
    if metrics:
        _check(metrics, tables)
        # Values from programs are in the same rows as values of runs.
        if kinds[0].topic is Topic.PROGRAMS:
            kinds.pop()
        chosen = [(kind, [m for m in metrics if m in _numeric(kind.rows, names)]) for kind in kinds]
        own_sections = [_section(kind, names, own, own, own) for kind, own in chosen if own]
        return [_with_facts(section, tables) for section in own_sections]
    # Whole runs get a table only if nothing else has one.
    runs = kinds.pop()
    if kinds and kinds[0].topic is Topic.PROGRAMS:
        kinds[0] = _by_transfer(kinds[0], names, tables)
    filled = [kind for kind in kinds if not is_empty(kind.rows)]
    link = runs._replace(title="Link", headline=(), compared=_LINK)
    main = [_headlines(kind, names) for kind in ([*filled, link] if filled else [runs])]
    return [_with_facts(section, tables) for section in main]


def _with_facts(section: Section, tables: Tables) -> Section:
    return replace(section, looks=tables.looks, task=tables.task, window=tables.window)


def without_parts(roles: Sequence[str]) -> str:
    """Return a note on the connections that are left out because they carry parts of flows."""
    names = ", ".join([*roles[:_MOST_ROLES], *(["..."] if len(roles) > _MOST_ROLES else [])])
    return (
        f"Not shown: connections that carry parts of flows ({names}). They are in summary.csv, and in "
        "flows.parquet, where part_of names the flow."
    )


def try_parts(roles: Sequence[str]) -> str:
    """Return a hint that connections which carry parts of flows may have the missing values."""
    return f" Connections that carry parts of flows may have them: try --role {roles[0]}." if roles else ""


def metrics_of(tables: Tables) -> list[str]:
    names = _factors(tables)
    return list(dict.fromkeys(name for kind in _kinds(tables) for name in _numeric(kind.rows, names)))


def by_replication(section: Section, by: Sequence[str]) -> pl.DataFrame:
    """Average over the flows and cells of each replication; the mean is null if any value is missing."""
    values = [pl.col(metric).cast(pl.Float64) for metric in section.metrics]
    keys = [*by, WHO, *REPLICATION]
    # With one row per replication there is nothing to average, and tens of thousands of groups would take
    # much memory.
    numbers = section.rows.group_by([*by, WHO, "set"]).agg(pl.len(), several=pl.col("replication").n_unique())
    if (numbers["len"] == numbers["several"]).all():
        return section.rows.select(*keys, *values)
    return section.rows.group_by(keys, maintain_order=True).agg(
        pl.when(value.is_not_null().all()).then(value.mean()) for value in values
    )


def _factors(tables: Tables) -> dict[str, str]:
    """Return the factors by column."""
    columns = tables.runs.collect_schema().names()
    return {column: factor_name(column) for column in columns[: columns.index("set")]}


def _kinds(tables: Tables, *, parts: bool = False) -> list[_Kind]:
    """Return the kinds of rows in the tables; runs are last."""
    flows = with_computed(tables.flows)
    whole = whole_flows(flows)
    left_out = [] if parts else parts_of_flows(flows)
    kinds = []
    if tables.pages is not None:
        pages = with_counts(tables.pages, whole)
        kinds.append(_Kind("Page loads", pages, pl.col("role"), _PAGES, Topic.PAGES, _PAGES[:1]))
        flows, whole = (outside_pages(own, tables.pages) for own in (flows, whole))
    if tables.shorts is not None:
        shorts, who = tables.shorts, pl.col("application")
        kinds.append(_Kind("Short flows", shorts, who, _SHORTS, Topic.TRANSFERS, _SHORTS[:2]))
    if not is_empty(rows := flows if parts else whole):
        kinds.append(_Kind("Flows", rows, pl.col("role"), _FLOWS, Topic.TRANSFERS))
    if left_out:  # only a flow or a page load has parts
        kinds[-1] = kinds[-1]._replace(left_out=left_out)
    if tables.hops is not None:
        kinds.append(_Kind("Hops", tables.hops, pl.col(PLACE), HOPS, Topic.LINK, noun="hop"))
    if tables.stations is not None:
        kinds.append(_Kind("Stations", tables.stations, pl.col(PLACE), STATIONS, Topic.LINK, noun="station"))
    if PROGRAM in (columns := tables.runs.collect_schema().names()):
        own = ["program_s", *(name for name in columns if name.startswith(PRINTED))]
        head = own[: 1 + _MOST_PRINTED]
        kinds.insert(0, _Kind("Programs", tables.runs, pl.col(PROGRAM), head, Topic.PROGRAMS, own))
    return [*kinds, _Kind("Runs", tables.runs, pl.lit("all"), _RUNS, Topic.LINK, _RUNS[:1])]


def _by_transfer(programs: _Kind, names: Mapping[str, str], tables: Tables) -> _Kind:
    """Return the rows of transfers, one for each instead of one per run; other programs as they are."""
    columns = programs.rows.collect_schema().names()
    found = [re.fullmatch(rf"{PRINTED}(.+)_({'|'.join(_OF_TRANSFER)})", name) for name in columns]
    of_transfers = programs.rows.select((pl.col(PROGRAM) == TRANSFERS).all()).collect().item()
    if not of_transfers or not any(found):
        return programs
    roles = tables.flows.select(pl.col("role").unique()).collect()["role"]
    flows = {in_column(role): role for role in roles}
    parts = []
    for own in dict.fromkeys(match[1] for match in found if match):
        values = [
            pl.col(name).alias(PRINTED + key)
            for key in _OF_TRANSFER
            if (name := f"{PRINTED}{own}_{key}") in columns
        ]
        who = pl.lit(flows.get(own, own)).alias(PROGRAM)
        parts.append(programs.rows.select(*names, *REPLICATION, who, *values))
    metrics = [PRINTED + key for key in _OF_TRANSFER]
    rows = pl.concat(parts, how="diagonal").drop_nulls(metrics[0])
    return programs._replace(title="Transfers", rows=rows, headline=metrics, compared=metrics)


def with_counts(pages: pl.LazyFrame, flows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the losses, retransmissions and timeouts of each page load, summed over its connections."""
    columns = pages.collect_schema().names()
    keys = columns[: columns.index("replication") + 1]
    sums = flows.group_by([*keys, "application"]).agg(pl.col(_SUMMED).sum()).rename({"application": "page"})
    return pages.join(sums, on=[*keys, "page"], how="left", maintain_order="left")


def _numeric(rows: pl.LazyFrame, names: Mapping[str, str]) -> list[str]:
    skip = {*names, *REPLICATION, "start_s"}
    return [name for name, kind in rows.collect_schema().items() if kind.is_numeric() and name not in skip]


def _check(metrics: Sequence[str], tables: Tables) -> None:
    valid = metrics_of(tables)
    for metric in metrics:
        if metric not in valid:
            raise InputError(
                f"--metric {metric}: the results do not have this metric; did you mean "
                f"'{nearest(metric, valid)}'? Metrics: {', '.join(valid)}."
            )


def _present(rows: pl.LazyFrame, metrics: Sequence[str]) -> list[str]:
    """Return the metrics that have a value in some row."""
    counts = rows.select(pl.col(metrics).count()).collect()
    return [metric for metric in metrics if counts[metric][0]]


def _section(
    kind: _Kind,
    names: Mapping[str, str],
    metrics: Sequence[str],
    compared: Sequence[str],
    headlines: Sequence[str],
) -> Section:
    extra = [name for name in _EXTRA if name in kind.rows.collect_schema()]
    columns = dict.fromkeys((*metrics, *compared))
    rows = (
        kind.rows.with_columns(kind.who.alias(WHO))
        .select(*names, *REPLICATION, WHO, *extra, *columns)
        .collect()
    )
    by = [Compared(metric, rows, kind.topic, metric in headlines) for metric in compared]
    return Section(kind.title, rows, names, metrics, by, noun=kind.noun, left_out=kind.left_out)


def _headlines(kind: _Kind, names: Mapping[str, str]) -> Section:
    """Return the section of the main metrics of a kind."""
    columns = kind.rows.collect_schema().names()
    metrics = [metric for metric in kind.headline if metric in columns]
    if kind.title != "Flows":
        compared = [metric for metric in kind.compared if metric in columns]
        return _section(kind, names, metrics, compared, metrics[:1])
    own = [metric for group in OF_KINDS for metric in group if metric in columns]
    metrics = [*_present(kind.rows, own), *metrics]
    more = [metric for group in _OF_FLOWS.values() for metric in group if metric in columns]
    section = _section(kind, names, metrics, more, ())
    # The duration of a stream is configured, not measured.
    is_transfer = pl.col("protocol").is_in(TRANSFER_PROTOCOLS)
    rows = section.rows.with_columns(pl.when(is_transfer).then(pl.col("elapsed_s")).alias("elapsed_s"))
    return replace(section, rows=rows, compared=_of_flows(rows))


def _of_flows(rows: pl.DataFrame) -> list[Compared]:
    """Compare flows by the main metrics of their kind of traffic.

    Transfers are compared by their time, or by throughput if the time limit ends some, and by queueing delay.
    Streams are compared by delay, loss and rate.
    """
    compared = []
    for topic, metrics in _OF_FLOWS.items():
        if metrics[0] in rows.columns:
            own = rows.filter(pl.col(metrics[0]).is_not_null())
            rows = rows.filter(pl.col(metrics[0]).is_null())
            compared += [Compared(metric, own, topic, metric == metrics[0]) for metric in metrics]
    is_transfer = rows["protocol"].is_in(TRANSFER_PROTOCOLS)
    transfers, streams = (rows if mask.all() else rows.filter(mask) for mask in (is_transfer, ~is_transfer))
    whole = transfers["elapsed_s"].null_count() == 0 and bool((transfers["outcome"] == COMPLETED).all())
    compared += [
        Compared("queue_delay_p95_s", streams, Topic.STREAMS),
        Compared("lost_per_packet", streams, Topic.STREAMS),
        Compared("throughput_Bps", streams, Topic.STREAMS, headline=False),
        Compared("elapsed_s" if whole else "throughput_Bps", transfers, Topic.TRANSFERS),
        Compared("queue_delay_p95_s", transfers, Topic.LINK, headline=False),
    ]
    return [entry for entry in compared if not entry.rows.is_empty() and entry.metric in entry.rows.columns]
