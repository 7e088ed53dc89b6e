"""A bulk flow through exported scripts of tc, in a guest kernel, compared with the model.

The guest has Linux' own TCP, htb, netem and queue disciplines. Time is virtual, so that this machine's load
does not matter. The server connects, sends and closes, and measures until the client has closed, too: the
`elapsed_s` of the model.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

import pytest

from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.engines.engine import Request
from lasthop.engines.model_engine import ModelEngine
from lasthop.exchange.writers.files import write_line
from lasthop.scenario.points import read_study
from long_tests import ENGINE, GUEST
from test_live import program
from test_programs import run_guest

START_S = 1
SERVER = """
import socket, time
began = time.monotonic_ns()
client = socket.create_connection(("10.73.3.2", 9))
client.sendall(bytes(BYTES))
client.shutdown(socket.SHUT_WR)
client.recv(1)
print("elapsed", time.monotonic_ns() - began)
"""
CLIENT = """
import socket
listener = socket.socket()
listener.bind(("10.73.3.2", 9))
listener.listen()
server, _ = listener.accept()
while server.recv(1_000_000):
    pass
"""


@dataclass(frozen=True)
class Case:
    """A link, the size of the transfer, and how many runs of the guest and of the model are compared."""

    down: str
    up: str
    megabytes: float = 8.0
    guests: int = 1
    models: int = 3


DSL_UP = 'rate = "1 Mbit/s"\ndelay = "20 ms"'
# 10 Mbit/s, but 40 ms without a link in the middle of each second.
OUTAGES = "time_s,rate_bps\n0,10000000\n" + "".join(f"{s}.5,0\n{s}.54,10000000\n" for s in range(1, 60))
CASES = {
    "dsl": Case('link.rate = "10 Mbit/s"\nlink.delay = "20 ms"', DSL_UP),
    "short-buffer": Case(
        'link.rate = "5 Mbit/s"\nlink.delay = "15 ms"\nqueue.limit = "30 kB"',
        'rate = "1 Mbit/s"\ndelay = "5 ms"',
    ),
    "fast": Case(
        'link.rate = "100 Mbit/s"\nlink.delay = "10 ms"', 'rate = "20 Mbit/s"\ndelay = "10 ms"', 60.0
    ),
    "slow": Case(
        'link.rate = "256 kbit/s"\nlink.delay = "100 ms"', 'rate = "64 kbit/s"\ndelay = "100 ms"', 0.6
    ),
    "satellite": Case(
        'link.rate = "20 Mbit/s"\nlink.delay = "270 ms"', 'rate = "4 Mbit/s"\ndelay = "270 ms"', 20.0
    ),
    "fq_codel": Case(
        'link.rate = "20 Mbit/s"\nlink.delay = "10 ms"\n'
        'queue = { discipline = "fq_codel", limit = "1000 packets" }',
        'rate = "5 Mbit/s"\ndelay = "10 ms"',
        20.0,
    ),
    "pie": Case(
        'link.rate = "8 Mbit/s"\nlink.delay = "25 ms"\n'
        'queue = { discipline = "pie", limit = "1000 packets" }',
        'rate = "2 Mbit/s"\ndelay = "25 ms"',
        guests=3,
        models=40,
    ),
    "atm": Case(
        'link.rate = "8 Mbit/s"\nlink.delay = "10 ms"\nlink.framing = "atm"',
        'rate = "1 Mbit/s"\ndelay = "10 ms"\nframing = "atm"',
    ),
    "loss": Case('link.rate = "10 Mbit/s"\nlink.delay = "20 ms"\nlink.loss = "0.5 %"', DSL_UP, 20.0, 12, 200),
    "bursts": Case(
        'link.rate = "10 Mbit/s"\nlink.delay = "20 ms"\nlink.gilbert_elliott = { p = "0.05 %", r = "25 %" }',
        DSL_UP,
        20.0,
        8,
        100,
    ),
    "jitter": Case(
        'link.rate = "10 Mbit/s"\nlink.delay = "20 ms"\n'
        'link.jitter = { distribution = "uniform", min = "0 ms", max = "10 ms" }',
        DSL_UP,
        guests=3,
        models=40,
    ),
    "outages": Case(
        'link.course = "outages.csv"\nlink.delay = "20 ms"',
        DSL_UP,
    ),
    "handover": Case(
        'link.rate = "8 Mbit/s"\nlink.delay = "20 ms"\n'
        'link.change = [{ at = "5 s", rate = "2 Mbit/s", delay = "60 ms" }]',
        DSL_UP,
    ),
}


def model_s(run: ChosenRun, count: int) -> float:
    """Return the median time of the model's transfers."""
    results = ModelEngine().run(run.cell, Request(1, 1, count)).results
    return float(statistics.median(results.flows["elapsed_s"]))


def guest_s(folder: Path, script: Path, size: int, seed: int) -> float:
    """Return the time of a transfer in the guest, after running the script there."""
    python = program("")[0]
    for name, text in (("server.py", SERVER.replace("BYTES", str(size))), ("client.py", CLIENT)):
        (folder / name).write_text(text, encoding="utf-8")
    command = (
        f"sh {script}; ip netns exec lasthop-client {python} {folder}/client.py & "
        f"sleep {START_S}; ip netns exec lasthop-server {python} {folder}/server.py"
    )
    done = run_guest("--seed", str(seed), "--link", "none", "--", "sh", "-ec", command)
    assert done.returncode == 0, done.stderr
    return next(int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("elapsed")) / 1e9


def times(folder: Path, name: str) -> tuple[int, float, float]:
    """Return the size of the transfer, and its median times in the model and in the guest."""
    case = CASES[name]
    size = int(case.megabytes * 1_000_000)
    file, script = folder / f"{name}.toml", folder / f"{name}.sh"
    flow = f'[[flow]]\nkind = "bulk-tcp"\nbytes = "{size} B"\nstart = "{START_S} s"\n'
    (folder / "outages.csv").write_text(OUTAGES, encoding="utf-8")
    file.write_text(f"[down]\n{case.down}\n[up.link]\n{case.up}\n{flow}", encoding="utf-8")
    study = read_study(file)
    run = ChosenRun(Plan(study=study, cells=study.cells, seed=1, replications=1), study.cells[0], 1, 1)
    _, missing = write_line(run, "tc", script)
    assert all("sleep" in text or "outage" in text for text in missing)
    guests = [guest_s(folder, script, size, seed) for seed in range(1, case.guests + 1)]
    return size, model_s(run, case.models), statistics.median(guests)


def compare(folder: Path, name: str) -> None:
    size, model, guest = times(folder, name)
    assert guest == pytest.approx(model, rel=0.05), f"{8e-6 * size / guest:.3f} Mbit/s in the guest"


@pytest.mark.usefixtures("kernel")
@pytest.mark.long(covers=("python/lasthop/exchange/writers", *ENGINE, *GUEST), seconds=50)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.guests == 1])
def test_a_bulk_flow_is_as_fast_as_in_the_model(tmp_path: Path, name: str) -> None:
    compare(tmp_path, name)


@pytest.mark.usefixtures("kernel")
@pytest.mark.long(covers=("python/lasthop/exchange/writers", *ENGINE, *GUEST), seconds=60)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.guests > 1])
def test_so_it_is_in_the_median_if_the_link_is_random(tmp_path: Path, name: str) -> None:
    compare(tmp_path, name)
