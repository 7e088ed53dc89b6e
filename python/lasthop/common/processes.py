"""The state of processes (/proc/PID/stat, proc(5)), and this process's reaction to SIGTERM."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple


class Process(NamedTuple):
    """A snapshot of a process."""

    state: str
    """A letter; Z is a zombie."""
    session: int
    ticks: int
    """Processor time."""

    @property
    def processor_s(self) -> float:
        return seconds(self.ticks)


def process_of(pid: int) -> Process | None:
    """Return the state of a process; `None` if it does not exist."""
    try:
        # The name, which comes first, may contain spaces and parentheses, and any bytes.
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Process(fields[0], int(fields[3]), int(fields[11]) + int(fields[12]))


def seconds(ticks: int) -> float:
    """Convert ticks of processor time."""
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that finished work is stored and reported."""
    if threading.current_thread() is not threading.main_thread():  # only it can set handlers
        yield
        return

    def stop(_: int, frame: FrameType | None) -> None:
        on_ctrl_c = signal.getsignal(signal.SIGINT)
        # Background processes of a shell ignore Ctrl-C.
        (on_ctrl_c if callable(on_ctrl_c) else signal.default_int_handler)(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
