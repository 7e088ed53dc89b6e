"""The tables of a trace as data frames, for pictures."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from lasthop import _core
from lasthop.campaign.results.columns import as_frame, gathered_frame
from lasthop.engines.engine import Trace, views_of
from lasthop.present.pictures.shapes import BadPeriod, Panel, Picture, clipped
from lasthop.scenario.facts import Facts

if TYPE_CHECKING:
    from lasthop.stacks.view import View

_NANO = 1e9
_FIN = 1  # TCP's flag


@dataclass(frozen=True, slots=True)
class FlowOf:
    """A flow of the trace; `direction` is that of its data (`down` or `up`).

    `application` is the page load of a connection, or the flow itself. `route` are the places that its data
    cross, in order, and `crossed` those that any of its packets cross. `ends` are its peer and its host.
    """

    number: int
    name: str
    application: str
    protocol: str
    direction: str
    route: tuple[int, ...] = ()
    crossed: frozenset[int] = frozenset()
    ends: tuple[str, str] = ("server", "client")

    @property
    def sender(self) -> str:
        return "server" if self.direction == "down" else "client"


@dataclass(frozen=True)
class TraceTables:
    """The tables of a trace, with times in nanoseconds and seconds.

    `objects` has a row per object of a page load; see `lasthop.present.pictures.waterfall`. `facts` are those
    of the scenario.
    """

    packets: pl.DataFrame
    transport: pl.DataFrame
    objects: pl.DataFrame
    flows: list[FlowOf]
    bad_periods: list[BadPeriod]
    facts: Facts
    series: pl.DataFrame
    """The run in steps: a row for each step of a flow, and of the hop, whose `flow` is empty."""
    delays: pl.DataFrame
    """Distribution functions of the one-way delays: `flow`, `share`, `delay_s`."""
    left_out: str
    """The parts of a long run that are not in the tables, as text."""
    views: Mapping[str, View] = field(default_factory=dict)
    """As in a trace."""

    @classmethod
    def of(cls, trace: Trace, facts: Facts) -> TraceTables:
        """Convert an engine's trace."""
        packets, tcp = (_in_seconds(_table(trace, name)) for name in ("packets", "transport"))
        named = zip(
            *(trace.flows[column] for column in ("flow", "application", "protocol", "direction")), strict=True
        )
        flows = [_flow(facts, number, words) for number, words in enumerate(named)]
        states = zip(
            *(trace.bad_periods[column] for column in ("start_s", "end_s", "hop", "direction")), strict=True
        )
        bad = _merged(list(states), facts)
        objects = _objects(as_frame(trace.objects), packets, flows)
        series, delays = _table(trace, "series"), _table(trace, "delays")
        left_out, views = _left_out(trace.left_out), views_of(trace)
        return cls(packets, tcp, objects, flows, bad, facts, series, delays, left_out, views)

    def end_s(self) -> float:
        """Time of the last packet event, seconds."""
        return float(self.packets["time_s"].max() or 0.0)  # type: ignore[arg-type]

    def span_s(self, flows: Sequence[FlowOf]) -> tuple[float, float]:
        """Times of the first and the last packet event of some flows, in seconds; without any, of the run."""
        times = self.packets.filter(pl.col("flow").is_in([flow.number for flow in flows]))["time_s"]
        return (float(times.min()), float(times.max())) if times.len() else (0.0, self.end_s())  # type: ignore[arg-type]

    def picture(
        self,
        panels: Sequence[Panel],
        start: float = 0.0,
        stop: float | None = None,
        notes: Sequence[str] = (),
        flows: Sequence[FlowOf] | None = None,
    ) -> Picture:
        """Return a picture of panels between two times, by default the whole run, with the bad periods.

        With `flows`, the bad periods are those of hops that these cross. A bad period as long as the run is
        not shaded, but mentioned in a note.
        """
        end = self.end_s() if stop is None else stop
        crossed = None if flows is None else frozenset[int]().union(*(flow.crossed for flow in flows))
        periods = [period for period in self.bad_periods if crossed is None or crossed & period.places]
        bad = clipped(periods, start, end)
        whole = any(period.start <= 0 and period.stop >= self.end_s() for period in periods)
        left_out = "" if all(panel.is_whole for panel in panels) else self.left_out
        texts = [*notes, left_out, "The whole run is a bad period of the link." if whole else ""]
        parts = [panel.within(start, end) for panel in panels]
        return Picture(parts, start, end, [] if whole else bad, [note for note in texts if note])

    def sent_between(self, start: float, stop: float) -> TraceTables:
        """Return the tables for packets sent between two times, until they arrive, and hosts' events.

        This requires a recording of every event.
        """
        during = pl.col("time_s").is_between(start, stop)
        serials = self.packets.filter(during, pl.col("event") == "sent")["serial"]
        packets = self.packets.filter(pl.col("serial").is_in(serials.implode()))
        return replace(self, packets=packets, transport=self.transport.filter(during))

    def packets_of(self, flow: FlowOf) -> pl.DataFrame:
        return self._packets_by_flow.get((flow.number,), self.packets.clear())

    def sender_events(self, flow: FlowOf) -> pl.DataFrame:
        """Return the transport events of the flow's data sender."""
        return self._tcp_by_host.get((flow.number, flow.sender), self.transport.clear())

    # Split once, because a picture of hundreds of flows needs each of them several times.

    @functools.cached_property
    def _packets_by_flow(self) -> dict[tuple[object, ...], pl.DataFrame]:
        return self.packets.partition_by("flow", as_dict=True, maintain_order=True)

    @functools.cached_property
    def _tcp_by_host(self) -> dict[tuple[object, ...], pl.DataFrame]:
        return self.transport.partition_by("flow", "host", as_dict=True, maintain_order=True)


def _flow(facts: Facts, number: int, words: Sequence[object]) -> FlowOf:
    name, application, protocol, direction = map(str, words)
    own = facts.applications[application]
    route, crossed = tuple(own.routes[direction]), facts.crossed(application)
    return FlowOf(number, name, application, protocol, direction, route, crossed, (own.peer, own.host))


def _merged(periods: Sequence[tuple[float, float, str, str]], facts: Facts) -> list[BadPeriod]:
    """Return the bad periods in order, with equal periods of both directions of a hop merged."""
    times = Counter(period[:3] for period in periods)
    merged = {
        _bad_period(start, stop, hop, "" if times[start, stop, hop] > 1 else way, facts): None
        for start, stop, hop, way in periods
    }
    return sorted(merged, key=lambda period: period.start)


def _bad_period(start: float, stop: float, hop: str, direction: str, facts: Facts) -> BadPeriod:
    name = hop if facts.hop_names else ""
    return BadPeriod(start, stop, direction, name, frozenset(facts.places(hop, direction)))


def _table(trace: Trace, name: str) -> pl.DataFrame:
    """Return a table of a trace as a typed data frame, if possible without a Python object per value."""
    buffers = trace.buffers(name) if isinstance(trace, _core.Trace) else None
    return as_frame(getattr(trace, name)) if buffers is None else gathered_frame(buffers)


def as_events(table: Mapping[str, Sequence[object]]) -> pl.DataFrame:
    """Return a table of events with an additional column of times in seconds."""
    return _in_seconds(as_frame(table))


def _in_seconds(events: pl.DataFrame) -> pl.DataFrame:
    return events.with_columns((pl.col("time_ns") / _NANO).alias("time_s"))


def _left_out(counts: Mapping[str, int]) -> str:
    """Describe what the overview of a long run omits."""
    texts = []
    if counts["points"]:
        texts.append(
            f"{counts['points']:,} segments, ACKs and samples are omitted: in each short interval, only the "
            "first, last, least and greatest are drawn"
            + ("." if counts["marks"] else ", but all drops, timeouts and retransmissions.")
        )
    if counts["marks"]:
        texts.append(f"{counts['marks']:,} drops, timeouts and retransmissions are omitted.")
    if counts["flows"]:
        texts.append(f"{counts['flows']:,} further flows are not recorded.")
    return " ".join(texts)


_OBJECT_COLUMNS = {
    "page": pl.String,
    "object": pl.String,
    "connection": pl.Int64,
    "flow": pl.Int64,
    "t_connect_s": pl.Float64,
    "t_request_s": pl.Float64,
    "t_first_byte_s": pl.Float64,
    "t_last_byte_s": pl.Float64,
    "t_end_s": pl.Float64,
}


def _objects(objects: pl.DataFrame, packets: pl.DataFrame, flows: Sequence[FlowOf]) -> pl.DataFrame:
    """Return the times of each object of a page load at the client.

    An object is not requested before its connection is established. Only the last object of a connection
    waits for its end, which is the client's ACK of the server's FIN.
    """
    if objects.is_empty():
        return pl.DataFrame(schema=_OBJECT_COLUMNS)
    connections = pl.DataFrame(
        [_connection(packets, flow) for flow in objects["flow"].unique(maintain_order=True)]
    )
    names = {flow.number: flow.application for flow in flows}
    joined = objects.join(connections, on="flow", maintain_order="left").with_columns(
        page=pl.col("flow").replace_strict(names, return_dtype=pl.String),
        object=pl.when(pl.col("object") == 0)
        .then(pl.lit("main"))
        .otherwise(pl.format("inline-{}", "object")),
    )
    last = pl.col("last_byte_ns") == pl.col("last_byte_ns").max().over("flow")
    return joined.select(
        "page",
        "object",
        (pl.col("flow").rank("dense").over("page")).cast(pl.Int64).alias("connection"),
        "flow",
        (pl.col("connect_ns") / _NANO).alias("t_connect_s"),
        (pl.max_horizontal("request_ns", "connected_ns") / _NANO).alias("t_request_s"),
        (pl.col("first_byte_ns") / _NANO).alias("t_first_byte_s"),
        (pl.col("last_byte_ns") / _NANO).alias("t_last_byte_s"),
        (pl.when(last).then("end_ns") / _NANO).alias("t_end_s"),
    )


def _connection(packets: pl.DataFrame, flow: int) -> dict[str, int | None]:
    """Return when the client sent its SYN, was connected, and acknowledged the server's FIN, if it did."""
    own = packets.filter(pl.col("flow") == flow)
    up, down = (own.filter(pl.col("direction") == direction) for direction in ("up", "down"))
    arrived = down.filter(pl.col("event") == "delivered")
    fins = arrived.filter(pl.col("flags") & _FIN != 0)
    sent = up.filter(pl.col("event") == "sent")
    ends = sent.filter(pl.col("ack") >= fins["end"].min()) if fins.height else sent.clear()
    return {
        "flow": flow,
        "connect_ns": sent["time_ns"].min(),  # type: ignore[dict-item]
        "connected_ns": arrived["time_ns"].min(),  # type: ignore[dict-item]
        "end_ns": ends["time_ns"].min(),  # type: ignore[dict-item]
    }
