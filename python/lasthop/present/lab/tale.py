"""The story of a run for the page: the output of `explain` for each flow, and packets with problems."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lasthop.analysis.explain import follow, stories
from lasthop.analysis.explain.packets import Moment, Packet, Packets
from lasthop.analysis.explain.words import Entry, Story, clock, ends_of
from lasthop.common.errors import InputError
from lasthop.common.metrics.labels import DROP_CAUSES
from lasthop.common.metrics.units import counted
from lasthop.engines.engine import Trace
from lasthop.engines.rows import Record, rows
from lasthop.scenario.facts import Facts

MOST_PACKETS = 60_000
"""In longer runs, the story covers a part with this many packets."""
MOST_PACKETS_OF_STORY = 400_000
"""The longest run with a story. A packet takes about 20 microseconds and 3 kB; an answer has limits."""
_MOST_LIVES = 2000
_FOREVER = 2**63


@dataclass(frozen=True, slots=True)
class Tale:
    """The stories of a whole run, and its packets that were dropped or timed out.

    Parts are extracted from the whole story, because a sentence may depend on events much earlier or later.
    """

    stories: Sequence[Story]
    lives: Sequence[tuple[int, Mapping[str, object]]]
    """Packets with the times of their drops or timeouts, in nanoseconds."""
    sent_ns: Sequence[int]
    """When each packet was sent, in order."""
    end_ns: int

    @classmethod
    def of(cls, trace: Trace, facts: Facts) -> Tale:
        """Follow the packets of a trace, and describe their lives."""
        packets = follow(trace, facts)
        all_stories = list(stories(trace, facts, packets=packets))
        flows = list(rows(trace.flows))
        lives = [
            _about("drop", packet.dropped.ns, packet, packets, flows)
            for packet in packets.by_serial.values()
            if packet.dropped is not None
        ]
        lives += _expired(trace, packets, flows)
        return cls(
            all_stories,
            lives,
            array("q", (packet.sent.ns for packet in packets.by_serial.values())),
            packets.end.ns,
        )

    def within(self, span_s: Sequence[float] | None) -> dict[str, object]:
        """Return the data for the page; for a long run, a part between these two times."""
        if len(self.sent_ns) <= MOST_PACKETS:
            return self._part(0, _FOREVER)
        end_s = self.end_ns / 1e9
        start, stop = (round(min(max(time, 0.0), end_s) * 1e9) for time in span_s or (0.0, end_s))
        after = bisect_left(self.sent_ns, start) + MOST_PACKETS
        is_cut = after < len(self.sent_ns) and self.sent_ns[after] < stop
        stop = self.sent_ns[after] if is_cut else stop
        # Events at the end of the run belong to the last part.
        part = self._part(start, _FOREVER if stop == self.end_ns else stop)
        return {**part, "part": {"start": start / 1e9, "stop": stop / 1e9, "end": end_s, "is_cut": is_cut}}

    def _part(self, start: int, stop: int) -> dict[str, object]:
        parts = [
            {
                "of": story.of,
                "head": story.head,
                "entries": [_entry(entry) for entry in story.entries if start <= entry.ns < stop],
                **(
                    {"before": [_entry(entry) for entry in story.entries if entry.ns < start][-1:]}
                    if start
                    else {}
                ),
                "summary": list(story.summary),
            }
            for story in self.stories
        ]
        lives = [life for ns, life in self.lives if start <= ns < stop]
        return {"stories": parts, "lives": lives[:_MOST_LIVES]}


def _entry(entry: Entry) -> list[object]:
    return [entry.ns / 1e9, entry.text, [ns / 1e9 for ns in entry.times]]


def check_length(packets: int) -> None:
    """Raise `InputError` if the story of this many packets would take too long."""
    if packets > MOST_PACKETS_OF_STORY:
        raise InputError(
            f"The run has {packets:,} packets; the lab has stories for runs of up to "
            f"{MOST_PACKETS_OF_STORY:,}. Shorten the flows, or use 'lasthop explain'."
        )


def _expired(
    trace: Trace, packets: Packets, flows: Sequence[Record]
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield for every timeout the life of the last copy of the unacknowledged segment."""
    tcp = trace.transport
    for event, flow, ns, seq in zip(tcp["event"], tcp["flow"], tcp["time_ns"], tcp["seq"], strict=True):
        if event != "timeout" or seq is None:
            continue
        copies = [p for p in packets.of_flow(flow) if p.seq <= seq < p.end and p.sent.ns < ns]
        if copies:
            yield _about("timeout", ns, copies[-1], packets, flows)


def _about(
    what: str, ns: int, packet: Packet, packets: Packets, flows: Sequence[Record]
) -> tuple[int, dict[str, object]]:
    """Return the time of an event of a packet, and the data about it for the page."""
    flow = flows[packet.flow]
    return ns, {"at": ns / 1e9, "flow": flow["flow"], "about": what, "life": _life(packet, packets, flow)}


def _stations(packet: Packet, packets: Packets) -> Iterator[tuple[Moment | None, str]]:
    """Yield the events of a packet at the hops, with their times."""
    for crossing in packet.crossings:
        at_hop = packets.at_hop(crossing.place)
        yield crossing.enqueued, f"entered the router queue{at_hop}"
        yield crossing.dequeued, f"left the queue{at_hop}"
        for retry in crossing.retries:
            yield retry, f"a try on the link{at_hop} failed"
    yield packet.marked, f"marked{packets.at_hop(packet.marked_at)}: congestion experienced"


def _life(packet: Packet, packets: Packets, flow: Record) -> dict[str, object]:
    """Return the description of a packet, and the events of its life with their times in seconds."""
    what = (
        f"Bytes {packet.data_start}-{packet.data_end - 1}"
        if packet.payload_bytes
        else "A packet without data"
    )
    steps: list[tuple[Moment | None, str]] = [(packet.sent, "sent"), *_stations(packet, packets)]
    if packet.dropped is not None and packet.cause is not None:
        cause = DROP_CAUSES[packet.cause]
        queued = packets.queue_at_drop[packet.serial]
        queue = (
            ""
            if cause.on_link
            else f"; the queue held {counted(queued.packets, 'packet')}, {queued.own} of this flow"
        )
        at_hop = packets.at_hop(packet.dropped_at)
        steps.append((packet.dropped, f"dropped{at_hop}: {cause.words}{queue}"))
    steps.append((packet.delivered, "arrived"))
    steps_in_order = sorted((moment, text) for moment, text in steps if moment is not None)
    return {
        "what": f"{what}, {ends_of(flow, packet.direction)}",
        "steps": [[moment.ns / 1e9, clock(moment.ns), text] for moment, text in steps_in_order],
    }
