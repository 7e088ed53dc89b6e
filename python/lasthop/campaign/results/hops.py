"""Hops and stations of media: their directions by name.

`hops.parquet` has a row per hop, direction and replication, `stations.parquet` one per station of a hop.
"""

import polars as pl

PLACE = "place"
"""The column that names a hop and a direction, `wifi down`, or a station of a hop, `wifi tv down`."""


def with_places(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the name of hop and direction, and of the station between them if rows have one, as a column."""
    names = ["hop", "station", "direction"] if "station" in rows.collect_schema() else ["hop", "direction"]
    return rows.with_columns(pl.concat_str(names, separator=" ").alias(PLACE))
