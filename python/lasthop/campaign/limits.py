"""Limits on the packets and memory of a run, which the user can lift.

They are compared with a rough upper estimate for the scenario (`crates/lasthop-scenario`, `estimate`).
"""

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lasthop import _core
from lasthop.common.errors import InputError

PACKETS_MAX = 1e9
"""Most packets of a run by default: about ten minutes of one processor, or two hours at 1 Gbit/s."""
MEMORY_SHARE = 0.5
"""Share of the machine's memory that a run may use by default."""
RUNS_MAX = 10_000_000
"""Most runs of a campaign, which lists them in memory."""
COUNT_MAX = 2**32 - 1
"""Most replications, sets or points that are accepted."""
_RECORDED_BYTES = 400
"""Memory per packet if every event is recorded."""
_UNITS = {
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


class Limits(NamedTuple):
    """Limits of a run; `memory` in bytes, or `None` for `MEMORY_SHARE` of this machine's."""

    anyway: bool = False
    memory: float | None = None

    def check(self, name: str, cells: Iterable[_core.Cell], *, runs: int = 1, recorded: bool = False) -> None:
        """Raise `InputError` for a cell that may exceed the limits.

        `runs` is the number of runs in a chain; with `recorded`, all events of a run stay in memory.
        """
        for cell in cells:
            packets, memory = cell.estimate
            run = f"{name}: {'a run' if runs == 1 else f'a chain of {runs} runs'}"
            run += f" of {cell.key}" if cell.key else ""
            if packets * runs > PACKETS_MAX and not self.anyway:
                raise InputError(
                    f"{run} may send {count(packets * runs)} packets, more than the limit of "
                    f"{count(PACKETS_MAX)}. Make it shorter, reduce its traffic or its link rates, or run it "
                    "with --anyway."
                )
            needed = memory + (packets * _RECORDED_BYTES if recorded else 0)
            most = machine_memory() * MEMORY_SHARE if self.memory is None else self.memory
            if needed > most:
                whose = "half of this machine's memory" if self.memory is None else "your limit"
                raise InputError(
                    f"{run} may use {size(needed)} of memory, more than {whose} ({size(most)}). Make it "
                    "shorter, use fewer flows or shorter queues, or allow it with --limit-memory "
                    f"'{size(needed * 1.1)}'."
                )


def read_size(text: str) -> float:
    """Read a size with its unit, such as `8 GB`; raise `InputError`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]+)\s*", text)
    if match is None or match[2] not in _UNITS:
        raise InputError(
            f"{text!r} is not a size. Give a number and a unit, such as '8 GB'. Units: {', '.join(_UNITS)}."
        )
    return float(match[1]) * _UNITS[match[2]]


def count(number: float) -> str:
    """Format a large number."""
    if number < 1e6:
        return f"{number:,.0f}".replace(",", " ")
    return f"{number / 1e6:.3g} million" if number < 1e9 else f"{number / 1e6:,.0f} million".replace(",", " ")


def size(number: float) -> str:
    """Format a size in bytes, in the form that `read_size` reads."""
    unit = next((unit for unit in ("TB", "GB", "MB") if number >= _UNITS[unit]), "kB")
    value = number / _UNITS[unit]
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


def machine_memory() -> float:
    """Return the memory of this machine in bytes, or the limit of this process's cgroup if that is less."""
    if sys.platform == "win32":
        import ctypes

        kilobytes = ctypes.c_ulonglong()
        ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
        return float(kilobytes.value * 1024)
    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        memory = min(memory, float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return memory
