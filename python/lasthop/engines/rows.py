"""The rows of a trace's tables; `recorder.rs` of lasthop-trace has the same columns."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypedDict, cast, final

from lasthop.engines.engine import Trace
from lasthop.engines.records import Columns

Record: TypeAlias = Mapping[str, Any]
"""A flow's record: its name, application, protocol and direction, and its metrics by their names."""


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

    An event has only some of the columns from `seq` on; the others hold None, `state` an empty text. The
    types are those of the events that have a column.
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
    """Go through events of packets and of senders in the order of the run."""
    both: list[Iterable[PacketRow | TransportRow]] = [packets, transport]
    return heapq.merge(*both, key=lambda row: row["order"])


def packet_rows(trace: Trace) -> Iterator[PacketRow]:
    return cast("Iterator[PacketRow]", rows(trace.packets))


def transport_rows(transport: Columns) -> Iterator[TransportRow]:
    """Go through a trace's table `transport`, or a part of it."""
    return cast("Iterator[TransportRow]", rows(transport))


def object_rows(trace: Trace) -> Iterator[ObjectRow]:
    return cast("Iterator[ObjectRow]", rows(trace.objects))


def rows(table: Columns) -> Iterator[dict[str, Any]]:
    """Go through a table of the engine row by row."""
    names = list(table)
    return (dict(zip(names, cells, strict=True)) for cells in zip(*table.values(), strict=True))
