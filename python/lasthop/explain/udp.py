"""The story of a flow of datagrams: what was lost in which runs, and how evenly the rest arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lasthop.explain.facts import BadPeriod, bad_periods
from lasthop.explain.packets import Packet, Packets
from lasthop.explain.words import Entry, Story, clock, count, length, listed, rate, tries
from lasthop.metrics.labels import DROP_CAUSES, DROP_COUNTS

_RUNS_SHOWN = 12
_ALWAYS_TOLD = ("drops_queue", "drops_red", "drops_error")


@dataclass(frozen=True, slots=True)
class LossRun:
    """Packets with consecutively numbered datagrams that were all lost: over UDP each packet is one."""

    packets: tuple[Packet, ...]

    @property
    def causes(self) -> Counter[str]:
        """How many were lost to each cause."""
        return Counter(packet.cause or "" for packet in self.packets)


@dataclass(frozen=True, slots=True)
class UdpFacts:
    """What became of the datagrams. Counts are those of the flow record, by its names."""

    record: Mapping[str, Any]
    direction: str
    handshake: Packet | None
    """The first packet of a connection, if there is one."""
    datagrams: tuple[Packet, ...]
    runs: tuple[LossRun, ...]
    bad_periods: tuple[BadPeriod, ...]
    counts: Counter[str]


def gather_udp(
    packets: Packets, record: Mapping[str, Any], flow: int, link_states: Mapping[str, Sequence[Any]]
) -> UdpFacts:
    """Collect the facts of flow number `flow`, which is of datagrams."""
    own = packets.of_flow(flow)
    # A connection of QUIC has packets without any, both ways.
    datagrams = [packet for packet in own if packet.payload_bytes and packet.direction == record["direction"]]
    counts: Counter[str] = Counter()
    runs: list[list[Packet]] = []
    lost_before = False
    for datagram in datagrams:
        counts["sent_packets"] += 1
        counts["sent_bytes"] += datagram.payload_bytes
        counts["received_packets"] += datagram.delivered is not None
        lost = datagram.cause is not None
        if datagram.cause is not None:
            counts[f"data_{DROP_CAUSES[datagram.cause].count}"] += 1
            if not lost_before:
                runs.append([])
            runs[-1].append(datagram)
        lost_before = lost
    start, end = own[0].sent.ns, packets.end.ns
    return UdpFacts(
        record,
        record["direction"],
        own[0] if record["protocol"] == "quic-datagram" else None,
        tuple(datagrams),
        tuple(LossRun(tuple(run)) for run in runs),
        tuple(bad_periods(link_states, datagrams, start, end)),
        counts,
    )


def tell_udp(story: UdpFacts, packets: Packets) -> Story:
    """Tell the story."""
    name = story.record["flow"]
    if not story.datagrams:
        return Story(name, f"{name}: no datagram was sent, because the handshake of its connection was not completed.")
    first, last = story.datagrams[0], story.datagrams[-1]
    ends = "server to client" if story.direction == "down" else "client to server"
    number = count(last.end, "datagram")
    size = first.payload_bytes // (first.end - first.seq)
    over = "UDP" if story.handshake is None else "QUIC (RFC 9221)"
    head = f"{name}: {over}, {ends}, {number} of {size} bytes, numbered from 0."
    if story.handshake is not None and len(story.datagrams) < last.end:
        head += f" They left in {count(len(story.datagrams), 'packet')}, as congestion control let them."
    entries = [Entry(first.sent.ns, f"Datagram {first.seq} sent.")]
    if story.handshake is not None:
        entries.insert(0, Entry(story.handshake.sent.ns, "The handshake of the connection began."))
    for run in story.runs[:_RUNS_SHOWN]:
        times = [packet.dropped.ns for packet in run.packets if packet.dropped is not None]
        entries.append(Entry(run.packets[0].sent.ns, _run(run, packets), times))
    if len(story.runs) > _RUNS_SHOWN:
        hidden = story.runs[_RUNS_SHOWN:]
        text = (
            f"{count(len(hidden), 'more run')} of losses follow, {sum(len(run.packets) for run in hidden)} datagrams."
        )
        entries.append(Entry(hidden[0].packets[0].sent.ns, text))
    for period in story.bad_periods:
        text = f"{period.what} bad for {length(period.end_ns - period.start_ns)}, until {clock(period.end_ns)}: "
        text += f"{tries(period.failed_tries)} to carry datagrams failed, {count(period.lost, 'datagram')} lost."
        entries.append(Entry(period.start_ns, text))
    entries.append(Entry(last.sent.ns, f"Datagram {last.end - 1} sent, the last."))
    return Story(name, head, sorted(entries, key=lambda entry: entry.ns), list(_summary(story)))


def _run(run: LossRun, packets: Packets) -> str:
    first, last = run.packets[0], run.packets[-1]
    end = last.end - 1
    numbers = f"datagram {first.seq}" if first.seq == end else f"datagrams {first.seq}-{end}"
    causes = listed([f"{number} {DROP_CAUSES[cause].words}" for cause, number in run.causes.items()])
    at_router = [p for p in run.packets if p.cause is not None and not DROP_CAUSES[p.cause].on_link]
    queued = [packets.queue_at_drop[p.serial].packets for p in at_router]
    held = f" The queue held {max(queued)} packets." if queued else ""
    return f"Loss of {numbers}: {causes}.{held}"


def _summary(story: UdpFacts) -> Iterator[str]:
    record, counts = story.record, story.counts
    what = "datagram" if story.handshake is None else "packet"
    lost = counts["sent_packets"] - counts["received_packets"]
    share = 100 * lost / counts["sent_packets"]
    causes = ", ".join(
        f"{counts[f'data_{name}']} {label}"
        for name, label in DROP_COUNTS.items()
        if counts[f"data_{name}"] or name in _ALWAYS_TOLD
    )
    yield (
        f"Summary: {record['outcome']}, {counts['received_packets']} of {count(counts['sent_packets'], what)} "
        f"arrived, {lost} did not ({share:.2f} %): {causes}."
    )
    lengths = Counter(len(run.packets) for run in story.runs)
    if lengths:
        parts = [f"{number} of {size}" for size, number in sorted(lengths.items())]
        yield f"Runs of losses by length: {', '.join(parts)}."
    if record["spacing_p50_ms"] is not None:
        spacing = ", ".join(
            f"{label} {record[f'spacing_{name}_ms']:.3f} ms"
            for label, name in (("median", "p50"), ("75 %", "p75"), ("90 %", "p90"), ("greatest", "max"))
        )
        yield f"Spacing of consecutive datagrams at the receiver: {spacing}."
    if record["throughput_Bps"] is not None:
        yield f"Throughput: {rate(record['throughput_Bps'])}, UDP headers included."
