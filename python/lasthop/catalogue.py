"""Studies: where they are, and the files that belong to each."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from lasthop.errors import InputError, nearest
from lasthop.statistics import PercentileMethod, percentile_method

SCENARIO_FILE = "study.toml"
_PACKAGE = Path(__file__).resolve().parent
NOT_STATED = "not stated"
"""Statistic of a printed number whose study does not say which one over the replications it is."""
FACTORIAL_KINDS = ("run-metrics", "variation", "effects")
"""Kinds of tables of a full-factorial study: metrics of runs, and the two halves of their analysis of variance."""
_KINDS = (
    *("per-flow", "overall-time", "udp-spacing", "mixture", "page", "page-classes", "page-change"),
    *FACTORIAL_KINDS,
)


@dataclass(frozen=True, slots=True)
class TableSpec:
    """What some of a study's tables show; `ids` are table numbers as in `tables.csv`.

    `roles` says what the tables call roles, `levels` what they call levels of a factor (their word: ours);
    `reference` is the cell, by the factor's level in `tables.csv`, that changes are relative to. `not_stated` is the
    statistic, `median` or `mean`, that is compared where the study does not state one.
    """

    kind: str
    ids: tuple[str, ...]
    title: str
    percentiles: PercentileMethod
    roles: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reference: Mapping[str, str] = field(default_factory=dict)
    not_stated: str = "median"

    def own_levels(self, levels: Mapping[str, str]) -> dict[str, str]:
        """Return levels in the scenario's words."""
        return {factor: self.levels.get(factor, {}).get(level, level) for factor, level in levels.items()}


@dataclass(frozen=True, slots=True)
class FactorSpec:
    """A factor of a design in the study's words: its name, and its levels (our word: theirs)."""

    name: str
    levels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FactorialSpec:
    """A full-factorial study of metrics of runs.

    `metrics` are columns of `runs.parquet` (our word: the study's). `factors` are those of the analysis of variance. A
    figure has a line per level of the first of them, over the levels of the second, in a panel per level of the third.
    """

    metrics: Mapping[str, str]
    factors: Mapping[str, FactorSpec]

    @property
    def cells(self) -> int:
        """Number of combinations of levels."""
        return math.prod(len(factor.levels) for factor in self.factors.values())


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """One illustrated replication."""

    cell: str
    replication: int
    title: str
    caption: str


@dataclass(frozen=True, slots=True)
class CurvesSpec:
    """Metrics of short flows over the levels of factor `x`, as small multiples.

    A figure has a row of panels per metric (column of `shorts.parquet` or rate of its events: its name, to which the
    unit is added) and a panel per level of factor `panels`, or per pair of them in `quotients`, of which the metric's
    quotient is shown; without `panels`, a panel per metric. `lines` gives of each line its levels and, as `flow`, the
    name of its hosts. `where` restricts the cells. There is a figure for each combination of levels of the other
    factors.
    """

    title: str
    x: str
    x_title: str
    metrics: Mapping[str, str]
    lines: Mapping[str, Mapping[str, str]]
    panels: str | None = None
    quotients: Mapping[str, Sequence[str]] = field(default_factory=dict)
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    connected: bool = True

    @property
    def factors(self) -> list[str]:
        """The factors that a figure shows, in no order."""
        of_lines = {factor for levels in self.lines.values() for factor in levels} - {"flow"}
        return [self.x, *([self.panels] if self.panels else []), *of_lines]


@dataclass(frozen=True, slots=True)
class Presentation:
    """The contents of `report.toml`: how a study's results are summarised and shown."""

    percentiles: PercentileMethod = "linear"
    not_stated: str = "median"
    factor: str | None = None
    references: tuple[str, ...] = ()
    misprints: tuple[str, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    figures: tuple[FigureSpec, ...] = ()
    factorial: FactorialSpec | None = None
    curves: tuple[CurvesSpec, ...] = ()

    @property
    def of_runs(self) -> bool:
        """Whether every table is of runs as wholes, so that single flows have no part in it."""
        return bool(self.tables) and all(spec.kind in FACTORIAL_KINDS for spec in self.tables)


@dataclass(frozen=True, slots=True)
class Assets:
    """The published side of a study. `published` has one row per printed number, `tables` one per table and cell."""

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
            parts.append(rows.with_columns(pl.col(name).replace(dict(known)) for name, known in words.items()))
        return pl.concat(parts) if parts else self.published.clear()

    def extra_factors(self, factors: Iterable[str]) -> list[str]:
        """Return those of a scenario's factors that the published numbers do not know, such as an assumption."""
        known = {*self.tables.columns, *self.published.columns}
        return [factor for factor in factors if factor not in known]


def _roots() -> list[Path]:
    # An installed package carries its studies; a source checkout has them beside python/.
    return [_PACKAGE / "studies", _PACKAGE.parent.parent / "studies"]


def list_studies() -> dict[str, Path]:
    """Return the folder of every shipped study, by name."""
    found: dict[str, Path] = {}
    for root in _roots():
        for file in sorted(root.glob(f"*/{SCENARIO_FILE}")):
            found.setdefault(file.parent.name, file.parent)
    return dict(sorted(found.items()))


def find_study(name: str) -> Path:
    """Return the folder of study `name`; raise `InputError` if there is none."""
    studies = list_studies()
    if name in studies:
        return studies[name]
    if not studies:
        raise InputError(f"There is no study '{name}': this installation carries no studies.")
    raise InputError(
        f"There is no study '{name}'; did you mean '{nearest(name, studies)}'? Known studies: {', '.join(studies)}."
    )


def find_scenario(name: str) -> Path:
    """Return the scenario file that a command names: a file, or a study by its name."""
    file = Path(name)
    return file if file.suffix == ".toml" or file.is_file() else find_study(name) / SCENARIO_FILE


def _expand_ids(text: str) -> tuple[str, ...]:
    ids: list[str] = []
    for part in text.replace(",", " ").split():
        match = re.fullmatch(r"T(\d+)-T(\d+)", part)
        if match:
            ids.extend(f"T{n}" for n in range(int(match[1]), int(match[2]) + 1))
        else:
            ids.append(part)
    return tuple(ids)


def _entries(data: Mapping[str, Any], key: str, required: set[str], optional: set[str]) -> list[dict[str, Any]]:
    entries = data.get(key, [])
    for entry in entries:
        unknown = set(entry) - required - optional
        missing = required - set(entry)
        if unknown or missing:
            raise ValueError(f"[[{key}]]: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
    return list(entries)


def parse_presentation(text: str) -> Presentation:
    """Parse `report.toml`; raise `ValueError` if something in it is unknown or missing.

    `percentiles` is `linear` or `lower`. `not_stated` is the statistic, `median` or `mean`, that is compared where the
    study does not state one. `misprints` lists phrases; a published number whose note has one of them is
    left out of the agreement. `[compare]` names the factor whose levels are compared in pairs and the
    reference levels in order of preference. `[[tables]]` gives, for table numbers such as `T26-T72`, what they show:
    one of `_KINDS`, and `percentiles` of their own, other words for roles and levels, and the reference of changes, if
    need be. `[[figure]]` names a cell and a replication to be drawn packet by packet. `[factorial]` is what tables of
    the `FACTORIAL_KINDS` are about: `metrics` (column of `runs.parquet`: the study's word) and three `factors`, each
    with its `name` and its `levels` (our word: the study's). `[[curves]]` has the fields of `CurvesSpec`.
    """
    data = tomllib.loads(text)
    unknown = set(data) - {
        "percentiles",
        "not_stated",
        "misprints",
        "compare",
        "tables",
        "figure",
        "factorial",
        "curves",
    }
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    method = data.get("percentiles", "linear")
    not_stated = data.get("not_stated", "median")
    if not_stated not in ("median", "mean"):
        raise ValueError(f"unknown statistic not_stated = '{not_stated}': it is median or mean")
    tables = []
    for entry in _entries(data, "tables", {"ids", "kind", "title"}, {"percentiles", "roles", "levels", "reference"}):
        if entry["kind"] not in _KINDS:
            raise ValueError(f"unknown kind of table '{entry['kind']}'; nearest: {nearest(entry['kind'], _KINDS)}")
        own = percentile_method(entry.get("percentiles", method))
        words = {key: entry[key] for key in ("roles", "levels", "reference") if key in entry}
        tables.append(
            TableSpec(entry["kind"], _expand_ids(entry["ids"]), entry["title"], own, not_stated=not_stated, **words)
        )
    figures = [
        FigureSpec(entry["cell"], int(entry.get("replication", 1)), entry["title"], entry.get("caption", ""))
        for entry in _entries(data, "figure", {"cell", "title"}, {"replication", "caption"})
    ]
    curves = _entries(
        data, "curves", {"title", "x", "x_title", "metrics", "lines"}, {"panels", "quotients", "where", "connected"}
    )
    factorial = _factorial(data["factorial"]) if "factorial" in data else None
    if factorial is None and any(table.kind in FACTORIAL_KINDS for table in tables):
        raise ValueError("[factorial] is missing: a table is of metrics of runs")
    compare = data.get("compare", {})
    return Presentation(
        percentiles=percentile_method(method),
        not_stated=not_stated,
        factor=compare.get("factor"),
        references=tuple(compare.get("references", ())),
        misprints=tuple(data.get("misprints", ())),
        tables=tuple(tables),
        figures=tuple(figures),
        factorial=factorial,
        curves=tuple(CurvesSpec(**entry) for entry in curves),
    )


def _factorial(data: Mapping[str, Any]) -> FactorialSpec:
    if set(data) != {"metrics", "factors"} or len(data["factors"]) != 3:
        raise ValueError("[factorial]: keys are missing or unknown; it has metrics and three factors")
    factors = {}
    for factor, words in data["factors"].items():
        if set(words) != {"name", "levels"}:
            raise ValueError(f"[factorial.factors.{factor}]: keys are missing or unknown; it has name and levels")
        factors[factor] = FactorSpec(words["name"], words["levels"])
    return FactorialSpec(data["metrics"], factors)


def load_assets(scenario_file: Path, factors: Iterable[str]) -> Assets | None:
    """Read the published side that stands beside a scenario file.

    `None` if there is none, or if `factors` lack one of those that tell the published numbers apart.
    """
    folder = scenario_file.resolve().parent
    published_file, tables_file = folder / "published.csv", folder / "tables.csv"
    if not (published_file.is_file() and tables_file.is_file()):
        return None
    published = _factors_together(pl.read_csv(published_file, infer_schema=False))
    keys = published.columns[published.columns.index("table") + 1 : published.columns.index("flow")]
    if not {key for key in keys if published[key].null_count() < published.height} <= set(factors):
        return None
    presentation = _load_presentation(folder)
    return Assets(
        folder=folder,
        published=published.with_columns(pl.col("value").cast(pl.Float64), pl.col("replications").cast(pl.Int64)),
        tables=pl.read_csv(tables_file, infer_schema=False),
        presentation=presentation,
    )


def load_curves(scenario_file: Path, factors: Iterable[str]) -> tuple[CurvesSpec, ...]:
    """Read which curves are drawn of a scenario with these factors; none if nothing beside the file says so."""
    known = set(factors)
    curves = _load_presentation(scenario_file.resolve().parent).curves
    return tuple(spec for spec in curves if {*spec.factors, *spec.where} <= known)


def _load_presentation(folder: Path) -> Presentation:
    file = folder / "report.toml"
    if not file.is_file():
        return Presentation()
    try:
        return parse_presentation(file.read_text(encoding="utf-8"))
    except (ValueError, KeyError) as error:
        raise InputError(f"{file}: {error}") from error


def _factors_together(published: pl.DataFrame) -> pl.DataFrame:
    """Let the factors of which a study has columns behind its notes follow the others."""
    columns = published.columns
    late, flow = columns[columns.index("note") + 1 :], columns.index("flow")
    return published.select(*columns[:flow], *late, *(name for name in columns[flow:] if name not in late))
