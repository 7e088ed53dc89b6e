"""Ratios of a factor's levels as a metric: `--ratio packets=10/9`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics import units

_LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of a metric at two levels of a factor."""

    factor: str
    upper: str
    lower: str

    def title(self, metric: str) -> str:
        """Return the title of the axis."""
        return f"ratio of {units.label(metric)}, {self.factor} {self.upper}\u00a0/\u00a0{self.lower}"


def read_ratio(text: str, levels: dict[str, list[str]]) -> Ratio:
    """Read `FACTOR=LEVEL/LEVEL`, given the levels of each factor; a level may contain slashes."""
    factor, equals, pair = text.partition("=")
    if not equals:
        raise InputError(f"--ratio {text}: the form is FACTOR=LEVEL/LEVEL.")
    if factor not in levels:
        raise InputError(
            f"--ratio {text}: the results have no factor '{factor}'; did you mean "
            f"'{nearest(factor, levels)}'? Factors: {', '.join(levels)}."
        )
    names = levels[factor]
    parts = pair.split("/")
    for cut in range(1, len(parts)):
        upper, lower = "/".join(parts[:cut]), "/".join(parts[cut:])
        if upper in names and lower in names and upper != lower:
            return Ratio(factor, upper, lower)
    raise InputError(
        f"--ratio {text}: '{pair}' is not a pair of different levels of {factor}; write for example "
        f"{factor}={names[0]}/{names[-1]}. Levels: {', '.join(names)}."
    )


def quotients(
    values: pl.DataFrame, ratio: Ratio, metric: str, who: Sequence[str]
) -> tuple[pl.DataFrame, int]:
    """Return the ratios of values that agree in `who`, and the number of values that have no ratio.

    Both values come from equal replications, which have the same link states and arrivals.
    """
    upper, lower = (values.filter(pl.col(ratio.factor) == level) for level in (ratio.upper, ratio.lower))
    pairs = upper.join(
        lower.select(*who, pl.col(metric).alias(_LOWER)), on=who, how="inner", maintain_order="left"
    )
    good = pairs.filter(pl.col(_LOWER) != 0).with_columns(pl.col(metric) / pl.col(_LOWER))
    return good.drop(_LOWER, ratio.factor), upper.height + lower.height - 2 * good.height
