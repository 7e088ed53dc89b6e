"""The tables of finished results: flows, runs, page loads, short flows, hops, stations; derived columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lasthop import _core
from lasthop.campaign.results.folder import (
    FLOWS,
    HOPS,
    PAGES,
    RUNS,
    SHORTS,
    STATIONS,
    read_manifest,
    scan_rows,
)
from lasthop.campaign.results.hops import with_places
from lasthop.campaign.results.manifest import looks_of, task_of, window_of
from lasthop.campaign.results.space import read_space
from lasthop.common.metrics.dictionary import LOSS_RATE, LOST, SHARE
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS

_MEASURED = {
    column for table, columns in _core.MEANINGS.items() if table != "series" for column, *_ in columns
}
_RATES = {
    "lost_per_packet": ("lost_packets", "sent_packets"),
    "retransmitted_per_packet": ("retransmitted_packets", "sent_packets"),
    "timeouts_per_flow": ("timeouts", "flows"),
    "syn_timeouts_per_flow": ("syn_timeouts", "flows"),
    "fast_retransmits_per_flow": ("fast_retransmits", "flows"),
}
PART_OF = "part_of"
"""The column with the flow of which a connection carries a part; null for a whole flow."""
_OWN_COLUMNS = frozenset({"set", "replication", "role"} | _MEASURED)


def factor_column(factor: str) -> str:
    """Return the column with a factor's level; a factor named like a measured column gets a prefix."""
    return f"factor_{factor}" if factor in _OWN_COLUMNS else factor


def factor_name(column: str) -> str:
    name = column.removeprefix("factor_")
    return name if factor_column(name) == column else column


@dataclass(frozen=True, slots=True)
class Tables:
    """The records of a campaign. They may be larger than memory: collect only the columns that are needed."""

    flows: pl.LazyFrame
    runs: pl.LazyFrame
    pages: pl.LazyFrame | None
    shorts: pl.LazyFrame | None
    hops: pl.LazyFrame | None = None
    stations: pl.LazyFrame | None = None
    looks: int = 1
    """The number of looks that share an interval's error; above 1 if the campaign had a stopping rule."""
    task: Sequence[str] = ()
    """The factors that define the task; see `lasthop.scenario.changes.task_factors`."""
    window: str = ""
    """The window of time that metrics are of, in words; empty for whole runs."""

    @classmethod
    def read(cls, folder: Path) -> Tables:
        """Open the tables of a results folder; the points of a space become replications."""
        tables, space = cls.read_points(folder), read_space(folder)
        runs = tables.runs
        pages, shorts, hops, stations = (
            None if t is None else space.folded(t, runs)
            for t in (tables.pages, tables.shorts, tables.hops, tables.stations)
        )
        flows, folded = space.folded(tables.flows, runs), space.folded(runs, runs)
        return cls(flows, folded, pages, shorts, hops, stations, tables.looks, tables.task, tables.window)

    @classmethod
    def read_points(cls, folder: Path) -> Tables:
        """Open the tables of a results folder with the points of a space as they are."""
        pages, shorts, hops, stations = (
            with_derived(name, scan_rows(folder / name)) if (folder / name).is_file() else None
            for name in (PAGES, SHORTS, HOPS, STATIONS)
        )
        manifest = read_manifest(folder)
        flows, runs = scan_rows(folder / FLOWS), scan_rows(folder / RUNS)
        of = looks_of(manifest), task_of(manifest), window_of(manifest)
        return cls(flows, runs, pages, shorts, hops, stations, *of)


def with_derived(name: str, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the derived columns of a file's table: rates to `SHORTS`, places to `HOPS` and `STATIONS`."""
    if name == SHORTS:
        return with_rates(rows)
    return with_places(rows) if name in (HOPS, STATIONS) else rows


def height(rows: pl.LazyFrame) -> int:
    return int(rows.select(pl.len()).collect().item())


def is_empty(rows: pl.LazyFrame) -> bool:
    """Whether there are no rows, so that the columns have no types."""
    return not height(rows.head(1))


def whole_flows(flows: pl.LazyFrame) -> pl.LazyFrame:
    """Remove connections that carry parts of a flow: both sides of a relay, and subflows of MPTCP."""
    return flows.filter(_is_whole(flows.collect_schema()))


def parts_of_flows(flows: pl.LazyFrame) -> list[str]:
    """Return the roles of the connections that `whole_flows` removes."""
    schema = flows.collect_schema()
    if PART_OF not in schema:
        return []
    return (
        flows.filter(~_is_whole(schema))
        .select(pl.col("role").unique(maintain_order=True))
        .collect()["role"]
        .to_list()
    )


def _is_whole(columns: Collection[str]) -> pl.Expr:
    if PART_OF not in columns:
        return pl.lit(value=True)
    return pl.col(PART_OF).fill_null("") == ""  # earlier versions wrote empty texts


def outside_pages(flows: pl.LazyFrame, pages: pl.LazyFrame) -> pl.LazyFrame:
    """Remove the connections of page loads, which are parts of them."""
    columns = pages.collect_schema().names()
    keys = [*columns[: columns.index("replication") + 1], "application"]
    loads = pages.rename({"page": "application"}).select(keys)
    return flows.join(loads, on=keys, how="anti", maintain_order="left")


def with_computed(flows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the columns `COMPUTED`: lost packets of any cause, per packet sent, and share of the throughput.

    The share is among the run's transfers in the same direction; streams and connections that carry parts of
    a flow have none.
    """
    if is_empty(flows):
        return flows
    columns = flows.collect_schema().names()
    run = columns[: columns.index("replication") + 1]
    lost = pl.sum_horizontal(pl.lit(0), *(name for name in columns if name.startswith("data_drops_")))
    is_transfer = pl.col("protocol").is_in(TRANSFER_PROTOCOLS) & _is_whole(columns)
    rate = pl.when(is_transfer).then(pl.col("throughput_Bps"))
    all_rates = rate.sum().over(*run, *({"direction"} & set(columns)))
    share = pl.when(all_rates > 0).then(rate / all_rates)
    loss_rate = pl.when(pl.col("sent_packets") > 0).then(lost / pl.col("sent_packets"))
    return flows.with_columns(lost.alias(LOST), loss_rate.alias(LOSS_RATE), share.alias(SHARE))


def with_rates(shorts: pl.LazyFrame) -> pl.LazyFrame:
    """Add the rates of events to `shorts.parquet`, which has a row per kind of host and replication.

    Kinds of hosts differ in their number of flows, so events are compared per packet that the servers sent,
    retransmissions included, or per flow started. Rates are null if nothing was sent.
    """
    return shorts.with_columns(
        pl.when(pl.col(whole) > 0).then(pl.col(events) / pl.col(whole)).alias(rate)
        for rate, (events, whole) in _RATES.items()
    )
