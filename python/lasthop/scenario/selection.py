"""Selecting cells of the factor matrix on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from lasthop import _core
from lasthop.common.errors import InputError, nearest

if TYPE_CHECKING:
    import polars as pl

_NAMED_AT_MOST = 5
_LEVELS_AT_MOST = 20
_NONE: dict[str, dict[str, object]] = {"ranges": {}}


class HasLevels(Protocol):
    """Anything that has a combination of factor levels."""

    @property
    def key(self) -> str:
        """The levels as `factor=level,...`."""

    @property
    def levels(self) -> dict[str, str]:
        """The level of each factor."""


C = TypeVar("C", bound=HasLevels)


def all_levels(study: _core.Study) -> dict[str, list[str]]:
    """Return the levels of all factors by name, for ranges the sampled levels."""
    sampled = {
        name: list(dict.fromkeys(cell.levels[name] for cell in study.cells))
        for name in (study.space or _NONE)["ranges"]
    }
    return {**study.factors, **sampled}


def parse_levels(
    text: str, factors: Mapping[str, Sequence[str]], option: str = "--only"
) -> dict[str, set[str]]:
    """Return the levels of each factor in `factor=level,...`; raise `InputError` if they do not exist."""
    chosen: dict[str, set[str]] = {}
    for part in text.split(","):
        factor, equals, level = (piece.strip() for piece in part.partition("="))
        if not equals:
            example = next((f"{name}={levels[0]}" for name, levels in factors.items() if levels), "link=e0")
            raise InputError(
                f"{option} {text}: '{part}' is not FACTOR=LEVEL. Write for example {option} {example}."
            )
        if factor not in factors:
            raise InputError(
                f"{option} {text}: there is no factor '{factor}'; did you mean '{nearest(factor, factors)}'? "
                f"Factors: {', '.join(factors)}."
                if factors
                else f"{option} {text}: the scenario has no factors and a single cell; leave out {option}."
            )
        levels = factors[factor]
        level = level if level in levels else level.replace(" ", "")  # 64 kbit/s is the level 64kbit/s
        if level not in levels:
            more = ", ..." if len(levels) > _LEVELS_AT_MOST else ""
            raise InputError(
                f"{option} {text}: factor '{factor}' has no level '{level}'; did you mean "
                f"'{nearest(level, levels)}'? Levels: {', '.join(levels[:_LEVELS_AT_MOST])}{more}."
            )
        chosen.setdefault(factor, set()).add(level)
    return chosen


def select_cells(cells: Sequence[C], factors: Mapping[str, Sequence[str]], only: Sequence[str]) -> list[C]:
    """Return the cells that match any of the filters, in the order of `cells`; without filters, all cells.

    A filter is `factor=level,...`: all factors must match; several levels of a factor are alternatives.
    """
    if not only:
        return list(cells)
    filters = [parse_levels(text, factors) for text in only]
    chosen = [c for c in cells if any(all(c.levels.get(k) in v for k, v in f.items()) for f in filters)]
    if not chosen:
        raise InputError(
            f"--only {' --only '.join(only)}: the scenario has no cell with this combination of levels."
        )
    return chosen


def select_cell(
    cells: Sequence[C],
    factors: Mapping[str, Sequence[str]],
    key: str | None,
    only: Sequence[str],
    otherwise: str = "",
) -> C:
    """Return the cell with this key, or the only cell that matches the filters.

    `otherwise` is a hint on what a command can do with several cells.
    """
    if key is not None and only:
        raise InputError("--cell and --only both select the cell: omit one of them.")
    if key is not None:
        by_key = {cell.key: cell for cell in cells}
        if key not in by_key:
            raise InputError(
                f"--cell {key}: this cell does not exist; did you mean '{nearest(key, by_key)}'?"
            )
        return by_key[key]
    chosen = select_cells(cells, factors, only)
    if len(chosen) > 1:
        named = ", ".join(f"'{cell.key}'" for cell in chosen[:_NAMED_AT_MOST])
        more = ", ..." if len(chosen) > _NAMED_AT_MOST else ""
        raise InputError(
            f"{len(chosen)} cells match, but this command needs one. Select it with --cell KEY or narrow "
            f"--only ({named}{more}){otherwise}."
        )
    return chosen[0]


class _Combination(NamedTuple):
    """The levels of rows, in a form that filters can select."""

    levels: dict[str, str]

    @property
    def key(self) -> str:
        return ",".join(f"{name}={level}" for name, level in self.levels.items())


def select_combinations(
    combinations: pl.DataFrame, factors: Mapping[str, Sequence[str]], only: Sequence[str]
) -> pl.DataFrame:
    """Return the rows of a table, with a column per factor, that match the filters of `select_cells`."""
    import polars as pl

    cells = [_Combination(cell) for cell in combinations.iter_rows(named=True)]
    chosen = [cell.levels for cell in select_cells(cells, factors, only)]
    return pl.DataFrame(chosen, schema=combinations.schema)


def check_role(role: str, roles: Sequence[str]) -> None:
    """Raise `InputError` if the results have no flows of this role."""
    if role not in roles:
        raise InputError(
            f"--role {role}: this role does not exist; did you mean '{nearest(role, roles)}'? "
            f"Roles: {', '.join(dict.fromkeys(roles))}."
        )
