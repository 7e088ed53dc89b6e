#!/usr/bin/env python3
"""Time whole commands: packets per second of processor time, nanoseconds per packet, and peak memory.

    benches/whole.py [NAME ...]      a run of benches/scenarios (thin, fat, crowd, many-100, long, ...), or a
                                     study

Each scenario runs as a user runs it, on one thread, with analysis, statistics and report: `lasthop run FILE
--jobs 1`. Studies run at their full replications on all cores. Packets are those delivered, data and ACKs, by
runs.parquet. "engine and analysis" is the simulation alone, without Python's start, tables and report; "with
pictures" also keeps what pictures of the run show.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import polars as pl

from lasthop import _core
from lasthop.engines.engine import WHOLE, Observation

ROOT = Path(__file__).resolve().parent.parent
LASTHOP = [sys.executable, "-m", "lasthop.commands.cli"]
SCENARIOS = {
    "thin": ["thin.toml"],
    "fat": ["fat.toml", "--only", "length=short"],
    "fat-long": ["fat.toml", "--only", "length=long"],
    "crowd": ["crowd.toml", "--only", "length=whole"],
    "many-100": ["many.toml", "--only", "concurrent=hundred"],
    "many-1000": ["many.toml", "--only", "concurrent=thousand"],
    "many-10000": ["many.toml", "--only", "concurrent=ten-thousand"],
    "many-100000": ["many.toml", "--only", "concurrent=hundred-thousand"],
    "long": ["long.toml"],
}
STUDIES = ("kulve2003", "iip2004", "saarto2003", "atmf1998", "balekaki2012")


@dataclass(frozen=True)
class Cost:
    """What a command took: processor and wall time in seconds, memory in MB, and the packets that arrived."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    packets: int

    def row(self, name: str) -> str:
        """Return the table's row."""
        per_second = self.packets / self.cpu_s / 1e6
        nanoseconds = self.cpu_s / self.packets * 1e9
        return (
            f"| {name} | {self.packets / 1e6:.2f} | {self.cpu_s:.2f} | {self.wall_s:.2f} | {per_second:.2f} "
            f"| {nanoseconds:.0f} | {self.peak_mb:.0f} |"
        )


def command(arguments: list[str]) -> Cost:
    """Run `lasthop ARGUMENTS` into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        start = time.monotonic()
        child = subprocess.Popen(
            [*LASTHOP, *arguments, "--out", str(out), "--quiet"], stdout=subprocess.DEVNULL
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - start
        if status:
            raise SystemExit(f"lasthop {' '.join(arguments)} failed")
        packets = (
            pl.scan_parquet(out / "runs.parquet").select(pl.col("packets_delivered").sum()).collect().item()
        )
        return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024, packets)


def engine(file: Path, only: str) -> tuple[float, float | None]:
    """Return the processor seconds of the simulation and its analysis alone, and with what pictures need.

    Only a single replication has pictures.
    """
    study = _core.load(str(file))
    cells = [cell for cell in study.cells if only in ("", cell.key)]

    def seconds(observations: Mapping[int, object]) -> float:
        start = resource.getrusage(resource.RUSAGE_SELF)
        for cell in cells:
            cell.run(study.seed, 1, study.replications, json.dumps(observations))
        end = resource.getrusage(resource.RUSAGE_SELF)
        return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime

    watched = {1: Observation(overview=WHOLE).message()}
    return seconds({}), seconds(watched) if study.replications == 1 else None


def main() -> None:
    """Print the table of the scenarios and studies that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*SCENARIOS, *STUDIES]))
    names = parser.parse_args().names or [*SCENARIOS, *STUDIES]
    if unknown := [name for name in names if name not in (*SCENARIOS, *STUDIES)]:
        parser.error(f"{unknown[0]!r} is none of {', '.join([*SCENARIOS, *STUDIES])}")
    print("| run | packets, M | processor s | wall s | M packets/s | ns/packet | peak MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in names:
        if name in STUDIES:
            print(command(["study", "run", name]).row(name), flush=True)
            continue
        file, *rest = SCENARIOS[name]
        path = ROOT / "benches" / "scenarios" / file
        cost = command(["run", str(path), "--jobs", "1", *rest])
        print(cost.row(name), flush=True)
        # In a process of its own: later commands would inherit this command's peak memory.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            alone, watched = pool.submit(engine, path, rest[-1] if rest else "").result()
        for seconds, what in ((alone, "engine and analysis"), (watched, "with pictures")):
            if seconds is not None:
                print(Cost(seconds, seconds, cost.peak_mb, cost.packets).row(f"{name}, {what}"), flush=True)


if __name__ == "__main__":
    main()
