"""What stories and pictures of a run have to know of its scenario.

`facts.rs` of lasthop-scenario derives it.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypedDict

from lasthop import _core

DIRECTIONS = ("down", "up")

ONLY_HOP = "last-hop"
"""The hop of a scenario that names none."""


class Voice(TypedDict):
    """How a call sounds, beside what the network does."""

    codec: str
    frame_ns: int
    codec_delay_ns: int
    """How long encoder and decoder hold speech back."""
    jitter_buffer_ns: int
    impairment: float
    """Ie of ITU-T G.107."""
    loss_robustness: float
    """Bpl of ITU-T G.107."""
    conceals_ns: int | None
    """The longest gap that loss concealment fills; `None` if it has no end."""


class Switches(TypedDict):
    """The switches of an application's TCP that stories ask for, by their keys; there are more."""

    cached_metrics: bool
    dupack_threshold: int
    ecn: bool
    frto: str
    profile: str
    sack: bool
    syn_timeout_cuts_window: bool
    tail_loss_probe: bool


class Move(TypedDict):
    """The host at the edge gets another address, or another port behind its back."""

    at_ns: int
    rebinds: bool
    """Only its port changes."""
    via: str | None
    """The hop that it hangs behind from then on, if it takes another way."""


@dataclass(frozen=True, slots=True)
class Application:
    kind: str
    tcp: Switches
    voice: Voice | None
    """Present of a call."""
    host: str
    """The host at the edge."""
    peer: str
    """The host at the other end; `server` if that is a server of the flow's own."""
    routes: Mapping[str, Sequence[int]]
    """The numbers of the places that its packets cross in each direction, in their order."""
    moves: Sequence[Move]
    """In order of time."""
    protocol: str
    """What carries its flows, as in the records."""
    initial_window_bytes: int
    """Payload that its sender may send before the first acknowledgment; 0 without congestion control."""
    round_trip_ns: int
    """The round-trip time of its whole flows without queueing."""


class Queue(TypedDict):
    """A queue of a router: that of a class, or the only one, which has no name."""

    name: str
    red_in_bytes: bool


class Change(TypedDict):
    """A change of a link; what is `None` stays as it was."""

    at_ns: int
    rate: str | None
    """As a scenario writes it."""
    delay: str | None


class Side(TypedDict):
    """One direction of a hop: a place of the network, which the events of packets name by its number."""

    place: int
    rate: str
    """As a scenario writes it; empty on the way back from an ATM switch."""
    delay: str
    queue: str
    """The discipline and the limit of its queue, or the number of its classes, in words."""
    ip_rate_bps: float
    """Its rate for full packets at the start of a run; 0 on the way back from an ATM switch."""
    queue_s: float | None
    """How long its full queue takes to empty; `None` with classes and of a medium."""
    retry_delay_ns: int
    """How long a failed try waits for the next one (ARQ); 0 without."""
    queues: Sequence[Queue]
    changes: Sequence[Change]
    """Those of its link, in order of time."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A hop between the root of the network and its hosts."""

    name: str
    behind: str | None
    """The hop that it hangs behind; `None` for one at the root."""
    sides: Mapping[str, Side]
    """By direction."""


@dataclass(frozen=True)
class Facts:
    """Facts of a scenario. Directions are `down`, from the root towards the hosts, and `up`."""

    applications: Mapping[str, Application]
    """By their names in the records."""
    hops: Sequence[Hop]
    """Each comes after the one that it hangs behind."""
    hosts: Mapping[str, Sequence[str]]
    """The hosts at the edge, by name, each with the hops that it hangs behind."""
    bottlenecks: Mapping[str, int]
    """The places that the columns of a run speak of, by direction."""

    @classmethod
    def of(cls, cell: _core.Cell) -> Self:
        told = json.loads(cell.facts)
        for facts in (told, *told["applications"].values()):
            for key in facts.keys() & {"routes", "bottlenecks"}:
                facts[key] = dict(zip(DIRECTIONS, facts[key], strict=True))
        return cls(
            {name: Application(**facts) for name, facts in told["applications"].items()},
            [Hop(hop["name"], hop["behind"], {way: hop[way] for way in DIRECTIONS}) for hop in told["hops"]],
            told["hosts"],
            told["bottlenecks"],
        )

    @functools.cached_property
    def sides(self) -> Mapping[int, Side]:
        """The directions of the hops, by the numbers of their places."""
        return {side["place"]: side for hop in self.hops for side in hop.sides.values()}

    @functools.cached_property
    def hop_names(self) -> Mapping[int, str]:
        """The names of the hops, by the numbers of their places; none if there is only one hop."""
        if len(self.hops) == 1:
            return {}
        return {side["place"]: hop.name for hop in self.hops for side in hop.sides.values()}

    @functools.cached_property
    def directions(self) -> Mapping[int, str]:
        """The directions of the places, by their numbers."""
        return {side["place"]: way for hop in self.hops for way, side in hop.sides.items()}

    def places(self, hop: str, direction: str) -> Sequence[int]:
        """Return the place of a direction of a hop; of no direction, those of both."""
        sides = next(each.sides for each in self.hops if each.name == hop)
        return [side["place"] for way, side in sides.items() if direction in ("", way)]

    def crossed(self, application: str) -> frozenset[int]:
        """Return the places that an application's packets cross, in either direction."""
        return frozenset(place for way in self.applications[application].routes.values() for place in way)

    def relay_sides(self, application: str) -> Sequence[str]:
        """Return the names of both sides of the relay that an application's flows go through, if any."""
        names = [f"{application}/{side}" for side in ("peer-side", "host-side")]
        return [name for name in names if name in self.applications]

    def title(self, place: int) -> str:
        """Return hop and direction of a place; without the hop if there is only one."""
        return f"{self.hop_names.get(place, '')} {self.directions[place]}".strip()
