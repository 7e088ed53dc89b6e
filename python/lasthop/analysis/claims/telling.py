"""The run behind a verdict: the replication that contradicts the claim most."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lasthop.analysis.claims.evaluate import Outcome
from lasthop.analysis.claims.records import Records
from lasthop.studies.claims.design import Laid, combinations
from lasthop.studies.claims.language import FLOW, REPLICATION, Comparison, Levels, Term, bound_terms, sides


@dataclass(frozen=True)
class Telling:
    """A run: its cell, its set, and its replication within the set; both count from 1."""

    levels: Mapping[str, str]
    set_number: int
    replication: int


def telling_run(outcome: Outcome, records: Records) -> Telling | None:
    """Return the run whose value contradicts a claim most; `None` if there is no value.

    The value is the first term of the decisive statement that does not concern the baseline.
    """
    part = outcome.decisive
    if part is None:
        return None
    laid = next(laid for laid in outcome.claim.holds if part.statement.startswith(laid.statement.text))
    first = _first_term(laid)
    if first is None:
        return None
    term, bound, up = first
    place = next(p for p in laid.places if all(p[factor] == level for factor, level in part.place.items()))
    levels = {**{factor: (level,) for factor, level in place.items()}, **bound, **term.levels}
    key = next(combinations(records.factors, levels))
    values = records.values(term.column, levels.get(FLOW), key, term.rows)
    values = np.where(records.chosen(levels.get(REPLICATION)), values, np.nan)
    if np.isnan(values).all():
        return None
    against = np.abs(values - np.nanmedian(values)) if up is None else values if up else -values
    number = int(np.nanargmax(against))
    set_number, replication = records.pair(number)
    return Telling(dict(zip(records.factors, key, strict=True)), set_number, replication)


def _first_term(laid: Laid) -> tuple[Term, Levels, bool | None] | None:
    """Return a term, and whether a large value contradicts the claim; `None` if an outlier does."""
    statement = laid.statement
    for right, side in enumerate(sides(statement)):
        for term, bound in bound_terms(side):
            if term.baseline:
                continue
            relation = statement.relation if isinstance(statement, Comparison) else "=="
            return term, bound, None if relation == "==" else (relation[0] == "<") != bool(right)
    return None
