"""Sobol indices of a metric over the points of a results folder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from lasthop.analysis.statistics.anova import REPLICATION_COLUMNS, Table, from_folder, keep, numbers_of
from lasthop.analysis.statistics.chaos import Functions, Indices, of_levels, of_range, sobol_indices
from lasthop.campaign.results.manifest import finished
from lasthop.campaign.results.space import Range, read_space
from lasthop.common.errors import InputError

_POINTS_MIN = 16
_POINT = "_point"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The indices of `metric` by factor, in the order of the columns.

    `noise` is the share of the variation between the replications of a cell; `None` with one replication.
    """

    metric: str
    factors: list[str]
    points: int
    cells: int
    replications: int
    indices: Indices
    noise: float | None

    @property
    def interactions(self) -> float:
        """Share of the explained variance due to interactions."""
        return max(0.0, 1 - float(self.indices.estimate.first.sum()))

    def table(self) -> pl.DataFrame:
        """Return a row per factor: both indices, their intervals, and the sizes of the computation."""
        indices = self.indices
        columns = {
            f"{name}{end}": getattr(shares, name)
            for name in ("first", "total")
            for end, shares in (("", indices.estimate), ("_ci_low", indices.low), ("_ci_high", indices.high))
        }
        return pl.DataFrame(
            {"metric": [self.metric] * len(self.factors), "factor": self.factors, **columns}
        ).with_columns(
            interactions=pl.lit(self.interactions),
            predicted=pl.lit(indices.predicted),
            noise=pl.lit(self.noise, dtype=pl.Float64),
            terms=pl.lit(indices.terms),
            points=pl.lit(self.points),
            replications=pl.lit(self.replications),
        )


def analyse(folder: Path, metric: str, only: Sequence[str] = (), role: str | None = None) -> Sensitivity:
    """Compute the Sobol indices of a metric. Raises InputError if the results do not suffice."""
    manifest = finished(folder)
    ranges = read_space(folder).ranges
    table = from_folder(folder, metric, role)
    table = keep(replace(table, candidates=[name for name in table.candidates if name not in ranges]), only)
    inputs = [*ranges, *(name for name in table.candidates if table.frame[name].n_unique() > 1)]
    means, noise, replications = _means(table, inputs)
    points = means.select(list(ranges)).unique(maintain_order=True).with_row_index(_POINT)
    if points.height < _POINTS_MIN:
        raise InputError(
            f"{folder} has {points.height} points, which is too few for Sobol indices: run the scenario with "
            f"--points {4 * _POINTS_MIN} or more."
        )
    rows = means.join(points, on=list(ranges), how="left", maintain_order="left")
    functions = [_functions(rows[name], ranges.get(name)) for name in inputs]
    response = rows[metric].to_numpy()
    if np.ptp(response) <= 1e-12 * np.abs(response).max():
        raise InputError(f"{metric} has the same value everywhere: there is no variance to explain.")
    numbers = rows[_POINT].to_numpy().astype(np.int64)
    indices = sobol_indices(functions, response, numbers, int(manifest["identity"]["seed"]))
    names = [ranges[name].name if name in ranges else name.removeprefix("factor_") for name in inputs]
    return Sensitivity(metric, names, points.height, rows.height, replications, indices, noise)


def _means(table: Table, inputs: Sequence[str]) -> tuple[pl.DataFrame, float | None, int]:
    """Return cells' means over replications, the share of noise in the variation, and the replications."""
    values = numbers_of(table, [*inputs, *REPLICATION_COLUMNS])
    cells = table.frame.with_columns(values).group_by(inputs, maintain_order=True)
    name = table.response
    means = cells.agg(pl.col(name).mean(), pl.col(name).var().alias("_var"), pl.len().alias("_count"))
    replications = int(means["_count"].max() or 0)  # type: ignore[arg-type]
    whole = float(values.var() or 0.0)  # type: ignore[arg-type]
    within = means["_var"].mean()
    noise = float(within) / whole if replications > 1 and whole and within is not None else None  # type: ignore[arg-type]
    return means.select(*inputs, name), noise, replications


def _functions(levels: pl.Series, own: Range | None) -> Functions:
    if own is not None:
        return of_range(own.shares(levels))
    names = levels.unique(maintain_order=True).to_list()
    return of_levels(
        levels.replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy(), len(names)
    )
