"""The cause of the first difference: the earliest step of a host, queue or link that differs between engines.

A step is a decision: a host sends a segment, a queue accepts or drops a packet, a link delivers or loses it.
Effects on other places come later, so the earliest difference is the cause.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile, zip_longest
from typing import Any, NamedTuple

from lasthop.common.metrics.labels import DROP_EVENTS
from lasthop.crosscheck.align import AT_ONCE_NS, SENDERS
from lasthop.engines.engine import Trace
from lasthop.engines.rows import PacketRow, TransportRow, merged, packet_rows, transport_rows

# The kernel engine's packets lag the model's by at most this much, because system calls take time.
_LATENESS_NS = 5_000
# A host responds to a packet within this time; anything later is caused by a timer.
_ANSWER_NS = 100_000
# All flags but PSH, which has no effect on decisions.
_FLAGS = 0xF7
_ENQUEUED = "enqueued"
_AT_QUEUE = {"enqueued": _ENQUEUED, "dropped-queue": "dropped", "dropped-red": "RED", "marked": "RED"}
_AQM = "AQM"
_AQM_EVENTS = {
    event: _AQM
    for event, cause in DROP_EVENTS.items()
    if cause.count == "drops_aqm" or cause.place == "queue"
}
_AT_QUEUE = (
    {event: "discarded" for event, cause in DROP_EVENTS.items() if cause.place == "arrival"}
    | _AQM_EVENTS
    | _AT_QUEUE
)
_AT_LINK = {"delivered": "delivered", "forwarded": "delivered"} | {
    event: "lost" for event, cause in DROP_EVENTS.items() if cause.on_link
}
# Order of simultaneous differences: the network's first, and a window before the segments that it allows.
_RANKS = ("queue", "link", "receiver", "window", "sender")


class Kind(StrEnum):
    TIE = "full queue, in a tie"
    QUEUE = "full queue"
    RED_TIE = "RED, after a tie"
    RED = "RED"
    AQM_TIE = "discipline, after a tie"
    AQM = "queue discipline"
    SWITCH = "ATM switch"
    LOSS = "loss on the link"
    ORDER = "order of packets"
    DELAYED_ACK = "receiver's timer"
    RECEIVER = "receiver's answer"
    TIMER = "sender's timer"
    WINDOW = "window"
    SENT = "sender's answer"


TIES = frozenset({Kind.TIE, Kind.RED_TIE, Kind.AQM_TIE})
"""Causes that depend on which of two simultaneous events comes first."""


_ONE_HOP = {0: "down", 1: "up"}
"""Names of the places of a single hop, by their numbers."""
_ELSEWHERE = "LAN"
"""Name of all places that are not a direction of a hop."""


class Place(NamedTuple):
    """`queue` or `link` of a direction of a hop; `sender`, `receiver` or `window` of a flow."""

    kind: str
    of: str | int


class Step(NamedTuple):
    ns: int
    decision: tuple[Any, ...]
    """Must be the same on both engines."""
    waited_ns: int = 0
    """At a host: time since the flow's latest packet arrived."""
    queued: int | None = None
    """At a queue: length in packets, including this one."""

    @property
    def by_timer(self) -> bool:
        """Whether a timer caused it, rather than an arriving packet."""
        return self.waited_ns > _ANSWER_NS


_Both = tuple[Step | None, Step | None]


@dataclass(slots=True)
class Steps:
    """The steps of every place in a run, in order."""

    data: Sequence[str]
    """Direction of each flow's data."""
    places: Mapping[int, str]
    """Names of the directions of hops, by their numbers in the trace."""
    of: dict[Place, list[Step]] = field(default_factory=lambda: defaultdict(list))
    departures: dict[Place, list[int]] = field(default_factory=lambda: defaultdict(list))
    """When packets left the queues."""
    _arrivals: Counter[Place] = field(default_factory=Counter)
    _latest: dict[Place, int] = field(default_factory=dict)

    def add_packet(self, row: PacketRow) -> None:
        now, event, place_name = row["time_ns"], row["event"], self.places.get(row["place"], _ELSEWHERE)
        is_data = row["direction"] == self.data[row["flow"]]
        host = Place("sender" if is_data == (event == "sent") else "receiver", row["flow"])
        # These identify a packet on either engine.
        packet = (row["flow"], row["seq"], row["end"], row["ack"], row["sack"], row["flags"] & _FLAGS)
        if event == "sent":
            self.of[host].append(Step(now, (*packet, self._arrivals[host]), self._waited(host, now)))
        elif event == "dequeued":
            self.departures[Place("queue", place_name)].append(now)
        elif event in _AT_QUEUE:
            step = Step(now, (*packet, _AT_QUEUE[event]), queued=row["queue_packets"])
            self.of[Place("queue", place_name)].append(step)
        elif event in _AT_LINK:
            self.of[Place("link", place_name)].append(Step(now, (*packet, _AT_LINK[event])))
        if event == "delivered":
            self._arrivals[host] += host not in self._latest or now - self._latest[host] > AT_ONCE_NS
            self._latest[host] = now

    def add_transport(self, row: TransportRow) -> None:
        sender, windows = Place("sender", row["flow"]), self.of[Place("window", row["flow"])]
        arrivals = self._arrivals[sender]
        match row["event"]:
            case "window":
                window = row["cwnd"], row["ssthresh"]
                if not windows or windows[-1].decision[1:] != window:
                    waited = self._waited(sender, row["time_ns"])
                    windows.append(Step(row["time_ns"], (arrivals, *window), waited))
            case "established":
                # After a repeated SYN, Linux starts again with a smaller window.
                windows.clear()
            case "closed":
                # A closed socket no longer has a window.
                windows[:] = takewhile(lambda step: step.decision[0] < arrivals, windows)

    def _waited(self, host: Place, now: int) -> int:
        return now - self._latest.setdefault(host, now)

    def is_tie(self, place: Place, step: Step) -> bool:
        """Whether a packet left the queue while another arrived."""
        return any(abs(departure - step.ns) <= _LATENESS_NS for departure in self.departures[place])


@dataclass(frozen=True, slots=True)
class Cause:
    """The earliest difference; a step is `None` if its place has no further steps."""

    kind: Kind
    place: Place
    steps: _Both
    after_timer: bool
    """Whether a timer fired on different ticks before it."""


def steps(trace: Trace, places: Mapping[int, str] = _ONE_HOP) -> Steps:
    """Return the steps of a run; `places` names the directions of its hops, by their numbers."""
    run = Steps(trace.flows["direction"], places)
    for row in merged(packet_rows(trace), transport_rows(trace.transport)):
        if "direction" in row:
            run.add_packet(row)
        elif row["host"] == SENDERS[run.data[row["flow"]]]:
            run.add_transport(row)
    return run


@dataclass(frozen=True, slots=True)
class Differences:
    engines: tuple[Steps, Steps]
    first: Mapping[Place, _Both]
    """The first difference at each place."""
    ticks: Sequence[int]
    """When timers fired on different ticks before that."""


def differences(engines: tuple[Steps, Steps]) -> Differences:
    first: dict[Place, _Both] = {}
    ticks = []
    for place in engines[0].of.keys() | engines[1].of.keys():
        for both in zip_longest(engines[0].of[place], engines[1].of[place]):
            left, right = both
            if left is None or right is None or left.decision != right.decision:
                first[place] = both
                break
            if left.by_timer and right.by_timer and abs(left.waited_ns - right.waited_ns) > _ANSWER_NS:
                ticks.append(_time(both))
    return Differences(engines, first, ticks)


def cause(differing: Differences, flow: int) -> Cause | None:
    """Return the earliest difference that can affect a flow; `None` if there is none.

    Another flow's window affects it only through the packets that this window allows.
    """
    first = differing.first
    places = [place for place in first if place.kind != "window" or place.of == flow]
    if not places:
        return None
    place = min(places, key=lambda place: (_time(first[place]), _RANKS.index(place.kind), str(place.of)))
    ns = _time(first[place])
    window = Place("window", place.of)
    if place.kind == "sender" and window in first and _time(first[window]) <= ns:
        place = window
    kind = _kind(differing.engines, place, first[place])
    return Cause(kind, place, first[place], any(tick < ns for tick in differing.ticks))


def _time(both: _Both) -> int:
    return min(step.ns for step in both if step is not None)


def _kind(engines: tuple[Steps, Steps], place: Place, both: _Both) -> Kind:
    left, right = both
    match place.kind:
        case "receiver":
            return Kind.DELAYED_ACK if _is_timers(both) else Kind.RECEIVER
        case "sender":
            return Kind.TIMER if _is_timers(both) else Kind.SENT
        case "window":
            return Kind.TIMER if any(step is not None and step.by_timer for step in both) else Kind.WINDOW
    if place.kind == "queue" and not any(_reports_enqueued(engine, place) for engine in engines):
        return Kind.SWITCH
    if any(step is not None and step.decision[-1] == _AQM for step in both):
        return Kind.AQM_TIE if _queues_differed(engines, place, _time(both)) else Kind.AQM
    if left is None or right is None or left.decision[:-1] != right.decision[:-1]:
        return Kind.ORDER
    if place.kind == "link":
        return Kind.LOSS
    if "RED" in (left.decision[-1], right.decision[-1]):
        return Kind.RED_TIE if _queues_differed(engines, place, left.ns) else Kind.RED
    tie = engines[0].is_tie(place, left) or engines[1].is_tie(place, right)
    return Kind.TIE if tie else Kind.QUEUE


def _is_timers(both: _Both) -> bool:
    """Whether a timer caused the earlier of a host's two steps."""
    return min((step for step in both if step is not None), key=lambda step: step.ns).by_timer


def _reports_enqueued(engine: Steps, place: Place) -> bool:
    """Whether the place is a router's queue; an ATM switch reports only drops."""
    return any(step.decision[-1] == _ENQUEUED for step in engine.of[place])


def _queues_differed(engines: tuple[Steps, Steps], place: Place, until_ns: int) -> bool:
    """Whether the queue's length differed between the engines at some earlier packet."""
    pairs = zip(engines[0].of[place], engines[1].of[place], strict=False)
    return any(
        left.queued != right.queued for left, right in takewhile(lambda pair: pair[0].ns < until_ns, pairs)
    )
