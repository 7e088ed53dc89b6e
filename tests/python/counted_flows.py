"""A flow's counts, made again from its trace by the definitions of the records, which they check."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from lasthop.analysis.explain.facts import TcpFacts, bursts_of, table_of
from lasthop.analysis.explain.packets import ACK, RST, SYN, Packets
from lasthop.common.metrics.labels import DROP_CAUSES, EVENTS
from lasthop.engines.records import Columns

_COUNTED = {
    "timeout": "timeouts",
    "recovery-entered": "fast_retransmits",
    "tail-loss-probe": "tail_loss_probes",
}


def datagram_counts(packets: Packets, flow: int, direction: str) -> Counter[str]:
    """Count what became of the packets with data in one direction."""
    counts: Counter[str] = Counter()
    for packet in packets.of_flow(flow):
        if packet.payload_bytes and packet.direction == direction:
            counts["sent_packets"] += 1
            counts["sent_bytes"] += packet.payload_bytes
            counts["received_packets"] += packet.delivered is not None
    for burst in bursts_of(packets.of_flow(flow), direction):
        column = "marks_ecn" if burst.cause == "ce" else DROP_CAUSES[burst.cause].count
        counts[f"{'data' if burst.is_data else 'ack'}_{column}"] += len(burst.packets)
    return counts


def tcp_counts(packets: Packets, tcp: Columns, flow: int, facts: TcpFacts) -> Counter[str]:
    """Count what its sender sent again, heard and did."""
    counts = datagram_counts(packets, flow, facts.direction)
    episodes = (*facts.recoveries, *facts.timeouts)
    again = [*facts.stray, *chain.from_iterable(episode.retransmissions for episode in episodes)]
    again += [probe.again for probe in facts.probes if probe.again is not None]
    counts["unnecessary_retransmissions"] = sum(item.unnecessary for item in again)
    counts["spurious_timeouts"] = sum(timeout.spurious for timeout in facts.timeouts)
    data_end = 0
    for packet in packets.of_flow(flow):
        if packet.payload_bytes and packet.direction == facts.direction:
            counts["retransmitted_packets"] += packet.data_start < data_end
            data_end = max(data_end, packet.data_end)
    host = "server" if facts.direction == "down" else "client"
    for row in table_of(tcp, flow):
        if row["host"] == host:
            counts[_COUNTED.get(row["event"], "")] += 1
            counts["undone"] += EVENTS[row["event"]].role == "undo"
    _count_acks(packets, flow, facts.direction, counts)
    return counts


def _count_acks(packets: Packets, flow: int, direction: str, counts: Counter[str]) -> None:
    heard = [
        (packet.delivered, packet)
        for packet in packets.of_flow(flow)
        if packet.direction != direction and packet.delivered is not None and packet.flags & ACK
    ]
    highest, repeats = -1, 0
    for _, packet in sorted(heard, key=lambda item: item[0]):
        counts["sack_blocks"] += bool(packet.sack)
        counts["sack_blocks_total"] += len(packet.sack)
        ack = packet.ack or 0
        if ack > highest:
            highest, repeats = ack, 0
        elif ack == highest:
            repeats = 0 if packet.payload_bytes or packet.flags & (SYN | RST) else repeats + 1
            counts["duplicate_acks"] += repeats > 0
            counts["triple_duplicate_acks"] += repeats == 3
