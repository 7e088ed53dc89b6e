"""Factors whose levels are numbers in a range, in the records.

Columns named after the factors contain the levels as numbers, in bit/s, s, B, packets or without a unit. A
comparison of named levels treats the points as replications: see `Space.folded`.
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
    """A factor with a range from `low` to `high`, in `unit`.

    It `counts` if its levels are whole numbers. `levels` are the levels that were run, by name.
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
        """Whether levels are uniform in their logarithm."""
        return self.scale == LOG

    def shares(self, values: pl.Series) -> NDArray[np.float64]:
        """Return the share of the range below each level, 0 to 1."""
        import numpy as np

        numbers = values.cast(pl.Float64).to_numpy()
        low, high = self.low, self.high
        if self.counts:  # a level represents everything up to the next one
            numbers, high = numbers + 0.5, high + 1
        if self.logarithmic:
            return np.asarray(np.log(numbers / low) / np.log(high / low))
        return np.asarray((numbers - low) / (high - low))


@dataclass(frozen=True, slots=True)
class Space:
    """The ranges of finished results, if any, by the column with their levels."""

    ranges: Mapping[str, Range]

    def folded(self, frame: pl.LazyFrame, runs: pl.LazyFrame) -> pl.LazyFrame:
        """Return records in which every point is a replication, to compare named levels.

        Replications are numbered over all points, so equal numbers mean the same point.
        """
        columns = [name for name in self.ranges if name in frame.collect_schema()]
        if not columns:
            return frame
        if frame.head(1).collect().is_empty():  # without rows, the columns have no types
            return frame.drop(columns)
        points = runs.select(columns).unique(maintain_order=True).with_row_index(_POINT)
        most = runs.select(pl.max("replication")).collect().item()
        joined = frame.join(points, on=columns, how="left", maintain_order="left", nulls_equal=True)
        number = pl.col(_POINT).cast(pl.Int64) * most + pl.col("replication")
        return joined.with_columns(replication=number).drop(_POINT, *columns)

    def places(self, runs: pl.LazyFrame, over: Range) -> pl.DataFrame:
        """Return the level `AT` of a range for each `set` and `replication` of the folded records."""
        column = next(name for name, own in self.ranges.items() if own.name == over.name)
        folded = self.folded(runs.with_columns(pl.col(column).alias(AT)), runs)
        return folded.select("set", "replication", AT).unique(maintain_order=True).collect()


def read_space(folder: Path) -> Space:
    """Return the ranges in the manifest of a results folder."""
    manifest = read_manifest(folder)
    space = None if manifest is None else manifest.get(KEY)
    ranges = {} if space is None else space["ranges"]
    columns = scan_rows(folder / RUNS).collect_schema() if ranges else {}
    for name, facts in ranges.items():
        if facts["column"] not in columns:
            raise InputError(
                f"{folder / MANIFEST} is not a valid manifest of lasthop ({RUNS} has no column "
                f"'{facts['column']}' for the levels of {name}); nothing was changed."
            )
    return Space({facts["column"]: _range(name, facts) for name, facts in ranges.items()})


def _range(name: str, facts: RangeFacts) -> Range:
    return Range(
        name, facts["unit"], facts["from"], facts["to"], facts["counts"], facts["scale"], facts["levels"]
    )


def space_lines(folder: Path) -> list[str]:
    """Return the note of a comparison of named levels that its replications are points."""
    ranges = read_space(folder).ranges
    if not ranges:
        return []
    points = scan_rows(folder / RUNS).select(list(ranges)).unique().collect()
    place = shlex.quote(str(folder))
    first = next(iter(ranges.values())).name
    note = (
        f"Each of the {points.height} points in the space of "
        f"{', '.join(own.name for own in ranges.values())} counts as a replication here. See 'lasthop "
        f"results factors {place} --metric NAME' and 'lasthop plot {place} --x {first}'."
    )
    return ["", *textwrap.wrap(note, 100, break_on_hyphens=False)]
