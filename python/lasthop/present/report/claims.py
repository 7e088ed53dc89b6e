"""The claims of a study, for the report: what its template asks about outcomes and answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lasthop.analysis.claims import NOT_UPHELD, UNDECIDED, UPHELD
from lasthop.analysis.claims.answers import Answer, failing_first
from lasthop.analysis.claims.evaluate import Outcome
from lasthop.analysis.claims.verdicts import contradictions, place_text, summary_lines
from lasthop.common.statistics.estimates import Interval
from lasthop.present.report.intervals import Axis, IntervalView, minus

_CSS = {UPHELD: "good", NOT_UPHELD: "bad", UNDECIDED: "open"}


def css(verdict: str) -> str:
    """Return the class of a verdict's badge."""
    return _CSS.get(verdict, "none")


@dataclass(frozen=True, slots=True)
class ClaimBar:
    """The interval of left less right on an axis of its own; `band` is the tolerance, empty without one."""

    axis: Axis
    bar: IntervalView
    band: IntervalView | None


@dataclass(frozen=True, slots=True)
class ClaimsView:
    """All claims, in the study's order, and the answers to the source's statements."""

    outcomes: Sequence[Outcome]
    answers: Sequence[Answer]

    @property
    def summary(self) -> list[str]:
        """The summary in sentences."""
        return summary_lines(self.outcomes, self.answers)

    def said(self, *, upheld: bool) -> list[Answer]:
        """Return the answers to statements that are upheld, or to those that are not, or not for certain."""
        return [one for one in failing_first(self.answers) if (one.verdict == UPHELD) == upheld]

    @property
    def contradictory(self) -> list[tuple[Outcome, Outcome]]:
        """Pairs of claims that cannot both hold."""
        by_id = {one.claim.id: one for one in self.outcomes}
        return [(by_id[a], by_id[b]) for a, b in contradictions(self.outcomes) if a in by_id and b in by_id]

    def remarks_on(self, answer: Answer) -> list[str]:
        """Explain the verdict on a statement: by the claims that have the same, each remark once."""
        alike = [one for one in answer.claims if one.verdict == answer.verdict]
        return list(dict.fromkeys(said for one in alike for said in (one.reason, *_explained(one)) if said))

    def remarks(self, one: Outcome) -> list[str]:
        """Explain a claim and its verdict."""
        return [said for said in (one.claim.reading, one.reason, *_explained(one)) if said]

    def levels(self, one: Outcome) -> str:
        """Name the levels that decide."""
        return place_text(one.decisive).replace(",", ", ") if one.decisive else ""

    def cells(self, one: Outcome) -> str:
        """Say how many cells uphold the claim on their own."""
        upheld = sum(cell.verdict == UPHELD for cell in one.cells)
        return f"{upheld} of {len(one.cells)}" if one.cells else ""

    def number(self, value: float | None) -> str:
        """Write a number."""
        return "–" if value is None else minus(f"{value:.3g}")

    def bar(self, one: Outcome) -> ClaimBar | None:
        """Lay out the difference that decides."""
        part = one.decisive
        interval = part.difference if part else None
        if part is None or interval is None or not math.isfinite(interval.low + interval.high):
            return None
        allowed = one.claim.within * abs(part.right or 0.0)  # the tolerance is a share of the right side
        axis = Axis.over([interval.low, interval.high, *([allowed, -allowed] if allowed else [])])
        band = axis.view(Interval(0.0, -allowed, allowed)) if allowed else None
        return ClaimBar(axis, axis.view(interval), band)


def _explained(one: Outcome) -> list[str]:
    against = one.claim.contradicts_source
    contradicted = f"The source contradicts itself: {against}" if against else ""
    return [said for said in (one.claim.explanation, contradicted) if said]
