"""Results of the same scenario from several engines, number by number.

`engines.csv` has the key columns of `summary.csv`, `published` if there are published numbers, and a column
for each folder of results, named after its engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from lasthop import _core
from lasthop.analysis.studies.comparison import Agreement, agreement, compare
from lasthop.analysis.studies.summary import extra_columns, key_columns, summary_of
from lasthop.campaign.plan import Plan
from lasthop.campaign.results.manifest import Difference, differences_of, finished
from lasthop.campaign.results.shapes import Manifest
from lasthop.campaign.results.tables import Tables, height
from lasthop.common.errors import InputError
from lasthop.studies.catalogue import Assets


@dataclass(frozen=True, slots=True)
class Side:
    """A column: the results of an engine in a folder, under a distinct `name`."""

    name: str
    folder: Path
    manifest: Manifest
    tables: Tables

    @property
    def engine(self) -> str:
        return str(self.manifest["identity"]["engine"])

    @property
    def differences(self) -> list[Difference]:
        """The differences of Linux from the scenario's TCP settings."""
        return differences_of(self.manifest)

    @property
    def late_runs(self) -> int | None:
        """Number of runs that are invalid because of lateness, if the engine counts them."""
        runs = self.tables.runs
        return height(runs.filter(~pl.col("valid"))) if "valid" in runs.collect_schema() else None


def read_side(folder: Path, plan: Plan) -> Side:
    """Read finished results that belong to the scenario of `plan` and contain some of its cells."""
    manifest = finished(folder)
    identity = manifest["identity"]
    if identity["scenario_digest"] != plan.study.digest:
        raise InputError(
            f"--beside {folder}: these results are from another scenario, '{identity['scenario']}', or an "
            f"older version of '{plan.study.name}'. Run the current version into another folder."
        )
    if not {cell.key for cell in plan.cells} & set(identity["cells"]):
        raise InputError(f"--beside {folder}: these results contain none of the selected cells.")
    return Side(str(identity["engine"]), folder, manifest, Tables.read(folder))


def named(sides: Sequence[Side]) -> list[Side]:
    """Distinguish sides of the same engine by their folders."""
    engines = [side.engine for side in sides]
    return [
        side if engines.count(side.engine) == 1 else replace(side, name=f"{side.engine} ({side.folder})")
        for side in sides
    ]


@dataclass(frozen=True, slots=True)
class Beside:
    """The sides and their numbers: a table with `keys`, `published` for a study, and a column per side."""

    sides: Sequence[Side]
    keys: Sequence[str]
    numbers: pl.DataFrame
    agreement: dict[str, list[Agreement]]


def lay_beside(sides: Sequence[Side], study: _core.Study, assets: Assets | None) -> Beside:
    """Join the statistics of all sides to those of the first side."""
    factors = list(study.factors)
    sides = named(sides)
    summaries = {side.name: summary_of(side.tables, factors, assets) for side in sides}
    first = summaries[sides[0].name]
    if assets is None:
        keys = first.columns[: first.columns.index("statistic") + 1]
        numbers, met = first.select(*keys, "unit"), {}
    else:
        extra = extra_columns(factors, assets)
        keys = [*extra, *key_columns(assets)]
        cells = keys[: keys.index("flow")]
        own = first.select(cells).unique()
        here = {
            name: part.join(own, on=cells, how="semi", nulls_equal=True) for name, part in summaries.items()
        }
        comparisons = {name: compare(part, assets, extra) for name, part in here.items()}
        met = {
            name: agreement(comparison, extra, assets.presentation.misprints, assets.presentation.not_stated)
            for name, comparison in comparisons.items()
        }
        published = comparisons[sides[0].name].select(*keys, "published")
        numbers = first.select(*keys, "unit").join(
            published, on=keys, how="left", nulls_equal=True, maintain_order="left"
        )
    for name, part in summaries.items():
        values = part.select(*keys, pl.col("value").alias(name))
        numbers = numbers.join(values, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return Beside(sides, keys, numbers, met)
