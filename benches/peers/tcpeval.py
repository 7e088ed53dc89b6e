#!/usr/bin/env python3
"""Scenarios of the Common TCP Evaluation Suite in lasthop and ns-2: do both say the same of Reno and CUBIC?

    benches/peers/tcpeval.py [--replications 3] [--later] [tcpeval-fairness ...]

Needs Debian's ns2. The scenarios are those of the section "suite" of `lasthop evaluate --set whole`
(draft-irtf-iccrg-tcpeval-01), read from there, with long flows where the draft has recorded traffic. ns-2 has
the congestion controls of Linux 2.6.22 (Agent/TCP/Linux); its CUBIC gets the beta of RFC 9438. Starts are
drawn at random in both programs, so a table has means over replications. A queueing delay is the median: in
lasthop over the packets of each flow, in ns-2 over looks at the queue every 5 ms.

The programs say the same if they differ by less than the bounds below. What differs on purpose: lasthop's
hosts are Linux 6, whose CUBIC leaves slow start by HyStart and whose loss recovery has RACK and reduces the
window in proportion (RFC 6937). With --later, slow starts do not count: flows run twice as long, and what
counts is what the second half adds (not the delay, which is over all). In the scenario of the ramp-up both
have slow start, because Agent/TCP/Linux has no threshold of one's own; the draft calls that a potential
revision.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lasthop
from lasthop.evaluate.rows import Row, merged, read_set

PROGRAM = Path(__file__).resolve().parent / "ns2" / "tcpeval.tcl"
CONTROLS = ("reno", "cubic")
PAYLOAD, PACKET = 1448, 1500
UNITS = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "s": 1.0, "ms": 1e-3} | {
    "packets": 1.0,
    "kB": 1e3,
}
LAN_BPS = "100 Mbit/s"


@dataclass(frozen=True)
class Flow:
    """What a program says of a flow."""

    name: str
    sent: float
    drops: float
    Bps: float
    elapsed_s: float
    delay_s: float | None
    """`None` if no packet came through."""


@dataclass(frozen=True)
class Measure:
    """A number of a scenario; `within` is the greatest difference as a share of ns-2's number, or `plus`."""

    name: str
    of: Callable[[Sequence[Flow]], float]
    within: float
    plus: float = 0.0


def total(flows: Sequence[Flow], prefix: str = "") -> float:
    """Bytes per second of all flows whose names begin so."""
    return sum(flow.Bps for flow in flows if flow.name.startswith(prefix))


def mbps(flows: Sequence[Flow], prefix: str = "") -> float:
    """Mbit/s of all flows whose names begin so."""
    return 8e-6 * total(flows, prefix)


def delay_ms(flows: Sequence[Flow]) -> float:
    """Mean of the flows' median queueing delays."""
    return 1e3 * statistics.mean(flow.delay_s for flow in flows if flow.delay_s is not None)


def lost(flows: Sequence[Flow]) -> float:
    """Share of the packets that the bottleneck drops, in per cent."""
    return 100 * sum(flow.drops for flow in flows) / sum(flow.sent for flow in flows)


def named(flows: Sequence[Flow], name: str) -> Flow:
    """Return the flow with this name."""
    return next(flow for flow in flows if flow.name == name)


TOTALS = (
    Measure("Mbit/s", mbps, 0.05),
    Measure("lost, %", lost, 0.5, 0.2),
    Measure("median queueing delay, ms", delay_ms, 0.15, 2),
)
MEASURES = {
    "tcpeval-tradeoff": TOTALS,
    "tcpeval-links": TOTALS,
    "tcpeval-ramp-up": (Measure("new flow, s", lambda flows: named(flows, "new").elapsed_s, 0.25, 0.2),),
    "tcpeval-transients": (
        Measure("Mbit/s", lambda flows: mbps(flows, "flow"), 0.05),
        Measure(
            "lost of the stream", lambda flows: sum(f.drops for f in flows if f.name == "stream"), 0.5, 100
        ),
    ),
    "tcpeval-impact": (
        Measure("Reno, Mbit/s", lambda flows: mbps(flows, "a"), 0.1),
        Measure("its own, Mbit/s", lambda flows: mbps(flows, "b"), 0.1),
    ),
    "tcpeval-fairness": (
        Measure("second, % of both", lambda flows: 100 * named(flows, "second").Bps / total(flows), 0.0, 10),
        Measure("lost, %", lost, 0.5, 0.2),
    ),
}


def number(text: str | float) -> float:
    """Read a quantity of a scenario in its base unit."""
    if isinstance(text, int | float):
        return text
    value, unit = text.split()
    return float(value) * UNITS[unit]


def plain(row: Row) -> dict[str, Any]:
    """Return the scenario of a row, with slow start."""
    scenario: dict[str, Any] = dict(row.scenario)
    scenario["flow"] = [
        {key: value for key, value in flow.items() if flow["name"] != "new" or key != "tcp"}
        for flow in scenario["flow"]
    ]
    return scenario


def cells(scenario: Mapping[str, Any]) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Yield the levels and the tables of each cell, `flow` by name."""
    base = {**scenario, "flow": {flow["name"]: flow for flow in scenario["flow"]}}
    factors = base.pop("factor", {})
    for levels in itertools.product(*(table.items() for table in factors.values())):
        cell = base
        for _, more in levels:
            cell = merged(cell, more)
        yield dict(zip(factors, (name for name, _ in levels), strict=True)), cell


def ours(scenario: Mapping[str, Any], replications: int) -> Callable[..., list[list[Flow]]]:
    """Run all cells in lasthop; return a function that finds the replications of a cell."""
    controls = {name: {"tcp": {"congestion_control": name}} for name in CONTROLS}
    asked = lasthop.Scenario(**{**scenario, "factor": {**scenario.get("factor", {}), "control": controls}})
    found = lasthop.run(asked, replications=replications, jobs=1, progress=False).flows

    def of(levels: Mapping[str, str]) -> list[list[Flow]]:
        runs: dict[int, list[Flow]] = {}
        for one in found.filter(**levels).iter_rows(named=True):
            flow = Flow(
                one["role"],
                one["sent_packets"],
                one["data_drops_queue"],
                one["throughput_Bps"] or 0,
                one["elapsed_s"] or 0,
                one["queue_delay_median_s"],
            )
            runs.setdefault(one["replication"], []).append(flow)
        return list(runs.values())

    return of


def start_of(flow: Mapping[str, Any], draw: random.Random) -> float:
    """Draw the start of a flow."""
    start = flow.get("start", 0)
    if isinstance(start, Mapping):
        return draw.uniform(number(start["min"]), number(start["max"]))
    return number(start)


def theirs(cell: Mapping[str, Any], control: str, run: int) -> list[Flow]:
    """Run a cell in ns-2."""
    draw = random.Random(run)
    down = cell["down"]
    up = cell.get("up", down)
    flows, streams, names, end = [], [], [], 0.0
    for name, flow in cell["flow"].items():
        is_stream = flow["kind"] == "constant-udp"
        for _ in range(flow.get("count", 1)):
            start, length = start_of(flow, draw), number(flow.get("duration", 0))
            end = max(end, start + length)
            if is_stream:
                streams.append(f"{start} {length} {number(flow['rate']) * PACKET / (PACKET - 28)}")
                names.append((name, 0.0))
                continue
            own = flow.get("tcp", {}).get("congestion_control", control)
            size = int(number(flow.get("bytes", 0)))
            access = number(flow.get("access", {}).get("delay", 0))
            flows.append(f"{own} {start} {length} {size} {access}")
            names.append((name, length))
    numbers = [
        end + 0.01,
        number(cell.get("lan", {}).get("rate", LAN_BPS)),
        *(number(way["link"]["rate"]) for way in (down, up)),
        number(down["link"]["delay"]),
        *(int(number(way["queue"]["limit"])) for way in (down, up)),
    ]
    lists = [" ".join(f"{{{one}}}" for one in each) for each in (flows, streams)]
    # ns-2's Linux agents talk on standard output.
    command = ["ns", str(PROGRAM), *map(str, numbers), *lists]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told = json.loads(done.stderr.splitlines()[-1])
    return [
        Flow(
            name,
            one["sent"],
            one["drops"],
            one.get("acked", 0) * PAYLOAD / length if length else 0,
            one.get("elapsed_s", 0),
            told["delay_s"],
        )
        for (name, length), one in zip(names, told["flows"], strict=True)
    ]


def lengthened(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flow that lasts twice as long."""
    return {**tables, "duration": f"{2 * number(tables['duration'])} s"}


def added(short: Sequence[Flow], long: Sequence[Flow]) -> list[Flow]:
    """Return what the second half of each flow adds to the first."""
    return [
        Flow(one.name, two.sent - one.sent, two.drops - one.drops, 2 * two.Bps - one.Bps, 0, two.delay_s)
        for one, two in zip(short, long, strict=True)
    ]


def table(row: Row, replications: int, *, later: bool) -> Iterator[str]:
    """Print the table of a scenario. Yield the numbers that are too far apart."""
    measures = MEASURES[row.name]
    scenario = plain(row)
    found = ours(scenario, replications)
    more = None
    if later:
        more = ours({**scenario, "flow": list(map(lengthened, scenario["flow"]))}, replications)
    print(f"\n{row.title}\n")
    print(f"| {' | '.join((*scenario.get('factor', {}), 'TCP'))} |", end="")
    print("".join(f" {one.name}: lasthop | ns-2 |" for one in measures), flush=True)
    print("| --- " * (len(scenario.get("factor", {})) + 1) + "| ---: | ---: " * len(measures) + "|")
    for levels, cell in cells(scenario):
        for control in CONTROLS:
            mine = found({**levels, "control": control})
            peer = [theirs(cell, control, run) for run in range(1, replications + 1)]
            if more:
                mine = list(map(added, mine, more({**levels, "control": control})))
                longer = {**cell, "flow": {name: lengthened(one) for name, one in cell["flow"].items()}}
                peer = [added(short, theirs(longer, control, run)) for run, short in enumerate(peer, start=1)]
            print(f"| {' | '.join((*levels.values(), control))} |", end="")
            for one in measures:
                left, right = (statistics.mean(map(one.of, runs)) for runs in (mine, peer))
                print(f" {left:.3g} | {right:.3g} |", end="")
                if abs(left - right) > one.within * right + one.plus:
                    yield f"{row.name}, {levels}, {control}, {one.name}: {left:.3g}, ns-2 has {right:.3g}"
            print(flush=True)


def main() -> None:
    """Run both and print the tables."""
    (suite,) = [section for section in read_set("whole").sections if section.id == "suite"]
    rows = {row.name: row for row in suite.rows}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="of the section; all of them")
    parser.add_argument("--replications", type=int, default=3, help="of each cell; default %(default)s")
    parser.add_argument(
        "--later", action="store_true", help="let only the second half of twice the time count"
    )
    options = parser.parse_args()
    names = options.scenarios or list(rows)
    faults = [
        fault for name in names for fault in table(rows[name], options.replications, later=options.later)
    ]
    print(f"\n{len(faults)} numbers are further apart than the bounds.")
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
