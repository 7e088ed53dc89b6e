"""Facts about a scenario for stories and pictures, which `facts.rs` of lasthop-scenario derives."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypedDict

from lasthop import _core

DIRECTIONS = ("down", "up")

ONLY_HOP = "last-hop"
"""The name of the only hop of a scenario that does not name its hops."""


class Voice(TypedDict):
    """The factors of a call's quality other than the network."""

    codec: str
    frame_ns: int
    codec_delay_ns: int
    """The delay of encoder and decoder."""
    jitter_buffer_ns: int
    impairment: float
    """Ie of ITU-T G.107."""
    loss_robustness: float
    """Bpl of ITU-T G.107."""
    conceals_ns: int | None
    """The longest gap that loss concealment fills; `None` if unlimited."""


class Switches(TypedDict):
    """The switches of an application's TCP that stories use, a subset, by their keys."""

    cached_metrics: bool
    dupack_threshold: int
    ecn: bool
    frto: str
    profile: str
    sack: bool
    syn_timeout_cuts_window: bool
    tail_loss_probe: bool


class Move(TypedDict):
    """A change of the address of the host at the edge, or of its port by a NAT."""

    at_ns: int
    rebinds: bool
    """Only the port changes."""
    via: str | None
    """The hop in front of the host from then on, if its route changes."""


@dataclass(frozen=True, slots=True)
class Application:
    kind: str
    tcp: Switches
    voice: Voice | None
    """Only for calls."""
    host: str
    """The host at the edge."""
    peer: str
    """The host at the other end; `server` if the flow has its own server."""
    routes: Mapping[str, Sequence[int]]
    """The numbers of the places that its packets cross in each direction, in order."""
    moves: Sequence[Move]
    """In order of time."""
    protocol: str
    """The transport protocol, as in the records."""
    initial_window_bytes: int
    """The initial window as payload; 0 without congestion control."""
    round_trip_ns: int
    """The end-to-end round-trip time without queueing."""


class Queue(TypedDict):
    """The queue of a class, or the only queue of a router, whose name is empty."""

    name: str
    red_in_bytes: bool


class Change(TypedDict):
    """A change of a link; `None` means no change."""

    at_ns: int
    rate: str | None
    """As written in a scenario."""
    delay: str | None


class Side(TypedDict):
    """A direction of a hop."""

    place: int
    """Its number in events."""
    rate: str
    """As written in a scenario; empty in the return direction of an ATM switch."""
    delay: str
    queue: str
    """A description of its queue's discipline and limit, or of the number of its classes."""
    ip_rate_bps: float
    """The rate for full packets at the start of a run; 0 in the return direction of an ATM switch."""
    queue_s: float | None
    """The time to drain a full queue; `None` for classes and for media."""
    retry_delay_ns: int
    """The delay of an ARQ retransmission; 0 without ARQ."""
    queues: Sequence[Queue]
    changes: Sequence[Change]
    """The changes of its link, in order of time."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A hop between the root of the network and its hosts."""

    name: str
    behind: str | None
    """The next hop towards the root; `None` for a hop at the root."""
    sides: Mapping[str, Side]
    """By direction."""


@dataclass(frozen=True)
class Facts:
    """Facts of a scenario. Directions are `down`, from the root towards the hosts, and `up`."""

    applications: Mapping[str, Application]
    """By their names in the records."""
    hops: Sequence[Hop]
    """Hops closer to the root come first."""
    hosts: Mapping[str, Sequence[str]]
    """The hosts at the edge, by name, each with the hops directly in front of it."""
    bottlenecks: Mapping[str, int]
    """The places that the columns of `runs.parquet` are about, by direction."""

    @classmethod
    def of(cls, cell: _core.Cell) -> Self:
        content = json.loads(cell.facts)
        for facts in (content, *content["applications"].values()):
            for key in facts.keys() & {"routes", "bottlenecks"}:
                facts[key] = dict(zip(DIRECTIONS, facts[key], strict=True))
        return cls(
            {name: Application(**facts) for name, facts in content["applications"].items()},
            [
                Hop(hop["name"], hop["behind"], {way: hop[way] for way in DIRECTIONS})
                for hop in content["hops"]
            ],
            content["hosts"],
            content["bottlenecks"],
        )

    @functools.cached_property
    def sides(self) -> Mapping[int, Side]:
        """The directions of the hops by place."""
        return {side["place"]: side for hop in self.hops for side in hop.sides.values()}

    @functools.cached_property
    def hop_names(self) -> Mapping[int, str]:
        """The names of the hops by place; empty if there is only one hop."""
        if len(self.hops) == 1:
            return {}
        return {side["place"]: hop.name for hop in self.hops for side in hop.sides.values()}

    @functools.cached_property
    def directions(self) -> Mapping[int, str]:
        """The words for the directions by place."""
        return {side["place"]: way for hop in self.hops for way, side in hop.sides.items()}

    def places(self, hop: str, direction: str) -> Sequence[int]:
        """Return the place of a direction of a hop, or those of both if `direction` is empty."""
        sides = next(each.sides for each in self.hops if each.name == hop)
        return [side["place"] for way, side in sides.items() if direction in ("", way)]

    def crossed(self, application: str) -> frozenset[int]:
        """Return the places that an application's packets cross, in either direction."""
        return frozenset(place for way in self.applications[application].routes.values() for place in way)

    def relay_sides(self, application: str) -> Sequence[str]:
        """Return the names of both sides of the relay of an application's flows, if any."""
        names = [f"{application}/{side}" for side in ("peer-side", "host-side")]
        return [name for name in names if name in self.applications]

    def title(self, place: int) -> str:
        """Return hop and direction of a place, or only the direction if there is one hop."""
        return f"{self.hop_names.get(place, '')} {self.directions[place]}".strip()


def window_text(cell: _core.Cell) -> str:
    """Return the window of time that a cell's metrics are of, in words; empty for the whole run."""
    measure = json.loads(cell.scenario).get("measure")
    if measure is None:
        return ""
    until = measure.get("until")
    end = "to the end of the run" if until is None else f"until {until}"
    origin = f" after the first packet of {measure['flow']}" if measure.get("flow") else ""
    return f"from {measure['from']} {end}{origin}"
