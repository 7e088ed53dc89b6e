"""The processes that compute for all students, and the order in which they take the students' questions.

The order is start-time fair queueing (Goyal, Vin and Cheng 1996) over the processor time of answers: a
student whose answers take long gets fewer of them and does not delay the others. Stories wait for all runs
and have an account of their own. If there were only one, a story would delay the student's next run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from lasthop.campaign.limits import machine_memory
from lasthop.campaign.provenance import usable_cores
from lasthop.present.lab.keeper import Keeper, Lost, Overtaken
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.worker import MEMORY_BYTES

Question = Mapping[str, object]
_OVERTAKEN = {"measure": ("measure",), "look": ("look", "story"), "story": ("story",)}
"""For each kind of question the kinds of older questions of the same student that it replaces. Questions of
kinds named first are answered first. A new run makes the story of the last one useless.
"""
_STORY, _RUN = "story", "run"
"""Accounts of processor time."""


@dataclass(slots=True)
class _Waiting:
    question: Question
    answer: asyncio.Future[bytes]
    since: float
    """Virtual time of arrival, in seconds of processor time."""


@dataclass(slots=True)
class _Student:
    """The questions of a student, of which one at a time is computed."""

    waiting: dict[str, _Waiting] = field(default_factory=dict)
    finish: dict[str, float] = field(default_factory=lambda: {_RUN: 0.0, _STORY: 0.0})
    """Virtual time of each account when its last answer was complete."""
    served: int = 0
    """Number of questions taken; it decides between answers too short for the clock of processor time."""
    running: str | None = None
    keeper: Keeper | None = None

    def next(self) -> str:
        return next(kind for kind in _OVERTAKEN if kind in self.waiting)

    def start(self) -> float:
        """Return the virtual time at which the next question may start."""
        kind = self.next()
        return max(self.finish[_account(kind)], self.waiting[kind].since)

    def rank(self) -> tuple[bool, float, int]:
        return _account(self.next()) == _STORY, self.start(), self.served


def _account(kind: str) -> str:
    return _STORY if kind == _STORY else _RUN


def most_workers() -> int:
    """Return the number of processes for this machine: one per core, if their memory suffices."""
    return max(min(usable_cores(), int(machine_memory() // MEMORY_BYTES)), 1)


class Pool:
    """Processes that answer the questions of all students."""

    def __init__(self, opened: Opened, workers: int) -> None:
        """Answer for an opened scenario, whose folder no answer names."""
        file = Path(opened.file)
        self.opened = replace(opened, file=file.name)
        self._keepers = [Keeper(self.opened, folder=file.parent) for _ in range(workers)]
        self._free = list(self._keepers)
        self._students: dict[str, _Student] = {}
        self._now = {_RUN: 0.0, _STORY: 0.0}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await asyncio.gather(*map(self._warm_up, self._keepers))

    async def _warm_up(self, keeper: Keeper) -> None:
        """Start a process and let it import its modules, the time of which would be charged to a student."""
        with suppress(Lost):
            for kind in ("look", "story"):
                await keeper.ask({"ask": kind, "text": self.opened.text})

    async def close(self) -> None:
        self._students.clear()
        await asyncio.gather(*(keeper.close() for keeper in self._keepers))

    async def ask(self, name: str, question: Question) -> bytes:
        """Return the answer to a student's question. Raises `Overtaken` or `Lost` if there is none."""
        kind = str(question["ask"])
        student = self._students.setdefault(name, _Student())
        same = student.waiting.get(kind)
        for older in _OVERTAKEN[kind]:
            _end(student.waiting.pop(older, None), Overtaken())
        if student.keeper is not None and student.running in _OVERTAKEN[kind]:
            student.keeper.interrupt()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        # It takes the place of an older question of its kind, so that a student who moves a slider advances.
        student.waiting[kind] = _Waiting(
            question, answer, self._now[_account(kind)] if same is None else same.since
        )
        self._dispatch()
        return await answer

    def _dispatch(self) -> None:
        while self._free:
            ready = [each for each in self._students.values() if each.waiting and each.keeper is None]
            if not ready:
                return
            student = min(ready, key=_Student.rank)
            start, student.running = student.start(), student.next()
            account = _account(student.running)
            self._now[account] = max(self._now[account], start)
            student.finish[account] = start
            student.served += 1
            student.keeper = self._free.pop()
            waiting = student.waiting.pop(student.running)
            task = asyncio.create_task(self._serve(student, student.keeper, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, student: _Student, keeper: Keeper, waiting: _Waiting) -> None:
        try:
            answer = await keeper.ask(waiting.question)
        except (Overtaken, Lost) as ended:
            _end(waiting, ended)
        except OSError as error:
            _end(waiting, Lost(f"The lab cannot start a process: {error.strerror}."))
        else:
            if not waiting.answer.done():
                waiting.answer.set_result(answer)
        finally:
            student.finish[_account(str(student.running))] += keeper.spent_s
            student.running = student.keeper = None
            self._free.append(keeper)
        self._dispatch()


def _end(waiting: _Waiting | None, reason: Overtaken | Lost) -> None:
    if waiting is not None and not waiting.answer.done():
        waiting.answer.set_exception(reason)
