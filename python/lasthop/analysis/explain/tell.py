"""The story of a TCP flow: its facts in words, in order of time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lasthop.analysis.explain import facts
from lasthop.analysis.explain.facts import (
    BadPeriod,
    Burst,
    Episode,
    LinkChange,
    Phase,
    Probe,
    Recovery,
    TcpFacts,
    Timeout,
    Window,
)
from lasthop.analysis.explain.packets import SYN, Moment, Packet, Packets, Place, Queued
from lasthop.analysis.explain.words import Entry, Story, byte_ranges, clock, ends_of, length, rate, tries
from lasthop.common.metrics.labels import DROP_CAUSES, DROP_COUNTS, EVENTS
from lasthop.common.metrics.units import counted, listed
from lasthop.engines.rows import Record
from lasthop.scenario.facts import Switches

_UNDO_CAUSES = {kind.reason: kind.words for kind in EVENTS.values() if kind.role == "undo"}
# Sorts after every event of the same instant.
_LAST = 2**62


class Part(NamedTuple):
    """An entry of a story; `order` is its place among the events of that instant, `times` are its events."""

    ns: int
    order: int
    text: str
    times: Sequence[int] = ()


def in_order(parts: Iterable[Part]) -> list[Entry]:
    return [Entry(part.ns, part.text, part.times) for part in sorted(parts, key=lambda part: part[:2])]


def tell_tcp(story: TcpFacts, packets: Packets, tcp: Switches) -> Story:
    """Return the story; `tcp` holds the endpoint's switches as in the scenario."""
    return _Teller(story, packets, tcp).tell()


class _Teller:
    def __init__(self, story: TcpFacts, packets: Packets, tcp: Switches) -> None:
        self.story = story
        self.packets = packets
        self.tcp = tcp

    def tell(self) -> Story:
        story = self.story
        ends = ends_of(story.record, story.direction)
        name = story.record["flow"]
        head = f"{name}: TCP, {ends}, segments of at most {story.segment_bytes} bytes."
        parts = [
            *self._set_up(),
            *self._growth(),
            *(self._burst(burst) for burst in story.bursts),
            *(self._recovery(recovery) for recovery in story.recoveries),
            *(self._timeout(timeout) for timeout in story.timeouts),
            *(self._probe(probe) for probe in story.probes),
            *self._reductions(),
            *self._late_undos(),
            *(tell_bad_period(period, story.start_ns) for period in story.bad_periods),
            *map(tell_link_change, story.link_changes),
            *self._end(),
        ]
        return Story(name, head, in_order(parts), list(self._summary()))

    # ---- Beginning and growth ----

    def _set_up(self) -> Iterator[Part]:
        story = self.story
        yield Part(
            story.start_ns, 0, "The client's SYN arrived; SYN-ACK sent." if story.passive else "SYN sent."
        )
        if story.established is None or story.first_window is None:
            return
        waited = length(story.established.ns - story.start_ns)
        answer, trigger = ("ACK", "arrival of the SYN") if story.passive else ("SYN-ACK", "first SYN")
        text = f"Established: the {answer} arrived {waited} after the {trigger}."
        if story.handshake_rtt_ns is not None and story.handshake_rto_ns is not None:
            text += (
                f" First RTT sample {length(story.handshake_rtt_ns)}, RTO {length(story.handshake_rto_ns)}."
            )
        window = story.first_window
        text += f" Initial window {counted(window.cwnd, 'segment')}"
        if self.tcp["syn_timeout_cuts_window"] and any(timeout.is_syn for timeout in story.timeouts):
            text += ", because a SYN was lost (RFC 3390)."
        elif self.tcp["cached_metrics"] and window.ssthresh is not None:
            threshold = _threshold(window)
            text += (
                f", ssthresh {threshold}, from the cached metrics of an earlier connection to this host "
                "(RFC 2140)."
            )
        else:
            text += f", ssthresh {_threshold(window)}."
        yield Part(story.established.ns, story.established.order, text)

    def _growth(self) -> Iterator[Part]:
        """One entry per stretch of slow start, congestion avoidance and idle time between two episodes."""
        breaks = {reduction.at.ns for reduction in self.story.reductions}
        stretch: list[Phase] = []
        for phase in self.story.phases:
            grows = phase.kind in (facts.SLOW_START, facts.AVOIDANCE, facts.IDLE)
            if stretch and (not grows or phase.start_ns in breaks):
                yield self._stretch(stretch, phase)
                stretch = []
            if grows:
                stretch.append(phase)
        if stretch:
            yield self._stretch(stretch, None)

    def _stretch(self, stretch: list[Phase], following: Phase | None) -> Part:
        start_ns, end_ns = stretch[0].start_ns, stretch[-1].end_ns
        growth = facts.merged([phase for phase in stretch if phase.kind != facts.IDLE])
        if not growth:
            return Part(start_ns, _LAST, f"Nothing to send and nothing in flight, until {clock(end_ns)}.")
        first, last = growth[0], growth[-1]
        ends = {
            None: "the end of the connection",
            facts.RECOVERY: "a fast recovery",
            facts.AFTER_TIMEOUT: "a timeout",
        }
        why = ends.get(following.kind if following else None, "an ECN echo")
        totals: Counter[str] = Counter()
        for phase in stretch:
            if phase.kind != facts.IDLE:
                totals[phase.kind] += phase.end_ns - phase.start_ns
        pauses = [phase.end_ns - phase.start_ns for phase in stretch if phase.kind == facts.IDLE]
        if len(growth) <= 2:
            parts = [
                f"{phase.kind}, cwnd {phase.cwnd_start} -> {phase.cwnd_end}, until {clock(phase.end_ns)}"
                for phase in growth
            ]
            text = "; then ".join(parts)
        else:
            shares = listed([f"{length(nanos)} {kind}" for kind, nanos in totals.items()])
            text = (
                f"{first.kind} and {facts.AVOIDANCE if first.kind == facts.SLOW_START else facts.SLOW_START} "
                f"alternate, as cwnd moves around ssthresh ({shares}), cwnd {first.cwnd_start} -> "
                f"{last.cwnd_end}, until {clock(last.end_ns)}"
            )
        text = f"{text[0].upper()}{text[1:]}; ended by {why}."
        return Part(start_ns, _LAST, text + tell_idle(pauses))

    # ---- Losses, marks, bad states ----

    def _burst(self, burst: Burst) -> Part:
        if burst.is_data:
            return tell_burst(burst, self.packets, "Loss", "packet", f": {self._contents(burst)}")
        acks = sorted({packet.ack for packet in burst.packets if packet.ack is not None})
        contents = f" (ACK {', '.join(map(str, acks[:4]))}{', ...' if len(acks) > 4 else ''})"
        return tell_burst(burst, self.packets, "ACK loss", "ACK", contents)

    def _contents(self, burst: Burst) -> str:
        again = [
            packet for packet in burst.packets for item in self._retransmissions() if item.packet is packet
        ]
        text = byte_ranges(burst.packets)
        control = [packet for packet in burst.packets if not packet.payload_bytes]
        if control:
            names = listed([_control_name(packet) for packet in control])
            text = names if len(control) == len(burst.packets) else f"{text} and {names}"
        if again:
            text += f"; {len(again)} of them {'a retransmission' if len(again) == 1 else 'retransmissions'}"
            if burst.cause == "red" and self.tcp["ecn"]:
                text += " and so not ECN-capable (RFC 3168, section 6.1.5)"
        return text

    def _retransmissions(self) -> Iterator[facts.Retransmission]:
        yield from self.story.stray
        yield from (probe.again for probe in self.story.probes if probe.again is not None)
        for episode in (*self.story.recoveries, *self.story.timeouts):
            yield from episode.retransmissions

    # ---- Recoveries and timeouts ----

    def _recovery(self, recovery: Recovery) -> Part:
        threshold = self.tcp["dupack_threshold"]
        text = f"Fast recovery: {counted(recovery.duplicates, 'duplicate ACK')} for byte {recovery.head}"
        text += f", {counted(recovery.sacked, 'segment')} SACKed" if self.tcp["sack"] else ""
        if recovery.duplicates >= threshold or recovery.sacked >= threshold:
            text += f" (threshold {threshold})"
        elif recovery.rto_ns is not None and recovery.head_age_ns > recovery.rto_ns:
            text += (
                "; the first unacknowledged segment counts as lost because it was sent "
                f"{length(recovery.head_age_ns)} ago, longer than the RTO of {length(recovery.rto_ns)}"
            )
        else:
            text += (
                f"; it counts as lost because SACK covers data {counted(recovery.reach, 'segment')} beyond it"
            )
        text += f". {change(recovery.before, recovery.after)}; recovery point {recovery.point}.\n"
        text += (
            self._sent_again(recovery) + self._undone(recovery) + self._episode_end(recovery, recovery.point)
        )
        return Part(recovery.start.ns, recovery.start.order, text)

    def _timeout(self, timeout: Timeout) -> Part:
        start = timeout.start
        text = f"Timeout{'' if timeout.backoff == 1 else f', expiry {timeout.backoff} in a row'}"
        text += " of the SYN" if timeout.is_syn else f": byte {timeout.head} unacknowledged"
        text += f"; the timer had run for {length(start.ns - timeout.timer_since_ns)}"
        if timeout.rto_ns is not None and timeout.backoff == 1:
            text += f" (RTO {length(timeout.rto_ns)} after the latest RTT sample)"
        text += f"; nothing was sent or received for {length(start.ns - timeout.waiting_since_ns)}."
        text += f"\n{self._verdict(timeout)}\n"
        if not timeout.is_syn:
            text += f"{self._response(timeout)} {change(timeout.before, timeout.after)}.\n"
            text += self._sent_again(timeout) + self._undone(timeout) + self._episode_end(timeout, None)
        return Part(start.ns, start.order, text, [start.ns])

    def _probe(self, probe: Probe) -> Part:
        waited = length(probe.start.ns - probe.waiting_since_ns)
        what = "the last segment is retransmitted" if probe.again else "new data is sent"
        text = (
            f"Tail loss probe (RFC 8985, section 7): nothing was sent or received for {waited}; {what} to "
            "elicit an ACK "
        )
        data = probe.packet.payload_bytes
        text += f"({byte_ranges([probe.packet]) if data else _control_name(probe.packet)}). "
        if probe.packet.dropped is not None:
            text += "The probe was lost."
        elif probe.again is None:
            text += "It arrived." if probe.packet.delivered else "It was in flight when the run ended."
        elif probe.again.unnecessary:
            text += "It was unnecessary, because an earlier copy arrived."
        else:
            text += "It was needed: no earlier copy arrived."
        return Part(probe.start.ns, probe.start.order, text)

    def _response(self, timeout: Timeout) -> str:
        detected = any(cause == "frto" for _, cause in timeout.undone)
        # After conventional recovery starts, the window is one segment, which is in flight.
        if self.tcp["frto"] != "off" and (detected or timeout.after.cwnd > 1 or timeout.after.in_flight > 1):
            text = "F-RTO: only the first unacknowledged segment is retransmitted; the next two ACKs decide."
            if not detected and timeout.ended_by == "recovered":
                text += " They did not both advance the window, so conventional recovery follows."
            return text
        return "Conventional recovery: everything unacknowledged counts as lost."

    def _verdict(self, timeout: Timeout) -> str:
        head = f"Verdict: {'spurious' if timeout.spurious else 'real'}: "
        if not timeout.copies:
            return f"{head}no copy of the segment had left the host."
        parts = [self._copy(packet, number, timeout.start) for number, packet in enumerate(timeout.copies)]
        text = head + "; ".join(parts) + "."
        for name, ack in zip(("Its ACK", "The next ACK that was not lost"), timeout.acks, strict=False):
            text += f" {name}, sent at {clock(ack.sent.ns)}, {fate(self.packets, ack, timeout.start)}."
        return text

    def _copy(self, packet: Packet, number: int, now: Moment) -> str:
        name = "the original" if number == 0 else f"copy {number + 1}"
        return f"{name}, sent at {clock(packet.sent.ns)}, {fate(self.packets, packet, now)}"

    def _sent_again(self, episode: Episode) -> str:
        again = episode.retransmissions
        if not again:
            return "Nothing was retransmitted.\n"
        packets = [item.packet for item in again]
        last = packets[-1].sent.ns
        span = f" until {clock(last)}" if last != episode.start.ns else ""
        text = f"Retransmitted{span}: {counted(len(again), 'segment')} ({byte_ranges(packets)}"
        kinds = Counter(item.kind for item in again)
        if "forward" in kinds:
            text += f"; {kinds['forward']} of them not yet considered lost, as the window had room"
        text += "); "
        lost = sum(packet.dropped is not None for packet in packets)
        if lost:
            text += "lost; " if len(again) == 1 else f"{lost} of them lost; "
        unneeded = [item for item in again if item.unnecessary]
        if not unneeded:
            return text + ("it was needed.\n" if len(again) == 1 else "all were needed.\n")
        share = (
            "unnecessary" if len(again) == 1 else "all unnecessary" if len(unneeded) == len(again) else None
        )
        if share is None:
            share = f"{len(unneeded)} of them unnecessary"
        return f"{text}{share}, because an earlier copy arrived.\n"

    def _undone(self, episode: Episode) -> str:
        text = ""
        if episode.dsacks:
            text += f"{counted(episode.dsacks, 'D-SACK block')} reported data that arrived twice.\n"
        for at, cause in episode.undone:
            text += f"Undone at {clock(at.ns)} by {_UNDO_CAUSES[cause]}."
            if isinstance(episode, Timeout) and not episode.spurious:
                text += " The timeout was real nevertheless."
            text += "\n"
        return text

    def _episode_end(self, episode: Episode, point: int | None) -> str:
        if episode.end is None:
            return "It lasted until the end of the run."
        window = episode.end_window
        state = f": cwnd {window.cwnd}, ssthresh {_threshold(window)}" if window else ""
        took = f"after {length(episode.end.ns - episode.start.ns)}"
        expired = "expired again" if isinstance(episode, Timeout) else "expired during it"
        ends = {
            "recovered": f"Ended at {clock(episode.end.ns)}, {took}, when "
            + (
                f"an ACK reached byte {point}{state}."
                if point
                else f"everything outstanding was acknowledged{state}."
            ),
            "undone": f"Sending of new data resumed {took}{state}.",
            "timeout": f"The timer {expired} at {clock(episode.end.ns)}, {took}.",
            "duplicates": f"Ended at {clock(episode.end.ns)}, {took}, when duplicate ACKs started a fast "
            "recovery.",
            "closed": f"Ended by the close of the connection at {clock(episode.end.ns)}.",
            "aborted": f"Ended at {clock(episode.end.ns)}, when the sender gave up the connection.",
        }
        return ends[episode.ended_by or "recovered"]

    def _reductions(self) -> Iterator[Part]:
        for reduction in self.story.reductions:
            text = (
                "ECN echo: the window is reduced, at most once per round trip (RFC 3168). "
                f"{change(reduction.before, reduction.after)}."
            )
            yield Part(reduction.at.ns, reduction.at.order, text)

    def _late_undos(self) -> Iterator[Part]:
        for undo in self.story.undos:
            text = f"Reduction undone later by {_UNDO_CAUSES[undo.cause]}. {change(undo.before, undo.after)}."
            yield Part(undo.at.ns, undo.at.order, text)

    # ---- End ----

    def _end(self) -> Iterator[Part]:
        story = self.story
        if story.fin is not None:
            yield Part(
                story.fin.sent.ns, story.fin.sent.order, f"FIN sent, sequence number {story.fin.end - 1}."
            )
        if story.fin_acknowledged is not None:
            text = "The ACK of the FIN arrived: the transfer is complete."
            yield Part(story.fin_acknowledged.ns, _LAST, text)
        elif story.record["outcome"] == "aborted":
            yield Part(story.end_ns, _LAST, "The sender gave up the connection.")
        else:
            yield Part(story.end_ns, _LAST, "The run ended here; the connection was still open.")

    def _summary(self) -> Iterator[str]:
        story, record = self.story, self.story.record
        elapsed_ns = story.end_ns - story.start_ns
        elapsed_s = elapsed_ns / 1e9
        yield tell_outcome(record, elapsed_ns)
        if elapsed_s > 0:
            shares = story.seconds_by_phase()
            parts = [f"{kind} {100 * s / elapsed_s:.1f} % ({s:.3f} s)" for kind, s in shares.items() if s > 0]
            yield f"Time: {', '.join(parts)}."
        yield (
            f"Sent: {counted(record['sent_packets'], 'segment')}, {record['sent_bytes']} bytes, including "
            f"{counted(record['retransmitted_packets'], 'retransmission')} ({story.retransmitted_bytes} "
            f"bytes), {record['unnecessary_retransmissions']} unnecessary ({story.unnecessary_bytes} bytes)."
        )
        probes = (
            f"{counted(record['tail_loss_probes'], 'tail loss probe')}, "
            if self.tcp["tail_loss_probe"]
            else ""
        )
        yield (
            f"Signs of loss: {record['fast_retransmits']} x fast recovery, "
            f"{counted(record['timeouts'], 'timeout')} ({record['spurious_timeouts']} spurious), {probes}"
            f"{counted(record['undone'], 'reduction')} undone, "
            f"{counted(record['duplicate_acks'], 'duplicate ACK')}, {counted(record['sack_blocks'], 'ACK')} "
            f"with SACK, {counted(story.dsacks, 'D-SACK block')}."
        )
        yield f"Lost: {self._losses('packet', is_data=True)}; {self._losses('ACK', is_data=False)}."

    def _losses(self, thing: str, *, is_data: bool) -> str:
        numbers: Counter[str] = Counter()
        for burst in self.story.bursts:
            if burst.is_data == is_data:
                column = "marks" if burst.cause == "ce" else DROP_CAUSES[burst.cause].count
                numbers[column] += len(burst.packets)
        marks = numbers.pop("marks", 0)
        causes = ", ".join(f"{numbers[name]} {label}" for name, label in DROP_COUNTS.items() if numbers[name])
        text = f"{counted(numbers.total(), thing)}" + (f" ({causes})" if causes else "")
        return text + (f", {marks} marked" if marks else "")


def fate(packets: Packets, packet: Packet, now: Moment) -> str:
    """Describe where a packet was at `now`, and its fate."""
    place = packets.place(packet, now)
    cause = DROP_CAUSES[packet.cause].words + packets.at_hop(packet.dropped_at) if packet.cause else ""
    if place is Place.LOST and packet.dropped:
        return f"had been lost at {clock(packet.dropped.ns)} ({cause})"
    if place is Place.ARRIVED and packet.delivered:
        return f"had arrived at {clock(packet.delivered.ns)}"
    crossing = packet.crossing(now)
    at_hop = packets.at_hop(crossing.place) if crossing and place is not Place.ACCESS else ""
    failed = crossing.failed_tries(now.order) if crossing else 0
    text = f"was {place.value}{at_hop}"
    text += f" after {tries(failed, 'failed ')}" if failed else ""
    if packet.delivered is not None:
        return f"{text} and arrived {length(packet.delivered.ns - now.ns)} later"
    if packet.dropped is not None:
        return f"{text} and was lost {length(packet.dropped.ns - now.ns)} later ({cause})"
    return f"{text} when the run ended"


def tell_outcome(record: Record, elapsed_ns: int) -> str:
    text = f"Summary: {record['outcome']} after {clock(elapsed_ns)} s"
    if record["throughput_Bps"] is not None:
        text += f", {rate(record['throughput_Bps'])} of application data"
    return f"{text}."


def tell_burst(burst: Burst, packets: Packets, what: str, thing: str, contents: str) -> Part:
    """Describe packets that were lost or marked; `thing` is the name of a lost one."""
    first, last = burst.times[0], burst.times[-1]
    number = counted(len(burst.packets), thing) + (
        f" until {clock(last.ns)}" if len(burst.packets) > 1 else ""
    )
    at_hop = packets.at_hop(burst.place)
    if burst.cause == "ce":
        text = f"ECN: the router{at_hop} marked {number} (congestion experienced)"
    else:
        text = f"{what}{at_hop}: {DROP_CAUSES[burst.cause].words}, {number}"
    whole = f"{text}{contents}. {_queue_then(burst, packets.queue_at_drop)}".rstrip()
    return Part(first.ns, first.order, whole, [at.ns for at in burst.times])


def _queue_then(burst: Burst, queued: Mapping[int, Queued]) -> str:
    """Describe the queue at the time of the drops or, for losses on the link, the tries before."""
    if burst.cause == "ce":
        return ""
    held = [queued[packet.serial] for packet in burst.packets]
    if DROP_CAUSES[burst.cause].on_link:
        failed = max(len(packet.crossings[-1].retries) for packet in burst.packets)
        return f"The link had tried up to {failed + 1} times." if failed else ""
    sizes = [queue.packets for queue in held]
    spread = str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    own = [queue.own for queue in held]
    mine = str(own[0]) if min(own) == max(own) else f"{min(own)} to {max(own)}"
    text = f"The queue then held {spread} packets, {mine} of this flow"
    averages = [queue.average for queue in held if queue.average is not None]
    if burst.cause == "red" and averages:
        text += f"; RED's average queue size was {max(averages):.2f}"
    return f"{text}."


def tell_bad_period(period: BadPeriod, start_ns: int) -> Part:
    """Describe a bad state of the link during a flow that began at `start_ns`."""
    text = f"{period.what} bad for {length(period.end_ns - period.start_ns)}, until {clock(period.end_ns)}: "
    text += (
        f"{tries(period.failed_tries)} to send packets of this flow failed, and ARQ repeated them"
        if period.failed_tries
        else "no packet of this flow had to be repeated by ARQ"
    )
    text += f"; {counted(period.lost, 'packet')} lost." if period.lost else "."
    return Part(max(period.start_ns, start_ns), -1, text)


def tell_idle(pauses_ns: Sequence[int]) -> str:
    """Return a sentence about the time with nothing to send and nothing in flight, to append to an entry."""
    if not pauses_ns:
        return ""
    pauses = "" if len(pauses_ns) == 1 else f", in {len(pauses_ns)} pauses"
    return f" There was nothing to send and nothing in flight for {length(sum(pauses_ns))}{pauses}."


def tell_link_change(change: LinkChange) -> Part:
    values = [("rate", change.rate), ("delay", change.delay)]
    changed = [f"{name} {value}" for name, value in values if value is not None]
    return Part(change.at_ns, -1, f"{change.what} changes to {listed(changed)}.")


def _threshold(window: Window) -> str:
    return "infinite" if window.ssthresh is None else str(window.ssthresh)


def change(before: Window, after: Window) -> str:
    """Describe how the window changed."""
    return (
        f"cwnd {before.cwnd} -> {after.cwnd}, ssthresh {_threshold(before)} -> {_threshold(after)}, "
        f"{before.in_flight} in flight before"
    )


def _control_name(packet: Packet) -> str:
    if packet.flags & SYN:
        return "the SYN"
    return "a FIN" if packet.end > packet.seq else "an ACK of the handshake or the close"
