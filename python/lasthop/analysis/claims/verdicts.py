"""Outcomes of claims as tables and text."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from lasthop.analysis.claims import NOT_UPHELD, UNANSWERED, UNDECIDED, UPHELD, VERDICTS
from lasthop.analysis.claims.answers import Answer
from lasthop.analysis.claims.evaluate import Outcome, Part
from lasthop.analysis.claims.readings import Judged

_NUMBERS = dict.fromkeys(("left", "right", "difference", "low", "high"), pl.Float64())
_COUNTS = dict.fromkeys(("cells", "cells_upheld", "cells_not_upheld", "replications"), pl.Int64())
_TEXTS = ("where", "contradicts", "text", "reading", "reason", "explanation")
_ALWAYS = (UPHELD, NOT_UPHELD, UNDECIDED)
_NAMED_AT_MOST = 6
INDENT = " " * 12
"""Indents the lines below a verdict."""
_CLAIM = ("id", "section", "verdict", "statement", "levels")


def place_text(part: Part) -> str:
    return ",".join(f"{factor}={level}" for factor, level in part.place.items())


def _numbers(part: Part) -> dict[str, object]:
    interval = part.difference
    values = (
        part.left,
        part.right,
        *((interval.estimate, interval.low, interval.high) if interval else [None] * 3),
    )
    return {
        "statement": part.statement,
        "levels": place_text(part),
        **{
            name: None if value is None or math.isinf(value) else value
            for name, value in zip(_NUMBERS, values, strict=True)
        },
        "replications": part.pairs,
    }


def claims_frame(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """Return a row per claim. Numbers belong to its decisive part; `difference` is left minus right.

    `where`, `text`, `reading` and `explanation` come from the file; `reason` explains a missing verdict, or
    remarks on what the numbers do not show.
    """
    rows = []
    for outcome in outcomes:
        claim, own = outcome.claim, Counter(part.verdict for part in outcome.cells)
        row: dict[str, object] = {"id": claim.id, "section": claim.section, "verdict": outcome.verdict}
        if outcome.decisive is not None:
            row |= _numbers(outcome.decisive)
            row |= {
                "cells": len(outcome.cells),
                "cells_upheld": own[UPHELD],
                "cells_not_upheld": own[NOT_UPHELD],
            }
        row |= {
            "where": claim.where,
            "contradicts": ";".join(claim.contradicts),
            "text": claim.text,
            "reading": claim.reading,
            "reason": outcome.reason,
            "explanation": claim.explanation,
        }
        rows.append(row)
    texts = dict.fromkeys(_CLAIM, pl.String()), dict.fromkeys(_TEXTS, pl.String())
    return _frame(rows, {**texts[0], **_NUMBERS, **_COUNTS, **texts[1]})


def cells_frame(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """Return a row per claim, statement and cell: the verdict on that cell alone, and its numbers."""
    rows = [
        {"id": outcome.claim.id, "verdict": part.verdict, **_numbers(part)}
        for outcome in outcomes
        for part in outcome.cells
    ]
    texts = dict.fromkeys(("id", "statement", "levels", "verdict"), pl.String())
    return _frame(rows, {**texts, **_NUMBERS, "replications": pl.Int64()})


def statements_frame(answered: Sequence[Answer]) -> pl.DataFrame:
    """Return a row per statement of the source: its verdict, and its claims."""
    rows: list[dict[str, object]] = [
        {
            "id": answer.sentence.id,
            "section": answer.sentence.section,
            "text": answer.sentence.text,
            "verdict": answer.verdict,
            "claims": ";".join(outcome.claim.id for outcome in answer.claims),
        }
        for answer in answered
    ]
    return _frame(rows, dict.fromkeys(("id", "section", "text", "verdict", "claims"), pl.String()))


def readings_frame(judged: Iterable[Judged]) -> pl.DataFrame:
    """Return a row per reading and statement of the source, or per claim if there are no statements."""
    parts = [
        (statements_frame(judged.answers) if judged.answers else claims_frame(judged.outcomes)).select(
            pl.lit(judged.reading.id).alias("reading"), "id", "section", "text", "verdict"
        )
        for judged in judged
    ]
    return pl.concat(parts)


def _frame(rows: Sequence[dict[str, object]], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Return a table with null for empty texts."""
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(pl.col(pl.String).replace("", None))


def contradictions(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Return the distinct pairs of ids that cannot both hold, including claims that contradict themselves."""
    pairs = [(outcome.claim.id, other) for outcome in outcomes for other in outcome.claim.contradicts]
    return [pair for number, pair in enumerate(pairs) if pair[::-1] not in pairs[:number]]


def disputed(outcomes: Sequence[Outcome]) -> set[str]:
    """Return the ids of claims in any contradiction."""
    return {claim for pair in contradictions(outcomes) for claim in pair}


def claim_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the verdict on a claim, then its numbers."""
    yield f"{outcome.verdict:<{len(INDENT) - 1}} {outcome.claim.id}: {outcome.claim.text}"
    yield f"{INDENT}{numbers(outcome)}"


def numbers(outcome: Outcome) -> str:
    """Return the statement with its values, or the reason why there are none."""
    part = outcome.decisive
    if part is None or part.difference is None:
        return outcome.reason
    place = f" at {place_text(part)}" if part.place else ""
    low, high = figure(part.difference.low), figure(part.difference.high)
    remark = f"; {outcome.reason}" if outcome.reason else ""
    return (
        f"{part.statement}{place}: {figure(part.left)} versus {figure(part.right)}; "
        f"difference {figure(part.difference.estimate)} [{low} .. {high}] "
        f"at {100 * part.confidence:.4g} %, n = {part.pairs}{remark}"
    )


def figure(value: float | None) -> str:
    """Return a number with four digits; a dash for `None`, `?` for the open end of an interval."""
    return "-" if value is None else "?" if math.isinf(value) else f"{value:.4g}"


def summary_lines(outcomes: Sequence[Outcome], answered: Sequence[Answer] = ()) -> list[str]:
    """Count the verdicts on all statements of the source, or on all claims if there are no statements.

    If some claims contradict each other, claims are also counted without them.
    """
    if answered:
        counts = Counter(answer.verdict for answer in answered)
        return [
            f"statements: {counts.pop(UPHELD, 0)} of {len(answered)} upheld, "
            f"{_named(counts, (NOT_UPHELD, UNDECIDED))}"
        ]
    lines = [f"claims: {_counted(outcomes)}"]
    contradicted = disputed(outcomes)
    sound = [outcome for outcome in outcomes if outcome.claim.id not in contradicted]
    if sound and len(sound) < len(outcomes):
        lines.append(f"  without contradicted claims: {_counted(sound)}")
    return lines


def verdict_lines(outcomes: Sequence[Outcome], answered: Sequence[Answer] = ()) -> list[str]:
    """Count the verdicts and explain their meaning."""
    lines = summary_lines(outcomes, answered)
    what = "statement" if answered else "claim"
    verdicts = [(item.sentence.id, item.verdict) for item in answered] or [
        (item.claim.id, item.verdict) for item in outcomes
    ]
    undecided = [name for name, verdict in verdicts if verdict == UNDECIDED]
    if all(verdict == UPHELD for _, verdict in verdicts):
        lines.append(f"  Every {what} holds.")
    elif undecided:
        none = "" if any(verdict == NOT_UPHELD for _, verdict in verdicts) else f"No {what} fails, but "
        first, more = undecided[:_NAMED_AT_MOST], len(undecided) - _NAMED_AT_MOST
        named = ", ".join(first) + (f" and {more} more" if more > 0 else "")
        verb = "is" if len(undecided) == 1 else "are"
        lines.append(f"  {none}{len(undecided)} {verb} undecided: {named}.")
        lines.append(
            "  Their intervals include both outcomes. More replications narrow them, for example --sets 10."
        )
    return lines


def _counted(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(outcome.verdict for outcome in outcomes)
    return f"{_named(counts, _ALWAYS)} of {len(outcomes)}"


def _named(counts: Counter[str], always: Sequence[str]) -> str:
    return ", ".join(f"{counts[v]} {v}" for v in (*VERDICTS, UNANSWERED) if counts[v] or v in always)
