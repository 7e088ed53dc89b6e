"""The run behind a verdict: of all replications the one that speaks most against the claim."""

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
    """Return the run with the value that speaks most against a claim; `None` if there is no value.

    It is judged by the first term of the decisive statement that is not about the baseline.
    """
    part = outcome.decisive
    if part is None:
        return None
    laid = next(one for one in outcome.claim.holds if part.statement.startswith(one.statement.text))
    found = _first_term(laid)
    if found is None:
        return None
    term, bound, up = found
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
    """Return a term, and whether a large value speaks against the claim; `None`: one far from the others."""
    statement = laid.statement
    for right, side in enumerate(sides(statement)):
        for term, bound in bound_terms(side):
            if term.baseline:
                continue
            relation = statement.relation if isinstance(statement, Comparison) else "=="
            return term, bound, None if relation == "==" else (relation[0] == "<") != bool(right)
    return None
