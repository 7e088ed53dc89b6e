#!/usr/bin/env python3
"""Measure what a campaign costs besides its simulation, and what a second worker gains.

    .venv/bin/python benches/campaign.py [--runs 20000] [bookkeeping] [memory] [speedup]

It runs `examples/two-flows.toml` without its chain (`memory=none`), some thousand runs of a fraction of a
millisecond each, in a temporary folder.

bookkeeping  Processor time outside the engine, from the first run to the merged tables, as a share of that in
             the engine: store, merge, manifest. Statistics and report are not part of it.
memory       Peak memory of whole `lasthop run` commands, with a tenth, all and four times the runs.
speedup      Wall time of one worker over that of two: threads, and real `dask scheduler` and `dask worker`
             processes on the loopback, each worker with one thread. Both share this machine with scheduler
             and lasthop, so it needs two idle cores; the load before each measurement is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lasthop.campaign.runner import Assignment, Ledger, Work
    from lasthop.engines.engine import Outcome, Stop

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "two-flows.toml"
CELL = "memory=none"
PARTS = ("bookkeeping", "memory", "speedup")
REPETITIONS = 3
PATIENCE_S = 60


@dataclass
class Timed:
    """Threads that note the processor time of what they run."""

    jobs: int
    engine_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, assignment: Assignment, ledger: Ledger, advance: Callable[[int], None]) -> None:
        """Run it all."""
        from lasthop.campaign.runner import Threads

        def timed(work: Work, stop: Stop) -> Outcome:
            before = time.thread_time()
            outcome = assignment.run_here(work, stop)
            with self._lock:
                self.engine_s += time.thread_time() - before
            return outcome

        Threads(self.jobs).run(assignment._replace(run_here=timed), ledger, advance)

    def detail(self) -> Sequence[str]:
        """Say nothing."""
        return ()

    summary = detail


def bookkeeping(runs: int, folder: Path) -> None:
    """Print the share of each number of threads."""
    from lasthop import _core
    from lasthop.campaign.campaign import Campaign
    from lasthop.campaign.plan import Plan

    study = _core.load(str(EXAMPLE))
    cells = [cell for cell in study.cells if cell.key == CELL]
    for jobs in (1, 2):
        place = Timed(jobs)
        campaign = Campaign(Plan(study, cells, seed=1, replications=runs), folder / f"bookkeeping-{jobs}")
        before = time.process_time()
        campaign.run(place, lambda _: None)
        other_s = time.process_time() - before - place.engine_s
        share = other_s / place.engine_s
        print(
            f"bookkeeping  {jobs} threads: engine {place.engine_s:6.2f} s, other {other_s:5.2f} s, "
            f"{share:.1%}"
        )


def command(*words: object) -> list[str]:
    """Return the start of the command line with these words."""
    options = ("run", EXAMPLE, "--only", CELL, "--quiet")
    return [sys.executable, "-m", "lasthop.commands.cli", *map(str, (*options, *words))]


def memory(runs: int, folder: Path) -> None:
    """Print the peak memory of commands."""
    for count in (runs // 10, runs, 4 * runs):
        process = subprocess.Popen(command("--replications", count, "--out", folder / f"memory-{count}"))
        _, status, usage = os.wait4(process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        print(f"memory       {count:7} runs: {usage.ru_maxrss / 1000:.0f} MB, exit code {code}")


def wall_s(out: Path, *words: object) -> float:
    """Run a command and return how long its runs took, as it told."""
    subprocess.run(command("--out", out, *words), check=True)
    return float(json.loads((out / "manifest.json").read_text(encoding="utf-8"))["simulation"]["wall_s"])


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[str]:
    """Yield the address of a scheduler with `workers` workers."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    alone = ("--host", "127.0.0.1", "--no-dashboard")
    commands = [["scheduler", "--port", str(port), *alone]]
    commands += [["worker", address, "--nthreads", "1", "--no-nanny", *alone]] * workers
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    processes = [
        subprocess.Popen([sys.executable, "-m", "dask", *words], stderr=subprocess.DEVNULL, env=environment)
        for words in commands
    ]
    try:
        from distributed import Client

        with Client(address, timeout=PATIENCE_S) as client:
            client.wait_for_workers(workers, timeout=PATIENCE_S)
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def speedup(runs: int, folder: Path) -> None:
    """Print the ratio of the least times."""
    for place in ("threads", "dask"):
        least = {}
        for number in (1, 2):
            took = []
            for repetition in range(REPETITIONS):
                out = folder / f"{place}-{number}-{repetition}"
                print(f"load {os.getloadavg()[0]:.1f}", end="  ", flush=True)
                if place == "threads":
                    took.append(wall_s(out, "--replications", runs, "--jobs", number))
                else:
                    with cluster(number) as address:
                        took.append(wall_s(out, "--replications", runs, "--cluster", address))
            least[number] = min(took)
            print(f"{place} {number}: {', '.join(f'{one:.2f}' for one in took)} s")
        print(
            f"speedup      {place}: {least[1]:.2f} s by one, {least[2]:.2f} s by two, "
            f"{least[1] / least[2]:.2f}"
        )


def main() -> None:
    """Measure the chosen parts, everything by default."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=20_000, metavar="N", help="runs of a campaign  [default: 20000]"
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}  [default: all]")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        for part in arguments.parts or PARTS:
            {"bookkeeping": bookkeeping, "memory": memory, "speedup": speedup}[part](
                arguments.runs, Path(folder)
            )


if __name__ == "__main__":
    main()
