"""The fates of a flow's datagrams: their delays, and which are missing. `tell_udp` words them."""

import itertools
import math
import statistics
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from lasthop import _core
from lasthop.analysis.explain.facts import BURST_GAP_NS, BadPeriod, bad_periods, table_of
from lasthop.analysis.explain.packets import Crossing, Packet, Packets
from lasthop.engines.records import Columns
from lasthop.engines.rows import Record, TransportRow
from lasthop.scenario.facts import Voice

T = TypeVar("T")

SENDER, LAN, QUEUE, LINK = "at its sender", "before the router", "in the router queue", "in the link"
ACCESS = "in the server's access link"
MOST_EPISODES = 12
"""The largest number of episodes of a kind in a story; if there are more, the nearest ones are joined."""
_LEAST_RISE_NS = 1_000_000
_RISEN, _RISEN_OF_LEAST = 0.25, 0.1
"""Delay counts as high from these shares of the greatest rise and of the least delay on; it has fallen below
half of that."""


class Stage(NamedTuple):
    """A part of a packet's route; queues and links have a place."""

    where: str
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Datagram:
    """A datagram and the packet that carried it; `packet` is `None` if the sender gave the datagram up."""

    number: int
    sent_ns: int
    """When its application wrote it."""
    packet: Packet | None
    is_understood: bool = True
    """Whether the receiver accepts the packet: QUIC does so between handshake and end of the connection."""

    @property
    def delay_ns(self) -> int | None:
        """Delay of the datagram; `None` if it has not arrived."""
        arrived = self.packet and self.packet.delivered
        return arrived.ns - self.sent_ns if arrived and self.is_understood else None

    @property
    def is_lost(self) -> bool:
        """Whether the datagram can no longer arrive."""
        return self.packet is None or self.packet.cause is not None or not self.is_understood

    def stages_ns(self) -> dict[Stage, int]:
        """Return how long a datagram that arrived was in each stage of its route."""
        packet = self.packet
        assert packet is not None
        assert packet.delivered is not None
        at_router = packet.crossings[0].enqueued if packet.crossings else packet.delivered
        spent = {Stage(SENDER): packet.sent.ns - self.sent_ns, Stage(LAN): at_router.ns - packet.sent.ns}
        for crossing in packet.crossings:
            dequeued = crossing.dequeued or crossing.enqueued
            left = crossing.left or packet.delivered
            spent[Stage(QUEUE, crossing.place)] = dequeued.ns - crossing.enqueued.ns
            spent[Stage(LINK, crossing.place)] = left.ns - dequeued.ns
        left_last = packet.crossings[-1].left if packet.crossings else None
        if left_last is not None and left_last != packet.delivered:
            spent[Stage(ACCESS)] = packet.delivered.ns - left_last.ns
        return spent

    def crossing(self, place: int | None) -> Crossing:
        assert self.packet is not None
        return next(crossing for crossing in self.packet.crossings if crossing.place == place)


@dataclass(frozen=True, slots=True)
class Rise:
    """A period in which datagrams took much longer than the fastest one: from first to last slow datagram."""

    datagrams: tuple[Datagram, ...]
    """All datagrams sent in the period that arrived."""
    recovered: Datagram | None
    """The first fast datagram after the period; `None` if the flow ended before."""
    over_ns: int
    """From this delay on, a datagram counts as slow."""

    @property
    def slow(self) -> int:
        return sum((datagram.delay_ns or 0) >= self.over_ns for datagram in self.datagrams)

    @property
    def worst(self) -> Datagram:
        return max(self.datagrams, key=lambda datagram: datagram.delay_ns or 0)


@dataclass(frozen=True, slots=True)
class Gap:
    """Consecutive missing datagrams: they did not arrive or, in a call, came too late to be played."""

    datagrams: tuple[Datagram, ...]
    end_ns: int
    """When the next datagram after the gap was due."""

    @property
    def lasted_ns(self) -> int:
        """Length of the gap, in sending time."""
        return self.end_ns - self.datagrams[0].sent_ns


@dataclass(frozen=True, slots=True)
class Heard:
    """The quality of a call, from the frames whose fate is known.

    `late_ns` maps the number of each frame that missed its playout to its lateness. `first_ns`, and
    `delay_ns` from mouth to ear, are `None` if the listener hears nothing. Rating and costs are those of the
    E-model.
    """

    voice: Voice
    frames: int
    lost: int
    late_ns: Mapping[int, int]
    first_ns: int | None
    delay_ns: int | None
    burst_ratio: float
    rating: float
    delay_cost: float
    missing_cost: float


@dataclass(frozen=True, slots=True)
class UdpFacts:
    record: Record
    direction: str
    handshake: Packet | None
    """The first packet of the connection over QUIC."""
    packets: tuple[Packet, ...]
    datagrams: tuple[Datagram, ...]
    least_ns: Mapping[Stage, int]
    """The shortest time that any datagram was in each stage."""
    rises: tuple[Rise, ...]
    gaps: tuple[tuple[Gap, ...], ...]
    """Gaps that are near to each other form an episode."""
    bad_periods: tuple[tuple[BadPeriod, ...], ...]
    """Periods that are near to each other form an episode."""
    heard: Heard | None
    """For calls only."""

    @property
    def arrived(self) -> list[Datagram]:
        """The datagrams that arrived, in the order of sending."""
        return [datagram for datagram in self.datagrams if datagram.delay_ns is not None]

    @property
    def fastest(self) -> Datagram:
        """The datagram with the least delay; there must be one that arrived."""
        return min(self.arrived, key=lambda datagram: datagram.delay_ns or 0)


def gather_udp(
    packets: Packets, tcp: Columns, record: Record, flow: int, states: Columns, *, voice: Voice | None = None
) -> UdpFacts:
    """Collect the facts of flow number `flow`, which sends datagrams; with a `voice` it is a call."""
    own = packets.of_flow(flow)
    # A QUIC connection also has packets without datagrams, in both directions.
    carriers = [packet for packet in own if packet.payload_bytes and packet.direction == record["direction"]]
    over_quic = record["protocol"] == "quic-datagram"
    if over_quic and voice:
        datagrams = _in_quic(carriers, table_of(tcp, flow), voice)
    else:
        datagrams = [Datagram(packet.seq, packet.sent.ns, packet) for packet in carriers]
    settled = [datagram for datagram in datagrams if datagram.is_lost or datagram.delay_ns is not None]
    arrived = [datagram for datagram in settled if datagram.delay_ns is not None]
    first_ns = min(arrived, key=_arrival).delay_ns if arrived else None
    late_ns = {}
    if voice is not None and first_ns is not None:
        over_ns = {
            datagram.number: (datagram.delay_ns or 0) - first_ns - voice["jitter_buffer_ns"]
            for datagram in arrived
        }
        late_ns = {number: over for number, over in over_ns.items() if over > 0}
    gaps = _gaps(settled, {datagram.number for datagram in settled if datagram.is_lost} | late_ns.keys())
    span = own[0].sent.ns, packets.end.ns
    periods = bad_periods(packets, states, record["application"], carriers, span)
    links = dict.fromkeys(period.what for period in periods)
    return UdpFacts(
        record,
        record["direction"],
        own[0] if over_quic else None,
        tuple(carriers),
        tuple(datagrams),
        {stage: min(ns) for stage, ns in _by_stage(arrived).items()},
        tuple(_rises(arrived)),
        tuple(episodes(gaps, lambda gap: (gap.datagrams[0].sent_ns, gap.end_ns))),
        tuple(
            episode
            for link in links
            for episode in episodes(
                [period for period in periods if period.what == link],
                lambda period: (period.start_ns, period.end_ns),
            )
        ),
        _heard(voice, settled, late_ns, first_ns, len(gaps)) if voice is not None and settled else None,
    )


def _heard(
    voice: Voice, settled: Sequence[Datagram], late_ns: Mapping[int, int], first_ns: int | None, gaps: int
) -> Heard:
    lost = sum(datagram.is_lost for datagram in settled)
    missing = (lost + len(late_ns)) / len(settled)
    # The mean length of the gaps, relative to their mean length under independent losses; at least 1.
    burst_ratio = max(1.0, (lost + len(late_ns)) / gaps * (1 - missing)) if gaps else 1.0
    delay_ns = None if first_ns is None else voice["codec_delay_ns"] + first_ns + voice["jitter_buffer_ns"]
    rated = _core.e_model(
        voice["impairment"], voice["loss_robustness"], missing, burst_ratio, (delay_ns or 0) / 1e9
    )
    return Heard(voice, len(settled), lost, late_ns, first_ns, delay_ns, burst_ratio, *rated)


def _by_stage(arrived: Sequence[Datagram]) -> dict[Stage, list[int]]:
    spent: dict[Stage, list[int]] = {}
    for datagram in arrived:
        for stage, ns in datagram.stages_ns().items():
            spent.setdefault(stage, []).append(ns)
    return spent


def _arrival(datagram: Datagram) -> int:
    assert datagram.packet is not None
    assert datagram.packet.delivered is not None
    return datagram.packet.delivered.order


def _in_quic(carriers: Sequence[Packet], events: Sequence[TransportRow], voice: Voice) -> list[Datagram]:
    """Return the frames by number. Each is written at its time, then waits for its packet or is given up."""
    if not carriers:
        return []
    receiver = "client" if carriers[0].direction == "down" else "server"
    milestones = {row["event"]: row for row in events if row["host"] == receiver}
    begins = milestones["established"]["time_ns"] if "established" in milestones else math.inf
    ends = milestones["closed"]["order"] if "closed" in milestones else math.inf
    carried = {number: packet for packet in carriers for number in range(packet.seq, packet.end)}
    frames = []
    for number in range(max(carried) + 1):
        packet = carried.get(number)
        arrived = None if packet is None else packet.delivered
        understood = arrived is None or (begins <= arrived.ns and arrived.order < ends)
        frames.append(Datagram(number, carriers[0].sent.ns + number * voice["frame_ns"], packet, understood))
    return frames


def _rises(arrived: Sequence[Datagram]) -> Iterator[Rise]:
    """Yield the periods with high delay, at most `MOST_EPISODES`."""
    delays = [datagram.delay_ns or 0 for datagram in arrived]
    least = min(delays, default=0)
    greatest = max(delays, default=0) - least
    slow_ns = least + round(max(_RISEN * greatest, _RISEN_OF_LEAST * least, _LEAST_RISE_NS))
    fast_ns = (least + slow_ns) / 2
    spans: list[tuple[int, int]] = []
    since: int | None = None
    last = 0
    for place, delay in enumerate(delays):
        if delay >= slow_ns:
            since, last = place if since is None else since, place
        elif since is not None and delay < fast_ns:
            spans.append((since, last + 1))
            since = None
    if since is not None:
        spans.append((since, last + 1))
    for episode in episodes(spans, lambda span: (arrived[span[0]].sent_ns, arrived[span[1] - 1].sent_ns)):
        end = episode[-1][1]
        fast = (datagram for datagram in arrived[end:] if (datagram.delay_ns or 0) < fast_ns)
        yield Rise(tuple(arrived[episode[0][0] : end]), next(fast, None), slow_ns)


def _gaps(settled: Sequence[Datagram], missing: Container[int]) -> list[Gap]:
    """Return the runs of missing datagrams. A longer pause than usual after a run is not part of the gap."""
    usual = statistics.median_low(
        [after.sent_ns - datagram.sent_ns for datagram, after in itertools.pairwise(settled)] or [0]
    )
    ends = [min(datagram.sent_ns + usual, after.sent_ns) for datagram, after in itertools.pairwise(settled)]
    ends += [datagram.sent_ns + usual for datagram in settled[-1:]]
    runs = itertools.groupby(zip(settled, ends, strict=True), lambda pair: pair[0].number in missing)
    gaps = [list(run) for absent, run in runs if absent]
    return [Gap(tuple(datagram for datagram, _ in run), run[-1][1]) for run in gaps]


def episodes(
    spans: Sequence[T], times: Callable[[T], tuple[int, int]], pause_ns: int = BURST_GAP_NS
) -> list[tuple[T, ...]]:
    """Group spans into at most `MOST_EPISODES` episodes; the longest pauses, from `pause_ns` on, separate."""
    between = [times(after)[0] - times(before)[1] for before, after in itertools.pairwise(spans)]
    apart = [place for place, pause in enumerate(between, 1) if pause >= pause_ns]
    widest = sorted(apart, key=lambda place: -between[place - 1])[: MOST_EPISODES - 1]
    cuts = [0, *sorted(widest), len(spans)]
    return [tuple(spans[start:stop]) for start, stop in itertools.pairwise(cuts) if start < stop]
