"""Hops: their directions by name. `hops.parquet` has a row per hop, direction and replication."""

from __future__ import annotations

import polars as pl

PLACE = "place"
"""The column that names a hop and a direction: `wifi down`, say."""


def with_places(hops: pl.LazyFrame) -> pl.LazyFrame:
    """Add the name of hop and direction as a column."""
    return hops.with_columns(pl.format("{} {}", "hop", "direction").alias(PLACE))
