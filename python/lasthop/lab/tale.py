"""The story of a run as the page shows it: what `explain` tells of each flow, and the lives of packets in trouble."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lasthop.engines.engine import Trace
from lasthop.errors import InputError
from lasthop.explain import followed, stories
from lasthop.explain.packets import Packet, Packets
from lasthop.explain.words import clock, count
from lasthop.metrics.labels import DROP_CAUSES

MOST_PACKETS = 60_000
"""A story takes some twenty times as long as its run: that of more packets would keep the reader waiting."""
_MOST_LIVES = 2000


def tale(trace: Trace, scenario: str) -> dict[str, Any]:
    """Return the stories of a trace, and the packets that were dropped or timed out."""
    resolved = json.loads(scenario)
    packets = followed(trace, resolved)
    told = [
        {
            "of": story.of,
            "head": story.head,
            "entries": [[entry.ns / 1e9, entry.text, [ns / 1e9 for ns in entry.times]] for entry in story.entries],
            "summary": list(story.summary),
        }
        for story in stories(trace, resolved, packets=packets)
    ]
    names = [str(name) for name in trace.flows["flow"]]
    lives = [
        {"at": packet.dropped.ns / 1e9, "flow": names[packet.flow], "about": "drop", "life": _life(packet, packets)}
        for packet in packets.by_serial.values()
        if packet.dropped is not None
    ]
    lives += list(_expired(trace, packets, names))
    return {"stories": told, "lives": lives[:_MOST_LIVES]}


def check_length(packets: int) -> None:
    """Raise `InputError` if the story of so many packets would be too long."""
    if packets > MOST_PACKETS:
        raise InputError(
            f"The run has {packets:,} packets, and the lab tells stories of up to {MOST_PACKETS:,}: shorten the flows, "
            "or use 'lasthop explain'."
        )


def _expired(trace: Trace, packets: Packets, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield, of every timeout, the life of the segment that was waited for, as it was sent last before."""
    tcp = trace.tcp
    copies: dict[int, list[Packet]] = {}
    for packet in packets.by_serial.values():
        copies.setdefault(packet.flow, []).append(packet)
    for event, flow, ns, seq in zip(tcp["event"], tcp["flow"], tcp["time_ns"], tcp["seq"], strict=True):
        if event != "timeout" or seq is None:
            continue
        held = [p for p in copies.get(flow, ()) if p.seq <= seq < p.end and p.sent.ns < ns]
        if held:
            yield {"at": ns / 1e9, "flow": names[flow], "about": "timeout", "life": _life(held[-1], packets)}


def _life(packet: Packet, packets: Packets) -> dict[str, Any]:
    """Return what the packet is, and the stations of its life with their times in seconds."""
    what = f"Bytes {packet.data_start}-{packet.data_end - 1}" if packet.payload_bytes else "A packet without data"
    ways = "server to client" if packet.direction == "down" else "client to server"
    steps = [(packet.sent, "sent"), (packet.enqueued, "entered the router queue"), (packet.dequeued, "left the queue")]
    steps += [(packet.marked, "marked: congestion experienced")]
    steps += [(retry, "a try on the link failed") for retry in packet.retries]
    if packet.dropped is not None and packet.cause is not None:
        cause = DROP_CAUSES[packet.cause]
        held = packets.queue_at_drop[packet.serial]
        queue = "" if cause.on_link else f"; the queue held {count(held.packets, 'packet')}, {held.own} of this flow"
        steps.append((packet.dropped, f"dropped: {cause.words}{queue}"))
    steps.append((packet.delivered, "arrived"))
    known = sorted((moment, text) for moment, text in steps if moment is not None)
    return {
        "what": f"{what}, {ways}",
        "steps": [[moment.ns / 1e9, clock(moment.ns), text] for moment, text in known],
    }
