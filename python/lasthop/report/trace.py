"""One replication, packet by packet: sequence numbers, queue and windows over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from lasthop import _core
from lasthop.report import style
from lasthop.report.style import Figure

_KILO = 1000.0
_NANO = 1e9
_ROW_HEIGHTS = {"sequence": 300, "queue": 170, "window": 170}
_GAP_PX = 34
_RETRANSMISSIONS = {
    "retransmitted-fast": ("fast retransmission", "#c8553d", "triangle-up"),
    "retransmitted-timeout": ("retransmission after timeout", "#d99a1e", "diamond"),
    "retransmitted-forward": ("forward retransmission", "#3a7d44", "square"),
}
_DROPS = {
    "dropped-queue": ("dropped: queue full", "#111418"),
    "dropped-red": ("dropped: RED", "#a4161a"),
    "dropped-error": ("dropped: link error", "#7b2cbf"),
    "dropped-arq": ("dropped: ARQ gave up", "#7b2cbf"),
}
_BEHIND_THE_QUEUE = ("dropped-error", "dropped-arq")
_UNDONE = ("undone-timestamps", "undone-dsack", "undone-frto")
Values = Iterable[float | None]


@dataclass(frozen=True, slots=True)
class TraceTables:
    """The tables of a trace as data frames."""

    packets: pl.DataFrame
    tcp: pl.DataFrame
    flows: pl.DataFrame
    link_states: pl.DataFrame

    @classmethod
    def of(cls, trace: _core.Trace) -> TraceTables:
        """Convert what the engine returns."""
        packets, tcp = (
            pl.DataFrame(dict(table), strict=False, infer_schema_length=None).with_columns(
                (pl.col("time_ns") / _NANO).alias("time_s")
            )
            for table in (trace.packets, trace.tcp)
        )
        return cls(packets, tcp, pl.DataFrame(dict(trace.flows), strict=False), pl.DataFrame(dict(trace.link_states)))

    def end_s(self) -> float:
        """Time of the last packet event, seconds."""
        return float(self.packets["time_s"].max() or 0.0)  # type: ignore[arg-type]


class _Canvas:
    """Collects traces; names each kind once in the legend."""

    def __init__(self) -> None:
        self.data: list[Figure] = []
        self._named: set[str] = set()

    def add(self, row: int, name: str, x: Values, y: Values, **settings: object) -> None:
        self.data.append(
            {
                "type": "scatter",
                "name": name,
                "legendgroup": name,
                "showlegend": name not in self._named,
                "x": style.rounded(x, 3),
                "y": style.rounded(y, 3),
                "yaxis": "y" if row == 0 else f"y{row + 1}",
                **settings,
            }
        )
        self._named.add(name)


def _marker(color: str, symbol: str, size: float) -> dict[str, Any]:
    return {"mode": "markers", "marker": {"color": color, "symbol": symbol, "size": size}}


def _sack_lines(acks: pl.DataFrame) -> tuple[list[float | None], list[float | None]]:
    x: list[float | None] = []
    y: list[float | None] = []
    for time, blocks in acks.select("time_s", "sack").iter_rows():
        for block in blocks.split():
            start, _, end = block.partition("-")
            x += [time, time, None]
            y += [int(start) / _KILO, int(end) / _KILO, None]
    return x, y


def _sequence(canvas: _Canvas, row: int, tables: TraceTables, flow: int, data: str) -> None:
    packets = tables.packets.filter(pl.col("flow") == flow)
    segments = packets.filter(pl.col("direction") == data, pl.col("payload_bytes") > 0)
    acks = packets.filter(pl.col("direction") != data, pl.col("event") == "delivered", pl.col("ack") > 0)
    sent = segments.filter(pl.col("event") == "sent")
    first = sent.filter(pl.col("end") > pl.col("end").cum_max().shift(1, fill_value=0))
    arrived = segments.filter(pl.col("event") == "delivered")
    line: dict[str, Any] = {"mode": "lines", "line": {"color": style.MUTED, "width": 1.3, "shape": "hv"}}
    canvas.add(row, "acknowledged", acks["time_s"], acks["ack"] / _KILO, **line)
    canvas.add(row, "segment sent", first["time_s"], first["seq"] / _KILO, **_marker(style.MEASURED, "square", 3.5))
    late: dict[str, Any] = _marker("#9fc2d9", "circle", 3) | {"visible": "legendonly"}
    canvas.add(row, "segment arrived", arrived["time_s"], arrived["seq"] / _KILO, **late)
    sack: dict[str, Any] = {"mode": "lines", "line": {"color": "#e3a587", "width": 1.6}, "hoverinfo": "skip"}
    canvas.add(row, "SACK block", *_sack_lines(acks), **sack)
    mine = tables.tcp.filter(pl.col("flow") == flow)
    for kind, (name, color, symbol) in _RETRANSMISSIONS.items():
        again = mine.filter(pl.col("event") == kind)
        if again.height:
            canvas.add(row, name, again["time_s"], again["seq"] / _KILO, **_marker(color, symbol, 6))
    expired = mine.filter(pl.col("event") == "timeout")
    if expired.height:
        canvas.add(
            row, "timer expired", expired["time_s"], expired["seq"] / _KILO, **_marker("#5b3a00", "circle-open", 11)
        )
    for event, (name, color) in _DROPS.items():
        dropped = segments.filter(pl.col("event") == event)
        if dropped.height:
            canvas.add(row, name, dropped["time_s"], dropped["seq"] / _KILO, **_marker(color, "x-thin-open", 8))


def _queue(canvas: _Canvas, row: int, tables: TraceTables, data: str) -> None:
    events = tables.packets.filter(pl.col("direction") == data).with_columns(pl.col("queue_packets").forward_fill())
    depth = events.filter(pl.col("event").is_in(["enqueued", "dequeued"]))
    settled = depth.unique("time_s", keep="last", maintain_order=True)
    line = {"mode": "lines", "line": {"color": style.MEASURED, "width": 1.2, "shape": "hv"}}
    canvas.add(row, "packets in the router queue", settled["time_s"], settled["queue_packets"], **line)
    _classes(canvas, row, depth)
    for event, (name, color) in _DROPS.items():
        dropped = events.filter(pl.col("event") == event)
        if dropped.height:
            # Link errors strike behind the queue: they stand on its axis.
            heights = [0.0] * dropped.height if event in _BEHIND_THE_QUEUE else dropped["queue_packets"].fill_null(0)
            canvas.add(row, name, dropped["time_s"], heights, **_marker(color, "x-thin-open", 8))
    marked = events.filter(pl.col("event") == "marked")
    if marked.height:
        marks = marked["queue_packets"].fill_null(0)
        canvas.add(row, "ECN mark", marked["time_s"], marks, **_marker("#a4161a", "circle-open", 7))


def _classes(canvas: _Canvas, row: int, depth: pl.DataFrame) -> None:
    classes = depth.partition_by("queue_class", maintain_order=True)
    for of_class in sorted(classes, key=lambda one: one.item(0, "queue_class")):
        label = f" of class {of_class.item(0, 'queue_class')}" if len(classes) > 1 else ""
        settled = of_class.unique("time_s", keep="last", maintain_order=True)
        if label:
            line = {"mode": "lines", "line": {"width": 1, "shape": "hv"}}
            canvas.add(row, f"packets{label}", settled["time_s"], settled["queue_class_packets"], **line)
        average = settled.with_columns(pl.col("queue_average").cast(pl.Float64).fill_nan(None))
        average = average.drop_nulls("queue_average")
        if average.height:
            line = {"mode": "lines", "line": {"color": "#c8553d", "width": 1.8}}
            canvas.add(row, f"RED's average queue{label}", average["time_s"], average["queue_average"], **line)


def _windows(canvas: _Canvas, row: int, tables: TraceTables, flows: Sequence[tuple[int, str, str]]) -> None:
    for number, (flow, name, host) in enumerate(flows):
        mine = tables.tcp.filter(pl.col("flow") == flow, pl.col("host") == host)
        states = mine.filter(pl.col("event") == "window")
        color = style.SERIES[number % len(style.SERIES)]
        line = {"mode": "lines", "line": {"color": color, "width": 1.4, "shape": "hv"}}
        canvas.add(row, f"cwnd of {name}", states["time_s"], states["cwnd"], **line)
        line = {"mode": "lines", "line": {"color": color, "width": 1.2, "shape": "hv", "dash": "dot"}}
        canvas.add(row, f"ssthresh of {name}", states["time_s"], states["ssthresh"], **line)
        undone = mine.with_columns(pl.col("cwnd").forward_fill()).filter(pl.col("event").is_in(_UNDONE))
        if undone.height:
            canvas.add(row, "reduction undone", undone["time_s"], undone["cwnd"], **_marker("#3a7d44", "star", 9))


def _bad_periods(tables: TraceTables, end: float) -> list[dict[str, Any]]:
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": round(start, 3),
            "x1": round(min(stop, end), 3),
            "y0": 0,
            "y1": 1,
            "fillcolor": style.BAD_PERIOD,
            "line": {"width": 0},
            "layer": "below",
        }
        for start, stop in tables.link_states.select("start_s", "end_s").iter_rows()
        if start < end
    ]


def _data_direction(packets: pl.DataFrame, flow: int) -> str:
    sent = packets.filter(pl.col("flow") == flow, pl.col("event") == "sent")
    totals = sent.group_by("direction").agg(pl.col("payload_bytes").sum()).sort("payload_bytes", "direction")
    return str(totals["direction"][-1]) if totals.height else "down"


def trace_figure(trace: _core.Trace) -> Figure:
    """Draw a recorded replication: a row per TCP flow, the router queue, the windows; bad link periods shaded.

    Sequence numbers in kB (1000 bytes) of payload, windows in segments, queue in packets, time in seconds.
    """
    tables = TraceTables.of(trace)
    names = [str(name) for name in tables.flows["flow"]]
    protocols = [str(protocol) for protocol in tables.flows["protocol"]]
    directions = {i: _data_direction(tables.packets, i) for i in range(len(names))}
    tcp = [i for i, protocol in enumerate(protocols) if protocol == "tcp"]
    canvas = _Canvas()
    titles = []
    for row, flow in enumerate(tcp):
        _sequence(canvas, row, tables, flow, directions[flow])
        titles.append((f"{names[flow]}<br>sequence (kB)", "sequence"))
    _queue(canvas, len(tcp), tables, directions.get(0, "down"))
    titles.append(("router queue<br>(packets)", "queue"))
    if tcp:
        senders = [(f, names[f], "server" if directions[f] == "down" else "client") for f in tcp]
        _windows(canvas, len(tcp) + 1, tables, senders)
        titles.append(("window<br>(segments)", "window"))
    end = tables.end_s()
    shapes = _bad_periods(tables, end)
    if shapes:
        settings = _marker("rgba(190,60,60,0.35)", "square", 11)
        canvas.add(0, "bad link period", [None], [None], **settings)
    return {"data": canvas.data, "layout": _stacked_layout(titles, end, shapes)}


def _stacked_layout(titles: Sequence[tuple[str, str]], end: float, shapes: list[dict[str, Any]]) -> dict[str, Any]:
    heights = [_ROW_HEIGHTS[kind] for _, kind in titles]
    total = sum(heights) + _GAP_PX * (len(heights) - 1)
    axes: Figure = {}
    top = float(total)
    for row, ((title, _), height) in enumerate(zip(titles, heights, strict=True)):
        domain = [max(0.0, round((top - height) / total, 4)), round(top / total, 4)]
        name = "yaxis" if row == 0 else f"yaxis{row + 1}"
        axes[name] = style.axis(title, domain=domain, anchor="x" if row == len(heights) - 1 else "free", position=0)
        axes[name]["rangemode"] = "tozero"
        top -= height + _GAP_PX
    last = "y" if len(heights) == 1 else f"y{len(heights)}"
    axes["xaxis"] = style.axis("time since the start of the run (s)", anchor=last, range=[0, round(end * 1.01, 2)])
    margin = {"l": 76, "r": 16, "t": 90, "b": 48}
    legend = {"orientation": "h", "x": 0, "y": 1 + 14 / total, "yanchor": "bottom", "font": {"size": 12}}
    return style.layout(total + 138, shapes=shapes, margin=margin, legend=legend, hovermode="closest", **axes)
