"""The network of a scenario as a tree of hops and hosts, with flows as arrows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lasthop.common.metrics.units import scale
from lasthop.engines.resolved import Flow
from lasthop.present.pictures.marks import FLOW_COLORS
from lasthop.scenario.facts import Facts, Hop, Side

NETWORK = "network"
SERVERS = "servers"
_SERVER = "server"
"""The default peer of a flow."""
_FEW = 2
"""Up to this many equal hops or hosts are drawn separately; more are drawn as one."""
_BYTES = re.compile(r"\b(\d+) B\b")


@dataclass(slots=True)
class Host:
    """A host, or several equal hosts. A further way leads to a host that is also drawn elsewhere."""

    names: list[str]
    is_further_way: bool = False

    @property
    def title(self) -> str:
        return _title(self.names)


@dataclass(slots=True)
class Node:
    """A hop, or several equal hops, with the hosts and hops behind it. The root has no names."""

    names: list[str] = field(default_factory=list)
    remarks: Sequence[str] = ()
    hosts: list[Host] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)

    @property
    def title(self) -> str:
        return _title(self.names)


@dataclass(frozen=True, slots=True)
class Arrow:
    """A flow, or several equal flows."""

    ends: tuple[str, str]
    """The names of peer and host; of equal hosts, the first."""
    direction: str
    """`down` to the host, `up` from the host, or `both`."""
    via: str | None
    label: str


@dataclass(frozen=True, slots=True)
class Network:
    """A tree with arrows, one for each colour; `others` are further arrows."""

    root: Node
    arrows: Sequence[Arrow]
    others: Sequence[Arrow]


_Thing = TypeVar("_Thing", "Node", "Host")


def network_of(facts: Facts, flows: Sequence[Flow]) -> Network:
    """Return the network of a scenario, from its facts and its entries of flows."""
    only = next(iter(facts.hosts))
    arrows, kinds, relays = [], [], {}
    for flow in flows:
        ends = (str(flow.get("peer") or _SERVER), str(flow.get("host") or only))
        direction, via = str(flow.get("direction") or "down"), flow.get("via")
        label = str(flow.get("name") or flow["kind"])
        if relay := flow.get("relay"):
            name = f"{relay['at']}-relay"
            relays[name] = next(hop.behind for hop in facts.hops if hop.name == relay["at"])
            sides = (((ends[0], name), None, "peer-side"), ((name, ends[1]), via, "host-side"))
            drawn = [Arrow(pair, direction, way, f"{label}/{side}") for pair, way, side in sides]
        elif flow.get("stack") == "mptcp":
            drawn = [Arrow(ends, direction, way, f"{label}/{way}") for way in facts.hosts[ends[1]]]
        else:
            drawn = [Arrow(ends, direction, via, label)]
        arrows += drawn
        kinds += [str(flow["kind"])] * len(drawn)
    root = _Builder(facts, arrows, kinds, relays).tree()
    merged = _merged(arrows, kinds, root)
    return Network(root, merged[: len(FLOW_COLORS)], merged[len(FLOW_COLORS) :])


class _Builder:
    """Builds the tree of a scenario, and joins equal hops and hosts."""

    def __init__(
        self, facts: Facts, arrows: Sequence[Arrow], kinds: Sequence[str], relays: Mapping[str, str | None]
    ) -> None:
        self.facts = facts
        self.relays = relays
        self.behind: dict[str | None, list[Hop]] = {}
        for hop in facts.hops:
            self.behind.setdefault(hop.behind, []).append(hop)
        self.does: dict[str, list[tuple[object, ...]]] = {
            name: [] for name in (*facts.hosts, *relays, _SERVER)
        }
        for arrow, kind in zip(arrows, kinds, strict=True):
            peer, host = arrow.ends
            self.does[host].append((kind, arrow.direction, arrow.via, peer))
            if peer != _SERVER:
                self.does[peer].append((kind, arrow.direction, arrow.via, host, "peer"))

    def tree(self) -> Node:
        root = Node(children=self._hops(None), hosts=self._hosts(None))
        if self.does[_SERVER] or any(does[3] == _SERVER for own in self.does.values() for does in own):
            root.hosts.insert(0, Host([_SERVER]))
        return root

    def _hops(self, behind: str | None) -> list[Node]:
        nodes = [
            Node([hop.name], _describe(hop), self._hosts(hop.name), self._hops(hop.name))
            for hop in self.behind.get(behind, ())
        ]
        return _joined(nodes, self._signature)

    def _hosts(self, hop: str | None) -> list[Host]:
        own = [
            Host([name], is_further_way=bool(ways) and ways[0] != hop)
            for name, ways in self.facts.hosts.items()
            if (hop in ways if hop is not None else not ways)
        ]
        own += [Host([name]) for name, behind in self.relays.items() if behind == hop]
        return _joined(own, self._looks)

    def _looks(self, host: Host) -> object:
        return host.is_further_way, sorted(map(repr, self.does[host.names[0]]))

    def _signature(self, node: Node) -> object:
        hosts = [(len(host.names), self._looks(host)) for host in node.hosts]
        return (
            list(node.remarks),
            hosts,
            [(len(child.names), self._signature(child)) for child in node.children],
        )


def _joined(things: list[_Thing], looks: Callable[[_Thing], object]) -> list[_Thing]:
    """Join equal things into the first of them, if there are more than `_FEW`."""
    groups: dict[str, list[_Thing]] = {}
    for thing in things:
        groups.setdefault(repr(looks(thing)), []).append(thing)
    joined = []
    for group in groups.values():
        if len(group) <= _FEW:
            joined += group
            continue
        _join(group)
        joined.append(group[0])
    return joined


def _join(group: Sequence[Node] | Sequence[Host]) -> None:
    first, *others = group
    for other in others:
        first.names += other.names
    nodes = [member for member in group if isinstance(member, Node)]
    for hosts in zip(*(node.hosts for node in nodes), strict=True):
        _join(hosts)
    for children in zip(*(node.children for node in nodes), strict=True):
        _join(children)


def _title(names: Sequence[str]) -> str:
    if names == [_SERVER]:
        return SERVERS
    if len(names) == 1:
        return names[0]
    return f"{names[0]} … {names[-1]} ({len(names)} equal)"


def _describe(hop: Hop) -> list[str]:
    """Describe a hop, with one line for equal directions."""
    down, up = (_side(hop.sides[way]) for way in ("down", "up"))
    return [f"↕ {down}"] if down == up else [f"↓ {down}", f"↑ {up}"]


def _side(side: Side) -> str:
    words = ", ".join(part for part in (side["rate"], side["delay"], side["queue"]) if part)
    return _BYTES.sub(lambda match: _size(int(match[1])), words)


def _size(octets: int) -> str:
    by = scale("B", [octets])
    return f"{octets * by.factor:g} {by.unit}"


def _merged(arrows: Sequence[Arrow], kinds: Sequence[str], root: Node) -> list[Arrow]:
    """Return the distinct arrows between drawn hosts, labelled with names or the number of flows."""
    first = {_SERVER: _SERVER}
    for host in _all_hosts(root):
        first |= dict.fromkeys(host.names, host.names[0])
    keys = [
        ((first[arrow.ends[0]], first[arrow.ends[1]]), arrow.direction, arrow.via, kind)
        for arrow, kind in zip(arrows, kinds, strict=True)
    ]
    labels: dict[tuple[tuple[str, str], str, str | None, str], list[str]] = {}
    for key, arrow in zip(keys, arrows, strict=True):
        labels.setdefault(key, []).append(arrow.label)
    return [
        Arrow(ends, direction, via, _label(names, kind))
        for (ends, direction, via, kind), names in labels.items()
    ]


def _label(names: Sequence[str], kind: str) -> str:
    if len(names) > _FEW:
        return f"{len(names)} × {kind}"
    text = ", ".join(dict.fromkeys(names))
    return text if text == kind else f"{text} ({kind})"


def _all_hosts(node: Node) -> Iterable[Host]:
    yield from node.hosts
    for child in node.children:
        yield from _all_hosts(child)
