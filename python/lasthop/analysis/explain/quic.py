"""The story of a flow over QUIC, in terms of RFC 9000 (transport) and RFC 9002 (loss and congestion)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lasthop.analysis.explain.facts import (
    IDLE_NS,
    Burst,
    Window,
    bad_periods,
    bursts_of,
    link_changes,
    table_of,
)
from lasthop.analysis.explain.packets import Moment, Packet, Packets
from lasthop.analysis.explain.tell import (
    Part,
    change,
    fate,
    in_order,
    tell_bad_period,
    tell_burst,
    tell_idle,
    tell_link_change,
    tell_outcome,
)
from lasthop.analysis.explain.words import Story, byte_ranges, clock, ends_of, length
from lasthop.common.metrics.labels import DROP_CAUSES, EVENTS
from lasthop.common.metrics.units import counted
from lasthop.engines.records import Columns
from lasthop.engines.rows import Record, TransportRow
from lasthop.scenario.facts import Move

_PACKET_THRESHOLD = 3
# Sorts after every event of the same instant.
_LAST = 2**62


@dataclass(slots=True)
class Reduction:
    """A window reduction because of a mark, or because of the packets in `lost`.

    `reach` is the distance in packets from the first lost packet to the furthest acknowledged packet.
    """

    at: Moment
    before: Window
    after: Window
    is_mark: bool
    is_persistent: bool = False
    lost: list[Packet] = field(default_factory=list)
    reach: int = 0
    again: list[Packet] = field(default_factory=list)
    end: Moment | None = None


@dataclass(slots=True)
class Probe:
    """Probe timeout number `backoff` in a row; `copies` carried the first unacknowledged byte."""

    at: Moment
    backoff: int
    is_handshake: bool
    waiting_since_ns: int
    copies: list[Packet]


@dataclass(slots=True)
class Migration:
    """The client's address, or only its port, changed at `at_ns`; `move` is the scenario's entry for it.

    `heard` is when the server got the first packet from there, and `fresh` is its first window on the new
    path: `None` if only the port changed, or if the server sends no data.
    """

    at_ns: int
    move: Move
    under_way: int
    heard: Moment | None
    fresh: tuple[Moment, Window] | None


class _History:
    def __init__(
        self, packets: Packets, tcp: Sequence[TransportRow], flow: int, direction: str, moves: Sequence[Move]
    ) -> None:
        host = "server" if direction == "down" else "client"
        self.own = packets.of_flow(flow)
        self.sent = [packet for packet in self.own if packet.direction == direction]
        self.heard = sorted(
            (packet for packet in self.own if packet.direction != direction and packet.delivered is not None),
            key=lambda packet: packet.delivered or packet.sent,
        )
        self.events = [(Moment(row["order"], row["time_ns"]), row) for row in tcp if row["host"] == host]
        self.windows = [
            (now, Window(row["cwnd"], row["ssthresh"], row["in_flight"]))
            for now, row in self.events
            if row["event"] == "window"
        ]
        self.established: Moment | None = None
        self.first_rtt_ns: int | None = None
        self.ended: tuple[Moment, str] | None = None
        self.reductions: list[Reduction] = []
        self.probes: list[Probe] = []
        for now, row in self.events:
            self._read(now, row)
        for reduction in self.reductions:
            reduction.end = self._recovered(reduction)
        self.pauses = list(self._pauses())
        self.migrations = list(self._migrations(moves, host, packets.end))

    def _read(self, now: Moment, row: TransportRow) -> None:
        event = row["event"]
        if event == "established":
            self.established = self.established or now
        elif event == "rtt-sample":
            self.first_rtt_ns = self.first_rtt_ns or row["rtt_ns"]
        elif event in ("recovery-entered", "ecn-reduction"):
            reduction = Reduction(
                now, self.window(now), self.window(now, after=True), event == "ecn-reduction"
            )
            if not reduction.is_mark:
                reduction.lost, reduction.reach = self._lost(now)
            self.reductions.append(reduction)
        elif event == "persistent-congestion":
            self.reductions[-1].is_persistent = True
        elif event == "timeout":
            self._expire(now, row)
        elif EVENTS[event].role == "retransmission" and self.reductions:
            self.reductions[-1].again += [p for p in self.sent if p.sent.ns == now.ns and p.seq == row["seq"]]
        elif event in ("closed", "aborted"):
            self.ended = self.ended or (now, event)

    def _migrations(self, moves: Sequence[Move], sender: str, run_end: Moment) -> Iterator[Migration]:
        """RFC 9000, section 9.4: the server resets congestion control on a path to another address."""
        down = [p for p in self.own if p.direction == "down"]
        end = self.ended[0] if self.ended else run_end
        for move in moves:
            at_ns = move["at_ns"]
            if not self.own[0].sent.ns <= at_ns < end.ns:
                continue
            from_there = [p for p in self.own if p.direction == "up" and p.sent.ns >= at_ns]
            heard = min((p.delivered for p in from_there if p.delivered is not None), default=None)
            fresh = None
            if heard is not None and sender == "server" and not move["rebinds"]:
                fresh = next((state for state in self.windows if state[0].ns > heard.ns), None)
            arrivals = [p.delivered for p in down if p.sent.ns < at_ns and p.delivered is not None]
            under_way = sum(arrival.ns >= at_ns for arrival in arrivals)
            yield Migration(at_ns, move, under_way, heard, fresh)

    def _pauses(self) -> Iterator[tuple[int, int]]:
        """Yield the periods in which all data had been acknowledged and none was sent."""
        events = [(p.sent, p) for p in self.sent if p.payload_bytes]
        events += [(p.delivered, p) for p in self.heard if p.delivered is not None]
        sent_end, acknowledged = 0, 0
        since_ns: int | None = None
        for now, packet in sorted(events, key=lambda event: event[0]):
            if now == packet.sent:
                if since_ns is not None and now.ns - since_ns >= IDLE_NS:
                    yield since_ns, now.ns
                sent_end, since_ns = max(sent_end, packet.end), None
            else:
                acknowledged = max(acknowledged, packet.ack or 0)
                if acknowledged >= sent_end > 0 and since_ns is None:
                    since_ns = now.ns

    def window(self, now: Moment, *, after: bool = False) -> Window:
        """Return the state before an event, or the next state after it."""
        index = bisect_left(self.windows, now, key=lambda entry: entry[0])
        index = min(index, len(self.windows) - 1) if after else index - 1
        return self.windows[index][1] if index >= 0 else Window(0, None, 0)

    def _expire(self, now: Moment, row: TransportRow) -> None:
        copies = [p for p in self.sent if p.seq <= row["seq"] < p.end and p.sent.ns < now.ns]
        sent = max((p.sent.ns for p in self.sent if p.sent.ns < now.ns), default=now.ns)
        heard = max((p.delivered.ns for p in self.heard if p.delivered and p.delivered < now), default=0)
        self.probes.append(Probe(now, row["backoff"], row["seq"] == 0, max(sent, heard), copies))

    def _lost(self, now: Moment) -> tuple[list[Packet], int]:
        """Return unacknowledged packets sent before an acknowledged packet, the oldest first.

        An acknowledgment covers all packets that had arrived when it was sent.
        """
        latest = max((p.sent for p in self.heard if p.delivered and p.delivered < now), default=Moment(0, 0))
        sent = [packet for packet in self.sent if packet.sent < now]
        acknowledged = [packet.delivered is not None and packet.delivered < latest for packet in sent]
        furthest = max((place for place, is_acked in enumerate(acknowledged) if is_acked), default=0)
        # Losses of packets sent before the last recovery period began belong to it (section 7.3.2).
        since = self.reductions[-1].at if self.reductions else Moment(0, 0)
        missing = [
            (place, packet)
            for place, packet in enumerate(sent[:furthest])
            if not acknowledged[place] and packet.payload_bytes and packet.sent > since
        ]
        beyond = [packet for place, packet in missing if furthest - place >= _PACKET_THRESHOLD]
        reach = furthest - missing[0][0] if missing else 0
        return beyond or [packet for _, packet in missing[:1]], reach

    def _recovered(self, reduction: Reduction) -> Moment | None:
        """Return when the first packet of the recovery period was acknowledged (RFC 9002, section 7.3.2)."""
        arrivals = [p.delivered for p in self.sent if p.sent > reduction.at and p.delivered is not None]
        first = min(arrivals, default=None)
        if first is None:
            return None
        return next((p.delivered for p in self.heard if p.sent > first), None)


def tell_quic(packets: Packets, tcp: Columns, record: Record, flow: int, states: Columns) -> Story:
    moves = packets.facts.applications[record["application"]].moves
    history = _History(packets, table_of(tcp, flow), flow, record["direction"], moves)
    return _Teller(packets, history, record).tell(states)


class _Teller:
    def __init__(self, packets: Packets, history: _History, record: Record) -> None:
        self.packets = packets
        self.history = history
        self.record = record
        self.start = history.own[0].sent
        self.end = history.ended[0] if history.ended else packets.end

    def tell(self, states: Columns) -> Story:
        ends = ends_of(self.record, self.record["direction"])
        name = self.record["flow"]
        head = (
            f"{name}: QUIC, {ends}; windows are in packets of the current size, and byte positions count the "
            "data written."
        )
        own = self.history.own
        parts = [
            *self._handshake(),
            *self._growth(),
            *(self._burst(burst) for burst in bursts_of(own, self.record["direction"])),
            *(self._reduction(reduction) for reduction in self.history.reductions),
            *(self._probe(probe) for probe in self.history.probes),
            *map(self._migration, self.history.migrations),
            *map(
                tell_link_change,
                link_changes(self.packets.facts, self.record["application"], (self.start.ns, self.end.ns)),
            ),
            *(
                tell_bad_period(period, self.start.ns)
                for period in bad_periods(
                    self.packets, states, self.record["application"], own, (self.start.ns, self.end.ns)
                )
            ),
            self._close(),
        ]
        return Story(name, head, in_order(parts), list(self._summary()))

    # ---- Handshake, growth, end ----

    def _handshake(self) -> Iterator[Part]:
        history = self.history
        first = history.own[0]
        who, other = ("server", "client") if first.direction == "down" else ("client", "server")
        text = f"Handshake: the {who} sends the first flight, padded to 1200 bytes (RFC 9000, section 14.1)."
        until = history.established or self.end
        # Before the first packet from the other end, no keys but those of 0-RTT encrypt data.
        answers = [p.delivered for p in history.own if p.direction != first.direction and p.delivered]
        answered = min(answers, default=until)
        early = [
            p for p in history.own if p.payload_bytes and p.sent < answered and p.direction == first.direction
        ]
        if early:
            text += f" It carries data: {byte_ranges(early)} (0-RTT; RFC 9001, section 4.6)."
        yield Part(self.start.ns, 0, text)
        if history.established is None:
            return
        flight = [p for p in history.own if p.direction != first.direction and p.sent < until]
        lost = sum(packet.dropped is not None for packet in flight)
        text = f"Established, {length(until.ns - self.start.ns)} after the first packet"
        text += f": the {other}'s flight had {counted(len(flight), 'packet')}" + (
            f", {lost} of them lost" if lost else ""
        )
        if history.first_rtt_ns is not None:
            text += f". First RTT sample {length(history.first_rtt_ns)}"
        yield Part(
            until.ns, until.order, f"{text}. Initial window {history.window(until, after=True).cwnd} packets."
        )

    def _growth(self) -> Iterator[Part]:
        """Yield an entry for each stretch between handshake, recovery periods and new paths."""
        since, slow = self.history.established, True
        # BBR has no ssthresh.
        has_threshold = not self.history.reductions or any(
            w.ssthresh is not None for _, w in self.history.windows
        )
        for until, why, following, begins_slowly in self._breaks():
            if since is not None and until > since:
                first, last = self.history.window(since, after=True), self.history.window(until)
                phase = ("Slow start" if slow else "Congestion avoidance") if has_threshold else "Growth"
                text = f"{phase}, cwnd {first.cwnd} -> {last.cwnd}, until {clock(until.ns)}; {why}."
                pauses = [p for p in self.history.pauses if since.ns <= p[0] and p[1] <= until.ns]
                yield Part(since.ns, _LAST, text + tell_idle([end - start for start, end in pauses]))
            since, slow = following, begins_slowly

    def _breaks(self) -> list[tuple[Moment, str, Moment | None, bool]]:
        """Return the ends of stretches of growth: when, why, when the next begins, and if in slow start."""
        # RFC 9002, section 7.3.1: after persistent congestion the window is below the threshold again.
        breaks = [
            (reduction.at, f"ended by {_cause(reduction)}", reduction.end, reduction.is_persistent)
            for reduction in self.history.reductions
        ]
        breaks += [
            (migration.heard, "ended by the migration", migration.fresh[0], True)
            for migration in self.history.migrations
            if migration.heard is not None and migration.fresh is not None
        ]
        return [*sorted(breaks, key=lambda each: each[0]), (self.end, "to the end", None, False)]

    def _migration(self, migration: Migration) -> Part:
        at_ns, heard = migration.at_ns, migration.heard
        if migration.move["rebinds"]:
            text = (
                "Rebinding: the client's port changes without its knowledge. Packets to the old port are "
                "lost until a packet from the new port reaches the server"
            )
        else:
            way = migration.move["via"]
            text = "Migration: the client has a new address" + (f", behind {way}" if way else "")
            text += ", and sends the server a probe from it"
            if migration.under_way:
                text += f". It ignores {counted(migration.under_way, 'packet')} in flight to the old address"
        text += " (RFC 9000, section 9).\n"
        if heard is None:
            text += "No packet from it reached the server."
        else:
            text += f"The first packet from it reaches the server {length(heard.ns - at_ns)} later, which "
            text += "validates the path"
            if migration.move["rebinds"]:
                text += ". The window is unchanged, as only the port differs."
            elif migration.fresh is not None:
                before = self.history.window(heard)
                text += f" and resets congestion control: {change(before, migration.fresh[1])}."
            else:
                text += "."
        return Part(at_ns, 0, text, [at_ns])

    def _close(self) -> Part:
        ended = self.history.ended
        if ended is None:
            return Part(self.end.ns, _LAST, "The run ended here; the connection was still open.")
        if ended[1] == "aborted":
            return Part(self.end.ns, _LAST, "The connection was given up.")
        return Part(
            self.end.ns,
            _LAST,
            "Closed: all data has been acknowledged (CONNECTION_CLOSE; RFC 9000, section 10.2).",
        )

    # ---- Losses, probes, recovery periods ----

    def _burst(self, burst: Burst) -> Part:
        if burst.is_data:
            return tell_burst(burst, self.packets, "Loss", "packet", f": {byte_ranges(burst.packets)}")
        return tell_burst(burst, self.packets, "Loss in the reverse direction", "packet", "")

    def _reduction(self, reduction: Reduction) -> Part:
        at = reduction.at
        text = f"Recovery period because of {_cause(reduction)}: {_evidence(reduction)}. "
        text += f"{change(reduction.before, reduction.after)}.\n"
        if reduction.is_persistent:
            text += (
                "Persistent congestion: all packets sent over more than three probe timeouts were lost, so "
                "the window falls to its minimum (RFC 9002, section 7.6).\n"
            )
        if reduction.again:
            again = counted(len(reduction.again), "packet")
            text += f"Retransmitted before the next period: {byte_ranges(reduction.again)}, in {again}.\n"
        if reduction.end is None:
            text += "It lasted until the end."
        else:
            took = length(reduction.end.ns - at.ns)
            text += f"Ended at {clock(reduction.end.ns)}, after {took}, when a packet sent during it was "
            text += "acknowledged (section 7.3.2)."
        return Part(at.ns, at.order, text)

    def _probe(self, probe: Probe) -> Part:
        at = probe.at
        text = "Probe timeout" + (f", {probe.backoff} in a row" if probe.backoff > 1 else "")
        text += " of the handshake" if probe.is_handshake else ""
        text += (
            " (RFC 9002, section 6.2): nothing was sent or received for "
            f"{length(at.ns - probe.waiting_since_ns)}. "
        )
        text += "A probe elicits an acknowledgment; the window is unchanged."
        if probe.copies:
            first, last = probe.copies[0], probe.copies[-1]
            text += f"\nThe first unacknowledged byte was sent at {clock(first.sent.ns)}; its packet "
            text += f"{fate(self.packets, first, at)}."
            if last is not first:
                text += f" Its last copy, sent at {clock(last.sent.ns)}, {fate(self.packets, last, at)}."
        return Part(at.ns, at.order, text, [at.ns])

    # ---- Summary ----

    def _summary(self) -> Iterator[str]:
        record = self.record
        yield tell_outcome(record, self.end.ns - self.start.ns)
        yield (
            f"Sent: {counted(record['sent_packets'], 'packet')} with data, {record['sent_bytes']} bytes, "
            f"including {record['retransmitted_packets']} with retransmitted data, "
            f"{record['unnecessary_retransmissions']} unnecessary."
        )
        marks = sum(reduction.is_mark for reduction in self.history.reductions)
        persistent = sum(reduction.is_persistent for reduction in self.history.reductions)
        yield (
            f"Signs of loss: {counted(record['fast_retransmits'], 'recovery period')} because of losses"
            f"{f' ({persistent} x persistent congestion)' if persistent else ''}, {marks} because of marks, "
            f"{counted(record['timeouts'], 'probe timeout')} ({record['spurious_timeouts']} spurious)."
        )
        dropped = Counter(
            (p.direction == record["direction"], p.cause) for p in self.history.own if p.cause is not None
        )
        ways = {True: "in the direction of the data", False: "in the reverse direction"}
        lost = [
            f"{number} {DROP_CAUSES[cause].label} {ways[way]}"
            for (way, cause), number in sorted(dropped.items())
        ]
        yield f"Lost: {', '.join(lost) if lost else 'no packet'}."


def _cause(reduction: Reduction) -> str:
    return "a mark" if reduction.is_mark else "a loss"


def _evidence(reduction: Reduction) -> str:
    if reduction.is_mark:
        return "an ACK reports more marked packets (RFC 9002, section 7.1)"
    if not reduction.lost:
        return "a packet without data counts as lost"
    first = reduction.lost[0]
    many = len(reduction.lost)
    text = (
        f"{byte_ranges(reduction.lost)} ({counted(many, 'packet')}) {'counts' if many == 1 else 'count'} as "
        "lost, "
    )
    if reduction.reach >= _PACKET_THRESHOLD:
        text += f"because a packet {reduction.reach} later was acknowledged"
        return f"{text} (packet threshold 3; RFC 9002, section 6.1.1)"
    waited = length(reduction.at.ns - first.sent.ns)
    return (
        f"{text}because a later packet was acknowledged and {waited} have passed (time threshold, 9/8 RTT; "
        "section 6.1.2)"
    )
