"""The students of a class, with their predictions and measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lasthop.common.errors import InputError
from lasthop.common.metrics.units import human
from lasthop.present.lab.classroom.key import Key, check_name, seed_of
from lasthop.present.lab.classroom.sheet import Measured, Question

MOST_STUDENTS = 200
Answer = dict[str, Any]
"""`record`, with prediction and measurement, and its `signature`."""


@dataclass(slots=True)
class Student:
    """A student who has joined."""

    name: str
    seed: int
    ticket: str
    answers: dict[int, Answer] = field(default_factory=dict)
    """The first prediction for each question, by number."""

    def for_page(self) -> dict[str, object]:
        return {"name": self.name, "seed": self.seed, "ticket": self.ticket, "answers": self.answers}


class Students:
    """The students of a class and its sheet."""

    def __init__(self, key: Key, questions: Sequence[Question]) -> None:
        self.questions = questions
        self._key = key
        self._by_ticket: dict[str, Student] = {}

    def join(self, name: object, ticket: object) -> Student:
        """Return the student of this name. Raises `InputError` if another browser has joined under it."""
        name = check_name(name)
        own = self._key.ticket(name)
        if own not in self._by_ticket:
            if len(self._by_ticket) >= MOST_STUDENTS:
                raise InputError(f"The class is full: it has {MOST_STUDENTS} students.")
            self._by_ticket[own] = Student(name, seed_of(self._key.token, name), own)
        elif ticket != own:
            raise InputError(f"{name} has joined in another browser. Continue there, or choose another name.")
        return self._by_ticket[own]

    def of_ticket(self, ticket: str) -> Student | None:
        return self._by_ticket.get(ticket)

    def open_metrics(self, student: Student) -> list[str]:
        """Return the metrics of questions without a prediction, which the page must not show."""
        return [q.metric for number, q in enumerate(self.questions) if number not in student.answers]

    def predict(self, student: Student, number: object, text: object) -> Answer:
        """Return the student's first prediction, signed."""
        number, question = self._question(number)
        if number not in student.answers:
            value = question.value(text)
            record = {
                "student": student.name,
                "seed": student.seed,
                "question": question.text,
                "metric": question.metric,
                "flow": question.flow,
                "prediction": value,
                "prediction_text": human(question.metric, value),
                "predicted_at": _now(),
            }
            student.answers[number] = self._signed(record)
        return student.answers[number]

    def record_to_measure(self, student: Student, number: object, answer: object) -> tuple[Question, Answer]:
        """Return the question, and the record of its prediction.

        The browser sends the signed record, so that a restart of the lab does not lose predictions.
        """
        number, question = self._question(number)
        record = answer.get("record") if isinstance(answer, Mapping) else None
        if not (
            isinstance(answer, Mapping)
            and isinstance(record, dict)
            and self._key.has_signed(record, answer.get("signature"))
            and [record[key] for key in ("student", "question", "metric", "flow")]
            == [student.name, question.text, question.metric, question.flow]
        ):
            raise InputError("Predict first, then measure.")
        student.answers.setdefault(number, {"record": record, "signature": answer["signature"]})
        return question, record

    def measured(self, question: Question, record: Answer, answer: Measured) -> Answer:
        """Return the record with a measurement, signed."""
        value = question.measured(answer)
        return self._signed(
            record
            | {
                "measured": value,
                "measured_text": human(question.metric, value),
                "measured_at": _now(),
                "scenario": answer["text"],
                "levels": answer["levels"],
                "replication": answer["replication"],
            }
        )

    def _question(self, number: object) -> tuple[int, Question]:
        if not isinstance(number, int) or not 0 <= number < len(self.questions):
            raise InputError("The sheet has no such question. Load the page again.")
        return number, self.questions[number]

    def _signed(self, record: Answer) -> Answer:
        return {"record": record, "signature": self._key.signature(record)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
