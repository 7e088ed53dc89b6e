"""The sections of an answer, from page loads to runs, and the headline metrics of each."""

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
from lasthop.common.metrics.dictionary import LOST, PRINTED, PROGRAM
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS

WHO = "flow"
"""The column of a section's rows that names the page load, hosts or role."""
REPLICATION = ["set", "replication"]
COMPLETED = "closed"
"""Outcome of a flow that did all its work."""
_TOLD = ("protocol", "outcome")
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
"""Metrics of whole runs that are shown beside flows."""
_MOST_PRINTED = 4
"""This many of the numbers that programs print are shown, unless the user asks for more."""
_NAMED_AT_MOST = 4
_SUMMED = [LOST, "retransmitted_packets", "timeouts"]
"""Counts that are summed over a page load's connections."""


class Topic(IntEnum):
    """What a comparison is about. An answer tells the first topics first."""

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
"""Metrics by which flows are compared if they have the first of them."""


class Compared(NamedTuple):
    """A metric by which levels are compared, and the rows that have it; a `headline` is drawn as well."""

    metric: str
    rows: pl.DataFrame
    topic: Topic = Topic.TRANSFERS
    headline: bool = True


@dataclass(frozen=True, slots=True)
class Section:
    """One table of an answer: its rows, one per replication and `flow`, and the metrics that it shows.

    A section without metrics is compared but not shown.

    `rows` has a column per factor, then `set`, `replication`, `flow`, for flows and page loads their
    `protocol` and `outcome`, and the metrics. `factors` maps each factor column to its factor.
    """

    title: str
    rows: pl.DataFrame
    factors: Mapping[str, str]
    metrics: Sequence[str]
    compared: Sequence[Compared] = ()
    looks: int = 1
    """As in `Tables`."""
    noun: str = WHO
    """What a row is about, as the head of its column says."""
    left_out: Sequence[str] = ()
    """The roles of connections that carry parts of flows, which have no rows here."""

    @property
    def varied(self) -> list[str]:
        """The columns of factors with several levels."""
        return [factor for factor in self.factors if self.rows[factor].n_unique() > 1]


class _Kind(NamedTuple):
    title: str
    rows: pl.LazyFrame
    who: pl.Expr
    headline: Sequence[str]
    topic: Topic
    compared: Sequence[str] = ()
    """The metrics by which levels are compared, the headline first."""
    noun: str = WHO
    left_out: Sequence[str] = ()


def sections(tables: Tables, metrics: Sequence[str] = (), *, parts: bool = False) -> list[Section]:
    """Return the sections of a campaign's records; with `metrics`, only those metrics.

    Sections without any of these metrics are left out then. With `parts`, connections that carry parts of a
    flow have rows beside those of the flow. Raises InputError for a metric that no table has.
    """
    names, kinds = _factors(tables), _kinds(tables, parts=parts)
    if metrics:
        _check(metrics, tables)
        # Values from programs stand in the same rows as values of runs.
        if kinds[0].topic is Topic.PROGRAMS:
            kinds.pop()
        chosen = [(kind, [m for m in metrics if m in _numeric(kind.rows, names)]) for kind in kinds]
        found = [_section(kind, names, own, own, own) for kind, own in chosen if own]
        return [replace(section, looks=tables.looks) for section in found]
    # Whole runs get a table only if nothing else has one.
    runs = kinds.pop()
    shown = [kind for kind in kinds if not is_empty(kind.rows)]
    link = runs._replace(title="Link", headline=(), compared=_LINK)
    found = [_headlines(kind, names) for kind in ([*shown, link] if shown else [runs])]
    return [replace(section, looks=tables.looks) for section in found]


def without_parts(roles: Sequence[str]) -> str:
    """Say which connections are left out because they carry parts of flows, and where they are."""
    named = ", ".join([*roles[:_NAMED_AT_MOST], *(["..."] if len(roles) > _NAMED_AT_MOST else [])])
    return (
        f"Left out: connections that carry parts of flows ({named}). summary.csv has them, and flows.parquet "
        "by part_of."
    )


def try_parts(roles: Sequence[str]) -> str:
    """Say that connections which carry parts of flows may have the values that are missing."""
    return f" Connections that carry parts of flows may: try --role {roles[0]}." if roles else ""


def metrics_of(tables: Tables) -> list[str]:
    names = _factors(tables)
    return list(dict.fromkeys(name for kind in _kinds(tables) for name in _numeric(kind.rows, names)))


def by_replication(section: Section, by: Sequence[str]) -> pl.DataFrame:
    """Average over the flows and cells of each replication; a metric that any of them lacks has no mean."""
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
    """Return the column of each factor, with the factor."""
    columns = tables.runs.collect_schema().names()
    return {column: factor_name(column) for column in columns[: columns.index("set")]}


def _kinds(tables: Tables, *, parts: bool = False) -> list[_Kind]:
    """Return what the tables are about; runs come last."""
    flows = with_computed(tables.flows)
    whole = whole_flows(flows)
    left_out = [] if parts else parts_of_flows(flows)
    kinds = []
    if tables.pages is not None:
        pages = with_counts(tables.pages, whole)
        kinds.append(_Kind("Page loads", pages, pl.col("page"), _PAGES, Topic.PAGES, _PAGES[:1]))
        flows, whole = (outside_pages(own, tables.pages) for own in (flows, whole))
    if tables.shorts is not None:
        shorts, who = tables.shorts, pl.col("application")
        kinds.append(_Kind("Short flows", shorts, who, _SHORTS, Topic.TRANSFERS, _SHORTS[:2]))
    if not is_empty(shown := flows if parts else whole):
        kinds.append(_Kind("Flows", shown, pl.col("role"), _FLOWS, Topic.TRANSFERS))
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


def with_counts(pages: pl.LazyFrame, flows: pl.LazyFrame) -> pl.LazyFrame:
    """Add up losses, retransmissions and timeouts of the connections of each page load."""
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
                f"--metric {metric}: the results have no such metric; did you mean "
                f"'{nearest(metric, known)}'? Metrics: {', '.join(known)}."
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
    told = [name for name in _TOLD if name in kind.rows.collect_schema()]
    columns = dict.fromkeys((*metrics, *compared))
    rows = (
        kind.rows.with_columns(kind.who.alias(WHO))
        .select(*names, *REPLICATION, WHO, *told, *columns)
        .collect()
    )
    by = [Compared(metric, rows, kind.topic, metric in headlines) for metric in compared]
    return Section(kind.title, rows, names, metrics, by, noun=kind.noun, left_out=kind.left_out)


def _headlines(kind: _Kind, names: Mapping[str, str]) -> Section:
    """Return the section of the metrics that matter most for a kind."""
    known = kind.rows.collect_schema().names()
    shown = [metric for metric in kind.headline if metric in known]
    if kind.title != "Flows":
        return _section(
            kind, names, shown, [metric for metric in kind.compared if metric in known], shown[:1]
        )
    shown += _present(kind.rows, [metric for of_kind in OF_KINDS for metric in of_kind if metric in known])
    more = [metric for metrics in _OF_FLOWS.values() for metric in metrics if metric in known]
    section = _section(kind, names, shown, more, ())
    # A stream lasts as long as its sender was told.
    is_transfer = pl.col("protocol").is_in(TRANSFER_PROTOCOLS)
    rows = section.rows.with_columns(pl.when(is_transfer).then(pl.col("elapsed_s")).alias("elapsed_s"))
    return replace(section, rows=rows, compared=_of_flows(rows))


def _of_flows(rows: pl.DataFrame) -> list[Compared]:
    """Compare flows by the metrics that matter for their kind of traffic.

    Transfers are compared by their time, or by throughput where the time limit ends some; their timeouts tell
    about the link. Streams are compared by delay, loss and rate.
    """
    found = []
    for topic, metrics in _OF_FLOWS.items():
        if metrics[0] in rows.columns:
            own = rows.filter(pl.col(metrics[0]).is_not_null())
            rows = rows.filter(pl.col(metrics[0]).is_null())
            found += [Compared(metric, own, topic, metric == metrics[0]) for metric in metrics]
    is_transfer = rows["protocol"].is_in(TRANSFER_PROTOCOLS)
    transfers, streams = (rows if held.all() else rows.filter(held) for held in (is_transfer, ~is_transfer))
    whole = transfers["elapsed_s"].null_count() == 0 and bool((transfers["outcome"] == COMPLETED).all())
    found += [Compared(metric, streams, Topic.STREAMS) for metric in ("queue_delay_p95_s", "lost_per_packet")]
    found += [
        Compared("throughput_Bps", streams, Topic.STREAMS, headline=False),
        Compared("elapsed_s" if whole else "throughput_Bps", transfers, Topic.TRANSFERS),
        Compared("queue_delay_p95_s", transfers, Topic.LINK, headline=False),
    ]
    return [one for one in found if not one.rows.is_empty() and one.metric in one.rows.columns]
