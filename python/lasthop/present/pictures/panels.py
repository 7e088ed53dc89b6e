"""The panels of a trace: series with their marks, for any drawing library."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.common.metrics.units import scale
from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.ladder import LADDER, ladder_panels
from lasthop.present.pictures.marks import Look, Mark
from lasthop.present.pictures.shapes import Layer, Panel, filled, scaled
from lasthop.present.pictures.sizes import SIZES, size_panels
from lasthop.present.pictures.stack_view import loss_panel, trip_panel, window_panel
from lasthop.present.pictures.trace_tables import FlowOf, TraceTables
from lasthop.present.pictures.waterfall import waterfall_panels

if TYPE_CHECKING:
    from lasthop.stacks.view import View

_NANO = 1e9


def _event(name: str) -> pl.Expr:
    return pl.col("event") == name


def _layer(mark: Mark, rows: pl.DataFrame, y: str, per: float = 1.0, flow: str = "") -> Layer:
    return Layer(mark, rows["time_s"].to_list(), (rows[y] / per).to_list(), flow=flow)


def _bars(mark: Mark, rows: pl.DataFrame) -> Layer:
    """Return bars from `seq` to `end`, labelled as in tcpdump."""
    first, last = rows["seq"].to_list(), rows["end"].to_list()
    labels = (
        rows.select(pl.format("{}:{} ({})", "seq", "end", pl.col("end") - pl.col("seq")))
        .to_series()
        .to_list()
    )
    return Layer(mark, rows["time_s"].to_list(), first, last, labels)


def _sack_blocks(acks: pl.DataFrame) -> pl.DataFrame:
    blocks = [
        (time, *map(int, block.split("-")))
        for time, text in acks.select("time_s", "sack").iter_rows()
        for block in text.split()
    ]
    return pl.DataFrame(blocks, schema={"time_s": pl.Float64, "seq": pl.Int64, "end": pl.Int64}, orient="row")


def sequence_panel(tables: TraceTables, flow: FlowOf, look: Look) -> Panel:
    """Return sequence numbers over time, drawn as by tcptrace.

    Segments and retransmissions are at the time of sending, from their first byte to their last. The lines of
    acknowledged bytes and of the advertised window, and SACK blocks, are at the time when the sender gets
    them.
    """
    packets = tables.packets_of(flow)
    outbound = packets.filter(pl.col("direction") == flow.direction)
    segments = outbound.filter(pl.col("end") > pl.col("seq"))
    acks = packets.filter(pl.col("direction") != flow.direction, _event("delivered"), pl.col("ack") > 0)
    sent = segments.filter(_event("sent"))
    new = sent.filter(pl.col("end") > pl.col("end").cum_max().shift(1, fill_value=0))
    allowed = acks.with_columns((pl.col("ack") + pl.col("window_bytes")).cum_max().alias("allowed"))
    layers = [
        _bars(marks.SEGMENT.tinted(look), new),
        _bars(marks.ARRIVED, segments.filter(_event("delivered"))),
        _layer(marks.ACKNOWLEDGED, acks.with_columns(pl.col("ack").cum_max()), "ack"),
        _layer(marks.ADVERTISED, allowed.drop_nulls("allowed"), "allowed"),
        _bars(marks.SACK, _sack_blocks(acks)),
    ]
    events = tables.sender_events(flow)
    happened = set(events["event"].unique())
    for kind, mark in marks.RETRANSMISSIONS.items():
        if kind not in happened:
            continue
        # Without such events the column has only nulls.
        retransmitted = events.filter(_event(kind)).select("time_ns", pl.col("seq").cast(pl.Int64))
        again = retransmitted.join(sent, on=["time_ns", "seq"])
        layers.append(_bars(mark, again))
    probes = events.filter(_event("tail-loss-probe")).select("time_ns", pl.col("seq").cast(pl.Int64))
    layers.append(_bars(marks.NEW_PROBE, probes.join(new, on=["time_ns", "seq"])))
    for event, mark in _drops_in(outbound):
        layers.append(_bars(mark, outbound.filter(_event(event))))  # also a lost ACK of the handshake
    layers.append(_layer(marks.TIMER.tinted(look), events.filter(_event("timeout")), "seq"))
    return scaled(Panel("sequence", "sequence number", "B", filled(layers), flow.name, of_flows=True))


def _drops_in(packets: pl.DataFrame) -> list[tuple[str, Mark]]:
    happened = set(packets["event"].unique())
    return [(event, mark) for event, mark in marks.DROPS.items() if event in happened]


def queue_panels(tables: TraceTables, place: int, cast: Cast) -> list[Panel]:
    """Return the router queue of a place in packets, with RED's average, drops and marks.

    A router with classes has a line for each class, in the flow's colour if the class has a single flow. An
    average in bytes has a separate panel.
    """
    queues = tables.facts.sides[place]["queues"]
    events = tables.packets.filter(pl.col("place") == place)
    if len(queues) > 1:
        # A drop has no class, but other packets of its flow have one.
        queue_class = pl.col("queue_class").forward_fill().backward_fill().over("flow")
        events = events.with_columns(queue_class=queue_class, queue_packets="queue_class_packets")
    layers, in_bytes = [], []
    for number, queue in enumerate(queues):
        own = events.filter(pl.col("queue_class") == number) if len(queues) > 1 else events
        own = own.with_columns(
            pl.col("queue_packets").cast(pl.Float64).forward_fill().fill_null(0),
            pl.col("queue_average").cast(pl.Float64).fill_nan(None),
        )
        length, average = marks.QUEUE, marks.RED_AVERAGE
        if len(queues) > 1:
            look = _look_of_class(queue["name"], number, own["flow"].unique(), cast)
            length, average = length.of(look), average.of(look)
        averages = own.drop_nulls("queue_average")
        if queue["red_in_bytes"]:
            in_bytes.append(_layer(average, averages, "queue_average"))
        else:
            layers.append(_layer(average, averages, "queue_average"))
        layers += [_layer(length, _lengths(own), "queue_packets"), *_queue_events(own)]
    panels_ = [Panel("queue", "router queue", "packets", filled(layers))]
    if in_bytes:
        panels_.append(Panel("red-average", marks.RED_AVERAGE.name, "B", filled(in_bytes)))
    return panels_


def _look_of_class(name: str, number: int, flows: pl.Series, cast: Cast) -> Look:
    only = cast.looks.get(flows[0]) if len(flows) == 1 else None
    color = only.color if only else marks.CLASS_COLORS[number % len(marks.CLASS_COLORS)]
    return Look(f"class {name}", color)


def _lengths(events: pl.DataFrame) -> pl.DataFrame:
    lengths = events.filter(pl.col("event").is_in(["enqueued", "dequeued"]))
    return lengths.unique("time_s", keep="last", maintain_order=True)


def _queue_events(events: pl.DataFrame) -> list[Layer]:
    """Return the marks and drops of a queue, at its length."""
    layers = [_layer(marks.ECN_MARK, events.filter(_event("marked")), "queue_packets")]
    for event, mark in _drops_in(events):
        dropped = events.filter(_event(event))
        if event in marks.LINK_DROPS:  # drawn at 0, because the queue is not the cause
            dropped = dropped.with_columns(queue_packets=pl.lit(0.0))
        layers.append(_layer(mark, dropped, "queue_packets"))
    return layers


def _transfers(cast: Cast) -> list[FlowOf]:
    return [flow for flow in cast.flows if flow.protocol in TRANSFER_PROTOCOLS]


def _windows(tables: TraceTables, cast: Cast) -> Iterator[Panel]:
    """Yield congestion windows and slow-start thresholds, in segments; grey flows have no threshold."""
    layers = []
    for flow, look in cast.painted(transfers := _transfers(cast)):
        events = tables.sender_events(flow)
        states = events.filter(_event("window"))
        if look is not cast.others:
            layers.append(_layer(marks.SSTHRESH.of(look), states, "ssthresh", flow=flow.name))
        layers.append(_layer(marks.CWND.of(look), states, "cwnd", flow=flow.name))
        undone = events.with_columns(pl.col("cwnd").forward_fill()).filter(pl.col("event").is_in(marks.UNDOS))
        layers.append(_layer(marks.UNDONE.tinted(look), undone, "cwnd", flow=flow.name))
    if transfers:
        yield Panel("cwnd", "window", "segments", filled(layers), of_flows=True)
    yield from _of_views(window_panel, tables, cast)


def _round_trips(tables: TraceTables, cast: Cast) -> Iterator[Panel]:
    """Yield measured round-trip times, the RTO computed from them, and expiries of the timer.

    The RTO does not include exponential backoff, which is visible in the distance of expiries. Grey flows
    have no RTO.
    """
    layers = []
    for flow, look in cast.painted(transfers := _transfers(cast)):
        events = tables.sender_events(flow)
        samples = events.filter(_event("rtt-sample"))
        if look is not cast.others:
            layers.append(
                _layer(marks.RTO.of(look), samples.drop_nulls("rto_ns"), "rto_ns", _NANO, flow.name)
            )
        layers.append(_layer(marks.RTT.of(look), samples, "rtt_ns", _NANO, flow.name))
        expired = events.with_columns(pl.col("rto_ns").forward_fill()).filter(_event("timeout"))
        layers.append(
            _layer(marks.TIMER.tinted(look), expired.drop_nulls("rto_ns"), "rto_ns", _NANO, flow.name)
        )
    if transfers:
        yield Panel("rtt", "round-trip time", "s", filled(layers), of_flows=True)
    yield from _of_views(trip_panel, tables, cast)


def _of_views(panel_of: Callable[[View], Panel], tables: TraceTables, cast: Cast) -> Iterator[Panel]:
    """Yield a panel for each flow with the log of its stack, named if there are several flows."""
    for flow in cast.viewed:
        panel = panel_of(tables.views[flow.name])
        if panel.layers:
            yield replace(panel, subject=flow.name if len(tables.flows) > 1 else "")


def sliding_rate(arrivals: Iterable[tuple[float, int]], window: float) -> tuple[list[float], list[float]]:
    """Return steps of the rate, size per second: at every time the mean over the last `window` seconds."""
    some = [(time, size) for time, size in arrivals if size]
    changes = sorted([*some, *((time + window, -size) for time, size in some)])
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
    """Return about a thirtieth of `duration`, as 1, 2 or 5 times a power of ten."""
    wanted = max(duration, 1e-3) / 30
    power = 10.0 ** math.floor(math.log10(wanted))
    return min((factor * power for factor in (1, 2, 5, 10)), key=lambda width: abs(math.log(width / wanted)))


def goodput_panel(tables: TraceTables, cast: Cast, window: float) -> Panel:
    """Return the goodput: payload that reached the receiver for the first time, over a sliding window.

    Flows without a colour are summed, unless the cast shows them one by one.
    """
    together = replace(cast.others, name=f"{cast.others.name} together")
    arrivals: dict[tuple[Look, str], list[tuple[float, int]]] = {}
    for flow, look in cast.painted(cast.flows):
        own = (together, "") if look is cast.others and not cast.one_by_one else (look, flow.name)
        arrived = tables.packets_of(flow).filter(pl.col("fresh_bytes") > 0)
        arrivals.setdefault(own, []).extend(arrived.select("time_s", "fresh_bytes").iter_rows())
    layers = []
    for (look, name), sizes in arrivals.items():
        x, y = sliding_rate(sizes, window)
        layers.append(Layer(marks.GOODPUT.of(look), x, y, flow=name))
    return Panel("goodput", f"goodput over {window:g} s", "B/s", filled(layers), of_flows=True)


def _goodput(tables: TraceTables, cast: Cast) -> Iterator[Panel]:
    yield goodput_panel(tables, cast, rate_window_s(tables.end_s()))


def _of_hop(tables: TraceTables, direction: str) -> pl.DataFrame:
    return tables.series.filter(pl.col("flow") == "", pl.col("direction") == direction)


def _stack(tables: TraceTables, cast: Cast, direction: str) -> Panel:
    """Return the stacked goodput of the flows of a direction, and the capacity of the link.

    Of several hops, the link is that of the bottleneck, and the flows are those that cross it. Flows without
    a colour are summed in one band, unless the cast shows them one by one, so the top is the total goodput.
    """
    hop = _of_hop(tables, direction)
    times = hop["time_s"].to_list()
    bottleneck = tables.facts.bottlenecks[direction]
    beside = [flow.name for flow in tables.flows if bottleneck not in flow.route]
    own = tables.series.filter(
        pl.col("flow") != "", pl.col("direction") == direction, pl.col("flow").is_in(beside).not_()
    )
    names = {flow.name: look for flow in cast.flows if (look := cast.looks.get(flow.number))}
    others = [name for name in own["flow"].unique(maintain_order=True) if name not in names]
    bands = [(look, [name]) for name, look in names.items()]
    if cast.one_by_one:
        bands += [(cast.others, [name]) for name in others]
    elif others:
        name = "1 other flow" if len(others) == 1 else f"{len(others)} other flows together"
        bands.append((Look(name, marks.OTHERS_COLOR), others))
    layers: list[Layer] = []
    low = [0.0] * len(times)
    for look, members in bands:
        rates = own.filter(pl.col("flow").is_in(members)).group_by("time_s").agg(pl.col("goodput_Bps").sum())
        if rates.is_empty():
            continue
        added = hop.select("time_s").join(rates, on="time_s", how="left", maintain_order="left")
        high = [a + (b or 0.0) for a, b in zip(low, added["goodput_Bps"], strict=True)]
        flow = members[0] if len(members) == 1 else ""
        layers.append(_to_end(Layer(marks.STACKED.of(look), times, low, high, flow=flow), tables))
        low = high
    layers.append(_to_end(_layer(marks.CAPACITY, hop, "capacity_Bps"), tables))
    return scaled(
        Panel("stack", f"goodput over {_step(tables)}", "B/s", filled(layers), of_flows=True, is_whole=True)
    )


def _fairness(tables: TraceTables, _: Cast, direction: str) -> Panel:
    """Return Jain's index of the goodput of flows with data to send, in each step with several of them."""
    hop = _of_hop(tables, direction).with_columns(
        pl.when(pl.col("sending_flows") > 1).then("fairness_jain").alias("fairness_jain")
    )
    layer = _to_end(_layer(marks.FAIRNESS, hop, "fairness_jain"), tables)
    return Panel("fairness", "Jain's index", "", filled([layer]), top=1.05, is_whole=True)


def _step(tables: TraceTables) -> str:
    seconds = tables.series["step_s"][0]
    by = scale("s", [seconds])
    return f"{seconds * by.factor:g} {by.unit}"


def _to_end(layer: Layer, tables: TraceTables) -> Layer:
    """Extend the last step to the length of the others."""
    end = layer.x[-1] + tables.series["step_s"][0]
    far = None if layer.far is None else [*layer.far, layer.far[-1]]
    return replace(layer, x=[*layer.x, end], y=[*layer.y, layer.y[-1]], far=far)


def _delays(tables: TraceTables, cast: Cast) -> Iterator[Panel]:
    """Yield distribution functions of the one-way delays of each flow's data.

    If flows were chosen by name, the other flows of the run are grey.
    """
    if tables.delays.is_empty():
        return
    by = scale("s", [tables.delays["delay_s"].max()])  # type: ignore[list-item]
    layers = []
    beside = [flow for flow in tables.flows if flow not in cast.flows]
    name = "1 other flow" if len(beside) == 1 else f"{len(beside)} other flows"
    painted = [(flow, Look(name, marks.OTHERS_COLOR)) for flow in beside] + cast.painted(cast.flows)
    for flow, look in painted:
        own = tables.delays.filter(pl.col("flow") == flow.number).with_columns(pl.col("delay_s") * by.factor)
        layers.append(Layer(marks.DELAY.of(look), own["delay_s"].to_list(), own["share"].to_list()))
    panel = Panel("delay", "share of packets", "", filled(layers), of_flows=True, is_whole=True)
    yield replace(panel, across=f"one-way delay ({by.unit})", top=1.02)


def _waterfalls(tables: TraceTables, cast: Cast) -> list[Panel]:
    numbers = [flow.number for flow in cast.flows]
    chosen = pl.col("flow").is_in(numbers) & pl.col("page").is_in(cast.pages)
    return waterfall_panels(tables.objects.filter(chosen))


def _sequences(tables: TraceTables, cast: Cast) -> Iterator[Panel]:
    yield from (sequence_panel(tables, flow, look) for flow, look in cast.painted(cast.apart))
    yield from _of_views(loss_panel, tables, cast)


def _queues(tables: TraceTables, cast: Cast) -> list[Panel]:
    is_named = len(cast.places) > 1 or len(tables.facts.hops) > 1
    return [
        replace(panel, subject=tables.facts.title(place) if is_named else "")
        for place in cast.places
        for panel in queue_panels(tables, place, cast)
    ]


def _of_bottlenecks(
    panel_of: Callable[[TraceTables, Cast, str], Panel], tables: TraceTables, cast: Cast
) -> Iterator[Panel]:
    """Yield a panel for each direction in which data cross the bottleneck, named if there are several."""
    bottlenecks = tables.facts.bottlenecks
    directions = dict.fromkeys(
        flow.direction for flow in cast.flows if bottlenecks[flow.direction] in flow.route
    )
    is_named = len(directions) > 1 or len(tables.facts.hops) > 1
    for way in directions:
        panel = panel_of(tables, cast, way)
        if panel.layers:
            yield replace(panel, subject=tables.facts.title(bottlenecks[way]) if is_named else "")


_PANELS: dict[str, Callable[[TraceTables, Cast], Iterable[Panel]]] = {
    "waterfall": _waterfalls,
    "sequence": _sequences,
    "cwnd": _windows,
    "rtt": _round_trips,
    "queue": _queues,
    "goodput": _goodput,
    "stack": partial(_of_bottlenecks, _stack),
    "fairness": partial(_of_bottlenecks, _fairness),
    "delay": _delays,
    LADDER: ladder_panels,
    SIZES: size_panels,
}

KINDS = tuple(_PANELS)
"""Kinds of pictures of a run, in the order from top to bottom."""
_ON_REQUEST = ("stack", "fairness", "delay", LADDER, SIZES)
USUAL_KINDS = tuple(kind for kind in KINDS if kind not in _ON_REQUEST)
OF_EVERY_PACKET = (LADDER, SIZES)
"""Kinds that need every event in the chosen part of the run, not only an overview. Each is drawn alone."""


def panels(tables: TraceTables, kinds: Sequence[str] = USUAL_KINDS, cast: Cast | None = None) -> list[Panel]:
    """Return the panels of these kinds, if they have contents, by default with all flows.

    There is a waterfall for each page load and a sequence panel for each TCP flow, as far as `cast` selects
    them, and a queue panel for each direction of a hop that carries data.
    """
    cast = cast or Cast.of(tables)
    return [scaled(panel) for kind in kinds for panel in unscaled_panels(tables, kind, cast)]


def unscaled_panels(tables: TraceTables, kind: str, cast: Cast) -> Iterable[Panel]:
    """Return the panels of a kind, in units that are equal in all runs if several runs may share them."""
    return _PANELS[kind](tables, cast)
