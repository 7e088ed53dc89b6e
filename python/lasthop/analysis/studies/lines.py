"""A number of a study's tables, and its unit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

VALUE = "value"
"""Statistic of a number that is no statistic over replications in its study."""
SPREAD = ("min", "max", "standard_deviation", "ci_low", "ci_high")
"""Statistics of the spread of several replications."""
SHARE = "percent_variation"
SQUARES = "sum_of_squares"
STANDARD_ERROR = "standard_error"
EFFECT = "main_effect"
"""Quantities of an analysis; together with the metric they name a number."""


@dataclass(frozen=True, slots=True)
class Line:
    """A table's number about a flow: a statistic of a metric, over a number of replications.

    `levels` holds the levels of factors of which the table has several. `ci_low` and `ci_high` are the ends
    of the value's 95 % interval, NaN if there is none.
    """

    flow: str
    direction: str
    metric: str
    statistic: str
    value: float
    replications: int
    unit: str
    levels: Mapping[str, str] = field(default_factory=dict)
    ci_low: float = math.nan
    ci_high: float = math.nan
