"""Claims on artificial scenarios and records, and verdicts of results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lasthop.analysis.claims.evaluate import Outcome, evaluate
from lasthop.analysis.claims.records import Records
from lasthop.studies.claims.file import load_claims

Factors = Mapping[str, Sequence[str]]
ORDERS = {"variant": ["a", "b", "c"], "load": ["60", "70", "80", "90"]}


@dataclass
class Cell:
    """A combination of levels."""

    levels: dict[str, str]


@dataclass
class Scenario:
    """The properties of a scenario that claims use."""

    factors: dict[str, list[str]]
    cells: list[Cell]


def scenario(factors: Factors, has: Callable[[dict[str, str]], bool] = lambda _: True) -> Scenario:
    """Every combination of the levels that `has` accepts."""
    cells = [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]
    return Scenario(
        {name: list(levels) for name, levels in factors.items()}, [Cell(cell) for cell in cells if has(cell)]
    )


def rows(
    values: Mapping[tuple[str, ...], Iterable[float | None]], factors: Factors, **others: str
) -> pl.DataFrame:
    """A table of `time_s`: the values of each cell, by its levels, replication by replication."""
    return pl.DataFrame(
        [
            {
                **dict(zip(factors, key, strict=True)),
                "set": 1,
                "replication": number,
                **others,
                "time_s": value,
            }
            for key, cell in values.items()
            for number, value in enumerate(cell, 1)
        ],
        infer_schema_length=None,
    )


def check(folder: Path, text: str, study: Scenario, **tables: pl.DataFrame) -> list[Outcome]:
    """Evaluate the claims of a file with this text."""
    file = folder / "claims.toml"
    file.write_text(text, encoding="utf-8")
    claims = load_claims(file, study)
    return evaluate(claims, Records(tables, claims.factors))


def one(folder: Path, body: str, study: Scenario, **tables: pl.DataFrame) -> Outcome:
    """Evaluate a single claim, given by its lines without id and text."""
    return check(folder, f'[[claim]]\nid = "C"\ntext = "said"\n{body}\n', study, **tables)[0]


def verdicts(out: Path) -> dict[str, str]:
    """Return the verdict on each claim of a results folder, by its id."""
    return dict(pl.read_csv(out / "claims.csv").select("id", "verdict").iter_rows())
