"""The life of every packet of a recorded run: where it was at any time, and the contents of router queues."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from lasthop.common.metrics.labels import DROP_EVENTS
from lasthop.engines.records import Columns
from lasthop.scenario.facts import Facts

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


class Moment(NamedTuple):
    """A point in the run; `order`, the place among all events, orders events of the same instant."""

    order: int
    ns: int


class Place(Enum):
    """Where a packet was at some moment."""

    LAN = "on its way to the router"
    QUEUE = "waiting in the router queue"
    LINK = "in the link"
    ARQ = "held by the link's ARQ"
    BEHIND_ARQ = "in the link, behind a packet held by ARQ"
    ACCESS = "in the server's access link"
    ARRIVED = "arrived"
    LOST = "lost"


@dataclass(slots=True)
class Crossing:
    """A packet's stay in the router queue of a place, then in its link."""

    place: int
    enqueued: Moment
    dequeued: Moment | None = None
    left: Moment | None = None
    """When it was forwarded, arrived or was dropped."""
    retries: list[Moment] = field(default_factory=list)

    def failed_tries(self, order: int) -> int:
        return sum(retry.order < order for retry in self.retries)


@dataclass(slots=True)
class Packet:
    """A transmission: its header and the events of its life in order."""

    serial: int
    flow: int
    direction: str
    seq: int
    end: int
    payload_bytes: int
    flags: int
    ack: int | None
    window_bytes: int | None
    sack: tuple[tuple[int, int], ...]
    sent: Moment
    delivered: Moment | None = None
    dropped: Moment | None = None
    cause: str | None = None  # its name in `lasthop.common.metrics.labels.DROP_CAUSES`
    dropped_at: int | None = None  # the place
    marked: Moment | None = None
    marked_at: int | None = None
    crossings: list[Crossing] = field(default_factory=list)

    @property
    def data_start(self) -> int:
        """First payload byte; a SYN precedes it in sequence space."""
        return self.seq + (1 if self.flags & SYN else 0)

    @property
    def data_end(self) -> int:
        return self.data_start + self.payload_bytes

    def crossing(self, now: Moment) -> Crossing | None:
        """Return the last crossing that had begun at `now`."""
        count = bisect_right(self.crossings, now, key=lambda crossing: crossing.enqueued)
        return self.crossings[count - 1] if count else None


class Queued(NamedTuple):
    """The number of packets in a router queue at some event, in total and of this flow.

    `average` is RED's average, as of the latest change of the queue; `None` without RED.
    """

    packets: int
    own: int
    average: float | None


def _blocks(text: str) -> tuple[tuple[int, int], ...]:
    if not text:
        return ()
    pairs = (block.partition("-") for block in text.split())
    return tuple((int(start), int(end)) for start, _, end in pairs)


class Packets:
    """All packets of a run, in the order of sending."""

    def __init__(self, table: Columns, facts: Facts) -> None:
        self.facts = facts
        self.by_serial: dict[int, Packet] = {}
        self.queue_at_drop: dict[int, Queued] = {}
        self._of_flow: dict[int, list[Packet]] = defaultdict(list)
        self._average: dict[int, float] = {}
        self.end = Moment(0, 0)
        self._held: dict[int, list[Crossing]] = defaultdict(list)
        self._served: dict[int, list[tuple[Moment, int]]] = defaultdict(list)
        """When packets left the queue of a place, with their flows."""
        queues: dict[int, Counter[int]] = defaultdict(Counter)
        # There may be millions of events, and few need all columns.
        columns = (table[name] for name in ("order", "time_ns", "event", "serial", "place", "queue_average"))
        for row, (order, time_ns, event, serial, place, average) in enumerate(zip(*columns, strict=True)):
            self.end = Moment(order, time_ns)
            if event == "sent":
                packet = self.by_serial[serial] = _packet(table, row, self.end)
                self._of_flow[packet.flow].append(packet)
            else:
                if average is not None:
                    self._average[place] = average
                self._follow(self.by_serial[serial], event, place, queues[place])

    def _follow(self, packet: Packet, event: str, place: int, queue: Counter[int]) -> None:
        now = self.end
        if event == "enqueued":
            packet.crossings.append(Crossing(place, now))
            queue[packet.flow] += 1
        elif event == "dequeued":
            packet.crossings[-1].dequeued = now
            self._served[place].append((now, packet.flow))
            queue[packet.flow] -= 1
        elif event == "marked":
            packet.marked, packet.marked_at = now, place
        elif event == "link-retry":
            crossing = packet.crossings[-1]
            if not crossing.retries:
                self._held[place].append(crossing)
            crossing.retries.append(now)
        elif event == "forwarded":
            packet.crossings[-1].left = now
        elif event == "delivered":
            packet.delivered = now
            if packet.crossings and packet.crossings[-1].left is None:
                packet.crossings[-1].left = now
        elif event in DROP_EVENTS:
            self._drop(packet, event, place, queue)

    def _drop(self, packet: Packet, event: str, place: int, queue: Counter[int]) -> None:
        packet.dropped, packet.cause, packet.dropped_at = self.end, DROP_EVENTS[event].name, place
        here = packet.crossings[-1] if packet.crossings and packet.crossings[-1].place == place else None
        if here is not None:
            here.left = self.end
            # The packet leaves the queue if it was in it.
            queue[packet.flow] -= here.dequeued is None
        self.queue_at_drop[packet.serial] = Queued(
            queue.total(), queue[packet.flow], self._average.get(place)
        )

    def of_flow(self, flow: int) -> list[Packet]:
        return self._of_flow.get(flow, [])

    def at_hop(self, place: int | None) -> str:
        """Return for example ` at wifi`; empty if there is only one hop."""
        name = None if place is None else self.facts.hop_names.get(place)
        return f" at {name}" if name else ""

    def served_while_waiting(self, crossing: Crossing) -> Counter[int]:
        """Count by flow the packets that left a router queue during the wait of `crossing`."""
        if crossing.dequeued is None:
            return Counter()
        served = self._served[crossing.place]
        first = bisect_right(served, crossing.enqueued, key=lambda entry: entry[0])
        last = bisect_left(served, crossing.dequeued, key=lambda entry: entry[0])
        return Counter(flow for _, flow in served[first:last])

    def held_before(self, crossing: Crossing) -> int:
        """Count the packets held by ARQ in front of this packet while it was in the link."""
        return sum(
            other.dequeued is not None
            and crossing.dequeued is not None
            and other.dequeued < crossing.dequeued
            and (other.left is None or other.left > crossing.dequeued)
            for other in self._held[crossing.place]
        )

    def place(self, packet: Packet, now: Moment) -> Place:
        """Return where a packet was just before `now`."""
        if packet.dropped is not None and packet.dropped < now:
            return Place.LOST
        if packet.delivered is not None and packet.delivered < now:
            return Place.ARRIVED
        crossing = packet.crossing(now)
        if crossing is None:
            return Place.LAN
        if crossing.left is not None and crossing.left < now:
            return Place.ACCESS
        if crossing.dequeued is None or crossing.dequeued > now:
            return Place.QUEUE
        tries = bisect_left(crossing.retries, now)
        delay_ns = self.facts.sides[crossing.place]["retry_delay_ns"]
        if tries and now.ns - crossing.retries[tries - 1].ns <= delay_ns:
            return Place.ARQ
        return Place.BEHIND_ARQ if self._is_behind_arq(crossing, now) else Place.LINK

    def _is_behind_arq(self, crossing: Crossing, now: Moment) -> bool:
        return any(
            other.dequeued is not None
            and crossing.dequeued is not None
            and other.dequeued < crossing.dequeued
            and other.retries[0] < now
            and (other.left is None or other.left > now)
            for other in self._held[crossing.place]
        )


def _packet(table: Columns, row: int, now: Moment) -> Packet:
    names = ("serial", "flow", "direction", "seq", "end", "payload_bytes", "flags", "ack", "window_bytes")
    return Packet(**{name: table[name][row] for name in names}, sack=_blocks(table["sack"][row]), sent=now)
