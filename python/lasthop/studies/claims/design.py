"""The cells that a statement is about, and those that it compares."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lasthop.studies.claims.language import (
    FLOW,
    REPLICATION,
    ClaimError,
    Comparison,
    Expression,
    Levels,
    Over,
    Statement,
    Term,
    bound_terms,
    rewrite,
    sides,
)

Place = Mapping[str, str]
"""The level of each factor that distinguishes the cells of a claim."""
Key = tuple[str, ...]


class Scenario(Protocol):
    """The properties of a scenario that are needed here."""

    @property
    def factors(self) -> dict[str, list[str]]:
        """The levels of each factor."""

    @property
    def cells(self) -> Sequence[HasLevels]: ...


class HasLevels(Protocol):
    @property
    def levels(self) -> dict[str, str]:
        """The level of each factor."""


def combinations(factors: Iterable[str], levels: Levels) -> Iterator[Key]:
    """Yield every combination of levels of the factors, in order."""
    yield from itertools.product(*(levels[factor] for factor in factors))


def single_levels(levels: Levels) -> Iterator[Levels]:
    """Yield every combination of single levels."""
    for key in combinations(levels, levels):
        yield {factor: (level,) for factor, level in zip(levels, key, strict=True)}


@dataclass(frozen=True)
class Design:
    """The factors of a scenario, and its combinations of their levels."""

    factors: Mapping[str, Sequence[str]]
    cells: frozenset[Key]
    ordered: tuple[Key, ...]
    _levels: dict[Key, Iterable[Key]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The results of `levels_of`, which many claims share."""

    @classmethod
    def of(cls, study: Scenario) -> Design:
        keys = tuple(tuple(cell.levels.get(factor, "") for factor in study.factors) for cell in study.cells)
        return cls(study.factors, frozenset(keys), keys)

    def levels_of(self, factors: Key) -> Iterable[Key]:
        """Return the combinations of levels of some of the factors, in the scenario's order."""
        if factors not in self._levels:
            position = [list(self.factors).index(factor) for factor in factors]
            self._levels[factors] = dict.fromkeys(tuple(key[i] for i in position) for key in self.ordered)
        return self._levels[factors]


@dataclass(frozen=True)
class Laid:
    """The layout of a statement over a design: `places` are its cells, distinguished by `dimensions`."""

    statement: Statement
    dimensions: tuple[str, ...]
    places: tuple[Place, ...]
    needed: frozenset[Key]
    """The cells of the scenario that it needs."""
    of_baseline: frozenset[Key]
    """The cells of the baseline that it needs."""

    def groups(
        self, factors: Sequence[str], places: Sequence[Place] | None = None
    ) -> list[tuple[Place, list[Place]]]:
        """Split places by their levels of `factors`."""
        split: dict[Key, list[Place]] = {}
        for place in self.places if places is None else places:
            split.setdefault(tuple(place[factor] for factor in factors), []).append(place)
        return [(dict(zip(factors, key, strict=True)), members) for key, members in split.items()]


def lay_out(statement: Statement, where: Levels, design: Design) -> Laid:
    """Determine the cells of a statement.

    The levels of a factor that a term names, or a function iterates over, are chosen by the terms; a term
    that does not name it uses the levels in `where`. The other factors distinguish the cells. A cell belongs
    to the claim if the scenario has all combinations of levels that its terms need.
    """
    terms = [pair for side in sides(statement) for pair in bound_terms(side)]
    if not terms:
        raise ClaimError(f"'{statement.text}' contains no metric.")
    chosen = {factor for term, bound in terms for factor in (*term.levels, *bound)}
    for term, bound in terms:
        twice = sorted(set(term.levels) & set(bound))
        if twice:
            raise ClaimError(f"'{term.text}' names {twice[0]}, which the enclosing function iterates over.")
        missing = sorted(chosen - set(term.levels) - set(bound) - set(where) - {FLOW, REPLICATION})
        if missing:
            raise ClaimError(
                f"'{term.text}' does not select a level of {missing[0]}, but another term does. Select it in "
                "both."
            )
    statement = _complete(statement, chosen | {REPLICATION}, where)
    dimensions = tuple(factor for factor in design.factors if factor not in chosen)
    candidates = [
        dict(zip(dimensions, levels, strict=True))
        for levels in design.levels_of(dimensions)
        if all(level in where.get(factor, (level,)) for factor, level in zip(dimensions, levels, strict=True))
    ]
    if FLOW in where and FLOW not in chosen:
        dimensions = (*dimensions, FLOW)
        candidates = [{**place, FLOW: flow} for place in candidates for flow in where[FLOW]]
    places, needed, of_baseline = [], set(), set()
    for place in candidates:
        own, others = (set(_keys(statement, place, design, baseline=which)) for which in (False, True))
        if own | others <= design.cells:
            places.append(place)
            needed |= own
            of_baseline |= others
    if not places:
        text = "; ".join(f"{factor}: {', '.join(levels)}" for factor, levels in where.items())
        raise ClaimError(f"the scenario has no cell for '{statement.text}'{f' with {text}' if text else ''}.")
    return Laid(statement, dimensions, tuple(places), frozenset(needed), frozenset(of_baseline))


def _complete(statement: Statement, chosen: set[str], where: Levels) -> Statement:
    def side(node: Expression) -> Expression:
        bound = {id(term): bound for term, bound in bound_terms(node)}

        def complete(term: Term) -> Expression:
            absent = {
                f: where[f]
                for f in chosen
                if f in where and f not in term.levels and f not in bound[id(term)]
            }
            return replace(term, levels={**term.levels, **absent})

        return rewrite(node, complete)

    if isinstance(statement, Comparison):
        return replace(statement, left=side(statement.left), right=side(statement.right))
    inner = side(sides(statement)[0])
    return replace(statement, inner=inner.inner if isinstance(inner, Over) else inner)


def _keys(statement: Statement, place: Place, design: Design, *, baseline: bool) -> Iterator[Key]:
    """Yield the cells of the terms on the baseline, or of the other terms."""
    here = {factor: (level,) for factor, level in place.items()}
    for side in sides(statement):
        for term, bound in bound_terms(side):
            if term.baseline == baseline:
                yield from combinations(design.factors, {**here, **bound, **term.levels})
