"""The server of a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lasthop.common.errors import InputError
from lasthop.present.lab.classroom.key import Key
from lasthop.present.lab.classroom.listen import Listen
from lasthop.present.lab.classroom.pool import Pool, most_workers
from lasthop.present.lab.classroom.sheet import Question
from lasthop.present.lab.classroom.students import Student, Students
from lasthop.present.lab.guard import Guard
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.page import page
from lasthop.present.lab.picture import split
from lasthop.present.lab.server import BINARY, application, check_kind, question_of, refused, run_until_ctrl_c

STUDENT_HEADER = "x-lasthop-student"


class _Unknown(Exception):  # noqa: N818  the student enters a name
    """The request is from a browser that has not joined since the start of the lab."""


class _Classroom:
    """Answers the requests of a class."""

    def __init__(self, pool: Pool, students: Students) -> None:
        self._pool = pool
        self._students = students

    async def join(self, request: Request) -> Response:
        asked = await question_of(request)
        return JSONResponse(self._students.join(asked.get("name"), asked.get("ticket")).for_page())

    async def ask(self, request: Request) -> Response:
        student, asked = self._student(request), await question_of(request)
        check_kind(asked)
        return Response(await self._answer(student, asked), media_type=BINARY)

    async def predict(self, request: Request) -> Response:
        student, asked = self._student(request), await question_of(request)
        return JSONResponse(self._students.predict(student, asked.get("number"), asked.get("prediction")))

    async def measure(self, request: Request) -> Response:
        student, asked = self._student(request), await question_of(request)
        question, record = self._students.record_to_measure(student, asked.get("number"), asked.get("answer"))
        measured, _ = split(await self._answer(student, {**asked, "ask": "measure"}))
        if errors := measured.get("errors"):
            raise InputError(errors[0]["text"])
        return JSONResponse(self._students.measured(question, record, measured))

    async def _answer(self, student: Student, asked: dict[str, object]) -> bytes:
        own = {"seed": student.seed, "withheld": self._students.open_metrics(student)}
        return await self._pool.ask(student.ticket, {**asked, **own})

    def _student(self, request: Request) -> Student:
        student = self._students.of_ticket(request.headers.get(STUDENT_HEADER, ""))
        if student is None:
            raise _Unknown
        return student


async def _unknown(_: Request, __: Exception) -> Response:
    return refused("Enter your name first.", 401)


def serve_class(
    opened: Opened,
    questions: Sequence[Question],
    key: Key,
    listen: Listen,
    started: Callable[[str], None],
) -> None:
    """Serve the lab to a class until Ctrl-C; `started` is called with the address once it is ready."""
    pool = Pool(opened, most_workers())
    lab = _Classroom(pool, Students(key, questions))
    app = application(
        {"/join": lab.join, "/ask": lab.ask, "/predict": lab.predict, "/measure": lab.measure},
        page(pool.opened, classroom=[question.for_page() for question in questions]),
        pool.start,
        pool.close,
    )
    app.add_exception_handler(_Unknown, _unknown)
    with listen.open() as listening:
        address = f"http://{listen.name(listening)}/?token={key.token}"
        run_until_ctrl_c(Guard(app, key.token, listen.accepts), listening, lambda: started(address))
