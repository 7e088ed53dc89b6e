"""The history of a TCP flow's sender: phases, recoveries, timeouts, losses. `tell` puts it into words.

The counts of events equal those in the flow's record.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lasthop.analysis.explain.packets import ACK, FIN, RST, SYN, Moment, Packet, Packets
from lasthop.common.metrics.labels import DROP_CAUSES, EVENTS
from lasthop.engines.records import Columns
from lasthop.engines.rows import Record, TransportRow, transport_rows
from lasthop.scenario.facts import Facts

BURST_GAP_NS = 1_000_000_000
"""Events of one kind form one entry if each follows its predecessor within this time."""
IDLE_NS = 1_000_000
"""A shorter pause is not idle time: a real host may need that long to respond to an ACK."""
SET_UP, SLOW_START, AVOIDANCE = "connection set-up", "slow start", "congestion avoidance"
RECOVERY, AFTER_TIMEOUT, WAITING = "fast recovery", "recovery after a timeout", "waiting for the timer"
IDLE = "idle"
PHASES = (SET_UP, SLOW_START, AVOIDANCE, RECOVERY, AFTER_TIMEOUT, WAITING, IDLE)


class Window(NamedTuple):
    """Sender state in segments; ssthresh is `None` while infinite."""

    cwnd: int
    ssthresh: int | None
    in_flight: int


@dataclass(slots=True)
class Retransmission:
    packet: Packet
    kind: str
    unnecessary: bool = False


@dataclass(slots=True)
class Episode:
    """A fast recovery, or the recovery after a timeout, from `start` to `end`."""

    start: Moment
    before: Window
    after: Window
    retransmissions: list[Retransmission] = field(default_factory=list)
    undone: list[tuple[Moment, str]] = field(default_factory=list)
    dsacks: int = 0
    end: Moment | None = None
    end_window: Window | None = None
    ended_by: str | None = None


@dataclass(slots=True)
class Probe:
    """A tail loss probe. `again` is the last segment if the probe repeated it, `None` if new data was sent.

    `waiting_since_ns` is when the sender last sent a packet or got an ACK.
    """

    start: Moment
    waiting_since_ns: int
    packet: Packet
    again: Retransmission | None = None


@dataclass(slots=True)
class Recovery(Episode):
    """A fast recovery, after `duplicates` ACKs for `head`.

    By then, `sacked` segments were SACKed, the furthest of them `reach` segments beyond the head.
    """

    head: int = 0
    point: int = 0
    duplicates: int = 0
    sacked: int = 0
    reach: int = 0
    head_age_ns: int = 0
    rto_ns: int | None = None


@dataclass(slots=True)
class Timeout(Episode):
    """An expiry of the timer, which is spurious if any of the `copies` arrives.

    `copies` are the earlier transmissions of the first unacknowledged segment. `acks` holds the first ACK of
    that segment and, if it was lost, the next ACK that was not. `waiting_since_ns` is when the sender last
    sent a packet or got an ACK, `timer_since_ns` when it last started the timer.
    """

    head: int = 0
    backoff: int = 1
    copies: list[Packet] = field(default_factory=list)
    acks: list[Packet] = field(default_factory=list)
    spurious: bool = False
    waiting_since_ns: int = 0
    timer_since_ns: int = 0
    rto_ns: int | None = None
    is_syn: bool = False


@dataclass(frozen=True, slots=True)
class Burst:
    """Packets lost for the same cause, or marked (cause `ce`), at one place within a short time."""

    cause: str
    place: int | None
    is_data: bool
    packets: tuple[Packet, ...]
    times: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A window reduction because of an ECN echo."""

    at: Moment
    before: Window
    after: Window


@dataclass(frozen=True, slots=True)
class Undo:
    """The undo of a reduction whose episode had already ended."""

    at: Moment
    cause: str
    before: Window
    after: Window


class Phase(NamedTuple):
    """A period of one kind of sending, with the windows in segments at its two ends."""

    kind: str
    start_ns: int
    end_ns: int
    cwnd_start: int
    cwnd_end: int


@dataclass(frozen=True, slots=True)
class BadPeriod:
    """A bad state of the link within the flow's life, and its effect on the flow's packets."""

    start_ns: int
    end_ns: int
    direction: str
    """The direction whose link was bad; empty if both share it."""
    hop: str
    """The hop of the link; empty if there is only one."""
    failed_tries: int
    lost: int

    @property
    def what(self) -> str:
        return _link(self.direction, self.hop)


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A change of the link `what` within the flow's life; a rate or delay of `None` is unchanged."""

    at_ns: int
    what: str
    rate: str | None
    delay: str | None


@dataclass(slots=True)
class TcpFacts:
    """The whole history.

    `waits` are the periods (start and end in nanoseconds) in which the sender could only wait for an expiry,
    including the expiry that ended the connection.
    """

    record: Record
    direction: str
    passive: bool
    """The peer connected to the sender."""
    segment_bytes: int
    start_ns: int
    end_ns: int
    established: Moment | None
    handshake_rtt_ns: int | None
    handshake_rto_ns: int | None
    first_window: Window | None
    phases: list[Phase]
    waits: list[tuple[int, int]]
    recoveries: list[Recovery]
    timeouts: list[Timeout]
    probes: list[Probe]
    reductions: list[Reduction]
    undos: list[Undo]
    bursts: list[Burst]
    bad_periods: list[BadPeriod]
    link_changes: list[LinkChange]
    fin: Packet | None
    fin_acknowledged: Moment | None
    stray: list[Retransmission]
    dsacks: int
    retransmitted_bytes: int
    unnecessary_bytes: int

    def seconds_by_phase(self) -> dict[str, float]:
        """Time in each kind of phase, with waiting for the timer as a separate kind."""
        total = dict.fromkeys(PHASES, 0)
        for phase in self.phases:
            total[phase.kind] += phase.end_ns - phase.start_ns
        for start, end in self.waits:
            for phase in self.phases:
                overlap = min(phase.end_ns, end) - max(phase.start_ns, start)
                if overlap > 0:
                    total[phase.kind] -= overlap
                    total[WAITING] += overlap
        return {kind: nanos / 1e9 for kind, nanos in total.items()}


class _History:
    def __init__(self, packets: Packets, tcp: Sequence[TransportRow], flow: int, direction: str) -> None:
        self.packets = packets
        self.mine = packets.of_flow(flow)
        self.direction = direction
        self.host = "server" if self.direction == "down" else "client"
        self.tcp = [row for row in tcp if row["host"] == self.host]
        states = [row for row in self.tcp if row["event"] == "window"]
        self.window_moments = [Moment(row["order"], row["time_ns"]) for row in states]
        self.windows = [Window(row["cwnd"], row["ssthresh"], row["in_flight"]) for row in states]
        self.episodes: list[Recovery | Timeout] = []
        self.active: Recovery | Timeout | None = None
        self.reductions: list[Reduction] = []
        self.undos: list[Undo] = []
        self.probes: list[Probe] = []
        self.probe_of: dict[int, tuple[Moment, int]] = {}
        self.changes: list[tuple[Moment, str | None]] = []
        self.stray: list[Retransmission] = []
        self.retransmissions: list[Retransmission] = []
        self.copies: list[Packet] = []
        self.outstanding: list[Packet] = []
        self.kinds: dict[int, str] = {}
        self.data_end = 0
        self.highest_ack: int | None = None
        self.repeats = 0
        self.sacked: list[tuple[int, int]] = []
        self.activity = Moment(0, 0)
        self.timer_since_ns = 0
        self.waits: list[tuple[int, int]] = []
        self.segment_bytes = 0
        self.idle_since: Moment | None = None
        self.idle: list[tuple[Moment, Moment]] = []
        self.rtt_ns: int | None = None
        self.rto_ns: int | None = None
        self.handshake: tuple[int | None, int | None] = (None, None)
        self.established: Moment | None = None
        self.fin: Packet | None = None
        self.fin_acknowledged: Moment | None = None
        self.ended: Moment | None = None
        self.dsacks = 0

    def read(self) -> None:
        """Process all events, then judge what needs the whole run."""
        events: list[tuple[Moment, Packet | TransportRow]] = []
        for packet in self.mine:
            if packet.direction == self.direction:
                events.append((packet.sent, packet))
            elif packet.delivered is not None and packet.flags & ACK:
                events.append((packet.delivered, packet))
        events += [(Moment(row["order"], row["time_ns"]), row) for row in self.tcp]
        events.sort(key=lambda event: event[0])
        for now, event in events:
            if not isinstance(event, Packet):
                self._tcp(now, event)
            elif event.direction == self.direction:
                self._sent(now, event)
            else:
                self._ack(now, event)
        self._judge()

    def window_before(self, now: Moment) -> Window:
        index = bisect_left(self.window_moments, now)
        return self.windows[index - 1] if index else Window(0, None, 0)

    def window_after(self, now: Moment) -> Window:
        """Return the state after the event at `now`. A change is reported at the same instant."""
        index = bisect_right(self.window_moments, now)
        if index < len(self.windows) and self.window_moments[index].ns == now.ns:
            return self.windows[index]
        return self.window_before(now)

    def _sent(self, now: Moment, packet: Packet) -> None:
        if packet.end > packet.seq and packet.seq in self.probe_of:
            self.probes.append(Probe(*self.probe_of.pop(packet.seq), packet))
        self.activity = now
        una = self.highest_ack or 0
        if packet.seq <= una < packet.end:
            # The first outstanding segment, or a retransmission of it, starts the timer.
            self.timer_since_ns = now.ns
        if packet.flags & FIN:
            self.fin = self.fin or packet
        kind = self.kinds.pop(packet.seq, "") if packet.end > packet.seq else ""
        if packet.payload_bytes:
            if packet.data_start < self.data_end:
                again = Retransmission(packet, kind)
                self.retransmissions.append(again)
                if kind == "probe":
                    self.probes[-1].again = again
                elif self.episodes:
                    self.episodes[-1].retransmissions.append(again)
                else:
                    self.stray.append(again)
            self.data_end = max(self.data_end, packet.data_end)
            self.segment_bytes = max(self.segment_bytes, packet.payload_bytes)
        if packet.end > packet.seq:
            self.copies.append(packet)
            self.outstanding.append(packet)
            if self.idle_since is not None:
                self.idle.append((self.idle_since, now))
                self.idle_since = None

    def _ack(self, now: Moment, packet: Packet) -> None:
        self.activity = now
        ack = packet.ack or 0
        if packet.sack:
            self._sack(packet, ack)
        if self.highest_ack is None or ack > self.highest_ack:
            self.highest_ack, self.repeats = ack, 0
            self.timer_since_ns = now.ns
            self.outstanding = [copy for copy in self.outstanding if copy.end > ack]
            self.sacked = [block for block in self.sacked if block[1] > ack]
            if self.fin is not None and ack >= self.fin.end and self.fin_acknowledged is None:
                self.fin_acknowledged = now
        elif ack == self.highest_ack:
            self.repeats = 0 if packet.payload_bytes or packet.flags & (SYN | RST) else self.repeats + 1
        # While the window is closed, the sender may have data and wait for the receiver.
        if not self.outstanding and (packet.window_bytes or 0) >= self.segment_bytes:
            self.idle_since = self.idle_since or now

    def _sack(self, packet: Packet, ack: int) -> None:
        first, *rest = packet.sack
        # RFC 2883, section 4: a first block below the ACK, or inside the second.
        duplicate = first[0] < ack or bool(rest and rest[0][0] <= first[0] and first[1] <= rest[0][1])
        if duplicate:
            self.dsacks += 1
            if self.episodes:
                self.episodes[-1].dsacks += 1
        self.sacked += rest if duplicate else packet.sack

    def _sacked_segments(self) -> tuple[int, int]:
        """Return how many outstanding segments are SACKed, and how many lie below the furthest SACK."""
        first_copies = {packet.seq: packet for packet in reversed(self.outstanding)}
        blocks = set(self.sacked)
        furthest = max((end for _, end in blocks), default=0)
        sacked = sum(
            any(start <= packet.seq and packet.end <= end for start, end in blocks)
            for packet in first_copies.values()
        )
        return sacked, sum(packet.end <= furthest for packet in first_copies.values()) - 1

    def _tcp(self, now: Moment, row: TransportRow) -> None:
        event = row["event"]
        if event == "established":
            self.established = self.established or now
            self.handshake = (self.rtt_ns, self.rto_ns)
            self._leave(now, "recovered")
        elif event == "rtt-sample":
            self.rtt_ns, self.rto_ns = row["rtt_ns"], row["rto_ns"]
        elif EVENTS[event].role == "retransmission":
            self.kinds[row["seq"]] = EVENTS[event].reason
        elif event == "recovery-entered":
            self._enter_recovery(now, row["seq"])
        elif event == "tail-loss-probe":
            self.probe_of[row["seq"]] = (now, self.activity.ns)
        elif event == "timeout":
            self._expire(now, row)
        elif event == "recovery-left":
            self._leave(now, "recovered")
        elif EVENTS[event].role == "undo":
            self._undo(now, EVENTS[event].reason)
        elif event == "ecn-reduction":
            self.reductions.append(Reduction(now, self.window_before(now), self.window_after(now)))
        elif event in ("closed", "aborted"):
            self.ended = now
            if event == "aborted" and self.outstanding:
                self.waits.append((self.activity.ns, now.ns))
            self._leave(now, event)

    def _enter_recovery(self, now: Moment, point: int) -> None:
        head = self.highest_ack or 0
        copies = [packet for packet in self.outstanding if packet.seq <= head < packet.end]
        recovery = Recovery(now, self.window_before(now), self.window_after(now), head=head, point=point)
        recovery.duplicates = self.repeats
        recovery.sacked, recovery.reach = self._sacked_segments()
        recovery.head_age_ns = now.ns - copies[-1].sent.ns if copies else 0
        recovery.rto_ns = self.rto_ns
        self._begin(now, recovery)

    def _expire(self, now: Moment, row: TransportRow) -> None:
        timeout = Timeout(
            now, self.window_before(now), self.window_after(now), head=row["seq"], backoff=row["backoff"]
        )
        # Copies sent at the same instant are the timeout's own.
        timeout.copies = [p for p in self.outstanding if p.seq <= timeout.head < p.end and p.sent.ns < now.ns]
        timeout.waiting_since_ns, timeout.rto_ns = self.activity.ns, self.rto_ns
        timeout.timer_since_ns = self.timer_since_ns
        self.waits.append((self.activity.ns, now.ns))
        timeout.is_syn = self.established is None
        self._begin(now, timeout)

    def _begin(self, now: Moment, episode: Recovery | Timeout) -> None:
        self._leave(now, "timeout" if isinstance(episode, Timeout) else "duplicates")
        self.episodes.append(episode)
        self.active = episode
        self.changes.append((now, RECOVERY if isinstance(episode, Recovery) else AFTER_TIMEOUT))

    def _leave(self, now: Moment, why: str) -> None:
        if self.active is None:
            return
        self.active.end, self.active.ended_by = now, why
        self.active.end_window = self.window_after(now)
        self.active = None
        self.changes.append((now, None))

    def _undo(self, now: Moment, cause: str) -> None:
        if self.active is None:
            self.undos.append(Undo(now, cause, self.window_before(now), self.window_after(now)))
            return
        self.active.undone.append((now, cause))
        if isinstance(self.active, Timeout):
            self._leave(now, "undone")

    def _judge(self) -> None:
        """Mark retransmissions whose bytes all arrive in earlier copies as unnecessary; judge timeouts."""
        arrived = sorted(
            (packet for packet in self.copies if packet.delivered is not None), key=lambda packet: packet.seq
        )
        starts = [packet.seq for packet in arrived]
        longest = max((packet.end - packet.seq for packet in arrived), default=0)
        for again in self.retransmissions:
            packet = again.packet
            near = arrived[bisect_left(starts, packet.seq - longest) : bisect_left(starts, packet.end)]
            earlier = [(p.seq, p.end) for p in near if p.sent < packet.sent]
            again.unnecessary = _covers(earlier, packet.data_start, packet.data_end)
        for timeout in self.timeouts():
            timeout.spurious = any(packet.delivered is not None for packet in timeout.copies)
            timeout.acks = self._acks(timeout)

    def _acks(self, timeout: Timeout) -> list[Packet]:
        """Return the ACKs of the head that explain why none had reached the sender."""
        now = timeout.start
        sent = [
            packet
            for packet in self.mine
            if packet.direction != self.direction and packet.sent < now and (packet.ack or 0) > timeout.head
        ]
        remaining = [packet for packet in sent if packet.dropped is None or packet.dropped > now]
        return sent[:1] + [packet for packet in remaining[:1] if packet is not sent[0]]

    def timeouts(self) -> list[Timeout]:
        return [episode for episode in self.episodes if isinstance(episode, Timeout)]

    def recoveries(self) -> list[Recovery]:
        return [episode for episode in self.episodes if isinstance(episode, Recovery)]

    def phases(self, start_ns: int, end_ns: int) -> list[Phase]:
        """Cut the flow's life where the kind of sending changes."""
        cuts: list[tuple[Moment, str | None, Window | None]] = [
            (now, mode, None) for now, mode in self.changes
        ]
        cuts += [(now, None, window) for now, window in zip(self.window_moments, self.windows, strict=True)]
        if self.established is not None:
            cuts.append((self.established, None, None))
        pauses = self._pauses(end_ns)
        cuts += [(now, None, None) for now in pauses]
        cuts.sort(key=lambda cut: cut[0])
        modes = dict(self.changes)
        reduced = {reduction.at.ns for reduction in self.reductions}
        mode, window, up, idle = None, Window(0, None, 0), False, False
        pieces = [Phase(SET_UP, start_ns, start_ns, 0, 0)]
        for now, _, changed in cuts:
            if now.ns > end_ns:
                break
            up = up or now == self.established
            mode = modes.get(now, mode)
            idle = pauses.get(now, idle)
            before, window = window, changed or window
            kind = IDLE if up and idle else _kind(up, mode, window)
            last = pieces[-1]
            if last.start_ns == now.ns:
                # The state after an event is reported after it, at the same instant.
                last = last._replace(cwnd_start=window.cwnd)
            grows = {kind, last.kind} <= {SLOW_START, AVOIDANCE} and now.ns not in reduced
            pieces[-1] = last._replace(end_ns=now.ns, cwnd_end=window.cwnd if grows else before.cwnd)
            if kind != last.kind or (now.ns in reduced and last.start_ns < now.ns):
                pieces.append(Phase(kind, now.ns, now.ns, window.cwnd, window.cwnd))
        pieces[-1] = pieces[-1]._replace(end_ns=end_ns)
        return merged([piece for piece in pieces if piece.end_ns > piece.start_ns], reduced)

    def _pauses(self, end_ns: int) -> dict[Moment, bool]:
        """Return when idle time begins (true) and ends (false): nothing to send and nothing in flight."""
        pauses: dict[Moment, bool] = {}
        for since, until in self.idle:
            if until.ns - since.ns >= IDLE_NS:
                pauses |= {since: True, until: False}
        if self.idle_since is not None and end_ns - self.idle_since.ns >= IDLE_NS:
            pauses[self.idle_since] = True
        return pauses


def _kind(up: bool, mode: str | None, window: Window) -> str:
    if not up:
        return SET_UP
    if mode is not None:
        return mode
    # RFC 5681, section 3.1: if they are equal, either algorithm may be used.
    return SLOW_START if window.ssthresh is None or window.cwnd < window.ssthresh else AVOIDANCE


def merged(pieces: Sequence[Phase], cuts: Collection[int] = ()) -> list[Phase]:
    """Join consecutive phases of one kind, unless a cut separates them."""
    phases: list[Phase] = []
    for piece in pieces:
        if phases and phases[-1].kind == piece.kind and piece.start_ns not in cuts:
            phases[-1] = phases[-1]._replace(end_ns=piece.end_ns, cwnd_end=piece.cwnd_end)
        else:
            phases.append(piece)
    return phases


def _covers(ranges: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether the sorted ranges together contain every byte from `start` to before `end`."""
    for low, high in ranges:
        if low > start:
            break
        start = max(start, high)
    return start >= end


def bursts_of(packets: Sequence[Packet], data: str) -> list[Burst]:
    """Return a flow's losses and marks; `data` is the direction of its data."""
    seen = [(p.dropped, p.cause or "", p.dropped_at, p) for p in packets if p.dropped is not None]
    seen += [(p.marked, "ce", p.marked_at, p) for p in packets if p.marked is not None]
    runs_of: dict[tuple[str, int | None, bool], list[list[tuple[Moment, Packet]]]] = {}
    for at, cause, place, packet in sorted(seen, key=lambda item: item[0]):
        runs = runs_of.setdefault((cause, place, packet.direction == data), [])
        if not runs or at.ns - runs[-1][-1][0].ns > BURST_GAP_NS:
            runs.append([])
        runs[-1].append((at, packet))
    bursts = [
        Burst(cause, place, is_data, tuple(p for _, p in run), tuple(at for at, _ in run))
        for (cause, place, is_data), runs in runs_of.items()
        for run in runs
    ]
    return sorted(bursts, key=lambda burst: burst.times[0])


_LINK_STATE = ("start_s", "end_s", "hop", "direction")


def bad_periods(
    packets: Packets, states: Columns, application: str, own: Sequence[Packet], span: tuple[int, int]
) -> list[BadPeriod]:
    """Return the bad states of links on an application's route, with their effect on the packets `own`.

    `span` is the life of the flow.
    """
    periods = []
    crossed = packets.facts.crossed(application)
    for start_s, end_s, hop, direction in zip(*(states[name] for name in _LINK_STATE), strict=True):
        start, end = round(start_s * 1e9), round(end_s * 1e9)
        places = crossed.intersection(packets.facts.places(hop, direction))
        if start < span[1] and end > span[0] and places:
            met = [crossing for packet in own for crossing in packet.crossings if crossing.place in places]
            tries = sum(start <= retry.ns < end for crossing in met for retry in crossing.retries)
            lost = sum(
                p.dropped is not None
                and p.dropped_at in places
                and DROP_CAUSES[p.cause or ""].on_link
                and start <= p.dropped.ns < end
                for p in own
            )
            name = hop if packets.facts.hop_names else ""
            periods.append(BadPeriod(start, end, direction, name, tries, lost))
    return periods


def _link(direction: str, hop: str) -> str:
    """Name a link; without a direction, both directions."""
    return " ".join(filter(None, ["Link", direction, hop and f"of {hop}"]))


def link_changes(facts: Facts, application: str, span: tuple[int, int]) -> list[LinkChange]:
    """Return the changes of links on an application's route during `span`."""
    crossed = facts.crossed(application)
    changes: dict[tuple[int, str, str | None, str | None], list[str]] = {}
    for hop in facts.hops:
        for direction, side in hop.sides.items():
            for change in side["changes"]:
                if side["place"] in crossed and span[0] <= change["at_ns"] < span[1]:
                    name = hop.name if facts.hop_names else ""
                    key = (change["at_ns"], name, change["rate"], change["delay"])
                    changes.setdefault(key, []).append(direction)
    return [
        LinkChange(at_ns, _link("" if len(ways) > 1 else ways[0], hop), rate, delay)
        for (at_ns, hop, rate, delay), ways in changes.items()
    ]


def table_of(tcp: Columns, flow: int) -> list[TransportRow]:
    """Return the transport events of flow number `flow`."""
    places = [place for place, number in enumerate(tcp["flow"]) if number == flow]
    return list(transport_rows({name: [column[place] for place in places] for name, column in tcp.items()}))


def gather(trace_tables: Packets, tcp: Columns, record: Record, flow: int, states: Columns) -> TcpFacts:
    history = _History(trace_tables, table_of(tcp, flow), flow, record["direction"])
    history.read()
    passive = history.mine[0].direction != history.direction
    arrivals = [
        p.delivered.ns for p in history.mine if p.direction != history.direction and p.delivered is not None
    ]
    start_ns = min(arrivals, default=history.mine[0].sent.ns) if passive else history.mine[0].sent.ns
    ended = history.fin_acknowledged or history.ended or trace_tables.end
    full = Counter(p.payload_bytes for p in history.copies if p.payload_bytes)
    again = history.retransmissions
    return TcpFacts(
        record=record,
        direction=history.direction,
        passive=passive,
        segment_bytes=max(full, default=0),
        start_ns=start_ns,
        end_ns=ended.ns,
        established=history.established,
        handshake_rtt_ns=history.handshake[0],
        handshake_rto_ns=history.handshake[1],
        first_window=history.window_after(history.established) if history.established else None,
        phases=history.phases(start_ns, ended.ns),
        waits=history.waits,
        recoveries=history.recoveries(),
        timeouts=history.timeouts(),
        probes=history.probes,
        reductions=history.reductions,
        undos=history.undos,
        bursts=bursts_of(history.mine, history.direction),
        bad_periods=bad_periods(
            trace_tables, states, record["application"], history.mine, (start_ns, ended.ns)
        ),
        link_changes=link_changes(trace_tables.facts, record["application"], (start_ns, ended.ns)),
        fin=history.fin,
        fin_acknowledged=history.fin_acknowledged,
        stray=history.stray,
        dsacks=history.dsacks,
        retransmitted_bytes=sum(item.packet.payload_bytes for item in again),
        unnecessary_bytes=sum(item.packet.payload_bytes for item in again if item.unnecessary),
    )
