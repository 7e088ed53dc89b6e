"""The process in which the lab computes.

It reads questions from standard input and writes answers to standard output.

If a second question comes, nobody waits for the answer to the first any more, and it is given up.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import struct
import sys
from typing import Any

LENGTH = struct.Struct("<I")
"""What goes before each question and answer."""
MEMORY_BYTES = 3 << 30
"""Address space that the process may have. It needs a third of that without a run."""
_PATIENT = 10
"""Niceness of a process whose answers may take longer."""
SUPERSEDED = b""
"""The answer to a question that a newer question overtook."""


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
    return bool(select.select([0], [], [], 0)[0])


def _write(out: int, answer: bytes) -> None:
    left = memoryview(LENGTH.pack(len(answer)) + answer)
    while left:
        left = left[os.write(out, left) :]


def main() -> None:
    """Answer questions until there are no more.

    The first message says what was opened, and whether answers may take longer.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    # A story makes millions of objects, which all stay: looking for garbage among them took a third of its
    # time.
    gc.set_threshold(150_000)
    out = os.dup(1)
    os.dup2(2, 1)  # no other output may come between the answers
    from lasthop.present.lab.desk import Desk
    from lasthop.present.lab.opened import Opened

    first = _question()
    if first.pop("patient"):
        os.nice(_PATIENT)
    desk = Desk(Opened(**first), _waiting)
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
