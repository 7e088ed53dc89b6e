"""Running replications on the live engine."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop import _core
from lasthop.engines.live.process import SPIN_US, child_arguments
from lasthop.errors import InputError

LIVE = "live"


@dataclass(frozen=True, slots=True)
class LiveTrace:
    """Columns by name, as those of `_core.Trace`."""

    packets: dict[str, list[Any]]
    tcp: dict[str, list[Any]]
    objects: dict[str, list[Any]]
    flows: dict[str, list[Any]]
    link_states: dict[str, list[Any]]
    left_out: dict[str, int]


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """An existing folder for the captures of a replication, what their files say of themselves, and bytes kept."""

    folder: Path
    comment: str
    snap_length: int


@dataclass(frozen=True, slots=True)
class LiveResults:
    """Columns by name, as those of the model engine; `facts` are the emulator's own (see `_core.live_run`).

    `runs` has further columns: the lateness of the run's packets, and whether it is within the bound. `trace` is the
    replication that was to be recorded.
    """

    flows: dict[str, list[Any]]
    pages: dict[str, list[Any]]
    shorts: dict[str, list[Any]]
    runs: dict[str, list[Any]]
    facts: Mapping[str, Any]
    trace: LiveTrace | None


def run_cell(
    cell: _core.Cell,
    seed: int,
    first: int,
    count: int,
    *,
    captures: Mapping[int, CaptureTarget] | None = None,
    record: int | None = None,
    overview: tuple[int, int] | None = None,
) -> LiveResults:
    """Run replications `first` .. `first + count - 1` of a cell, in a process of their own.

    Those with a number in `captures` are captured; the one called `record` is recorded: whole, or as an overview with
    all details between two times in nanoseconds.
    """
    absolute = {
        number: CaptureTarget(target.folder.resolve(), target.comment, target.snap_length)
        for number, target in (captures or {}).items()
    }
    wanted = request_of(cell, absolute, seed=seed, first=first, count=count, record=record, overview=overview)
    run = {**wanted, "spin_us": SPIN_US, "parent": os.getpid()}
    arguments, descriptor = child_arguments({"run": run})
    try:
        done = subprocess.run(arguments, pass_fds=[descriptor], capture_output=True, text=True, check=False)
    finally:
        os.close(descriptor)
    if done.returncode == -signal.SIGINT:  # Ctrl-C reaches all processes at the terminal
        raise KeyboardInterrupt
    if done.returncode != 0:
        reason = done.stderr.strip().removeprefix("Error: ") or f"its process ended with code {done.returncode}"
        raise InputError(f"The live engine cannot run {cell.key or 'the scenario'}: {reason}")
    return results_of(json.loads(done.stdout), record)


def request_of(
    cell: _core.Cell,
    captures: Mapping[int, CaptureTarget],
    *,
    seed: int,
    first: int,
    count: int,
    record: int | None,
    overview: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return what is to be run, for `RunSpec` of crates/lasthop-host."""
    return {
        "scenario": json.loads(cell.scenario),
        "seed": seed,
        "first": first,
        "count": count,
        "captures": {
            number: {"folder": str(target.folder), "comment": target.comment, "snap_length": target.snap_length}
            for number, target in captures.items()
        },
        "record": record,
        "overview": overview and {"start_ns": overview[0], "stop_ns": overview[1]},
    }


def results_of(answer: dict[str, Any], record: int | None) -> LiveResults:
    """Return the results in an answer of crates/lasthop-host."""
    lateness = [run["lateness"] for run in answer["facts"]["runs"]]
    for column in ("p50_us", "p99_us", "p999_us", "max_us"):
        answer["runs"][f"lateness_{column}"] = [summary[column] for summary in lateness]
    answer["runs"]["valid"] = [summary["valid"] for summary in lateness]
    if (trace := answer["trace"]) is not None:
        if "flows" not in trace:  # of a recording; an overview brings its own
            own = [number == record for number in answer["flows"]["replication"]]
            trace["flows"] = {name: list(itertools.compress(cells, own)) for name, cells in answer["flows"].items()}
        answer["trace"] = LiveTrace(**trace)
    return LiveResults(**answer)
