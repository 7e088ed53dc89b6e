"""The hop of a scenario as live tools see it: what they can express, and a list of what they cannot."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError
from lasthop.exchange.line import State
from lasthop.exchange.quantities import scenario_bytes, scenario_rate, scenario_time
from lasthop.scenario.facts import ONLY_HOP

WAYS = ("down", "up")
_EMPTY: tuple[object, ...] = (None, False, [], {}, "0 s", "0 B")
_DEFAULTS = {"link.release": "serialised", "lan.delay": "0 s", "lan.rate": "100 Gbit/s"}
_REASONS = {
    "errors": "no bad periods and no ARQ",
    "link.errors": "no bad periods and no ARQ",
    "link.send_buffer": "packets leave the queue one at a time",
    "link.release": "a packet leaves its buffer when it was sent",
    "link.grant": "packets leave without a request",
    "grant": "packets leave without a request",
    "htb": "one queue instead of classes",
    "policer": "no policer",
    "blackhole": "no packets are lost then",
    "link.receive_buffer": "no limit at the far side",
    "link.header_compression": "whole headers",
    "link.overhead": "no extra time per packet",
    "link.error_model": "no losses by custom code",
    "queue.red": "the queue drops only when it is full",
}


@dataclass
class Side:
    """A direction: its keys, which a writer takes as it expresses them."""

    way: str
    keys: dict[str, object]
    mtu: int
    states: list[State]
    """The course, drawn or stated; a rate of 0 is an outage."""
    missing: list[str] = field(default_factory=list)

    def take(self, path: str) -> object:
        """Remove a key, such as `link.loss`, and return its value."""
        table, _, key = path.rpartition(".")
        found = self.keys.get(table) if table else self.keys
        return found.pop(key, None) if isinstance(found, dict) else None

    def lacks(self, key: str, why: str) -> None:
        self.missing.append(f"{self.way}.{key}: {why}")

    @property
    def rate(self) -> int:
        """The rate in bit/s at the start, or the mean of a trace."""
        first = self.states[0].rate if self.states and self.states[0].at_ns == 0 else None
        return first or scenario_rate(str(self._link("rate")))

    @property
    def delay_ns(self) -> int:
        stated = scenario_time(str(self._link("delay")))
        first = self.states[0].delay_ns if self.states and self.states[0].at_ns == 0 else None
        return stated if first is None else first

    def _link(self, key: str) -> object:
        link = self.keys["link"]
        assert isinstance(link, dict)
        return link[key]

    def limit(self) -> tuple[int, str]:
        """Return the limit of the queue and its unit, `packets` or `B`."""
        queue = self.keys["queue"]
        assert isinstance(queue, dict)
        number, unit = str(queue["limit"]).split()
        return int(number), unit

    def rest(self) -> None:
        """Note the keys that no writer has taken as missing."""
        for path, value in _paths(self.keys):
            if path not in ("link.rate", "link.delay", "queue.limit", "queue.discipline") and (
                not _is_default(path, value, self.mtu)
            ):
                self.lacks(path, _REASONS.get(path, "no counterpart"))


@dataclass
class Hop:
    """A scenario's only hop."""

    title: str
    mtu: int
    sides: dict[str, Side]
    general: list[str]
    """What is missing of the rest of the scenario."""

    def missing(self) -> list[str]:
        for side in self.sides.values():
            side.rest()
        return [
            *self.general,
            *(text for side in self.sides.values() for text in dict.fromkeys(side.missing)),
        ]


def hop_of(run: ChosenRun, style: str) -> Hop:
    """Return the hop of a run. Raises InputError if the network is not a single hop."""
    scenario = json.loads(run.cell.scenario)
    for key in ("hop", "medium", "host"):
        if scenario.get(key):
            raise InputError(
                f"--as {style} writes one hop with a host at each end, and the scenario has '{key}'; give "
                "one with [down] and [up] only."
            )
    if scenario.get("atm") or not scenario.get("down") or not scenario.get("up"):
        raise InputError(f"--as {style} writes a hop with the directions [down] and [up], not an ATM switch.")
    mtu = scenario_bytes(scenario["mtu"])
    sides = {}
    for way in WAYS:
        keys = copy.deepcopy(scenario[way])
        sides[way] = Side(way, keys, mtu, _states(run, way, keys["link"], mtu))
    return Hop(run.title, mtu, sides, list(_general(scenario)))


def _general(scenario: dict[str, object]) -> Iterator[str]:
    if scenario.get("errors") is not None:
        yield f"errors: {_REASONS['errors']}"
    lan = scenario.get("lan")
    for key, value in lan.items() if isinstance(lan, dict) else ():
        if _DEFAULTS.get(f"lan.{key}") != value:
            yield f"lan.{key}: hosts are connected directly"
    flows = scenario.get("flow")
    faults = ("drop_list", "rebind", "migrate", "relay", "access")
    for flow in flows if isinstance(flows, list) else ():
        for key in faults:
            if flow.get(key):
                yield f"flow '{flow.get('name')}', {key}: no counterpart"


def _states(run: ChosenRun, way: str, link: dict[str, object], mtu: int) -> list[State]:
    """Return the changes of a link, or the course that the run draws or states."""
    if link.pop("course", None) is not None:
        text = run.cell.course(ONLY_HOP, way, run.plan.seed, run.number) or ""
        return list(_rows(text, mtu))
    changes = link.pop("change", None)
    if not isinstance(changes, list):
        return []
    return [
        State(
            scenario_time(change["at"]),
            scenario_rate(change["rate"]) if change.get("rate") else None,
            scenario_time(change["delay"]) if change.get("delay") else None,
        )
        for change in changes
    ]


def _rows(text: str, mtu: int) -> Iterator[State]:
    """Yield the rows of a course. Errors of bits become losses of full packets."""
    header, *lines = text.splitlines()
    for line in lines:
        row = dict(zip(header.split(","), line.split(","), strict=True))
        loss = float(row["loss"]) if "loss" in row else None
        if "bit_error_rate" in row:
            loss = packet_loss(float(row["bit_error_rate"]), mtu)
        delay = round(Decimal(row["delay_s"]) * 10**9) if "delay_s" in row else None
        yield State(round(Decimal(row["time_s"]) * 10**9), round(Decimal(row["rate_bps"])), delay, loss)


def packet_loss(bit_error_rate: float, mtu: int) -> float:
    """Return the loss of full packets, as text of at most eight digits."""
    return round(1 - (1 - bit_error_rate) ** (8 * mtu), 8)


def _paths(table: dict[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield the keys of a direction; those of the link and the queue with their table."""
    for key, value in table.items():
        if above == "" and key in ("link", "queue") and isinstance(value, dict):
            yield from _paths(value, f"{key}.")
        else:
            yield f"{above}{key}", value


def _is_default(path: str, value: object, mtu: int) -> bool:
    if path == "link.send_buffer":
        return value == f"{mtu} B"
    return value in _EMPTY or _DEFAULTS.get(path) == value
