"""Flows: metrics that follow from the columns of `flows.parquet`."""

from __future__ import annotations

import polars as pl

from lasthop.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.results.tables import is_empty

COMPUTED = LOST, LOSS_RATE, SHARE = "lost_packets", "lost_per_packet", "throughput_share"


def with_computed(flows: pl.LazyFrame) -> pl.LazyFrame:
    """Add what is `COMPUTED`.

    That is packets lost whatever the cause, their share of those sent, the share of the throughput.

    That last share is among the transfers of the run whose data go the same way; other flows have none.
    """
    if is_empty(flows):
        return flows
    columns = flows.collect_schema().names()
    run = columns[: columns.index("replication") + 1]
    lost = pl.sum_horizontal(pl.lit(0), *(name for name in columns if name.startswith("data_drops_")))
    rate = pl.when(pl.col("protocol").is_in(TRANSFER_PROTOCOLS)).then(pl.col("throughput_Bps"))
    all_rates = rate.sum().over(*run, *({"direction"} & set(columns)))
    share = pl.when(all_rates > 0).then(rate / all_rates)
    loss_rate = pl.when(pl.col("sent_packets") > 0).then(lost / pl.col("sent_packets"))
    return flows.with_columns(lost.alias(LOST), loss_rate.alias(LOSS_RATE), share.alias(SHARE))
