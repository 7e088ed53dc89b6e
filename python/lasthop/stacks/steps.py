"""The time series of a run with what stacks say of themselves: rows by `source`."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from lasthop.stacks.view import NETWORK, STACK, View

_BELIEVED = ("cwnd", "srtt_s")
"""The columns of a flow's row that its sender, not the network, knows."""
_KEYS = ("row", "time_s", "flow", "direction")
_ADDED = {
    "source": pl.String(),
    "cwnd_bytes": pl.Float64(),
    "in_flight_bytes": pl.Float64(),
    "rtt_s": pl.Float64(),
}
_AT_END = {
    "cwnd_bytes": pl.col("cwnd_bytes"),
    "in_flight_bytes": pl.col("in_flight_bytes"),
    "srtt_s": (pl.col("srtt_ms") / 1e3).round(9),
    "rtt_s": (pl.col("latest_rtt_ms") / 1e3).round(9),
}
"""Columns of a step by those of a view."""


def with_sources(steps: pl.DataFrame, views: Mapping[str, View], step_ns: int) -> pl.DataFrame:
    """Return the steps of a run, as text, with a row for each source that knows of a flow.

    The stack of a flow over TCP is the kernel's. A flow with a view also has a row with what the stack's log
    says, and its row of the network has what the captures say.
    """
    rows = steps.with_row_index("row").with_columns(
        end_s=pl.col("time_s").cast(pl.Float64) + step_ns / 1e9, source=pl.lit(NETWORK)
    )
    network = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in _BELIEVED)
    is_known = pl.any_horizontal(pl.col(_BELIEVED).is_not_null())
    parts = [
        network.filter(pl.col("flow").is_null() | ~pl.col("flow").is_in(list(views))),
        rows.filter(is_known).select(*_KEYS, *_BELIEVED, source=pl.lit(STACK)),
    ]
    for name, view in views.items():
        own = network.filter(pl.col("flow") == name)
        seen = own.drop(_BELIEVED).join(_at_end(own, view, NETWORK), on="row")
        parts += [seen, _at_end(own, view, STACK).join(_declared(own, view), on="row")]
    return (
        pl.concat([part.cast(pl.String) for part in parts], how="diagonal")
        .sort(pl.col("row").cast(pl.Int64), "source")
        .select(*steps.columns, *_ADDED)
    )


def _at_end(own: pl.DataFrame, view: View, source: str) -> pl.DataFrame:
    """Return the last values of a source at the end of each step."""
    known = (
        view.series()
        .filter(pl.col("source") == source)
        .select("time_s", **_AT_END)
        .with_columns(pl.col(*_AT_END).forward_fill())
        .rename({"time_s": "end_s"})
    )
    joined = own.select("row", "end_s").join_asof(known, on="end_s").drop("end_s")
    if source == NETWORK:
        return joined.drop("cwnd_bytes", "srtt_s")
    return own.select(*_KEYS, source=pl.lit(STACK)).join(joined, on="row")


def _declared(own: pl.DataFrame, view: View) -> pl.DataFrame:
    """Return the losses that the stack declared in each step."""
    times = pl.Series([lost.declared_s for lost in view.declared], dtype=pl.Float64).sort()
    begins = own["time_s"].cast(pl.Float64)
    counts = times.search_sorted(own["end_s"], "left") - times.search_sorted(begins, "left").cast(pl.Int64)
    return own.select("row", lost_packets=counts)
