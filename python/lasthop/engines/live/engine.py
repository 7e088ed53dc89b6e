"""Running replications with this machine's own TCP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lasthop import _core
from lasthop.engines.engine import CaptureTarget, SeriesTarget
from lasthop.engines.hosts import HostEngine, HostResults, request_of, results_of
from lasthop.engines.live.process import SPIN_US, child_arguments
from lasthop.errors import InputError


@dataclass(frozen=True, slots=True)
class LiveEngine(HostEngine):
    """Namespaces of this machine, in real time. It needs root, or permission to create user namespaces."""

    name: ClassVar[str] = "live"
    repeatable: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """What ran the hosts."""
        return "live (this machine's TCP, real time)"

    def run_cell(
        self,
        cell: _core.Cell,
        seed: int,
        first: int,
        count: int,
        *,
        captures: Mapping[int, CaptureTarget] | None = None,
        record: int | None = None,
        overview: tuple[int, int] | None = None,
        series: SeriesTarget | None = None,
    ) -> HostResults:
        """Run replications in a process of their own."""
        absolute = {
            number: CaptureTarget(target.folder.resolve(), target.comment, target.snap_length)
            for number, target in (captures or {}).items()
        }
        target = series and SeriesTarget(series.file.resolve(), series.step_ns)
        wanted = request_of(
            cell, absolute, seed=seed, first=first, count=count, record=record, overview=overview, series=target
        )
        run = {**wanted, "spin_us": SPIN_US, "parent": os.getpid()}
        arguments, descriptor = child_arguments({"run": run})
        try:
            done = subprocess.run(
                arguments,
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        finally:
            os.close(descriptor)
        if done.returncode == -signal.SIGINT:  # Ctrl-C reaches all processes at the terminal
            raise KeyboardInterrupt
        if done.returncode != 0:
            reason = done.stderr.strip().removeprefix("Error: ") or f"its process ended with code {done.returncode}"
            raise InputError(f"The live engine cannot run {cell.key or 'the scenario'}: {reason}")
        return results_of(json.loads(done.stdout), record)
