"""The answers of claims to the statements of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.analysis.claims import NOT_RUN, NOT_UPHELD, UNANSWERED, UNCOMPUTABLE, UNDECIDED, UPHELD

if TYPE_CHECKING:
    from lasthop.analysis.claims.evaluate import Outcome
    from lasthop.studies.claims.sentences import Sentence

_FAILING_FIRST = (NOT_UPHELD, UNDECIDED, NOT_RUN, UNCOMPUTABLE, UNANSWERED, UPHELD)
"""A statement gets the first verdict in this list that one of its claims has."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict on a sentence, derived from the verdicts on its claims."""

    sentence: Sentence
    verdict: str
    claims: Sequence[Outcome]


def answers(sentences: Sequence[Sentence], outcomes: Sequence[Outcome]) -> list[Answer]:
    of_sentence: dict[str, list[Outcome]] = {sentence.id: [] for sentence in sentences}
    for outcome in outcomes:
        for name in outcome.claim.statements:
            of_sentence[name].append(outcome)
    answered = []
    for sentence in sentences:
        claims = of_sentence[sentence.id]
        verdicts = {outcome.verdict for outcome in claims} or {UNANSWERED}
        answered.append(Answer(sentence, min(verdicts, key=_FAILING_FIRST.index), claims))
    return answered


def failing_first(answered: Sequence[Answer]) -> list[Answer]:
    """Sort answers by their verdicts."""
    return sorted(answered, key=lambda answer: _FAILING_FIRST.index(answer.verdict))
