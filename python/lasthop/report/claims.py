"""The claims of a study, for the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lasthop.report.intervals import Axis, IntervalView, minus
from lasthop.statistics.estimates import Interval
from lasthop.studies.claims import NOT_UPHELD, UNDECIDED, UPHELD
from lasthop.studies.claims.evaluate import Outcome, Part
from lasthop.studies.claims.tables import contradictions, place_text, summary_lines

_CSS = {UPHELD: "good", NOT_UPHELD: "bad", UNDECIDED: "open"}


@dataclass(frozen=True, slots=True)
class ClaimBar:
    """The interval of left less right on an axis of its own; `band` is what the tolerance allows, empty for none."""

    axis: Axis
    bar: IntervalView
    band: IntervalView | None


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim in words, and what was found; empty where there is no number. `css` is the class of its badge."""

    id: str
    section: str
    text: str
    verdict: str
    css: str
    where: str
    statement: str
    levels: str
    sides: tuple[str, str]
    difference: str
    interval: str
    cells: str
    remarks: Sequence[str]
    bar: ClaimBar | None


@dataclass(frozen=True, slots=True)
class ClaimsView:
    """All claims, in the study's order, and those that cannot both hold, side by side."""

    summary: Sequence[str]
    claims: Sequence[ClaimView]
    contradictory: Sequence[tuple[ClaimView, ClaimView]]


def claims_view(outcomes: Sequence[Outcome]) -> ClaimsView:
    """Lay the claims out."""
    views = {outcome.claim.id: _view(outcome) for outcome in outcomes}
    pairs = [(views[a], views[b]) for a, b in contradictions(outcomes) if a in views and b in views]
    return ClaimsView(summary_lines(outcomes), list(views.values()), pairs)


def _view(outcome: Outcome) -> ClaimView:
    claim, part = outcome.claim, outcome.decisive
    interval = part.difference if part else None
    upheld = sum(cell.verdict == UPHELD for cell in outcome.cells)
    return ClaimView(
        id=claim.id,
        section=claim.section,
        text=claim.text,
        verdict=outcome.verdict,
        css=_CSS.get(outcome.verdict, "none"),
        where=claim.where.replace(",", ", "),
        statement=part.statement if part else "",
        levels=place_text(part).replace(",", ", ") if part else "",
        sides=(_figure(part.left), _figure(part.right)) if part else ("", ""),
        difference=_figure(interval.estimate) if interval else "",
        interval=f"{_figure(interval.low)} … {_figure(interval.high)}" if interval else "",
        cells=f"{upheld} of {len(outcome.cells)}" if outcome.cells else "",
        remarks=[remark for remark in (claim.reading, outcome.reason, claim.explanation) if remark],
        bar=_bar(part, claim.within) if part else None,
    )


def _bar(part: Part, within: float) -> ClaimBar | None:
    """Lay out the difference; `within` is the tolerance as a share of the right side."""
    interval = part.difference
    if interval is None or not math.isfinite(interval.low) or not math.isfinite(interval.high):
        return None
    allowed = within * abs(part.right or 0.0)
    axis = Axis.over([interval.low, interval.high, *([allowed, -allowed] if allowed else [])])
    return ClaimBar(axis, axis.view(interval), axis.view(Interval(0.0, -allowed, allowed)) if allowed else None)


def _figure(value: float | None) -> str:
    return "–" if value is None else minus(f"{value:.3g}")
