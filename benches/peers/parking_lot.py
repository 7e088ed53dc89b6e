#!/usr/bin/env python3
"""The parking lot in lasthop and in ns-3: does each flow get the same share?

    benches/peers/parking_lot.py [--seconds 60] [--trips 8] [--engine model]

Needs Debian's libns3-dev, which `make bench-peers` installs. A long flow crosses three hops of 10 Mbit/s, and
each carries a short flow beside it, as in examples/parking-lot.toml without its jitter, which ns-3's links
lack. So here arrivals keep step with the queues, and who loses depends on the round trip to the tenth of a
millisecond (Floyd and Jacobson, On Traffic Phase Effects, 1992). Each case is therefore run once at each of
several round trips, the same in both programs, and the table has mean, least and greatest of the shares.

A share is the payload received in the flow's time, over what a hop can carry of it. Round trips are those of
a short flow without queues; the long flow's is 1 to 3 times as long. Both have SACK, timestamps, an ACK for
each second segment, and the two bytes of ns-3's PPP header. `--engine kernel` puts Linux beside ns-3.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import tempfile
from pathlib import Path

from peers import build_ns3

import lasthop

# lasthop's congestion control, and ns-3's.
CONTROLS = {"reno": "LinuxReno", "cubic": "Cubic"}
RTTS = (1, 2, 3)
HOPS = ("first", "second", "third")
# The receiver of each flow, and its sender if that is no server at the root.
ENDS = {
    "long": ("far", None),
    "short-1": ("near", None),
    "short-2": ("middle", "near"),
    "short-3": ("far", "middle"),
}
BOTTLENECK_BPS = 10e6
FRAME, PAYLOAD = 1502, 1448
SHARE_WITHIN = 0.05


def trips_ms(number: int) -> list[float]:
    """Round trips of a short flow, spread over more than a packet's time on a hop."""
    return [round(60 + 0.37 * index, 2) for index in range(number)]


def scenario(control: str, rtts: int, trip_ms: float, seconds: int) -> lasthop.Scenario:
    """Return the scenario for lasthop."""
    hop_ms = trip_ms / 2 * (rtts - 1) / (len(HOPS) - 1)
    link = {"rate": "10 Mbit/s", "delay": f"{hop_ms:.4f} ms", "framing": "2 B"}
    down = {"link": link, "queue": {"limit": "50 packets"}}
    start = {"distribution": "uniform", "min": "0 s", "max": "1 s"}
    flows = [
        {"kind": "bulk-tcp", "name": name, "host": host, "duration": f"{seconds} s", "start": start}
        | ({"peer": peer} if peer else {})
        for name, (host, peer) in ENDS.items()
    ]
    return lasthop.Scenario(
        name="parking-lot",
        lan={"delay": f"{trip_ms / 2 - hop_ms:.4f} ms"},
        hop={
            name: {"down": down} | ({"behind": behind} if behind else {})
            for name, behind in zip(HOPS, (None, *HOPS), strict=False)
        },
        host={"near": {"behind": "first"}, "middle": {"behind": "second"}, "far": {"behind": "third"}},
        tcp={"congestion_control": control},
        flow=flows,
    )


def ours(control: str, rtts: int, trip_ms: float, seconds: int, engine: str) -> list[float]:
    """Return the bytes per second of each flow in lasthop."""
    asked = scenario(control, rtts, trip_ms, seconds)
    flows = lasthop.run(asked, engine=engine, replications=1, progress=False).flows
    found = dict(zip(flows["role"], flows["throughput_Bps"], strict=True))
    return [found[name] for name in ENDS]


def theirs(program: Path, control: str, rtts: int, trip_ms: float, seconds: int) -> list[float]:
    """Return the bytes per second of each flow in ns-3."""
    command = [str(program), CONTROLS[control], str(rtts), str(trip_ms), str(seconds)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [received / seconds for received in json.loads(told)["bytes"]]


def spread(shares: list[float]) -> str:
    """Say the mean of the shares, the least and the greatest."""
    return f"{statistics.mean(shares):.3f} [{min(shares):.3f}..{max(shares):.3f}]"


def main() -> None:
    """Run both and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60, help="of each flow; default %(default)s")
    parser.add_argument("--trips", type=int, default=8, help="round trips of each case; default %(default)s")
    parser.add_argument("--engine", default="model", help="lasthop's engine; default %(default)s")
    options = parser.parse_args()
    carried = BOTTLENECK_BPS / 8 * PAYLOAD / FRAME
    print(
        f"{options.engine} engine beside ns-3, {options.seconds} s, {options.trips} round trips of each case"
    )
    print("Fair shares of the long flow: max-min 0.500, proportional 0.250; of a short one: 0.500, 0.750.\n")
    print("| TCP | RTTs | flow | 1 / (RTT sqrt(loss)) | lasthop | ns-3 | difference |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        program = build_ns3("parking_lot", Path(folder))
        for control in CONTROLS:
            for rtts in RTTS:
                trips = trips_ms(options.trips)
                mine = [ours(control, rtts, trip, options.seconds, options.engine) for trip in trips]
                peers = [theirs(program, control, rtts, trip, options.seconds) for trip in trips]
                long = 1 / (1 + rtts * math.sqrt(len(HOPS)))
                for index, name in enumerate(ENDS):
                    shares, others = ([run[index] / carried for run in runs] for runs in (mine, peers))
                    one, other = statistics.mean(shares), statistics.mean(others)
                    expected = long if name == "long" else 1 - long
                    formula = f"{expected:.3f}" if control == "reno" else "-"
                    print(
                        f"| {control} | {rtts} | {name} | {formula} | {spread(shares)} | {spread(others)} | "
                        f"{one - other:+.3f} |",
                        flush=True,
                    )
                    if abs(one - other) > SHARE_WITHIN:
                        faults.append(f"{control}, {rtts} RTTs, {name}: {one:.3f}, ns-3 has {other:.3f}")
    if faults:
        raise SystemExit("\n".join(["", f"Further apart than {SHARE_WITHIN} of a hop:", *faults]))


if __name__ == "__main__":
    main()
