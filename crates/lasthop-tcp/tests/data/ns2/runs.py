#!/usr/bin/env python3
"""Make runs of `runs.jsonl` with ns-2.35 (Debian: package `ns2`), or check that ns-2 still gives them.

`runs.py check` runs all but those with marks and spikes again; exit code 1 if one differs. `runs.py make <
NEW` takes one JSON object with `name`, `description` and `params` a line and prints whole runs.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Parameters that flow.tcl takes. It knows no F-RTO and no D-SACK, and losses go by number of arrival.
TAKEN = (
    "variant delack iw limtx minrto maxrto tick window pkt impatient deflate bw delay qlim stop produce ecn "
    "accbw"
)


def simulate(params: dict[str, Any], drops: list[int]) -> tuple[list[tuple[float, int]], int]:
    """Return what was sent, as (seconds, packet), and the number of timeouts."""
    with tempfile.TemporaryDirectory() as folder:
        values = {key: params[key] for key in TAKEN.split()} | {
            "drops": " ".join(map(str, drops)),
            "out": folder,
        }
        words = [str(word) for pair in values.items() for word in pair]
        subprocess.run(["ns", HERE / "flow.tcl", *words], check=True)
        lines = [line.split() for line in (Path(folder) / "packets").read_text().splitlines()]
        counts = [line.split() for line in (Path(folder) / "timeouts").read_text().splitlines()]
    # Field 0 is the event ("+": enters the queue), 1 the time, 10 the packet.
    sent = [(float(line[1]), int(line[10])) for line in lines if line[0] == "+" and line[4] == "tcp"]
    return sent, max((int(count[-1]) for count in counts if "nrexmit_" in count), default=0)


def run(params: dict[str, Any]) -> dict[str, Any]:
    """Simulate a run. ns-2 drops by number of arrival, `dseq` by packet: find the arrivals one by one."""
    wanted = {item if "#" in item else f"{item}#1" for item in params["dseq"].split()}
    drops: list[int] = []
    while True:
        sent, timeouts = simulate(params, drops)
        packets = [packet for _, packet in sent]
        copies = [f"{packet}#{packets[: i + 1].count(packet)}" for i, packet in enumerate(packets)]
        due = [i for i, copy in enumerate(copies) if copy in wanted]
        if due == drops:
            return {"timeouts": timeouts, "drops": len(drops), "sent": [list(item) for item in sent]}
        # What follows the first new one will change.
        drops = due[: next(i for i, number in enumerate(due) if number not in drops) + 1]


def make() -> None:
    """Run what standard input asks for."""
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(asked | run(asked["params"])))


def check() -> None:
    """Compare the runs on file with what ns-2 gives; exit with 1 if one differs."""
    differ = False
    for line in (HERE / "runs.jsonl").read_text().splitlines():
        filed = json.loads(line)
        params = filed["params"]
        if params["spike"] or params["marks"]:
            continue
        made = run(params)
        same = made["sent"] == filed["sent"] and made["timeouts"] == filed["timeouts"]
        differ |= not same
        print(f"{filed['name']}: {'same' if same else 'DIFFERS'}")
    sys.exit(differ)


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]]()
