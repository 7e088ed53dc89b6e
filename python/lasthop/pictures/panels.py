"""The tables of a trace turned into panels: series with their marks, ready for any drawing library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from lasthop.pictures import marks
from lasthop.pictures.marks import Mark
from lasthop.pictures.shapes import Layer, Panel, filled
from lasthop.pictures.tables import FlowOf, TraceTables
from lasthop.pictures.waterfall import waterfall_panels

KINDS = ("waterfall", "sequence", "cwnd", "rtt", "queue", "throughput")
_KILO = 1000.0
_NANO = 1e9
_NAMED_MAX = 12
"""So many flows of one application have a line each in the legend."""
_PANELS_OF_TCP = ("sequence", "cwnd", "rtt")


def _event(name: str) -> pl.Expr:
    return pl.col("event") == name


def _layer(mark: Mark, rows: pl.DataFrame, y: str, per: float = 1.0) -> Layer:
    return Layer(mark, rows["time_s"].to_list(), (rows[y] / per).to_list())


def _bars(mark: Mark, rows: pl.DataFrame) -> Layer:
    """Bars from `seq` to `end`, labelled as tcpdump does."""
    first, last = rows["seq"].to_list(), rows["end"].to_list()
    labels = [f"{a}:{b} ({b - a})" for a, b in zip(first, last, strict=True)]
    return Layer(
        mark, rows["time_s"].to_list(), [value / _KILO for value in first], [value / _KILO for value in last], labels
    )


def _sack_blocks(acks: pl.DataFrame) -> pl.DataFrame:
    blocks = [
        (time, *map(int, block.split("-")))
        for time, text in acks.select("time_s", "sack").iter_rows()
        for block in text.split()
    ]
    return pl.DataFrame(blocks, schema={"time_s": pl.Float64, "seq": pl.Int64, "end": pl.Int64}, orient="row")


def sequence_panel(tables: TraceTables, flow: FlowOf) -> Panel:
    """Sequence numbers over time, as tcptrace draws them; in kB of 1000 bytes.

    Segments and retransmissions stand at the time they were sent, from their first byte to their last; the lines of
    acknowledged bytes and of the advertised window, and SACK blocks, at the time the sender got to know.
    """
    packets = tables.packets.filter(pl.col("flow") == flow.number)
    outbound = packets.filter(pl.col("direction") == flow.direction)
    segments = outbound.filter(pl.col("end") > pl.col("seq"))
    acks = packets.filter(pl.col("direction") != flow.direction, _event("delivered"), pl.col("ack") > 0)
    sent = segments.filter(_event("sent"))
    new = sent.filter(pl.col("end") > pl.col("end").cum_max().shift(1, fill_value=0))
    allowed = acks.with_columns((pl.col("ack") + pl.col("window_bytes")).cum_max().alias("allowed"))
    layers = [
        _bars(marks.SEGMENT, new),
        _bars(marks.ARRIVED, segments.filter(_event("delivered"))),
        _layer(marks.ACKNOWLEDGED, acks.with_columns(pl.col("ack").cum_max()), "ack", _KILO),
        _layer(marks.ADVERTISED, allowed, "allowed", _KILO),
        _bars(marks.SACK, _sack_blocks(acks)),
    ]
    events = tables.sender_events(flow)
    for kind, mark in marks.RETRANSMISSIONS.items():
        # A run without any such event has a column of nulls.
        found = events.filter(_event(kind)).select("time_ns", pl.col("seq").cast(pl.Int64))
        again = found.join(sent, on=["time_ns", "seq"])
        layers.append(_bars(mark, again))
    for event, mark in marks.DROPS.items():
        layers.append(_bars(mark, outbound.filter(_event(event))))  # a lost ACK of the handshake as well
    layers.append(_layer(marks.TIMER, events.filter(_event("timeout")), "seq", _KILO))
    return Panel("sequence", "sequence number", "kB", filled(layers), flow.name)


def queue_panels(tables: TraceTables, direction: str) -> list[Panel]:
    """Length of the router queue of a direction in packets, RED's average, drops and marks.

    A router with classes has a line for each of them. An average over bytes has a panel of its own, in kB.
    """
    queues = tables.queues[direction]
    events = tables.packets.filter(pl.col("direction") == direction)
    if len(queues) > 1:
        # A drop names no class; its flow's other packets do.
        known = pl.col("queue_class").forward_fill().backward_fill().over("flow")
        events = events.with_columns(queue_class=known, queue_packets="queue_class_packets")
    layers, apart = [], []
    for number, queue in enumerate(queues):
        own = events.filter(pl.col("queue_class") == number) if len(queues) > 1 else events
        own = own.with_columns(
            pl.col("queue_packets").cast(pl.Float64).forward_fill().fill_null(0),
            pl.col("queue_average").cast(pl.Float64).fill_nan(None),
        )
        length, average = (
            mark.of_class(queue.name, number) if len(queues) > 1 else mark for mark in (marks.QUEUE, marks.RED_AVERAGE)
        )
        averages = own.drop_nulls("queue_average")
        if queue.red_in_bytes:
            apart.append(_layer(average, averages, "queue_average", _KILO))
        else:
            layers.append(_layer(average, averages, "queue_average"))
        layers += [_layer(length, _lengths(own), "queue_packets"), *_queue_events(own)]
    found = [Panel("queue", "router queue", "packets", filled(layers))]
    if apart:
        found.append(Panel("red-average", marks.RED_AVERAGE.name, "kB", filled(apart)))
    return found


def _lengths(events: pl.DataFrame) -> pl.DataFrame:
    lengths = events.filter(pl.col("event").is_in(["enqueued", "dequeued"]))
    return lengths.unique("time_s", keep="last", maintain_order=True)


def _queue_events(events: pl.DataFrame) -> list[Layer]:
    """Return the marks and drops of a queue, at its length."""
    layers = [_layer(marks.ECN_MARK, events.filter(_event("marked")), "queue_packets")]
    for event, mark in marks.DROPS.items():
        dropped = events.filter(_event(event))
        if event in marks.LINK_DROPS:  # on the axis: the queue is not to blame
            dropped = dropped.with_columns(queue_packets=pl.lit(0.0))
        layers.append(_layer(mark, dropped, "queue_packets"))
    return layers


def _shown_as(flows: Sequence[FlowOf]) -> dict[int, tuple[str, int]]:
    """Return the name and the number that each flow is shown by: many flows of one application by its name."""
    siblings: dict[str, list[FlowOf]] = {}
    for flow in flows:
        siblings.setdefault(flow.application, []).append(flow)
    shown: dict[int, tuple[str, int]] = {}
    for application, own in siblings.items():
        together = (f"{len(own)} flows of {application}", own[0].number)
        shown |= {flow.number: together if len(own) > _NAMED_MAX else (flow.name, flow.number) for flow in own}
    return shown


def cwnd_panel(tables: TraceTables, flows: Sequence[FlowOf]) -> Panel:
    """Congestion windows and slow-start thresholds, in segments; no line while a threshold is infinite."""
    layers, shown = [], _shown_as(flows)
    for flow in flows:
        events = tables.sender_events(flow)
        states = events.filter(_event("window"))
        layers += [
            _layer(marks.SSTHRESH.of(*shown[flow.number]), states, "ssthresh"),
            _layer(marks.CWND.of(*shown[flow.number]), states, "cwnd"),
        ]
        undone = events.with_columns(pl.col("cwnd").forward_fill()).filter(pl.col("event").is_in(marks.UNDOS))
        layers.append(_layer(marks.UNDONE, undone, "cwnd"))
    return Panel("cwnd", "window", "segments", filled(layers))


def rtt_panel(tables: TraceTables, flows: Sequence[FlowOf]) -> Panel:
    """Round-trip times as measured, the timeout computed from them, and expiries of the timer; in seconds.

    The timeout is the one after the last sample: exponential back-off shows in the spacing of expiries.
    """
    layers, shown = [], _shown_as(flows)
    for flow in flows:
        events = tables.sender_events(flow)
        samples = events.filter(_event("rtt-sample"))
        layers += [
            _layer(marks.RTO.of(*shown[flow.number]), samples, "rto_ns", _NANO),
            _layer(marks.RTT.of(*shown[flow.number]), samples, "rtt_ns", _NANO),
        ]
        expired = events.with_columns(pl.col("rto_ns").forward_fill()).filter(_event("timeout"))
        layers.append(_layer(marks.TIMER, expired.drop_nulls("rto_ns"), "rto_ns", _NANO))
    return Panel("rtt", "round-trip time", "s", filled(layers))


def new_bytes(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """For each range `[seq, end)` in turn, return how many of its bytes no earlier range had."""
    have: list[tuple[int, int]] = []  # disjoint, ascending
    fresh = []
    for seq, end in ranges:
        met = [(a, b) for a, b in have if a <= end and b >= seq]
        known = sum(max(0, min(b, end) - max(a, seq)) for a, b in met)
        fresh.append(end - seq - known)
        have = [r for r in have if r not in met]
        have.append((min([seq, *(a for a, _ in met)]), max([end, *(b for _, b in met)])))
        have.sort()
    return fresh


def sliding_rate(times: Sequence[float], sizes: Sequence[int], window: float) -> tuple[list[float], list[float]]:
    """Return steps of the rate, sizes per second: at every time the sum over the `window` seconds before it."""
    arrivals = [(time, size) for time, size in zip(times, sizes, strict=True) if size]
    changes = sorted([*arrivals, *((time + window, -size) for time, size in arrivals)])
    x: list[float] = []
    y: list[float] = []
    total = 0
    for time, change in changes:
        total += change
        if x and x[-1] == time:
            y[-1] = total / window
        else:
            x.append(time)
            y.append(total / window)
    return x, y


def rate_window_s(duration: float) -> float:
    """Return a round number of seconds, 1, 2 or 5 times a power of ten, of about a thirtieth of `duration`."""
    wanted = max(duration, 1e-3) / 30
    power = 10.0 ** math.floor(math.log10(wanted))
    return min((factor * power for factor in (1, 2, 5, 10)), key=lambda width: abs(math.log(width / wanted)))


def throughput_panel(tables: TraceTables, flows: Sequence[FlowOf], window: float) -> Panel:
    """Goodput: payload that reached the receiver for the first time, in kB/s over the `window` seconds before."""
    layers, shown = [], _shown_as(flows)
    for flow in flows:
        arrived = tables.packets.filter(
            pl.col("flow") == flow.number,
            pl.col("direction") == flow.direction,
            _event("delivered"),
            pl.col("payload_bytes") > 0,
        )
        if flow.protocol == "tcp":  # a FIN takes a sequence number, which is no payload
            payload = arrived.select("seq", (pl.col("seq") + pl.col("payload_bytes")).alias("after"))
            sizes = new_bytes(payload.iter_rows())
        else:
            sizes = arrived["payload_bytes"].to_list()
        x, rates = sliding_rate(arrived["time_s"].to_list(), sizes, window)
        layers.append(Layer(marks.GOODPUT.of(*shown[flow.number]), x, [rate / _KILO for rate in rates]))
    return Panel("throughput", f"goodput over {window:g} s", "kB/s", filled(layers))


def panels(tables: TraceTables, kinds: Sequence[str] = KINDS, flows: Sequence[FlowOf] | None = None) -> list[Panel]:
    """Return the panels of the given kinds for the given flows, all by default; none where there is nothing to show.

    A waterfall for each page that the flows load, a sequence panel for each TCP flow, a queue panel for each
    direction that carries data.
    """
    chosen = tables.flows if flows is None else flows
    tcp = [flow for flow in chosen if flow.protocol == "tcp"]
    found: list[Panel] = []
    for kind in kinds:
        if kind in _PANELS_OF_TCP and not tcp:
            continue
        if kind == "waterfall":
            numbers = [flow.number for flow in chosen]
            found += waterfall_panels(tables.objects.filter(pl.col("flow").is_in(numbers)))
        elif kind == "sequence":
            found += [sequence_panel(tables, flow) for flow in tcp]
        elif kind == "cwnd":
            found.append(cwnd_panel(tables, tcp))
        elif kind == "rtt":
            found.append(rtt_panel(tables, tcp))
        elif kind == "queue":
            directions = list(dict.fromkeys(flow.direction for flow in chosen))
            for direction in directions:
                subject = direction if len(directions) > 1 else ""
                found += [replace(panel, subject=subject) for panel in queue_panels(tables, direction)]
        else:
            found.append(throughput_panel(tables, chosen, rate_window_s(tables.end_s())))
    return found
