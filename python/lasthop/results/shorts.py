"""Short flows: the rates of their events. `shorts.parquet` has a row per kind of host and replication.

Populations of hosts send different numbers of flows in the same time. So events are compared per packet that
the servers sent, retransmissions included, or per flow started.
"""

from __future__ import annotations

import polars as pl

_RATES = {
    "lost_per_packet": ("lost_packets", "sent_packets"),
    "retransmitted_per_packet": ("retransmitted_packets", "sent_packets"),
    "timeouts_per_flow": ("timeouts", "flows"),
    "syn_timeouts_per_flow": ("syn_timeouts", "flows"),
    "fast_retransmits_per_flow": ("fast_retransmits", "flows"),
}


def with_rates(shorts: pl.LazyFrame) -> pl.LazyFrame:
    """Add the rates of events as columns; null where nothing was sent."""
    return shorts.with_columns(
        pl.when(pl.col(whole) > 0).then(pl.col(events) / pl.col(whole)).alias(rate)
        for rate, (events, whole) in _RATES.items()
    )
