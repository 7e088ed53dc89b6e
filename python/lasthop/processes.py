"""What Linux says of a process: /proc/PID/stat, proc(5)."""

from __future__ import annotations

import os
from pathlib import Path
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
        """The processor time that it has used."""
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
