"""The shipped studies, and the files of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from lasthop.common.errors import InputError, nearest
from lasthop.studies.presentation.drawn import PRESENTATION_FILE, Drawn
from lasthop.studies.text import read_rows

if TYPE_CHECKING:
    from lasthop.studies.presentation.spec import Presentation

SCENARIO_FILE = "study.toml"
_PUBLISHED: Mapping[str, type[pl.DataType]] = {
    "table": pl.String,
    "flow": pl.String,
    "metric": pl.String,
    "statistic": pl.String,
    "value": pl.Float64,
    "unit": pl.String,
    "replications": pl.Int64,
    "note": pl.String,
}
"""The columns of `published.csv` other than factors."""
PUBLISHED = Path(__file__).with_name("published")
"""The folder of the shipped studies, a link in a checkout."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The published numbers of a study: `published` has a row per number, `tables` one per table and cell."""

    folder: Path
    published: pl.DataFrame
    tables: pl.DataFrame
    presentation: Presentation

    def published_in_own_words(self) -> pl.DataFrame:
        """Return the published numbers with the roles and levels of the records."""
        parts = []
        for spec in self.presentation.tables:
            own = {word: role for role, word in spec.roles.items()}
            words = {"flow": own, **spec.levels}
            rows = self.published.filter(pl.col("table").is_in(spec.ids))
            parts.append(
                rows.with_columns(pl.col(name).replace(dict(mapping)) for name, mapping in words.items())
            )
        return pl.concat(parts) if parts else self.published.clear()

    def extra_factors(self, factors: Iterable[str]) -> list[str]:
        """Return the factors of a scenario that the published numbers lack, such as an assumption."""
        columns = {*self.tables.columns, *self.published.columns}
        return [factor for factor in factors if factor not in columns]


def list_studies() -> dict[str, Path]:
    """Return the folders of the shipped studies by name."""
    return {file.parent.name: file.parent for file in sorted(PUBLISHED.glob(f"*/{SCENARIO_FILE}"))}


def find_study(name: str) -> Path:
    """Return the folder of study `name`; raise `InputError` if it does not exist."""
    studies = list_studies()
    if name in studies:
        return studies[name]
    if not studies:
        raise InputError(f"There is no study '{name}': this installation contains no studies.")
    raise InputError(
        f"There is no study '{name}'; did you mean '{nearest(name, studies)}'? Studies: {', '.join(studies)}."
    )


def find_scenario(name: str) -> Path:
    """Return the scenario file for a command's argument, which is a file or the name of a study.

    A file of claims, `NAME.claims.toml`, stands for its scenario, `NAME.toml`.
    """
    file = Path(name)
    if name.endswith(".claims.toml"):
        return file.with_name(f"{file.name.removesuffix('.claims.toml')}.toml")
    return file if file.suffix == ".toml" or file.is_file() else find_study(name) / SCENARIO_FILE


def load_assets(scenario_file: Path, factors: Iterable[str]) -> Assets | None:
    """Read the published numbers in the folder of a scenario file.

    `None` if there are none, or if `factors` lack a factor that distinguishes the published numbers.
    """
    folder = scenario_file.resolve().parent
    published_file, tables_file = folder / "published.csv", folder / "tables.csv"
    if not (published_file.is_file() and tables_file.is_file()):
        return None
    published = _factors_together(_read_table(published_file, _PUBLISHED))
    keys = published.columns[published.columns.index("table") + 1 : published.columns.index("flow")]
    if not {key for key in keys if published[key].null_count() < published.height} <= set(factors):
        return None
    from lasthop.studies.presentation.read import load_presentation

    presentation = load_presentation(folder)
    return Assets(
        folder=folder,
        published=published,
        tables=_read_table(tables_file, {"table": pl.String}),
        presentation=presentation,
    )


def _read_table(file: Path, columns: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Read a CSV file with at least these columns; raise `InputError` with file and line."""
    lines = read_rows(file)
    _, header = next(lines, (1, []))
    if missing := [name for name in columns if name not in header]:
        raise InputError(f"{file}:1: the column '{missing[0]}' is missing. Columns: {', '.join(header)}.")
    if twice := [name for name in header if header.count(name) > 1]:
        raise InputError(f"{file}:1: there are two columns '{twice[0]}': remove one.")
    rows, numbers = [], []
    for number, row in lines:
        if len(row) != len(header):
            raise InputError(
                f"{file}:{number}: the row has {len(row)} values for {len(header)} columns. Put values "
                "with commas in quotation marks."
            )
        rows.append([value or None for value in row])
        numbers.append(number)
    table = pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String), orient="row")
    cast = table.with_columns(pl.col(name).cast(kind, strict=False) for name, kind in columns.items())
    for name in columns:
        if wrong := (table[name].is_not_null() & cast[name].is_null()).arg_true().to_list():
            raise InputError(
                f"{file}:{numbers[wrong[0]]}: `{name}`: '{table[name][wrong[0]]}' is not "
                f"{'a whole number' if cast[name].dtype.is_integer() else 'a number'}: correct it, or leave "
                "it empty."
            )
    return cast


def load_drawn(scenario_file: Path, factors: Iterable[str]) -> Drawn:
    """Read the figures for a scenario with these factors from the file in its folder, if any."""
    folder = scenario_file.resolve().parent
    if not (folder / PRESENTATION_FILE).is_file():
        return Drawn()
    from lasthop.studies.presentation.read import load_presentation

    own = set(factors)
    presentation = load_presentation(folder)
    return Drawn(
        tuple(spec for spec in presentation.curves if {*spec.factors, *spec.where} <= own),
        tuple(spec for spec in presentation.heatmap if {*spec.factors, *spec.where} <= own),
    )


def _factors_together(published: pl.DataFrame) -> pl.DataFrame:
    """Move factors whose columns follow the notes to the other factors."""
    columns = published.columns
    late, flow = columns[columns.index("note") + 1 :], columns.index("flow")
    return published.select(*columns[:flow], *late, *(name for name in columns[flow:] if name not in late))
