"""The precision of the results of a campaign with `--until`, as a table."""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from lasthop.campaign.results.sections import WHO
from lasthop.campaign.results.shapes import Manifest
from lasthop.campaign.results.tables import Tables
from lasthop.campaign.until.language import parse
from lasthop.campaign.until.looks import Condition
from lasthop.campaign.until.stopping import values_of
from lasthop.common.metrics.units import unit_of

_SCHEMA = {
    WHO: pl.String,
    "condition": pl.String,
    "metric": pl.String,
    "statistic": pl.String,
    "value": pl.Float64,
    "replications": pl.Int64,
    "unit": pl.String,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
    "precision": pl.Float64,
    "met": pl.Boolean,
}


def conditions_of(manifest: Manifest) -> list[Condition]:
    """Return the stopping rules of a campaign; none if its number of replications was fixed."""
    until = manifest.get("until")
    return [] if until is None else [parse(text) for text in until["conditions"]]


def precision_table(conditions: Sequence[Condition], tables: Tables) -> pl.DataFrame:
    """Return the precision of each flow of each cell.

    Columns: the factors, then the columns of `_SCHEMA`. `value`, `ci_low` and `ci_high` are in the metric's
    unit; the interval belongs to the last look. `precision` is the distance from the value to the farther end
    of its interval, as a share of the value if the condition is relative, otherwise in the metric's unit;
    null if unknown.
    """
    columns = tables.runs.collect_schema()
    factors = columns.names()[: columns.names().index("set")]
    rows = []
    for condition in conditions:
        for sample in values_of(condition, tables):
            values = sample.values[~np.isnan(sample.values)]
            if not values.size and not sample.unfinished:
                continue  # this flow has no such metric
            numbers = condition.intervals(values).tolist() if values.size else [None] * 3
            reached = float(condition.precision(values)) if values.size else math.nan
            met = bool(values.size and condition.met(values))
            value, low, high = numbers
            own = (condition.text, condition.metric, condition.statistic, value, sample.values.size)
            ends = (unit_of(condition.metric), low, high, reached if math.isfinite(reached) else None)
            rows.append([*sample.levels, sample.who[1], *own, *ends, met])
    levels = {name: columns[name] for name in factors}
    return pl.DataFrame(rows, schema={**levels, **_SCHEMA}, orient="row").with_columns(
        pl.col(pl.Float64).fill_nan(None)
    )
