#!/usr/bin/env python3
"""Fit lines drawn at random, and compare the 90 % intervals with what is true.

    .venv/bin/python benches/fit/calibrate.py [--lines 200] [--from 0] [--engine kernel] [--out results/fit]

It writes `lines.csv` (a row per line and parameter: true value, estimate, ends of the interval, or why there
is none) as it goes, continues a file that is there, and then draws `calibration.png` and prints the summary:
coverage with its 95 % interval (Clopper and Pearson), and the median error of the estimates. `--lines 0` only
draws and prints what is there. `lines.py` has the ranges. The command `fit` itself sees the
capture only.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from lines import HOST, Line, captured
from scipy.stats import binomtest

from lasthop.common.errors import InputError
from lasthop.fit.fit import fit
from lasthop.fit.sources import read

COLUMNS = [
    "line",
    "parameter",
    "true",
    "estimate",
    "low",
    "high",
    "reason",
    "control",
    "queue",
    "seen_at",
    "s",
]
TRUE: dict[str, Callable[[Line], object]] = {
    "rate": lambda line: line.rate,
    "delay": lambda line: line.rtt,
    "buffer": lambda line: line.buffer if line.queue != "codel" else None,
    "loss": lambda line: line.loss,
    "jitter": lambda line: line.jitter,
    "control": lambda line: line.control,
    "queue": lambda line: line.queue,
}  # fmt: skip
NUMBERS = ("rate", "delay", "buffer", "loss", "jitter")
SEED = 1


def fitted(line: Line, engine: str, jobs: int) -> Iterator[dict[str, object]]:
    """Yield a row for each parameter of a line."""
    folder = Path(tempfile.mkdtemp(prefix="lasthop-fit-"))
    since = time.perf_counter()
    facts = {"line": line.number, "control": line.control, "queue": line.queue, "seen_at": line.seen_at}
    try:
        found = fit([read(captured(line, folder, engine), HOST)], jobs=jobs, exact=engine == "model")
    except InputError as error:
        for name, true in TRUE.items():
            yield {
                **facts,
                "parameter": name,
                "true": true(line),
                "reason": str(error).replace(str(folder), ""),
            }
        return
    finally:
        shutil.rmtree(folder)
    facts["s"] = round(time.perf_counter() - since, 1)
    for name, true in TRUE.items():
        one = found.parameter(name)
        if one is None:
            continue
        numbers = {"estimate": one.value, "low": one.low, "high": one.high}
        yield {**facts, "parameter": name, "true": true(line), **numbers, "reason": one.reason or ""}


def summary(rows: list[dict[str, str]]) -> Iterator[str]:
    """Yield the lines of the summary."""
    lines = {row["line"] for row in rows}
    yield f"{len(lines)} lines"
    yield f"{'parameter':10} {'told':>5} {'in the interval':>28} {'median error':>13}"
    for name in NUMBERS:
        told = told_of(rows, name)
        if not told:
            continue
        inside = sum(low <= true <= high for true, _, low, high in told)
        errors = [abs(value / true - 1) for true, value, _, _ in told if true > 0]
        error = f"{100 * float(np.median(errors)):.1f} %" if errors else "-"
        yield f"{name:10} {len(told):5} {_share(inside, len(told)):>28} {error:>13}"
    for name in ("control", "queue"):
        told_names = [
            (row["true"], row["estimate"]) for row in rows if row["parameter"] == name and row["estimate"]
        ]
        if told_names:
            right = sum(true == said for true, said in told_names)
            yield f"{name:10} {len(told_names):5} {_share(right, len(told_names)):>28} right"
    spent = [float(row["s"]) for row in rows if row["parameter"] == "rate" and row["s"]]
    if spent:
        yield f"median time of a fit: {np.median(spent):.0f} s"


def _share(part: int, whole: int) -> str:
    """A share with its 95 % interval."""
    ends = binomtest(part, whole).proportion_ci(0.95)
    return f"{part}, {100 * part / whole:.0f} % ({100 * ends.low:.0f} to {100 * ends.high:.0f} %)"


def told_of(rows: list[dict[str, str]], name: str) -> list[tuple[float, float, float, float]]:
    """True value, estimate and interval of a parameter where there is a number."""
    chosen = [row for row in rows if row["parameter"] == name and row["estimate"] and row["true"]]
    return [tuple(float(row[key]) for key in ("true", "estimate", "low", "high")) for row in chosen]  # type: ignore[misc]


def picture(rows: list[dict[str, str]], file: Path) -> None:
    """Draw estimates with their intervals over true values."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    units = {"rate": "Mbit/s", "delay": "ms", "buffer": "packets"}
    for axes, (name, unit) in zip(figure.subplots(1, 3), units.items(), strict=True):
        told = told_of(rows, name)
        for true, value, low, high in told:
            colour = "#2f6690" if low <= true <= high else "#c8553d"
            bars = [[max(value - low, 0)], [max(high - value, 0)]]
            axes.errorbar(true, value, yerr=bars, fmt="o", ms=3, lw=1, color=colour)
        ends = [true for true, *_ in told] or [1.0]
        axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="#8a8f98", lw=0.8, zorder=0)
        axes.set(xscale="log", yscale="log", xlabel=f"true {name} ({unit})", ylabel=f"fitted {name} ({unit})")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(ScalarFormatter())
            axis.set_minor_formatter(NullFormatter())
        inside = sum(low <= true <= high for true, _, low, high in told)
        axes.set_title(f"{name}: {inside} of {len(told)} within 90 %", fontsize=10)
    figure.savefig(file, dpi=110)


def main() -> None:
    """Fit the lines that are missing, then summarise all."""
    parser = arguments(__doc__, lines=200)
    parser.add_argument("--engine", choices=("model", "kernel", "live"), default="model")
    asked = parser.parse_args()
    rows = completed(
        asked, "lines.csv", COLUMNS, lambda number: fitted(Line.drawn(number, SEED), asked.engine, asked.jobs)
    )
    picture(rows, asked.out / "calibration.png")
    print("\n".join(summary(rows)))


def arguments(description: str | None, *, lines: int) -> argparse.ArgumentParser:
    """Return the options that the programs here share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=lines, help="how many; default %(default)s")
    parser.add_argument("--from", dest="first", type=int, default=0, help="number of the first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/fit"))
    return parser


def completed(
    asked: argparse.Namespace,
    name: str,
    columns: list[str],
    rows: Callable[[int], Iterator[dict[str, object]]],
) -> list[dict[str, str]]:
    """Add the rows of the lines that a table lacks, as they come; return all its rows."""
    asked.out.mkdir(parents=True, exist_ok=True)
    table = asked.out / name
    if not table.exists():
        table.write_text(",".join(columns) + "\n", encoding="utf-8")
    done = {int(row["line"]) for row in rows_of(table)}
    for number in range(asked.first, asked.first + asked.lines):
        if number in done:
            continue
        made = list(rows(number))
        with table.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, columns).writerows(made)
    return rows_of(table)


def rows_of(table: Path) -> list[dict[str, str]]:
    """The rows that are there."""
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
