"""Memory of a recorded run: bounded, however long the run and however many its flows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import EXAMPLE, STUDY
from lasthop import _core
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.scenario.facts import Facts
from long_tests import ENGINE
from observing import overviewed, traced

EXAMPLES = STUDY.parents[1] / "examples"

# About 770 packets per second each way for ten minutes, and no end of data.
LONG = """
name = "long"
title = "One bulk flow for 600 s"
seed = 1
replications = 3
mtu = "1500 B"
time_limit = "600 s"
lan = { rate = "100 Mbit/s", delay = "0.15 ms" }

[down]
queue.limit = "50 packets"
link = { rate = "9.24 Mbit/s", delay = "20 ms", send_buffer = "3000 B", release = "serialised" }

[up]
queue.limit = "50 packets"
link = { rate = "9.24 Mbit/s", delay = "20 ms", send_buffer = "3000 B", release = "serialised" }

[tcp]
profile = "linux-6"

[[flow]]
kind = "bulk-tcp"
name = "bulk"
bytes = "10000 MB"
start = "0 s"
"""


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    file = tmp_path / "long.toml"
    file.write_text(LONG, encoding="utf-8")
    return file


def test_an_overview_of_a_long_run_is_bounded_and_says_what_it_lacks(long_run: Path) -> None:
    (cell,) = _core.load(str(long_run)).cells
    overview = overviewed(cell, 1, 1, 1)
    assert 5_000 < len(overview.packets["time_ns"]) <= 60_000
    assert 1_000 < len(overview.transport["time_ns"]) <= 60_000
    record = {name: cells[0] for name, cells in cell.run(1, 1, 1).flows.items()}
    assert record["outcome"] == "unfinished"
    assert record["throughput_Bps"] == pytest.approx(9.24e6 / 8 * 1448 / 1500, rel=0.01)
    # Every loss, its consequences and every byte are kept.
    assert (
        overview.packets["event"].count("dropped-queue")
        == record["data_drops_queue"] + record["ack_drops_queue"]
        > 0
    )
    assert overview.transport["event"].count("recovery-entered") == record["fast_retransmits"] > 0
    again = sum(event.startswith("retransmitted-") for event in overview.transport["event"])
    assert again == record["retransmitted_packets"]
    assert sum(overview.packets["fresh_bytes"]) == pytest.approx(600 * record["throughput_Bps"], rel=0.001)
    assert max(window for window in overview.transport["cwnd"] if window) == record["cwnd_max"]
    assert overview.left_out["points"] > 1_000_000
    assert (overview.left_out["marks"], overview.left_out["flows"]) == (0, 0)
    omitted = TraceTables.of(overview, Facts.of(cell)).left_out
    assert "are omitted" in omitted
    assert "all drops, timeouts and retransmissions" in omitted


def test_a_part_of_a_long_run_has_all_of_its_events(long_run: Path) -> None:
    (cell,) = _core.load(str(long_run)).cells
    part = overviewed(cell, 1, 1, 1, (300_000_000_000, 302_000_000_000))
    times = [
        time
        for time, event, direction in zip(
            part.packets["time_ns"], part.packets["event"], part.packets["direction"], strict=True
        )
        if event == "delivered" and direction == "down" and 300e9 <= time <= 302e9
    ]
    assert len(times) == pytest.approx(2 * 770, rel=0.01)


def test_a_run_within_the_budget_is_kept_whole() -> None:
    study = _core.load(str(STUDY / "study.toml"))
    cell = next(cell for cell in study.cells if cell.key == "link=r6,workload=2tcp0udp,variant=frto")
    overview, whole = overviewed(cell, 1, 1, 12), traced(cell, 1, 1, 12)
    assert overview.left_out == {"points": 0, "marks": 0, "flows": 0} == whole.left_out
    for event in ("enqueued", "dequeued", "dropped-queue", "dropped-error", "marked"):
        assert overview.packets["event"].count(event) == whole.packets["event"].count(event), event
    sender = [
        event
        for event, host in zip(whole.transport["event"], whole.transport["host"], strict=True)
        if host == "server"
    ]
    assert overview.transport["event"] == sender
    assert overview.packets["time_ns"][-1] == whole.packets["time_ns"][-1]


_CHILD = """
import json, sys
from pathlib import Path
from lasthop.commands.cli import main
code = main(json.loads(sys.argv[1]))
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps({"code": code, "kB": int(status["VmHWM"].split()[0])}), file=sys.stderr)
"""


def _peak_mb(*arguments: object) -> float:
    """Return the memory that a command takes at most; getrusage would count this process, which started it,
    too.
    """
    words = json.dumps([str(argument) for argument in arguments])
    # polars has put its own setting of the allocator into this process's environment.
    environment = {name: value for name, value in os.environ.items() if name != "_RJEM_MALLOC_CONF"}
    command = [sys.executable, "-c", _CHILD, words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    usage = json.loads(done.stderr.splitlines()[-1])
    assert usage["code"] == 0, done.stderr
    return float(usage["kB"]) / 1000


@pytest.mark.long(covers=("python/lasthop", *ENGINE), seconds=4)
def test_the_two_commands_that_took_gigabytes(long_run: Path, tmp_path: Path) -> None:
    """They take 0.2 GB each; most of it is Python and its libraries."""
    assert _peak_mb("run", long_run, "--out", tmp_path / "long", "--quiet") < 300
    busy = (EXAMPLES / "short-flows.toml", "--only", "load=busy", "--replication", 1)
    assert _peak_mb("plot", *busy, "--out", tmp_path / "s.png") < 500


@pytest.mark.long(covers=("python/lasthop", *ENGINE), seconds=4)
def test_memory_hardly_grows_with_the_number_of_runs(tmp_path: Path) -> None:
    """Records, statistics and report of 5000 runs take at most a fifth more than those of 500."""
    few, many = (
        _peak_mb(
            "run",
            EXAMPLE,
            "--only",
            "memory=none",
            "--replications",
            n,
            "--out",
            tmp_path / str(n),
            "--quiet",
        )
        for n in (500, 5000)
    )
    assert many < 1.2 * few
