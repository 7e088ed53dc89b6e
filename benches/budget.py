#!/usr/bin/env python3
"""Count the instructions of small simulations and compare them with the budget.

A slowdown shows on any machine.

    benches/budget.py             check; exit code 1 if a run takes 3 % more than its budget
    benches/budget.py --write     make what was counted the budget

The cells of scenarios/hops.toml are compared with each other: two hops in a row may cost at most 1.6 times
one.

Valgrind counts while Python loads a scenario and runs it. The count without the run is subtracted. The rest
belongs to the engine and the analysis. Another compiler, C library or kind of processor counts a little
differently; budget.json names the compiler of the counts.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from lasthop.engines.engine import WHOLE, Observation

ROOT = Path(__file__).resolve().parent.parent
BUDGET = ROOT / "benches" / "budget.json"
MARGIN = 0.03
# One hop, and two.
HOPS = "benches/scenarios/hops.toml"
TWO_HOPS_MOST = 1.6

# Name: file, step between cells, number of replications.
RUNS = {
    "thin": ("benches/scenarios/thin.toml", 1, 10),
    "fat": ("benches/scenarios/fat.toml", 3, 1),
    "crowd": ("benches/scenarios/crowd.toml", 2, 1),
    "kulve2003": ("studies/kulve2003/study.toml", 20, 1),
    "iip2004": ("studies/iip2004/study.toml", 40, 1),
    "saarto2003": ("studies/saarto2003/study.toml", 8, 1),
    "balekaki2012": ("studies/balekaki2012/study.toml", 300, 1),
}
# The run whose first replication is counted once more, with what pictures of it need.
WATCHED, PICTURES = "fat", "fat, pictures"
PROGRAM = """
import sys
from lasthop import _core
file, observations, (first, step, replications) = *sys.argv[1:3], map(int, sys.argv[3:])
study = _core.load(file)
if replications:
    for cell in study.cells[first::step]:
        cell.run(study.seed, 1, replications, observations)
"""


@functools.cache  # The run without pictures is counted before.
def counted(
    file: str, first: int, step: int, replications: int, observation: Observation | None = None
) -> int:
    """Return the instructions of one process; the observation is that of the first replication."""
    observations = {} if observation is None else {1: observation.message()}
    numbers = [str(number) for number in (first, step, replications)]
    program = [sys.executable, "-c", PROGRAM, str(ROOT / file), json.dumps(observations), *numbers]
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    # Python's own start must not depend on this run: hashes, and whether compiled files are there.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*valgrind, *program], capture_output=True, text=True, env=environment, check=False)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"valgrind could not count {file}:\n{done.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def instructions(name: str) -> int:
    """Return the instructions that the simulations of `name` take."""
    file, step, replications = RUNS[name]
    return counted(file, 0, step, replications) - counted(file, 0, step, 0)


def pictures() -> int:
    """Return the instructions that keeping what pictures of a run show takes, without those of the run."""
    file, step, _ = RUNS[WATCHED]
    return counted(file, 0, step, 1, Observation(overview=WHOLE)) - counted(file, 0, step, 1)


def second_hop() -> float:
    """Return the instructions of two hops in a row over those of one."""
    start = counted(HOPS, 0, 2, 0)
    one, two = (counted(HOPS, cell, 2, 1) - start for cell in (0, 1))
    return two / one


def main() -> None:
    """Check all runs against the budget, or write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="make what was counted the budget")
    write = parser.parse_args().write
    now = {name: instructions(name) for name in RUNS} | {PICTURES: pictures()}
    compiler = subprocess.run(
        ["rustc", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if write:
        BUDGET.write_text(json.dumps({"compiler": compiler, "instructions": now}, indent=2) + "\n")
        return
    budget = json.loads(BUDGET.read_text())
    if compiler != budget["compiler"]:
        print(f"budget counted with {budget['compiler']}, this is {compiler}")
    over = []
    print(f"{'run':14} {'budget':>15} {'now':>15}  now / budget")
    for name, count in now.items():
        allowed = budget["instructions"][name]
        print(f"{name:14} {allowed:15,} {count:15,}  {count / allowed:.3f}")
        if count > allowed * (1 + MARGIN):
            over.append(name)
    hops = second_hop()
    print(f"two hops cost {hops:.2f} times one; at most {TWO_HOPS_MOST}")
    if over:
        raise SystemExit(f"over budget by more than {MARGIN:.0%}: {', '.join(over)}; see benches/README.md")
    if hops > TWO_HOPS_MOST:
        raise SystemExit("the second hop costs too much; see benches/README.md")


if __name__ == "__main__":
    main()
