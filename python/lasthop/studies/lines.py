"""A number of a study's tables, and its unit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

VALUE = "value"
"""Statistic of a number that in its study is none over replications."""
SPREAD = ("min", "max", "standard_deviation", "ci_low", "ci_high")
"""Statistics that say how far several replications are apart."""
SHARE = "percent_variation"
SQUARES = "sum_of_squares"
STANDARD_ERROR = "standard_error"
EFFECT = "main_effect"
"""Quantities of an analysis; with the metric they make the name of a number."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a table says of a flow: a statistic of a metric, over that many replications.

    `levels` are those of factors of which the table has several levels. `ci_low` and `ci_high` are the ends of the
    value's 95 % interval, NaN where there is none.
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
