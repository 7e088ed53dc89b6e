"""containerlab: a topology of four Linux containers whose `exec` runs the commands of `writers.tc`."""

from __future__ import annotations

import json
from collections import defaultdict

from lasthop.exchange.writers.hop import Hop
from lasthop.exchange.writers.tc import (
    CLIENT,
    LINK_AT,
    LINKS,
    QUEUE_AT,
    ROUTERS,
    SERVER,
    Shaping,
    addresses,
    missing_lines,
    routes,
    shaping,
)

IMAGE = "ghcr.io/srl-labs/network-multitool"
"""An image with iproute2 and iperf3."""
_NAMES = {SERVER: "server", ROUTERS[0]: "router-1", ROUTERS[1]: "router-2", CLIENT: "client"}


def write(hop: Hop, name: str) -> str:
    """Return the topology."""
    commands: dict[str, list[str]] = defaultdict(list)
    for host, command in addresses(hop.mtu):
        commands[host].append(f"ip {command}")
    for host in ROUTERS:
        commands[host].append("sysctl -w net.ipv4.ip_forward=1")
    for host, command in routes():
        commands[host].append(f"ip {command}")
    for side in hop.sides.values():
        each = shaping(side)
        if each.changes:
            side.lacks("link", "the rate and the delay do not change")
        _shape(commands, each)
    return "\n".join([*_head(hop), *_nodes(commands, name)]) + "\n"


def _shape(commands: dict[str, list[str]], each: Shaping) -> None:
    for (host, device), words in ((QUEUE_AT[each.way], each.queue), (LINK_AT[each.way], each.link)):
        commands[host] += [f"tc {command.format(dev=f'dev {device}')}" for command in words]


def _head(hop: Hop) -> list[str]:
    return [
        f"# {hop.title}, by 'lasthop export --as containerlab'. Start it with 'containerlab deploy -t FILE'.",
        f"# The server is {LINKS[0][4]}.1, the client {LINKS[2][4]}.2.",
        "#",
        *missing_lines(hop.missing()),
    ]


def _nodes(commands: dict[str, list[str]], name: str) -> list[str]:
    lines = [f"name: {json.dumps(name)}", "topology:", "  nodes:"]
    for host, title in _NAMES.items():
        lines += [f"    {title}:", "      kind: linux", f"      image: {IMAGE}", "      exec:"]
        lines += [f"        - {json.dumps(command)}" for command in commands[host]]
    lines.append("  links:")
    for left, left_device, right, right_device, _ in LINKS:
        ends = [f"{_NAMES[left]}:{left_device}", f"{_NAMES[right]}:{right_device}"]
        lines.append(f"    - endpoints: {json.dumps(ends)}")
    return lines
