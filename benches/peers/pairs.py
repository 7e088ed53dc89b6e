"""One case in lasthop and in ns-3 in turn, with several seeds: throughput of flows, and processor time."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers import cpu_of

import lasthop

# lasthop's congestion control, and ns-3's; neither for datagrams. With `window`, windows are those of the
# receivers: no queue overflows, so it does not matter how the two recover.
CONTROLS = {"udp": "", "window": "LinuxReno", "reno": "LinuxReno", "cubic": "Cubic"}
# In segments.
WINDOW = 40
# How far the server is from the hop, at its end alone, as in ns-3.
ACCESS = {"rate": "10 Gbit/s", "delay": "5 ms"}
# Payload of a packet of 1500 bytes; TCP has timestamps.
PAYLOAD = {"udp": 1472, "window": 1448, "reno": 1448, "cubic": 1448}
THROUGHPUT_WITHIN = 0.05
HEAD = (
    "lasthop Mbit/s | ns-3 Mbit/s | difference | lasthop's shares | ns-3's shares | "
    "lasthop packets/s | ns-3 packets/s | ratio |"
)
RULE = "---: | ---: | ---: | --- | --- | ---: | ---: | ---: |"


@dataclass
class Outcome:
    """What one program's flows got, the mean of its seeds, in bytes per second, and its processor seconds."""

    runs: list[list[float]] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def flows(self) -> list[float]:
        """Bytes per second of each flow."""
        return [statistics.mean(flow) for flow in zip(*self.runs, strict=True)]

    @property
    def mbps(self) -> float:
        """Mbit/s of all flows."""
        return sum(self.flows) * 8 / 1e6

    @property
    def shares(self) -> str:
        """The flows' shares of the throughput: the least and the greatest."""
        shares = [flow / sum(self.flows) for flow in self.flows]
        return f"{min(shares):.3f}..{max(shares):.3f}"

    def speed(self, payload: int, seconds: int) -> float:
        """Packets of data that arrived, per second of processor time."""
        return sum(self.flows) * seconds / payload / statistics.median(self.cpu_s)


def flows(protocol: str, direction: str, hosts: list[str], rate_bps: float, seconds: int) -> dict[str, Any]:
    """Return the keys of a scenario with a flow for each host; datagrams need `rate_bps` together."""
    if protocol == "udp":
        # The run ends with the sources, so that nothing counts that only then leaves the queues. As in ns-3,
        # no two streams keep step.
        return {
            "time_limit": f"{seconds} s",
            "flow": [
                {"kind": "constant-udp", "name": host, "host": host, "direction": direction, "access": ACCESS}
                | {"payload": f"{PAYLOAD['udp']} B", "duration": f"{seconds} s"}
                | {"rate": f"{rate_bps / len(hosts) * (100 + number) / 100:.0f} bit/s"}
                for number, host in enumerate(hosts)
            ],
        }
    start = {"distribution": "uniform", "min": "0 s", "max": "100 ms"}
    tcp: dict[str, Any] = {"congestion_control": protocol}
    if protocol == "window":
        tcp = {"congestion_control": "reno", "receive_window_max": WINDOW}
    return {
        "time_limit": f"{seconds + 1} s",
        # As in ns-3, each second segment is acknowledged. Linux also acknowledges the end of a burst at once.
        "tcp": tcp | {"delayed_ack_adapts": False, "delayed_ack": "40 ms"},
        "flow": [
            {"kind": "bulk-tcp", "name": host, "host": host, "direction": direction, "access": ACCESS}
            | {"duration": f"{seconds} s", "start": start}
            for host in hosts
        ],
    }


def ours(scenario: lasthop.Scenario, protocol: str, seconds: int, seeds: int) -> Iterator[Outcome]:
    """Yield lasthop's outcome after each seed."""
    outcome = Outcome()
    for seed in range(1, seeds + 1):
        began = time.process_time()
        found = lasthop.run(scenario, replications=1, seed=seed, jobs=1, progress=False).flows
        outcome.cpu_s.append(time.process_time() - began)
        if protocol == "udp":
            outcome.runs.append([count * PAYLOAD["udp"] / seconds for count in found["received_packets"]])
        else:
            outcome.runs.append(list(found["throughput_Bps"]))
        yield outcome


def ns3_command(program: Path, protocol: str, seconds: int) -> list[str]:
    """Return the command of a program for ns-3, with what all have in common."""
    tcp = ["--protocol=tcp", f"--control={CONTROLS[protocol]}"] if CONTROLS[protocol] else []
    if protocol == "window":
        tcp.append(f"--window={WINDOW * PAYLOAD[protocol]}")
    return [str(program), f"--payload={PAYLOAD[protocol]}", f"--seconds={seconds}", *tcp]


def theirs(command: list[str], seconds: int, seeds: int) -> Iterator[Outcome]:
    """Yield ns-3's outcome after each seed."""
    outcome = Outcome()
    for seed in range(1, seeds + 1):
        cpu_s, told = cpu_of([*command, f"--run={seed}"])
        outcome.cpu_s.append(cpu_s)
        outcome.runs.append([received / seconds for received in json.loads(told)["bytes"]])
        yield outcome


def compare(
    scenario: lasthop.Scenario, command: list[str], protocol: str, seconds: int, seeds: int
) -> tuple[str, float]:
    """Run both in turn. Return the cells of the table from `HEAD`, and how far lasthop is from ns-3."""
    *_, (mine, peer) = zip(
        ours(scenario, protocol, seconds, seeds), theirs(command, seconds, seeds), strict=True
    )
    off = mine.mbps / peer.mbps - 1
    speeds = [outcome.speed(PAYLOAD[protocol], seconds) for outcome in (mine, peer)]
    cells = (
        f"{mine.mbps:.2f} | {peer.mbps:.2f} | {off:+.1%} | {mine.shares} | {peer.shares} | "
        f"{speeds[0]:.0f} | {speeds[1]:.0f} | {speeds[0] / speeds[1]:.0f} |"
    )
    return cells, off
