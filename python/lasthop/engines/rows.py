"""The rows of a trace's tables; `recorder.rs` of lasthop-trace has the same columns."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypedDict, cast, final

from lasthop.engines.engine import Trace
from lasthop.engines.records import Columns

Record: TypeAlias = Mapping[str, Any]
"""A flow's record: its name, application, protocol and direction, and its metrics by name."""


@final
class PacketRow(TypedDict):
    order: int
    time_ns: int
    event: str
    flow: int
    direction: str
    place: int
    serial: int
    seq: int
    end: int
    ack: int | None
    payload_bytes: int
    ip_bytes: int
    flags: int
    ce: int
    sack: str
    window_bytes: int | None
    queue_packets: int | None
    queue_class: int | None
    queue_class_packets: int | None
    queue_average: float | None


@final
class TransportRow(TypedDict):
    """An event within a sender.

    Depending on the event, columns from `seq` on may be None, and `state` empty; the types are for events
    that have them.
    """

    order: int
    time_ns: int
    flow: int
    host: str
    event: str
    seq: int
    backoff: int
    cwnd: int
    ssthresh: int | None
    in_flight: int
    rtt_ns: int
    rto_ns: int | None
    state: str


@final
class ObjectRow(TypedDict):
    flow: int
    object: int
    bytes: int | None
    request_ns: int
    response_ns: int | None
    first_byte_ns: int | None
    last_byte_ns: int | None


def merged(
    packets: Iterable[PacketRow], transport: Iterable[TransportRow]
) -> Iterator[PacketRow | TransportRow]:
    """Iterate over the events of packets and of senders in order."""
    both: list[Iterable[PacketRow | TransportRow]] = [packets, transport]
    return heapq.merge(*both, key=lambda row: row["order"])


def packet_rows(trace: Trace) -> Iterator[PacketRow]:
    return cast("Iterator[PacketRow]", rows(trace.packets))


def transport_rows(transport: Columns) -> Iterator[TransportRow]:
    """Iterate over a trace's table `transport`, or a part of it."""
    return cast("Iterator[TransportRow]", rows(transport))


def object_rows(trace: Trace) -> Iterator[ObjectRow]:
    return cast("Iterator[ObjectRow]", rows(trace.objects))


def rows(table: Columns) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a table of an engine."""
    names = list(table)
    return (dict(zip(names, cells, strict=True)) for cells in zip(*table.values(), strict=True))
