#!/usr/bin/env python3
"""The parking lot in lasthop and in ns-3: does each flow get the same share?

    benches/peers/parking_lot.py [--seconds 60] [--trips 24] [--engine model] [--tcp reno cubic cubic-plain]

Needs Debian's libns3-dev, which `make bench-peers` installs. A long flow crosses three hops of 10 Mbit/s, and
each carries a short flow beside it, as in examples/parking-lot.toml without its jitter, which ns-3's links
lack. So here arrivals keep step with the queues, and who loses depends on the round trip to the tenth of a
millisecond (Floyd and Jacobson, On Traffic Phase Effects, 1992). Each case is therefore run once at each of
many round trips within 3 ms, the same in both programs, and with other starts. The table has the means of
the shares and their standard errors.

A share is the payload received in the flow's time, over what a hop can carry of it. Round trips are those of
a short flow without queues; the long flow's is 1 to 3 times as long. Both have SACK, timestamps, an ACK for
each second segment, and the two bytes of ns-3's PPP header. CUBIC stands beside ns-3's with the Reno-friendly
region of RFC 9438, section 4.3, which our program for ns-3 adds; `cubic-plain` is ns-3.37's own, without it.
`--engine kernel` puts Linux beside ns-3. The exit code is 1 if a mean share of `reno` or `cubic` is further
than 0.05 of a hop from ns-3's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from peers import build_ns3

import lasthop

# lasthop's congestion control, and ns-3's.
CONTROLS = {
    "reno": ("reno", "LinuxReno"),
    "cubic": ("cubic", "FriendlyCubic"),
    "cubic-plain": ("cubic", "Cubic"),
}
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
GOLDEN_RATIO = (1 + math.sqrt(5)) / 2
FRAME, PAYLOAD = 1502, 1448
SHARE_WITHIN = 0.05


def trips_ms(number: int) -> list[float]:
    """Round trips of a short flow, spread evenly over more than two packets' time on a hop."""
    return [round(60 + 3 * (index * GOLDEN_RATIO % 1), 3) for index in range(number)]


@dataclass(frozen=True)
class Case:
    """One run: of the long flow in `rtts` round trips of a short one, which takes `trip_ms`."""

    tcp: str
    rtts: int
    trip_ms: float
    seconds: int
    run: int


def scenario(case: Case) -> lasthop.Scenario:
    """Return the scenario for lasthop."""
    hop_ms = case.trip_ms / 2 * (case.rtts - 1) / (len(HOPS) - 1)
    link = {"rate": "10 Mbit/s", "delay": f"{hop_ms:.4f} ms", "framing": "2 B"}
    down = {"link": link, "queue": {"limit": "50 packets"}}
    start = {"distribution": "uniform", "min": "0 s", "max": "1 s"}
    flows = [
        {"kind": "bulk-tcp", "name": name, "host": host, "duration": f"{case.seconds} s", "start": start}
        | ({"peer": peer} if peer else {})
        for name, (host, peer) in ENDS.items()
    ]
    return lasthop.Scenario(
        name="parking-lot",
        seed=case.run,
        lan={"delay": f"{case.trip_ms / 2 - hop_ms:.4f} ms"},
        hop={
            name: {"down": down} | ({"behind": behind} if behind else {})
            for name, behind in zip(HOPS, (None, *HOPS), strict=False)
        },
        host={"near": {"behind": "first"}, "middle": {"behind": "second"}, "far": {"behind": "third"}},
        tcp={"congestion_control": CONTROLS[case.tcp][0]},
        flow=flows,
    )


def ours(case: Case, engine: str) -> list[float]:
    """Return the bytes per second of each flow in lasthop."""
    flows = lasthop.run(scenario(case), engine=engine, replications=1, progress=False).flows
    found = dict(zip(flows["role"], flows["throughput_Bps"], strict=True))
    return [found[name] for name in ENDS]


def theirs(program: Path, case: Case) -> list[float]:
    """Return the bytes per second of each flow in ns-3."""
    numbers = [str(number) for number in (case.rtts, case.trip_ms, case.seconds, case.run)]
    command = [str(program), CONTROLS[case.tcp][1], *numbers]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [received / case.seconds for received in json.loads(told)["bytes"]]


def error(shares: list[float]) -> float:
    """Return the standard error of the mean."""
    return statistics.stdev(shares) / math.sqrt(len(shares))


def main() -> None:
    """Run both and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60, help="of each flow; default %(default)s")
    parser.add_argument("--trips", type=int, default=24, help="round trips of each case; default %(default)s")
    parser.add_argument("--engine", default="model", help="lasthop's engine; default %(default)s")
    parser.add_argument("--tcp", nargs="+", choices=CONTROLS, default=list(CONTROLS), help="default: all")
    options = parser.parse_args()
    carried = BOTTLENECK_BPS / 8 * PAYLOAD / FRAME
    print(f"{options.engine} engine beside ns-3, {options.seconds} s, {options.trips} runs of each case")
    print("Fair shares of the long flow: max-min 0.500, proportional 0.250; of a short one: 0.500, 0.750.\n")
    print("| TCP | RTTs | flow | 1 / (RTT sqrt(loss)) | lasthop | ns-3 | difference |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        program = build_ns3("parking_lot", Path(folder))
        for tcp, rtts in itertools.product(options.tcp, RTTS):
            trips = enumerate(trips_ms(options.trips), start=1)
            cases = [Case(tcp, rtts, trip_ms, options.seconds, run) for run, trip_ms in trips]
            mine = [ours(case, options.engine) for case in cases]
            peers = [theirs(program, case) for case in cases]
            long = 1 / (1 + rtts * math.sqrt(len(HOPS)))
            for index, name in enumerate(ENDS):
                shares, others = ([run[index] / carried for run in runs] for runs in (mine, peers))
                one, other = statistics.mean(shares), statistics.mean(others)
                expected = long if name == "long" else 1 - long
                formula = f"{expected:.3f}" if tcp == "reno" else "-"
                apart = f"{one - other:+.3f} ({math.hypot(error(shares), error(others)):.3f})"
                print(
                    f"| {tcp} | {rtts} | {name} | {formula} | {one:.3f} ({error(shares):.3f}) | "
                    f"{other:.3f} ({error(others):.3f}) | {apart} |",
                    flush=True,
                )
                if tcp != "cubic-plain" and abs(one - other) > SHARE_WITHIN:
                    faults.append(f"{tcp}, {rtts} RTTs, {name}: {one:.3f}, ns-3 has {other:.3f}")
    if faults:
        raise SystemExit("\n".join(["", f"Further apart than {SHARE_WITHIN} of a hop:", *faults]))


if __name__ == "__main__":
    main()
