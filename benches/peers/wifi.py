#!/usr/bin/env python3
"""Stations of one access point in lasthop and in ns-3: the same throughput, and what does a packet cost?

    benches/peers/wifi.py [--standards a ac] [--stations 1 2 5 10] [--protocols udp window] [--seconds 20]

Needs Debian's libns3-dev, which `make bench-peers` installs. A server 5 ms away sends to each station, or
gets from each, as fast as the air allows. All stations hear one another and the access point, so frames get
lost by collisions alone. The rate is fixed: 54 Mbit/s for a, and the fastest of one stream at 20 MHz with the
long guard interval of n and ac, the short one of ax: 65, 78 and 143.4 Mbit/s. n, ac and ax run with
aggregates of up to 65535 bytes, ns-3's default, and with single packets. Queues hold 1000 packets, the access
point's those of all stations. Datagrams would need twice the rate, so no queue runs dry.

With `window`, TCP's windows are 40 segments, so no queue overflows; with `reno` and `cubic` the two also
differ in how windows grow and recover. All acknowledge each second segment. ns-3's retransmission timeout is
at least 1 s: it cannot bound the variance term alone, as Linux and lasthop do.

ns-3 is told to retry an aggregate whose block ACK is missing, instead of asking for the block ACK first; its
hosts get all packets of a frame 20 us after its end, when its ACK is on the air, not each at its own end and
at once; its access point demands 6, 12 and 24 Mbit/s, so ACKs take 24; beacons end before the flows begin.
Both count what arrives in the time of each flow, the mean of several seeds. Processor time is the median: of
a whole process of ns-3, and of `lasthop.run` with analysis, without the start of Python. A share is a flow's
part of the sum: the least and the greatest. A packet counts once, if its data arrived; ACKs of TCP do not.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairs import CONTROLS, HEAD, RULE, THROUGHPUT_WITHIN, compare, flows, ns3_command
from peers import build_ns3

import lasthop

RATES_BPS = {"a": 54_000_000, "n": 65_000_000, "ac": 78_000_000, "ax": 143_382_353}
LARGEST = 65535
LIBRARIES = ("wifi", "mobility", "propagation")


@dataclass
class Case:
    """A row of the table."""

    standard: str
    frames: str
    direction: str
    protocol: str
    stations: int
    rts: bool
    seconds: int

    def __str__(self) -> str:
        return f"{self.standard} | {self.frames} | {self.direction} | {self.protocol} | {self.stations}"

    def scenario(self) -> lasthop.Scenario:
        """Return the scenario for lasthop."""
        medium: dict[str, Any] = {"kind": "wifi", "standard": self.standard, "queue": "fifo"}
        if self.rts:
            medium["rts_threshold"] = "0 B"
        if self.standard != "a":
            medium |= {"max_ampdu": f"{LARGEST} B"} if self.frames == "aggregates" else {"max_mpdus": 1}
        rate_bps = RATES_BPS[self.standard]
        hosts = [f"s{number}" for number in range(1, self.stations + 1)]
        return lasthop.Scenario(
            name="wifi-peers",
            hop={"air": {"medium": medium | {"limit": "1000 packets"}}},
            host={host: {"behind": "air", "wifi": {"rate": f"{rate_bps} bit/s"}} for host in hosts},
            **flows(self.protocol, self.direction, hosts, 2 * rate_bps, self.seconds),
        )

    def command(self, program: Path) -> list[str]:
        """Return the command of the program for ns-3."""
        largest = LARGEST if self.frames == "aggregates" else 0
        return [
            *ns3_command(program, self.protocol, self.seconds),
            *(f"--standard={self.standard}", f"--ampdu={largest}", "--bar=0", f"--rts={int(self.rts)}"),
            *(f"--direction={self.direction}", f"--stations={self.stations}"),
        ]


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the rows that the options ask for."""
    for standard in options.standards:
        frames = ["single"] if standard == "a" else ["aggregates", "single"]
        rows = itertools.product(frames, options.directions, options.protocols, options.stations)
        for row in rows:
            yield Case(standard, *row, options.rts, options.seconds)


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    lists = {"standards": list(RATES_BPS), "directions": ["up", "down"], "protocols": list(CONTROLS)}
    for name, choices in lists.items():
        default = {"standards": ["a", "ac"], "protocols": ["udp", "window"]}.get(name, choices)
        parser.add_argument(f"--{name}", nargs="+", choices=choices, default=default)
    parser.add_argument("--stations", nargs="+", type=int, default=[1, 2, 5, 10])
    parser.add_argument("--rts", action="store_true", help="RTS and CTS before data")
    parser.add_argument("--seconds", type=int, default=20, help="of each flow; default %(default)s")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each case; default %(default)s")
    return parser.parse_args()


def main() -> None:
    """Run both and print the table."""
    options = parse()
    print(f"{options.seconds} s, {options.seeds} seeds, {'with' if options.rts else 'without'} RTS\n")
    print(f"| standard | frames | direction | protocol | stations | {HEAD}")
    print(f"| --- | --- | --- | --- | ---: | {RULE}")
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        program = build_ns3("wifi", Path(folder), *LIBRARIES)
        for case in cases(options):
            cells, off = compare(
                case.scenario(), case.command(program), case.protocol, case.seconds, options.seeds
            )
            print(f"| {case} | {cells}", flush=True)
            if abs(off) > THROUGHPUT_WITHIN:
                faults.append(f"{str(case).replace(' |', ',')}: {off:+.1%}")
    if faults:
        raise SystemExit("\n".join(["", f"Further apart than {THROUGHPUT_WITHIN:.0%}:", *faults]))


if __name__ == "__main__":
    main()
