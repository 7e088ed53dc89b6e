"""Factors whose levels are numbers in a range, in the records.

The records hold the levels as numbers, in bit/s, s, B, packets or without a unit, in columns named after the
factors. A comparison of named levels treats the points as replications: see `Space.folded`.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from lasthop.campaign.results.folder import MANIFEST, RUNS, read_manifest, scan_rows
from lasthop.campaign.results.shapes import RangeFacts
from lasthop.common.errors import InputError
from lasthop.scenario.points import KEY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LOG = "log"
_POINT = "_point"
AT = "_at"
"""The column of a range's level at a point."""


class Range(NamedTuple):
    """A factor with a range; its ends are in `unit`.

    It `counts` if every whole number is a level of its own. `levels` are the levels that were run, by name.
    """

    name: str
    unit: str
    low: float
    high: float
    counts: bool
    scale: str
    levels: Mapping[str, float]

    @property
    def logarithmic(self) -> bool:
        """Whether equal ratios are equally likely."""
        return self.scale == LOG

    def shares(self, values: pl.Series) -> NDArray[np.float64]:
        """Return the share of the range below each level, 0 to 1."""
        import numpy as np

        numbers = values.cast(pl.Float64).to_numpy()
        low, high = self.low, self.high
        if self.counts:  # a level stands for everything up to the next one
            numbers, high = numbers + 0.5, high + 1
        if self.logarithmic:
            return np.asarray(np.log(numbers / low) / np.log(high / low))
        return np.asarray((numbers - low) / (high - low))


@dataclass(frozen=True, slots=True)
class Space:
    """The ranges of finished results, by the column that holds their levels.

    There are none if the scenario has none.
    """

    ranges: Mapping[str, Range]

    def folded(self, frame: pl.LazyFrame, runs: pl.LazyFrame) -> pl.LazyFrame:
        """Return records in which every point is a replication, to compare named levels.

        Replications count over all points. So replications of the same number met the same point.
        """
        columns = [name for name in self.ranges if name in frame.collect_schema()]
        if not columns:
            return frame
        if frame.head(1).collect().is_empty():  # without rows, the columns have no types
            return frame.drop(columns)
        points = runs.select(columns).unique(maintain_order=True).with_row_index(_POINT)
        most = runs.select(pl.max("replication")).collect().item()
        found = frame.join(points, on=columns, how="left", maintain_order="left", nulls_equal=True)
        number = pl.col(_POINT).cast(pl.Int64) * most + pl.col("replication")
        return found.with_columns(replication=number).drop(_POINT, *columns)

    def places(self, runs: pl.LazyFrame, over: Range) -> pl.DataFrame:
        """Return the level `AT` of a range for each `set` and `replication` of the folded records."""
        column = next(name for name, one in self.ranges.items() if one.name == over.name)
        known = self.folded(runs.with_columns(pl.col(column).alias(AT)), runs)
        return known.select("set", "replication", AT).unique(maintain_order=True).collect()


def read_space(folder: Path) -> Space:
    """Return the manifest's facts about ranges, in a results folder."""
    manifest = read_manifest(folder)
    space = None if manifest is None else manifest.get(KEY)
    found = {} if space is None else space["ranges"]
    columns = scan_rows(folder / RUNS).collect_schema() if found else {}
    for name, facts in found.items():
        if facts["column"] not in columns:
            raise InputError(
                f"{folder / MANIFEST} cannot be read as a manifest of lasthop ({RUNS} has no column "
                f"'{facts['column']}' of the levels of {name}); nothing was changed."
            )
    return Space({facts["column"]: _range(name, facts) for name, facts in found.items()})


def _range(name: str, facts: RangeFacts) -> Range:
    return Range(
        name, facts["unit"], facts["from"], facts["to"], facts["counts"], facts["scale"], facts["levels"]
    )


def space_lines(folder: Path) -> list[str]:
    """Return the remark of a comparison of named levels that its replications are points."""
    ranges = read_space(folder).ranges
    if not ranges:
        return []
    points = scan_rows(folder / RUNS).select(list(ranges)).unique().collect()
    place = shlex.quote(str(folder))
    first = next(iter(ranges.values())).name
    said = (
        f"Each of the {points.height} points in the space of "
        f"{', '.join(one.name for one in ranges.values())} counts as a replication here. See 'lasthop "
        f"sensitivity {place} --metric NAME' and 'lasthop plot {place} --x {first}'."
    )
    return ["", *textwrap.wrap(said, 100, break_on_hyphens=False)]
