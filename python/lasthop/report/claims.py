"""The claims of a study, for the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lasthop.report.intervals import Axis, IntervalView, minus
from lasthop.statistics.estimates import Interval
from lasthop.studies.claims import NOT_UPHELD, UNDECIDED, UPHELD
from lasthop.studies.claims.answers import Answer, failing_first
from lasthop.studies.claims.evaluate import Outcome, Part
from lasthop.studies.claims.verdicts import contradictions, place_text, summary_lines

_CSS = {UPHELD: "good", NOT_UPHELD: "bad", UNDECIDED: "open"}


@dataclass(frozen=True, slots=True)
class ClaimBar:
    """The interval of left less right on an axis of its own; `band` is the tolerance, empty without one."""

    axis: Axis
    bar: IntervalView
    band: IntervalView | None


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A claim in words, and the findings; empty if there is no number. `css` is the class of its badge."""

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
    story: str
    bar: ClaimBar | None


@dataclass(frozen=True, slots=True)
class AnswerView:
    """A statement of the source, the claims that answer it, and the explanation of the verdict."""

    id: str
    section: str
    text: str
    verdict: str
    css: str
    claims: Sequence[str]
    remarks: Sequence[str]


@dataclass(frozen=True, slots=True)
class ClaimsView:
    """All claims, in the study's order, and pairs of claims that cannot both hold.

    The source's statements come first: `open` are statements that are not upheld, or not for certain;
    `upheld` the rest.
    """

    summary: Sequence[str]
    open: Sequence[AnswerView]
    upheld: Sequence[AnswerView]
    claims: Sequence[ClaimView]
    contradictory: Sequence[tuple[ClaimView, ClaimView]]


def claims_view(outcomes: Sequence[Outcome], found: Sequence[Answer]) -> ClaimsView:
    """Lay the statements and the claims out."""
    views = {outcome.claim.id: _view(outcome) for outcome in outcomes}
    pairs = [(views[a], views[b]) for a, b in contradictions(outcomes) if a in views and b in views]
    said = [_answer(answer) for answer in failing_first(found)]
    return ClaimsView(
        summary_lines(outcomes, found),
        [one for one in said if one.verdict != UPHELD],
        [one for one in said if one.verdict == UPHELD],
        list(views.values()),
        pairs,
    )


def _answer(answer: Answer) -> AnswerView:
    said = answer.sentence
    remarks = {
        remark: None
        for outcome in answer.claims
        if outcome.verdict == answer.verdict
        for remark in (outcome.reason, *_explained(outcome))
    }
    return AnswerView(
        id=said.id,
        section=said.section,
        text=said.text,
        verdict=answer.verdict,
        css=_CSS.get(answer.verdict, "none"),
        claims=[outcome.claim.id for outcome in answer.claims],
        remarks=[remark for remark in remarks if remark],
    )


def _explained(outcome: Outcome) -> list[str]:
    claim = outcome.claim
    contradicted = (
        f"The source contradicts itself: {claim.contradicts_source}" if claim.contradicts_source else ""
    )
    return [remark for remark in (claim.explanation, contradicted) if remark]


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
        remarks=[remark for remark in (claim.reading, outcome.reason, *_explained(outcome)) if remark],
        story=claim.story,
        bar=_bar(part, claim.within) if part else None,
    )


def _bar(part: Part, within: float) -> ClaimBar | None:
    """Lay out the difference; `within` is the tolerance as a share of the right side."""
    interval = part.difference
    if interval is None or not math.isfinite(interval.low) or not math.isfinite(interval.high):
        return None
    allowed = within * abs(part.right or 0.0)
    axis = Axis.over([interval.low, interval.high, *([allowed, -allowed] if allowed else [])])
    return ClaimBar(
        axis, axis.view(interval), axis.view(Interval(0.0, -allowed, allowed)) if allowed else None
    )


def _figure(value: float | None) -> str:
    return "–" if value is None else minus(f"{value:.3g}")
