"""Types of a resolved scenario in JSON: the subset of keys that Python reads."""

import json
from collections.abc import Sequence
from typing import Literal, TypedDict

from lasthop import _core

WAYS: tuple[Literal["down"], Literal["up"]] = ("down", "up")


class Red(TypedDict):
    min: str
    max: str


class Queue(TypedDict, total=False):
    discipline: str
    limit: str
    red: Red | None


class HtbClass(TypedDict, total=False):
    name: str
    parent: str | None
    rate: str
    ceil: str | None
    priority: int
    quantum: str | None
    match: list[dict[str, object]]
    default: bool
    queue: Queue | None


Htb = TypedDict("Htb", {"rate": str | None, "overhead": str, "class": list[HtbClass]}, total=False)
"""The classes of one direction's router."""


class Link(TypedDict, total=False):
    """The link of a direction. A rate that changes is a table."""

    rate: object
    gilbert_elliott: object
    bit_error_rate: object


class Side(TypedDict, total=False):
    link: Link
    queue: Queue
    htb: Htb | None


class Hop(TypedDict, total=False):
    down: Side | None
    up: Side | None


class Errors(TypedDict, total=False):
    arq: dict[str, object] | None


class Relay(TypedDict):
    at: str


class Command(TypedDict):
    """A command line of a program's host or server."""

    command: str


class Flow(TypedDict, total=False):
    """A flow; the keys from `json` on are those of programs."""

    kind: str
    name: str
    count: int
    direction: str | None
    host: str | None
    peer: str | None
    via: str | None
    stack: str
    relay: Relay | None
    tcp: dict[str, object] | None
    json: bool
    command: Sequence[str]
    input: Sequence[str]
    write: Sequence[str]
    cpu_cost: float
    keep_servers: int
    hosts: Sequence[Command]
    servers: Sequence[Command]
    transfers: Sequence[dict[str, object]]


class Resolved(TypedDict, total=False):
    """A scenario without factors, with all defaults."""

    time_limit: str
    down: Side | None
    up: Side | None
    hop: dict[str, Hop] | None
    errors: Errors | None
    flow: list[Flow]
    tcp: dict[str, object]


def resolved(cell: _core.Cell) -> Resolved:
    scenario: Resolved = json.loads(cell.scenario)
    return scenario
