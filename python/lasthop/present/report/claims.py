"""The claims of a study as the report's template needs them."""

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
    """The interval of left minus right on its axis; `band` is the tolerance, if any."""

    axis: Axis
    bar: IntervalView
    band: IntervalView | None


@dataclass(frozen=True, slots=True)
class ClaimsView:
    """All claims in the study's order, and the answers to the source's statements."""

    outcomes: Sequence[Outcome]
    answers: Sequence[Answer]

    @property
    def summary(self) -> list[str]:
        return summary_lines(self.outcomes, self.answers)

    def answers_by(self, *, upheld: bool) -> list[Answer]:
        """Return the answers to statements that are upheld, or to all others."""
        return [outcome for outcome in failing_first(self.answers) if (outcome.verdict == UPHELD) == upheld]

    @property
    def contradictory(self) -> list[tuple[Outcome, Outcome]]:
        """Pairs of claims that cannot both hold."""
        by_id = {outcome.claim.id: outcome for outcome in self.outcomes}
        return [(by_id[a], by_id[b]) for a, b in contradictions(self.outcomes) if a in by_id and b in by_id]

    def remarks_on(self, answer: Answer) -> list[str]:
        """Return the distinct remarks of the claims that have the statement's verdict."""
        alike = [claim for claim in answer.claims if claim.verdict == answer.verdict]
        remarks = (remark for claim in alike for remark in (claim.reason, *_explained(claim)))
        return list(dict.fromkeys(filter(None, remarks)))

    def remarks(self, outcome: Outcome) -> list[str]:
        return list(filter(None, (outcome.claim.reading, outcome.reason, *_explained(outcome))))

    def levels(self, outcome: Outcome) -> str:
        return place_text(outcome.decisive).replace(",", ", ") if outcome.decisive else ""

    def cells(self, outcome: Outcome) -> str:
        """Return how many cells uphold the claim separately."""
        upheld = sum(cell.verdict == UPHELD for cell in outcome.cells)
        return f"{upheld} of {len(outcome.cells)}" if outcome.cells else ""

    def number(self, value: float | None) -> str:
        return "–" if value is None else minus(f"{value:.3g}")

    def bar(self, outcome: Outcome) -> ClaimBar | None:
        """Return the bar of the decisive difference."""
        part = outcome.decisive
        interval = part.difference if part else None
        if part is None or interval is None or not math.isfinite(interval.low + interval.high):
            return None
        allowed = outcome.claim.within * abs(part.right or 0.0)  # the tolerance is a share of the right side
        axis = Axis.over([interval.low, interval.high, *([allowed, -allowed] if allowed else [])])
        band = axis.view(Interval(0.0, -allowed, allowed)) if allowed else None
        return ClaimBar(axis, axis.view(interval), band)


def _explained(outcome: Outcome) -> list[str]:
    against = outcome.claim.contradicts_source
    contradicted = f"The source contradicts itself: {against}" if against else ""
    return list(filter(None, (outcome.claim.explanation, contradicted)))
