"""What a run may cost: bounds that hold unless the user lifts them, and how to lift them.

A scenario estimates in advance, and roughly, what one of its runs costs at most (`crates/lasthop-scenario`,
`estimate`).
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lasthop import _core
from lasthop.common.errors import InputError

PACKETS_MAX = 1e9
"""Most packets that a run may send by default: about ten minutes of one processor.

An hour of 1 Gbit/s sends half.
"""
MEMORY_SHARE = 0.5
"""Share of the machine's memory that a run may take by default."""
RUNS_MAX = 10_000_000
"""Most runs of a campaign, which keeps a list of them."""
COUNT_MAX = 2**32 - 1
"""Most replications, sets or points that are accepted."""
_KEPT_BYTES = 400
"""Bytes that are kept per packet if every event is recorded."""
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
    """How much work and memory a run may take; `memory` in bytes, or `None` for a share of this machine's."""

    anyway: bool = False
    memory: float | None = None

    def check(self, name: str, cells: Iterable[_core.Cell], *, runs: int = 1, recorded: bool = False) -> None:
        """Refuse cells that may take more; raise `InputError`.

        `runs` is the number of runs that form a chain; `recorded` says whether all events of a run are kept.
        """
        for cell in cells:
            packets, memory = cell.estimate
            run = f"{name}: {'a run' if runs == 1 else f'a chain of {runs} runs'}"
            run += f" of {cell.key}" if cell.key else ""
            if packets * runs > PACKETS_MAX and not self.anyway:
                raise InputError(
                    f"{run} may send {count(packets * runs)} packets; without --anyway, at most "
                    f"{count(PACKETS_MAX)} are allowed. Shorten it, offer less or slow its links down; "
                    "--anyway runs it."
                )
            needed = memory + (packets * _KEPT_BYTES if recorded else 0)
            most = _machine_memory() * MEMORY_SHARE if self.memory is None else self.memory
            if needed > most:
                whose = "half of this machine's memory" if self.memory is None else "your limit"
                raise InputError(
                    f"{run} may take {size(needed)} of memory, more than {whose} ({size(most)}). Shorten it, "
                    f"or have fewer flows or shorter queues; --limit-memory '{size(needed * 1.1)}' allows it."
                )


def read_size(text: str) -> float:
    """Read a size with its unit, such as `8 GB`; raise `InputError`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]+)\s*", text)
    if found is None or found[2] not in _UNITS:
        raise InputError(f"{text!r} is no size; write a number and a unit, '8 GB' say ({', '.join(_UNITS)}).")
    return float(found[1]) * _UNITS[found[2]]


def count(number: float) -> str:
    """Return a large number for people."""
    if number < 1e6:
        return f"{number:,.0f}".replace(",", " ")
    return f"{number / 1e6:.3g} million" if number < 1e9 else f"{number / 1e6:,.0f} million".replace(",", " ")


def size(number: float) -> str:
    """Return a size in bytes for people, as `read_size` reads it."""
    unit = next((unit for unit in ("TB", "GB", "MB") if number >= _UNITS[unit]), "kB")
    value = number / _UNITS[unit]
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


def _machine_memory() -> float:
    """Return the bytes of memory that this machine has, or to which this process is confined."""
    has = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        has = min(has, float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return has
