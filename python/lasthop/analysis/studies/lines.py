"""A number of a study's tables."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

VALUE = "value"
"""The statistic of a number that is not a statistic over replications in its study."""
SPREAD = ("min", "max", "standard_deviation", "ci_low", "ci_high")
"""Statistics of spread over replications."""
SHARE = "percent_variation"
SQUARES = "sum_of_squares"
STANDARD_ERROR = "standard_error"
EFFECT = "main_effect"
"""Quantities of an analysis; a number is named after the quantity and the metric."""


@dataclass(frozen=True, slots=True)
class Line:
    """A number in a table about a flow: a statistic of a metric over replications.

    `levels` holds the levels of factors that vary within the table. `ci_low` and `ci_high` are the ends of
    the value's 95 % interval, NaN if there is none.
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
