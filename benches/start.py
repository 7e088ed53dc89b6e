#!/usr/bin/env python3
"""Time a short command: the processor time of `lasthop run FILE` until its answer and until its end.

    benches/start.py [FILE]      examples/first.toml by default

It prints medians of five runs in new folders; a run before them writes Python's compiled files. The answer is
there when its first table is printed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 5
PROGRAM = """
import os, sys
import click
from lasthop.commands.cli import main

def noting(line, *rest, **options):
    if ": median of " in str(line) and not answered:
        answered.append(used())
    echo(line, *rest, **options)

def used():
    return sum(os.times()[:2])

answered = []
echo, click.echo = click.echo, noting
main(sys.argv[1:])
print(*answered, used(), file=sys.stderr)
"""


def times(file: Path) -> tuple[float, float]:
    """Return the processor seconds of one run until its answer, and until its end."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROGRAM, "run", str(file), "--out", f"{folder}/out"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    answer, end = map(float, done.stderr.split()[-2:])
    return answer, end


def main() -> None:
    """Print the medians."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "examples" / "first.toml"
    times(file)
    answers, ends = zip(*(times(file) for _ in range(RUNS)), strict=True)
    print(f"answer after {statistics.median(answers):.2f} s of processor time, end after ", end="")
    print(f"{statistics.median(ends):.2f} s (medians of {RUNS})")


if __name__ == "__main__":
    main()
