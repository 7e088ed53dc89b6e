"""The life of every packet of a recorded run: where it was at any time, and what the router queue held."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from lasthop.metrics.labels import DROP_EVENTS
from lasthop.results.store import Columns

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


class Moment(NamedTuple):
    """A point of the run: `order`, the place among its events, separates events of the same instant."""

    order: int
    ns: int


class Place(Enum):
    """Where a packet was at some moment."""

    LAN = "on its way to the router"
    QUEUE = "waiting in the router queue"
    LINK = "in the link"
    ARQ = "held by the link's ARQ"
    BEHIND_ARQ = "in the link, behind a packet that ARQ held"
    ARRIVED = "arrived"
    LOST = "lost"


@dataclass(slots=True)
class Packet:
    """One transmission: its header, and the events of its life in order."""

    serial: int
    flow: int
    direction: str
    seq: int
    end: int
    payload_bytes: int
    flags: int
    ack: int | None
    sack: tuple[tuple[int, int], ...]
    sent: Moment
    delivered: Moment | None = None
    dropped: Moment | None = None
    cause: str | None = None  # its name in `lasthop.metrics.labels.DROP_CAUSES`
    marked: Moment | None = None
    enqueued: Moment | None = None
    dequeued: Moment | None = None
    retries: list[Moment] = field(default_factory=list)

    @property
    def data_start(self) -> int:
        """First payload byte: a SYN comes before it in sequence space."""
        return self.seq + (1 if self.flags & SYN else 0)

    @property
    def data_end(self) -> int:
        """First byte after the payload."""
        return self.data_start + self.payload_bytes

    @property
    def settled(self) -> Moment | None:
        """When its fate was known."""
        return self.delivered or self.dropped

    def failed_tries(self, order: int) -> int:
        """Failed tries over the link before an event."""
        return sum(retry.order < order for retry in self.retries)


class Queued(NamedTuple):
    """What the router queue of a direction held at some event: all packets, and the packets of this flow.

    `average` is RED's, as of the latest change of the queue; without RED it is `None`.
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

    def __init__(self, table: Columns, arq_delay_ns: Mapping[str, int]) -> None:
        """Follow every packet through `table`.

        ARQ repeats a failed try after `arq_delay_ns`, by direction.
        """
        self.by_serial: dict[int, Packet] = {}
        self.queue_at_drop: dict[int, Queued] = {}
        self._of_flow: dict[int, list[Packet]] = defaultdict(list)
        self._average: dict[str, float] = {}
        self.end = Moment(0, 0)
        self._arq_delay_ns = arq_delay_ns
        self._held: dict[str, list[Packet]] = defaultdict(list)
        queues: dict[str, Counter[int]] = defaultdict(Counter)
        # Few events need all columns, and there may be millions.
        columns = (
            table[name] for name in ("order", "time_ns", "event", "serial", "direction", "queue_average")
        )
        for place, (order, time_ns, event, serial, way, average) in enumerate(zip(*columns, strict=True)):
            self.end = Moment(order, time_ns)
            if event == "sent":
                packet = self.by_serial[serial] = _packet(table, place, self.end)
                self._of_flow[packet.flow].append(packet)
            else:
                if average is not None:
                    self._average[way] = average
                self._follow(self.by_serial[serial], event, queues[way])

    def _follow(self, packet: Packet, event: str, queue: Counter[int]) -> None:
        now = self.end
        if event == "enqueued":
            packet.enqueued = now
            queue[packet.flow] += 1
        elif event == "dequeued":
            packet.dequeued = now
            queue[packet.flow] -= 1
        elif event == "marked":
            packet.marked = now
        elif event == "link-retry":
            if not packet.retries:
                self._held[packet.direction].append(packet)
            packet.retries.append(now)
        elif event == "delivered":
            packet.delivered = now
        elif event in DROP_EVENTS:
            packet.dropped, packet.cause = now, DROP_EVENTS[event].name
            # The packet leaves the queue if it was in it.
            queue[packet.flow] -= packet.enqueued is not None and packet.dequeued is None
            self.queue_at_drop[packet.serial] = Queued(
                queue.total(), queue[packet.flow], self._average.get(packet.direction)
            )

    def of_flow(self, flow: int) -> list[Packet]:
        """Return a flow's packets, both directions."""
        return self._of_flow.get(flow, [])

    def served_while_waiting(self, packet: Packet) -> Counter[int]:
        """Count, by their flow, the packets that left the router queue while one waited in it."""
        return Counter(
            other.flow
            for other in self.by_serial.values()
            if other.direction == packet.direction
            and other.dequeued is not None
            and packet.enqueued is not None
            and packet.dequeued is not None
            and packet.enqueued < other.dequeued < packet.dequeued
        )

    def held_before(self, packet: Packet) -> int:
        """Count the packets that ARQ held while this one, behind them, was in the link."""
        return sum(
            other.dequeued is not None
            and packet.dequeued is not None
            and other.dequeued < packet.dequeued
            and (other.settled is None or other.settled > packet.dequeued)
            for other in self._held[packet.direction]
        )

    def place(self, packet: Packet, now: Moment) -> Place:
        """Tell where a packet was just before `now`."""
        if packet.dropped is not None and packet.dropped < now:
            return Place.LOST
        if packet.delivered is not None and packet.delivered < now:
            return Place.ARRIVED
        if packet.enqueued is None or packet.enqueued > now:
            return Place.LAN
        if packet.dequeued is None or packet.dequeued > now:
            return Place.QUEUE
        tries = bisect_left(packet.retries, now)
        if tries and now.ns - packet.retries[tries - 1].ns <= self._arq_delay_ns[packet.direction]:
            return Place.ARQ
        return Place.BEHIND_ARQ if self._is_behind_arq(packet, now) else Place.LINK

    def _is_behind_arq(self, packet: Packet, now: Moment) -> bool:
        return any(
            other.dequeued is not None
            and packet.dequeued is not None
            and other.dequeued < packet.dequeued
            and other.retries[0] < now
            and (other.settled is None or other.settled > now)
            for other in self._held[packet.direction]
        )


def _packet(table: Columns, place: int, now: Moment) -> Packet:
    names = ("serial", "flow", "direction", "seq", "end", "payload_bytes", "flags", "ack")
    return Packet(
        **{name: table[name][place] for name in names}, sack=_blocks(table["sack"][place]), sent=now
    )
