#!/usr/bin/env python3
"""Fit a CUBIC download and a CUBIC upload, and predict transfers that the fit did not see.

    .venv/bin/python benches/fit/predict.py [--lines 50] [--from 0] [--out results/fit]

Each line of `lines.py`, with a way up, is captured twice with CUBIC and fitted. Then the true line and the
fitted one carry a BBR download, four CUBIC downloads, a call beside a CUBIC download, a BBR upload, and a
CUBIC upload beside a CUBIC download. It writes `predictions.csv` (a row per line, transfer and quantity:
true, predicted) as it goes, continues a file that is there, and prints for each quantity the median over the
lines of how far the prediction is off. Lines whose buffer the fit does not tell count, too: it assumes one.
"""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from calibrate import SEED, arguments, completed
from lines import HOST, SECONDS, Line, captured

import lasthop
from lasthop.common.errors import InputError
from lasthop.fit.fit import fit
from lasthop.fit.output import text_of
from lasthop.fit.sources import read

COLUMNS = ["line", "transfer", "quantity", "true", "predicted"]
DOWNLOAD = {"kind": "bulk-tcp", "direction": "down", "duration": f"{SECONDS} s"}
UPLOAD = {**DOWNLOAD, "name": "upload", "direction": "up"}
TRANSFERS = {
    "bbr": [{**DOWNLOAD, "name": "download", "tcp": {"congestion_control": "bbr"}}],
    "four": [{**DOWNLOAD, "name": f"download-{number}"} for number in range(1, 5)],
    "call": [
        {**DOWNLOAD, "name": "download"},
        {"kind": "voip", "name": "call", "direction": "down", "duration": f"{SECONDS} s"},
    ],
    "upload": [{**UPLOAD, "tcp": {"congestion_control": "bbr"}}],
    "both": [{**DOWNLOAD, "name": "download"}, UPLOAD],
}
REPLICATIONS = 5
# Seeds differ, as nobody repeats the accidents of a line.
TRUE_SEED, FITTED_SEED = 11, 12


def quantities(hop: Mapping[str, object], transfer: str, seed: int) -> dict[str, float]:
    """Means over replications: goodput, and quantiles of round trips or of the call's delay."""
    tcp = {"profile": "linux-6", "congestion_control": "cubic"}
    scenario = lasthop.Scenario(time_limit="60 s", tcp=tcp, flow=TRANSFERS[transfer], **hop)
    flows = lasthop.run(scenario, replications=REPLICATIONS, seed=seed, progress=False).flows
    said = {}
    for way in ("download", "upload"):
        own = flows.filter(flows["flow"].str.starts_with(way))
        if len(own):
            mark = "up " if way == "upload" else ""
            said[f"{mark}goodput"] = float(own["throughput_Bps"].sum()) / REPLICATIONS
            for name in ("median", "p95"):
                said[f"{mark}rtt {name}"] = own.select(pl.mean(f"rtt_{name}_s")).item()
    if transfer == "call":
        call = flows.filter(flows["flow"] == "call")
        for name in ("p50", "p95"):
            said[f"delay {name}"] = call.select(pl.mean(f"one_way_delay_{name}_s")).item()
    return said


def predicted(line: Line, jobs: int) -> Iterator[dict[str, object]]:
    """Yield a row for each transfer and quantity of a line; one that says so where there is no fit."""
    with tempfile.TemporaryDirectory(prefix="lasthop-fit-") as folder:
        try:
            ways = [read(captured(line, Path(folder, way), "model", way), HOST) for way in ("down", "up")]
            found = fit(ways, jobs=jobs)
        except InputError:
            yield {"line": line.number, "transfer": "", "quantity": "not fitted"}
            return
    keys = tomllib.loads(text_of(found, "line"))
    hops = [tomllib.loads(line.hop), {way: keys[way] for way in ("down", "up")}]
    for transfer in TRANSFERS:
        true, said = (
            quantities(hop, transfer, seed) for hop, seed in zip(hops, (TRUE_SEED, FITTED_SEED), strict=True)
        )
        for name, value in true.items():
            facts = {"line": line.number, "transfer": transfer, "quantity": name}
            yield {**facts, "true": f"{value:.6g}", "predicted": f"{said[name]:.6g}"}


def summary(rows: list[dict[str, str]]) -> Iterator[str]:
    """Yield the lines of the summary."""
    lines = {row["line"] for row in rows}
    refused = sum(row["quantity"] == "not fitted" for row in rows)
    yield f"{len(lines)} lines, {refused} of them not fitted"
    errors: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["true"]:
            error = abs(float(row["predicted"]) / float(row["true"]) - 1)
            errors.setdefault((row["transfer"], row["quantity"]), []).append(100 * error)
    yield f"{'transfer':9} {'quantity':13} {'median off':>11} {'within 10 %':>12}"
    for (transfer, name), off in errors.items():
        near = sum(one <= 10 for one in off)
        yield f"{transfer:9} {name:13} {np.median(off):9.1f} % {near:5} of {len(off)}"


def main() -> None:
    """Predict for the lines that are missing, then summarise all."""
    asked = arguments(__doc__, lines=50).parse_args()
    rows = completed(
        asked,
        "predictions.csv",
        COLUMNS,
        lambda number: predicted(
            replace(Line.drawn(number, SEED).two_ways(SEED), control="cubic"), asked.jobs
        ),
    )
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
