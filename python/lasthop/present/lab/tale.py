"""The story of a run as the page shows it: what `explain` tells of each flow, and packets in trouble."""

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
"""With more packets, the story covers a part of the run that has this many."""
MOST_FOLLOWED = 400_000
"""Following a packet takes some 20 microseconds and 3 kB: more would come near the limit of an answer."""
_MOST_LIVES = 2000
_FOREVER = 2**63


@dataclass(frozen=True, slots=True)
class Tale:
    """The stories of a whole run, and its packets that were dropped or timed out.

    Any part of it is told from here, not by itself: a sentence often depends on events long before or long
    after.
    """

    stories: Sequence[Story]
    lives: Sequence[tuple[int, Mapping[str, object]]]
    """Each packet with the time of its trouble, in nanoseconds."""
    sent_ns: Sequence[int]
    """When each packet was sent, in order."""
    end_ns: int

    @classmethod
    def of(cls, trace: Trace, facts: Facts) -> Tale:
        """Follow the packets of a trace, and tell what happened."""
        packets = follow(trace, facts)
        told = list(stories(trace, facts, packets=packets))
        flows = list(rows(trace.flows))
        lives = [
            _about("drop", packet.dropped.ns, packet, packets, flows)
            for packet in packets.by_serial.values()
            if packet.dropped is not None
        ]
        lives += _expired(trace, packets, flows)
        return cls(
            told, lives, array("q", (each.sent.ns for each in packets.by_serial.values())), packets.end.ns
        )

    def within(self, span_s: Sequence[float] | None) -> dict[str, object]:
        """Return what the page shows; for a long run, a part between these two times."""
        if len(self.sent_ns) <= MOST_PACKETS:
            return self._told(0, _FOREVER)
        end_s = self.end_ns / 1e9
        start, stop = (round(min(max(time, 0.0), end_s) * 1e9) for time in span_s or (0.0, end_s))
        after = bisect_left(self.sent_ns, start) + MOST_PACKETS
        is_cut = after < len(self.sent_ns) and self.sent_ns[after] < stop
        stop = self.sent_ns[after] if is_cut else stop
        # Events at the end of the run belong to the last part.
        told = self._told(start, _FOREVER if stop == self.end_ns else stop)
        return {**told, "part": {"start": start / 1e9, "stop": stop / 1e9, "end": end_s, "is_cut": is_cut}}

    def _told(self, start: int, stop: int) -> dict[str, object]:
        told = [
            {
                "of": story.of,
                "head": story.head,
                "entries": [_shown(entry) for entry in story.entries if start <= entry.ns < stop],
                **(
                    {"before": [_shown(entry) for entry in story.entries if entry.ns < start][-1:]}
                    if start
                    else {}
                ),
                "summary": list(story.summary),
            }
            for story in self.stories
        ]
        lives = [life for ns, life in self.lives if start <= ns < stop]
        return {"stories": told, "lives": lives[:_MOST_LIVES]}


def _shown(entry: Entry) -> list[object]:
    return [entry.ns / 1e9, entry.text, [ns / 1e9 for ns in entry.times]]


def check_length(packets: int) -> None:
    """Raise `InputError` if the story of this many packets would take too long."""
    if packets > MOST_FOLLOWED:
        raise InputError(
            f"The run has {packets:,} packets, and the lab tells stories of runs of up to {MOST_FOLLOWED:,}: "
            "shorten the flows, or use 'lasthop explain'."
        )


def _expired(
    trace: Trace, packets: Packets, flows: Sequence[Record]
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield for every timeout the life of the segment that it waited for, as it was last sent before."""
    tcp = trace.transport
    for event, flow, ns, seq in zip(tcp["event"], tcp["flow"], tcp["time_ns"], tcp["seq"], strict=True):
        if event != "timeout" or seq is None:
            continue
        held = [p for p in packets.of_flow(flow) if p.seq <= seq < p.end and p.sent.ns < ns]
        if held:
            yield _about("timeout", ns, held[-1], packets, flows)


def _about(
    what: str, ns: int, packet: Packet, packets: Packets, flows: Sequence[Record]
) -> tuple[int, dict[str, object]]:
    """Return when something happened to a packet, and what the page shows of that."""
    flow = flows[packet.flow]
    return ns, {"at": ns / 1e9, "flow": flow["flow"], "about": what, "life": _life(packet, packets, flow)}


def _stations(packet: Packet, packets: Packets) -> Iterator[tuple[Moment | None, str]]:
    """Yield what happened to a packet at the hops, and when."""
    for crossing in packet.crossings:
        at_hop = packets.at_hop(crossing.place)
        yield crossing.enqueued, f"entered the router queue{at_hop}"
        yield crossing.dequeued, f"left the queue{at_hop}"
        for retry in crossing.retries:
            yield retry, f"a try on the link{at_hop} failed"
    yield packet.marked, f"marked{packets.at_hop(packet.marked_at)}: congestion experienced"


def _life(packet: Packet, packets: Packets, flow: Record) -> dict[str, object]:
    """Return what a flow's packet is, and the stations of its life with their times in seconds."""
    what = (
        f"Bytes {packet.data_start}-{packet.data_end - 1}"
        if packet.payload_bytes
        else "A packet without data"
    )
    steps: list[tuple[Moment | None, str]] = [(packet.sent, "sent"), *_stations(packet, packets)]
    if packet.dropped is not None and packet.cause is not None:
        cause = DROP_CAUSES[packet.cause]
        held = packets.queue_at_drop[packet.serial]
        queue = (
            ""
            if cause.on_link
            else f"; the queue held {counted(held.packets, 'packet')}, {held.own} of this flow"
        )
        at_hop = packets.at_hop(packet.dropped_at)
        steps.append((packet.dropped, f"dropped{at_hop}: {cause.words}{queue}"))
    steps.append((packet.delivered, "arrived"))
    known = sorted((moment, text) for moment, text in steps if moment is not None)
    return {
        "what": f"{what}, {ends_of(flow, packet.direction)}",
        "steps": [[moment.ns / 1e9, clock(moment.ns), text] for moment, text in known],
    }
