"""The answer of a results folder, for the command line."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from lasthop.campaign.results.manifest import finished
from lasthop.campaign.results.sections import Section, sections
from lasthop.campaign.results.tables import Tables
from lasthop.common.errors import InputError, nearest
from lasthop.present.answer.show import STATISTICS, Shown, statistics
from lasthop.scenario.selection import select_combinations


def read_sections(folder: Path, metrics: Sequence[str] = (), *, parts: bool = False) -> list[Section]:
    """Read the sections of finished results. Raises InputError if results or metrics are missing.

    With `parts`, connections that carry parts of a flow have rows, too.
    """
    finished(folder)
    return sections(Tables.read(folder), metrics, parts=parts)


def levels_of(answer: Sequence[Section]) -> dict[str, list[str]]:
    """Return the levels of each factor by its name."""
    return {
        name: pl.concat([section.rows[column] for section in answer]).unique(maintain_order=True).to_list()
        for column, name in answer[0].factors.items()
    }


def only_cells(answer: Sequence[Section], only: Sequence[str]) -> list[Section]:
    """Return the sections with the cells that `--only` selects. Raises InputError if it selects none."""
    if not only:
        return list(answer)
    names = dict(answer[0].factors)
    cells = pl.concat([section.rows.select(list(names)) for section in answer]).unique(maintain_order=True)
    chosen = select_combinations(cells.rename(names), levels_of(answer), only)
    chosen = chosen.rename({name: column for column, name in names.items()})

    def keep(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.join(chosen, on=list(names), how="semi", maintain_order="left")

    return [
        replace(
            section,
            rows=keep(section.rows),
            compared=[entry._replace(rows=keep(entry.rows)) for entry in section.compared],
        )
        for section in answer
    ]


def check_statistic(name: str) -> None:
    if name not in STATISTICS:
        raise InputError(
            f"--stat {name}: unknown statistic; did you mean '{nearest(name, STATISTICS)}'? "
            f"Statistics: {', '.join(STATISTICS)}."
        )


def columns_of(by: Sequence[str], answer: Sequence[Section]) -> list[str]:
    """Return the columns of factors. Raises InputError if the results lack a factor."""
    columns = {name: column for column, name in answer[0].factors.items()}
    for factor in by:
        if factor not in columns:
            guess = (
                f"; did you mean '{nearest(factor, columns)}'? Factors: {', '.join(columns)}"
                if columns
                else ""
            )
            raise InputError(f"--by {factor}: the results have no factor of this name{guess}.")
    return [columns[factor] for factor in by]


def whole_table(answer: Sequence[Section], shown: Shown) -> pl.DataFrame:
    """Return the statistic of every row and metric, in the units of the records."""
    parts = [
        statistics(section, shown.by).filter(pl.col("statistic") == shown.statistic) for section in answer
    ]
    table = pl.concat(parts)
    names = answer[0].factors
    return table.rename({c: names[c] for c in table.columns if c in names and names[c] not in table.columns})
