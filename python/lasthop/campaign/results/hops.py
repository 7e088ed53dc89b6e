"""Names of directions in `hops.parquet` and, per station of a medium, in `stations.parquet`."""

import polars as pl

PLACE = "place"
"""The column with a hop and a direction, `wifi down`, or with a station of a hop, `wifi tv down`."""


def with_places(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the column `PLACE`."""
    names = ["hop", "station", "direction"] if "station" in rows.collect_schema() else ["hop", "direction"]
    return rows.with_columns(pl.concat_str(names, separator=" ").alias(PLACE))
