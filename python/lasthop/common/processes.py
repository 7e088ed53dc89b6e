"""What Linux says of a process: /proc/PID/stat, proc(5). And how this process takes a request to end."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple


class Process(NamedTuple):
    """A process at the time of a look at it."""

    state: str
    """A letter; Z is one that has ended and that its parent has not collected."""
    session: int
    ticks: int
    """The processor time that it has used."""

    @property
    def processor_s(self) -> float:
        return seconds(self.ticks)


def process_of(pid: int) -> Process | None:
    """Look at a process; `None` if it is gone."""
    try:
        # The name, which comes first, may contain spaces and parentheses, and any bytes.
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Process(fields[0], int(fields[3]), int(fields[11]) + int(fields[12]))


def seconds(ticks: int) -> float:
    """Return how long so many ticks of processor time are."""
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Do on SIGTERM what Ctrl-C does, so that what is done is kept and told."""
    if threading.current_thread() is not threading.main_thread():  # no other may set handlers
        yield
        return

    def stop(_: int, frame: FrameType | None) -> None:
        on_ctrl_c = signal.getsignal(signal.SIGINT)
        # What a shell runs in the background ignores Ctrl-C.
        (on_ctrl_c if callable(on_ctrl_c) else signal.default_int_handler)(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
