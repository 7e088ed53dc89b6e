"""Real Dask clusters on the loopback: `dask scheduler` and `dask worker` in processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Self

from forked import Forked, Process

PATIENCE_S = 60.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def lasthop(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Process:
    """Start the command line in a process group of its own, as a shell does."""
    if not any(str(argument).startswith("local:") for argument in arguments):
        return Forked("lasthop", *arguments, environment=environment)
    command = [sys.executable, "-m", "lasthop.commands.cli", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


class Cluster:
    """A scheduler at an address that stays, and workers of one thread without a nanny."""

    def __init__(self, log: Path, *options: str) -> None:
        """Start the scheduler, with more options."""
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.workers: list[Process] = []
        self._log = log
        self._options = options
        self.scheduler = self._start_scheduler()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Process:
        if environment is None or "PYTHONPATH" not in environment:
            return Forked("dask", *arguments, environment=environment, log=self._log)
        with self._log.open("a", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments],
                stdout=log,
                stderr=log,
                text=True,
                env={**os.environ, "POLARS_MAX_THREADS": "1", **environment},
                start_new_session=True,
            )

    def _start_scheduler(self) -> Process:
        """Start it and wait until it listens."""
        arguments = ("scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        scheduler = self._start(*arguments, *self._options)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, self._log.read_text(encoding="utf-8")
                time.sleep(0.02)
            else:
                return scheduler

    def start_worker(self, *options: str, environment: Mapping[str, str] | None = None) -> Process:
        arguments = (
            "worker",
            self.address,
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
            "--host",
            "127.0.0.1",
        )
        self.workers.append(self._start(*arguments, *options, environment=environment))
        return self.workers[-1]

    def wait_for_workers(self, count: int) -> None:
        """Wait until exactly `count` workers are there."""
        from distributed import Client

        deadline = time.monotonic() + PATIENCE_S
        with Client(self.address, timeout=PATIENCE_S) as client:
            while len(client.nthreads()) != count:
                assert time.monotonic() < deadline, self._log.read_text(encoding="utf-8")
                time.sleep(0.05)

    def kill_worker(self, worker: Process) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.workers.remove(worker)

    def restart(self) -> None:
        """Restart what has ended: the scheduler, and workers up to two."""
        if self.scheduler.poll() is not None:
            self.scheduler = self._start_scheduler()
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < 2:
            self.start_worker()
