"""The process in which the lab computes: questions on standard input, answers on standard output.

A new question cancels the computation of the previous answer.
"""

from __future__ import annotations

import gc
import json
import os
import select
import struct
import sys
from typing import Any

if sys.platform == "win32":
    import _winapi
    import msvcrt
elif sys.platform == "linux":
    import resource

LENGTH = struct.Struct("<I")
"""The header of each question and answer."""
MEMORY_BYTES = 3 << 30
"""The limit of the process' address space. Without a run, it needs a third of this."""
_PATIENT = 10
"""Niceness of a process with low priority."""
SUPERSEDED = b""
"""The answer to a question that was cancelled by a newer question."""


def _read(size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = os.read(0, size - len(parts))
        if not part:
            sys.exit()
        parts += part
    return parts


def _question() -> dict[str, Any]:
    (length,) = LENGTH.unpack(_read(LENGTH.size))
    question: dict[str, Any] = json.loads(_read(length))
    return question


def _waiting() -> bool:
    if sys.platform == "win32":  # whose select knows sockets only
        return bool(_winapi.PeekNamedPipe(msvcrt.get_osfhandle(0))[0])
    return bool(select.select([0], [], [], 0)[0])


def _write(out: int, answer: bytes) -> None:
    left = memoryview(LENGTH.pack(len(answer)) + answer)
    while left:
        left = left[os.write(out, left) :]


def main() -> None:
    """Answer questions until there are no more.

    The first message contains the opened scenario, and whether the process has a low priority.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    # A story creates millions of persistent objects; garbage collection took a third of its time.
    gc.set_threshold(150_000)
    out = os.dup(1)
    os.dup2(2, 1)  # other output must not mix with the answers
    from lasthop.present.lab.desk import Desk
    from lasthop.present.lab.opened import Opened

    first = _question()
    if first.pop("patient") and sys.platform != "win32":
        os.nice(_PATIENT)
    desk = Desk(Opened(**first), _waiting)
    if sys.platform == "linux":  # Windows has no such limits, and macOS none below what is mapped
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        question = _question()
        try:
            answer = desk.answer(question)
        except KeyboardInterrupt:
            answer = SUPERSEDED
        _write(out, answer)


if __name__ == "__main__":
    main()
