"""The tables of a trace turned into panels: series with their marks, ready for any drawing library."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from lasthop import _core
from lasthop.pictures import marks
from lasthop.pictures.marks import Mark, Shape

KINDS = ("sequence", "cwnd", "rtt", "queue", "throughput")
_KILO = 1000.0
_NANO = 1e9
_PANELS_OF_TCP = ("sequence", "cwnd", "rtt")
Value = float | None


@dataclass(frozen=True, slots=True)
class Layer:
    """Values that share a mark. Times in seconds, `y` in the panel's unit, `far` is the other end of a bar or span."""

    mark: Mark
    x: Sequence[float]
    y: Sequence[Value]
    far: Sequence[float] | None = None
    labels: Sequence[str] | None = None

    def within(self, start: float, stop: float) -> Layer:
        """Return what lies between two times; a line of steps enters and leaves at its height."""
        inside = [i for i, x in enumerate(self.x) if start <= x <= stop]
        x, y = [self.x[i] for i in inside], [self.y[i] for i in inside]
        if self.mark.shape is Shape.STEPS:
            before = sum(1 for time in self.x if time < start)
            if before and (not x or x[0] > start):
                x, y = [start, *x], [self.y[before - 1], *y]
            if x and self.x[-1] > stop:
                x, y = [*x, stop], [*y, y[-1]]
        far = None if self.far is None else [self.far[i] for i in inside]
        return Layer(self.mark, x, y, far, None if self.labels is None else [self.labels[i] for i in inside])


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. `subject` tells panels of one kind apart; `rows` names the heights 0, 1, ... of spans."""

    kind: str
    quantity: str
    unit: str
    layers: list[Layer]
    subject: str = ""
    rows: Sequence[str] = ()

    @property
    def label(self) -> str:
        """What its vertical axis shows, in which unit."""
        return f"{self.subject} {self.quantity} ({self.unit})".strip() if self.unit else self.subject

    def within(self, start: float, stop: float) -> Panel:
        """Return the panel between two times."""
        return replace(self, layers=_filled(layer.within(start, stop) for layer in self.layers))


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels over one axis of time, from `start` to `stop` in seconds, with the bad periods of the link."""

    panels: list[Panel]
    start: float
    stop: float
    bad_periods: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class FlowOf:
    """A flow of the trace: its number, its name, and the direction of its data (`down` or `up`)."""

    number: int
    name: str
    protocol: str
    direction: str

    @property
    def sender(self) -> str:
        """The host that sends the data."""
        return "server" if self.direction == "down" else "client"


@dataclass(frozen=True, slots=True)
class TraceTables:
    """The tables of a trace as data frames, with times in seconds beside the nanoseconds."""

    packets: pl.DataFrame
    tcp: pl.DataFrame
    flows: list[FlowOf]
    bad_periods: list[tuple[float, float]]
    red_in_bytes: frozenset[str]  # directions

    @classmethod
    def of(cls, trace: _core.Trace, scenario: str) -> TraceTables:
        """Convert what the engine returns; the cell's resolved `scenario` says what RED's averages count."""
        packets, tcp = (
            pl.DataFrame(dict(table), strict=False, infer_schema_length=None).with_columns(
                (pl.col("time_ns") / _NANO).alias("time_s")
            )
            for table in (trace.packets, trace.tcp)
        )
        named = zip(trace.flows["flow"], trace.flows["protocol"], strict=True)
        flows = [
            FlowOf(number, str(name), str(protocol), _data_direction(packets, number))
            for number, (name, protocol) in enumerate(named)
        ]
        states = zip(trace.link_states["start_s"], trace.link_states["end_s"], strict=True)
        return cls(packets, tcp, flows, list(states), _red_in_bytes(scenario))

    def end_s(self) -> float:
        """Time of the last packet event, seconds."""
        return float(self.packets["time_s"].max() or 0.0)  # type: ignore[arg-type]

    def picture(self, panels: Sequence[Panel], start: float = 0.0, stop: float | None = None) -> Picture:
        """Return what panels show between two times, with the bad periods; all of the run by default."""
        end = self.end_s() if stop is None else stop
        bad = [(max(a, start), min(b, end)) for a, b in self.bad_periods if a < end and b > start]
        return Picture([panel.within(start, end) for panel in panels], start, end, bad)

    def sender_events(self, flow: FlowOf) -> pl.DataFrame:
        """Return what happened in the TCP of the flow's data sender."""
        return self.tcp.filter(pl.col("flow") == flow.number, pl.col("host") == flow.sender)


def _red_in_bytes(scenario: str) -> frozenset[str]:
    sides = json.loads(scenario)
    reds = {side: sides.get(side, {}).get("queue", {}).get("red") or {} for side in ("down", "up")}
    return frozenset(side for side, red in reds.items() if str(red.get("min", "")).endswith("B"))


def _data_direction(packets: pl.DataFrame, flow: int) -> str:
    sent = packets.filter(pl.col("flow") == flow, pl.col("event") == "sent")
    totals = sent.group_by("direction").agg(pl.col("payload_bytes").sum()).sort("payload_bytes", "direction")
    return str(totals["direction"][-1]) if totals.height else "down"


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
    return Panel("sequence", "sequence number", "kB", _filled(layers), flow.name)


def queue_panels(tables: TraceTables, direction: str) -> list[Panel]:
    """Length of the router queue of a direction in packets, RED's average, drops and marks.

    An average over bytes has a panel of its own, in kB.
    """
    events = tables.packets.filter(pl.col("direction") == direction).with_columns(
        pl.col("queue_packets").cast(pl.Float64).forward_fill().fill_null(0),
        pl.col("queue_average").cast(pl.Float64).fill_nan(None),
    )
    depth = events.filter(pl.col("event").is_in(["enqueued", "dequeued"]))
    depth = depth.unique("time_s", keep="last", maintain_order=True)
    averages = depth.drop_nulls("queue_average")
    layers = [_layer(marks.QUEUE, depth, "queue_packets")]
    apart = []
    if direction in tables.red_in_bytes:
        average = _filled([_layer(marks.RED_AVERAGE, averages, "queue_average", _KILO)])
        apart.append(Panel("red-average", marks.RED_AVERAGE.name, "kB", average))
    else:
        layers.append(_layer(marks.RED_AVERAGE, averages, "queue_average"))
    layers.append(_layer(marks.ECN_MARK, events.filter(_event("marked")), "queue_packets"))
    for event, mark in marks.DROPS.items():
        dropped = events.filter(_event(event))
        if event in marks.LINK_DROPS:  # on the axis: the queue is not to blame
            dropped = dropped.with_columns(queue_packets=pl.lit(0.0))
        layers.append(_layer(mark, dropped, "queue_packets"))
    return [Panel("queue", "router queue", "packets", _filled(layers)), *apart]


def cwnd_panel(tables: TraceTables, flows: Sequence[FlowOf]) -> Panel:
    """Congestion windows and slow-start thresholds, in segments; no line while a threshold is infinite."""
    layers = []
    for flow in flows:
        events = tables.sender_events(flow)
        states = events.filter(_event("window"))
        layers += [
            _layer(marks.SSTHRESH.of(flow.name, flow.number), states, "ssthresh"),
            _layer(marks.CWND.of(flow.name, flow.number), states, "cwnd"),
        ]
        undone = events.with_columns(pl.col("cwnd").forward_fill()).filter(pl.col("event").is_in(marks.UNDOS))
        layers.append(_layer(marks.UNDONE, undone, "cwnd"))
    return Panel("cwnd", "window", "segments", _filled(layers))


def rtt_panel(tables: TraceTables, flows: Sequence[FlowOf]) -> Panel:
    """Round-trip times as measured, the timeout computed from them, and expiries of the timer; in seconds.

    The timeout is the one after the last sample: exponential back-off shows in the spacing of expiries.
    """
    layers = []
    for flow in flows:
        events = tables.sender_events(flow)
        samples = events.filter(_event("rtt-sample"))
        layers += [
            _layer(marks.RTO.of(flow.name, flow.number), samples, "rto_ns", _NANO),
            _layer(marks.RTT.of(flow.name, flow.number), samples, "rtt_ns", _NANO),
        ]
        expired = events.with_columns(pl.col("rto_ns").forward_fill()).filter(_event("timeout"))
        layers.append(_layer(marks.TIMER, expired.drop_nulls("rto_ns"), "rto_ns", _NANO))
    return Panel("rtt", "round-trip time", "s", _filled(layers))


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
    layers = []
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
        layers.append(Layer(marks.GOODPUT.of(flow.name, flow.number), x, [rate / _KILO for rate in rates]))
    return Panel("throughput", f"goodput over {window:g} s", "kB/s", _filled(layers))


def _filled(layers: Iterable[Layer]) -> list[Layer]:
    return [layer for layer in layers if any(y is not None for y in layer.y)]


def panels(tables: TraceTables, kinds: Sequence[str] = KINDS, flows: Sequence[FlowOf] | None = None) -> list[Panel]:
    """Return the panels of the given kinds for the given flows, all by default; none where there is nothing to show.

    A sequence panel for each TCP flow, a queue panel for each direction that carries data.
    """
    chosen = tables.flows if flows is None else flows
    tcp = [flow for flow in chosen if flow.protocol == "tcp"]
    found: list[Panel] = []
    for kind in kinds:
        if kind in _PANELS_OF_TCP and not tcp:
            continue
        if kind == "sequence":
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
