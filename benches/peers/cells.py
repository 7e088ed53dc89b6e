#!/usr/bin/env python3
"""Users of one cell in lasthop and in ns-3's LTE: the same throughput, and what does a packet cost?

    benches/peers/cells.py [--protocols udp cubic] [--seconds 10] [--seeds 3]

Needs Debian's libns3-dev, which `make bench-peers` installs. A server 5 ms from the core network sends to
each user as fast as the cell allows: 100 resource blocks, no fading, no errors, RLC without acknowledgements,
2 MB of queue for each user. Users stand 100 m away, all at the best coding, or at four distances.

lasthop's users get the rate that ns-3's transport blocks have: the largest block that ns-3 granted in 1 ms
with datagrams, times the users if the scheduler is round-robin, which divides each slot among the users with
data. ns-3's division is not even: two users get less together than one, and with TCP a user alone gets the
whole slot, which is up to 7 % more. The headers of some 4 bytes that ns-3 puts before each packet are not
taken off.

Throughput, shares, processor time and the protocol `window` are those of benches/peers/wifi.py.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from pairs import CONTROLS, HEAD, RULE, THROUGHPUT_WITHIN, compare, flows, ns3_command
from peers import build_ns3, cpu_of

import lasthop

# lasthop's scheduler, and ns-3's.
SCHEDULERS = {"round-robin": "Rr", "proportional-fair": "Pf"}
METRES = ([100], [100] * 2, [100] * 5, [100, 3000, 6000, 12000])
TTI_S = 0.001
# More than the cell carries.
OFFERED_BPS = 80e6
# ns-3's averaging window of proportional fairness, in slots.
WINDOW = 99


def rates_bps(command: list[str], scheduler: str) -> list[float]:
    """Return the rate of each user, as ns-3 grants it."""
    largest = json.loads(cpu_of([*command, "--seconds=2"])[1])["largest_block"]
    parts = len(largest) if scheduler == "round-robin" else 1
    return [block * 8 * parts / TTI_S for block in largest]


def scenario(scheduler: str, rates: list[float], protocol: str, seconds: int) -> lasthop.Scenario:
    """Return the scenario for lasthop."""
    hosts = [f"u{number}" for number in range(1, len(rates) + 1)]
    medium = {"kind": "cell", "tti": "1 ms", "scheduler": scheduler, "limit": "2 MB"}
    if scheduler == "proportional-fair":
        medium["window"] = f"{WINDOW} ms"
    return lasthop.Scenario(
        name="cell-peers",
        hop={"cell": {"medium": medium}},
        host={
            host: {"behind": "cell", "cell": {"rate": f"{rate:.0f} bit/s"}}
            for host, rate in zip(hosts, rates, strict=True)
        },
        **flows(protocol, "down", hosts, OFFERED_BPS, seconds),
    )


def main() -> None:
    """Run both and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--protocols", nargs="+", choices=list(CONTROLS), default=["udp", "cubic"])
    parser.add_argument("--seconds", type=int, default=10, help="of each flow; default %(default)s")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each case; default %(default)s")
    options = parser.parse_args()
    print(f"{options.seconds} s, {options.seeds} seeds\n")
    print(f"| scheduler | metres | Mbit/s of each user | protocol | {HEAD}")
    print(f"| --- | --- | --- | --- | {RULE}")
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        program = build_ns3("lte", Path(folder), "lte", "mobility")
        for scheduler, theirs in SCHEDULERS.items():
            for metres in METRES:
                places = ",".join(map(str, metres))
                case = [f"--scheduler={theirs}", f"--metres={places}", f"--rate={OFFERED_BPS / 1e6:.0f}"]
                rates = rates_bps([str(program), *case], scheduler)
                for protocol in options.protocols:
                    command = [*ns3_command(program, protocol, options.seconds), *case]
                    asked = scenario(scheduler, rates, protocol, options.seconds)
                    cells, off = compare(asked, command, protocol, options.seconds, options.seeds)
                    each = ", ".join(f"{rate / 1e6:.1f}" for rate in rates)
                    print(f"| {scheduler} | {places} | {each} | {protocol} | {cells}", flush=True)
                    if abs(off) > THROUGHPUT_WITHIN:
                        faults.append(f"{scheduler}, {places} m, {protocol}: {off:+.1%}")
    if faults:
        raise SystemExit("\n".join(["", f"Further apart than {THROUGHPUT_WITHIN:.0%}:", *faults]))


if __name__ == "__main__":
    main()
