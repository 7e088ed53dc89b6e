"""Studies: where they are, and the files that belong to each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from lasthop.errors import InputError, nearest
from lasthop.studies.presentation.drawn import PRESENTATION_FILE, Drawn

if TYPE_CHECKING:
    from lasthop.studies.presentation.spec import Presentation

SCENARIO_FILE = "study.toml"
PUBLISHED = Path(__file__).with_name("published")
"""The folder of the shipped studies; in a checkout, this is a link."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The published side of a study.

    `published` has one row per printed number, `tables` one per table and cell.
    """

    folder: Path
    published: pl.DataFrame
    tables: pl.DataFrame
    presentation: Presentation

    def published_in_own_words(self) -> pl.DataFrame:
        """Return the published numbers with roles and levels as the records have them."""
        parts = []
        for spec in self.presentation.tables:
            own = {word: role for role, word in spec.roles.items()}
            words = {"flow": own, **spec.levels}
            rows = self.published.filter(pl.col("table").is_in(spec.ids))
            parts.append(
                rows.with_columns(pl.col(name).replace(dict(known)) for name, known in words.items())
            )
        return pl.concat(parts) if parts else self.published.clear()

    def extra_factors(self, factors: Iterable[str]) -> list[str]:
        """Return the factors of a scenario that the published numbers do not know, such as an assumption."""
        known = {*self.tables.columns, *self.published.columns}
        return [factor for factor in factors if factor not in known]


def list_studies() -> dict[str, Path]:
    """Return the folder of every shipped study, by name."""
    return {file.parent.name: file.parent for file in sorted(PUBLISHED.glob(f"*/{SCENARIO_FILE}"))}


def find_study(name: str) -> Path:
    """Return the folder of study `name`; raise `InputError` if there is none."""
    studies = list_studies()
    if name in studies:
        return studies[name]
    if not studies:
        raise InputError(f"There is no study '{name}': this installation carries no studies.")
    raise InputError(
        f"There is no study '{name}'; did you mean '{nearest(name, studies)}'? Known studies: "
        f"{', '.join(studies)}."
    )


def find_scenario(name: str) -> Path:
    """Return the scenario file that a command names: a file, or a study by its name."""
    file = Path(name)
    return file if file.suffix == ".toml" or file.is_file() else find_study(name) / SCENARIO_FILE


def load_assets(scenario_file: Path, factors: Iterable[str]) -> Assets | None:
    """Read the published side of a study that stands beside a scenario file.

    `None` if there is none, or if `factors` lack a factor that tells the published numbers apart.
    """
    folder = scenario_file.resolve().parent
    published_file, tables_file = folder / "published.csv", folder / "tables.csv"
    if not (published_file.is_file() and tables_file.is_file()):
        return None
    published = _factors_together(pl.read_csv(published_file, infer_schema=False, glob=False))
    keys = published.columns[published.columns.index("table") + 1 : published.columns.index("flow")]
    if not {key for key in keys if published[key].null_count() < published.height} <= set(factors):
        return None
    from lasthop.studies.presentation.read import load_presentation

    presentation = load_presentation(folder)
    return Assets(
        folder=folder,
        published=published.with_columns(
            pl.col("value").cast(pl.Float64), pl.col("replications").cast(pl.Int64)
        ),
        tables=pl.read_csv(tables_file, infer_schema=False, glob=False),
        presentation=presentation,
    )


def load_drawn(scenario_file: Path, factors: Iterable[str]) -> Drawn:
    """Read the figures that are drawn for a scenario with these factors.

    None if no file beside it names any.
    """
    folder = scenario_file.resolve().parent
    if not (folder / PRESENTATION_FILE).is_file():
        return Drawn()
    from lasthop.studies.presentation.read import load_presentation

    known = set(factors)
    presentation = load_presentation(folder)
    return Drawn(
        tuple(spec for spec in presentation.curves if {*spec.factors, *spec.where} <= known),
        tuple(spec for spec in presentation.heatmap if {*spec.factors, *spec.where} <= known),
    )


def _factors_together(published: pl.DataFrame) -> pl.DataFrame:
    """Append the factors for which a study has columns behind its notes."""
    columns = published.columns
    late, flow = columns[columns.index("note") + 1 :], columns.index("flow")
    return published.select(*columns[:flow], *late, *(name for name in columns[flow:] if name not in late))
