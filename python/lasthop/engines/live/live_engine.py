"""Running replications with this machine's own TCP."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import ClassVar

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.engines.engine import Request
from lasthop.engines.hosts import HostEngine, HostResults, message_of, results_of
from lasthop.engines.live.child import SPIN_US, child_arguments


@dataclass(frozen=True, slots=True)
class LiveEngine(HostEngine):
    """Namespaces of this machine, in real time; needs root, or permission to create user namespaces."""

    name: ClassVar[str] = "live"
    linux_router: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False

    @property
    def title(self) -> str:
        return "live (this machine's TCP, real time)"

    def run_cell(self, cell: _core.Cell, request: Request) -> HostResults:
        """Run replications in a child process."""
        run = {**message_of(cell, request), "spin_us": SPIN_US, "parent": os.getpid()}
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
            reason = (
                done.stderr.strip().removeprefix("Error: ")
                or f"its process ended with code {done.returncode}"
            )
            raise InputError(f"The live engine cannot run {cell.key or 'the scenario'}: {reason}")
        return results_of(json.loads(done.stdout))
