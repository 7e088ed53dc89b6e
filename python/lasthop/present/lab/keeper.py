"""Manage the process in which the lab computes; replace it if it exceeds its limits of time or memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from lasthop.common.processes import process_of
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.worker import LENGTH

MOST_SECONDS = 20.0
"""The longest processor time of an answer. Runs have a lower limit of their own."""
_MOST_WAITS = 6
"""The limit of wall time, as a multiple of the limit of processor time, in case the machine is busy."""
_AT_LEAST_S = 0.05
_ENDED = "The run's process ended, probably because of a lack of memory. Use fewer flows or packets."


def _processor_s(pid: int) -> float:
    """Return the processor time of a process so far; infinite if it has ended."""
    process = process_of(pid)
    return math.inf if process is None else process.processor_s


class Overtaken(Exception):  # noqa: N818  not an error
    """A newer question arrived before this question was answered."""


class Lost(Exception):  # noqa: N818
    """The process reached its limits; the message is for the user."""


class Keeper:
    """Sends questions to a separate process, which it starts in advance."""

    def __init__(
        self,
        opened: Opened,
        *,
        patient: bool = False,
        most_seconds: float = MOST_SECONDS,
        folder: Path | None = None,
    ) -> None:
        """Manage a process for an opened scenario; a `patient` process has a low priority.

        The process runs in `folder`, by default in the current folder.
        """
        self._opened = opened
        self._folder = folder
        self._patient = patient
        self._most_seconds = most_seconds
        self.spent_s = 0.0
        """The processor time of the last answer."""
        self._process: Process | None = None
        self._pending: deque[asyncio.Future[bytes]] = deque()
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> Process:
        """Start the process unless it is running."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                if self._reader is not None:
                    await self._reader  # it still has to fail the questions to the process that ended
                # -P: modules are not imported from the current folder.
                command = [sys.executable, "-P", "-m", "lasthop.present.lab.worker"]
                self._process = await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, cwd=self._folder
                )
                self._send(self._process, {**self._opened.as_json(), "patient": self._patient})
                self._reader = asyncio.create_task(self._read(self._process))
            return self._process

    async def ask(self, question: Mapping[str, object]) -> bytes:
        """Return the answer. Raises `Overtaken` or `Lost` if there is none."""
        process = await self.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        left, used = self._most_seconds, _processor_s(process.pid)
        end = loop.time() + _MOST_WAITS * left
        self._pending.append(answer)
        self._send(process, question)
        try:
            while left > 0 and loop.time() < end:
                with contextlib.suppress(TimeoutError):
                    return await asyncio.wait_for(asyncio.shield(answer), max(left, _AT_LEAST_S))
                left = self._most_seconds - (_processor_s(process.pid) - used)
        finally:
            self.spent_s = min(self._most_seconds, _processor_s(process.pid) - used)  # also if it has ended
        self._kill(process)
        await process.wait()
        raise Lost(
            f"The computation was stopped after {self._most_seconds:g} s of processor time. Simplify the "
            "scenario."
        )

    def interrupt(self) -> None:
        """Cancel the answer that is being computed, by an empty question."""
        if self._process is not None and self._pending:
            self._pending.append(asyncio.get_running_loop().create_future())
            self._send(self._process, {})

    async def close(self) -> None:
        if self._process is not None:
            self._kill(self._process)
            await self._process.wait()
        if self._reader is not None:
            await self._reader

    def _send(self, process: Process, message: Mapping[str, object]) -> None:
        data = json.dumps(message).encode()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the reader handles the end
            process.stdin.write(LENGTH.pack(len(data)) + data)

    def _kill(self, process: Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()

    async def _read(self, process: Process) -> None:
        """Deliver answers in the order of their questions, until the process ends."""
        assert process.stdout is not None
        try:
            while True:
                (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
                answer = await process.stdout.readexactly(length)
                waiting = self._pending.popleft()
                if waiting.done():
                    continue
                if answer:
                    waiting.set_result(answer)
                else:
                    waiting.set_exception(Overtaken())
        except asyncio.IncompleteReadError:
            pass
        await process.wait()
        while self._pending:
            waiting = self._pending.popleft()
            if not waiting.done():
                waiting.set_exception(Lost(_ENDED))
            # Mark the exception as retrieved, as the future may have been abandoned.
            waiting.exception()
