"""Ladder diagrams: every packet of a flow as an arrow between the hosts, with time downwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from lasthop.common.errors import InputError
from lasthop.common.metrics.labels import DROP_EVENTS, TRANSFER_PROTOCOLS
from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.marks import Look, Mark
from lasthop.present.pictures.shapes import Layer, Panel, filled
from lasthop.present.pictures.trace_tables import FlowOf, TraceTables
from lasthop.scenario.facts import Facts

LADDER = "ladder"
SERVER, CLIENT = 0.0, 1.0
"""Positions of the hosts' lines."""
MOST_ARROWS = 100
"""The number of packets that fit on a page with their labels, if every second packet is acknowledged."""
_AT_ROUTER, _ON_LINK = 0.2, 0.6
"""The share of a hop that a lost packet crosses: to the queue, which is near the sender, or onto the link."""
_FLAGS = {0x02: "SYN", 0x01: "FIN", 0x04: "RST", 0x40: "ECE", 0x80: "CWR"}


def ladder_panels(tables: TraceTables, cast: Cast) -> list[Panel]:
    """Return a panel for each flow that sent packets. Raises `InputError` if they do not fit on a page."""
    numbers = [flow.number for flow in cast.flows]
    sent = tables.packets.filter(pl.col("event") == "sent", pl.col("flow").is_in(numbers))
    if sent.height > MOST_ARROWS:
        times = sent["time_s"].sort()
        raise InputError(
            f"--kind {LADDER}: {sent.height} packets are sent between {times[0]:.3g} and {times[-1]:.3g} s, "
            f"but a ladder holds at most {MOST_ARROWS}; select a part with --from and --to (--to "
            f"{_before(times):g} leaves {(times <= _before(times)).sum()}), or a flow with --flow."
        )
    if sent.is_empty():
        names = ", ".join(flow.name for flow in cast.flows)
        raise InputError(
            f"--kind {LADDER}: {names} sends no packet in this part; select another with --from and --to."
        )
    having = set(sent["flow"])
    return [_panel(tables, flow, look) for flow, look in cast.painted(cast.flows) if flow.number in having]


def _before(times: pl.Series) -> float:
    """Return a time with few digits up to which at most `MOST_ARROWS` packets are sent."""
    last, too_late = float(times[MOST_ARROWS - 1]), float(times[MOST_ARROWS])
    first = float(times[0])
    if last == too_late:  # do not split a burst
        earlier = times.filter(times < too_late)
        last = float(earlier[-1]) if earlier.len() else first
    for digits in range(1, 10):
        time = round(last, digits)
        if last <= time < too_late:
            return time
    return last


def _panel(tables: TraceTables, flow: FlowOf, look: Look) -> Panel:
    packets = tables.packets_of(flow)
    sent = packets.filter(pl.col("event") == "sent").with_columns(mark=pl.lit(""))
    ends = packets.filter(pl.col("event").is_in(["delivered", *DROP_EVENTS]))
    fates = ends.select(
        "serial", "event", "place", pl.col("time_s").alias("end_s"), pl.col("ce").alias("marked")
    )
    # A packet may be in flight when the run ends. A packet that the link duplicates arrives twice.
    arrows = _kinds(tables, flow, sent).join(
        fates, on="serial", how="left", suffix="_end", maintain_order="left"
    )
    arrows = arrows.with_columns(label=_labels(arrows, flow), end_s=pl.col("end_s").fill_null(tables.end_s()))
    layers = [*_arrows(arrows, look), *_losses(arrows, tables.facts, flow), *_expiries(tables, flow, look)]
    return Panel(LADDER, "packets", "", filled(layers), flow.name, flow.ends, across="time")


def _kinds(tables: TraceTables, flow: FlowOf, sent: pl.DataFrame) -> pl.DataFrame:
    """Return sent packets with the `kind` of each: `data`, `control`, or the retransmission event."""
    events = tables.sender_events(flow)
    again = (
        events.filter(pl.col("event").is_in([*marks.RETRANSMISSIONS]))
        .select(
            "time_ns", pl.col("seq").cast(pl.Int64), pl.lit(flow.direction).alias("direction"), again="event"
        )
        .unique(["time_ns", "seq"], maintain_order=True)
    )
    plain = pl.when(pl.col("payload_bytes") > 0).then(pl.lit("data")).otherwise(pl.lit("control"))
    kinds = sent.join(again, on=["time_ns", "seq", "direction"], how="left", maintain_order="left")
    has_sequence = pl.col("end") > pl.col("seq")  # a pure ACK has no sequence numbers
    return kinds.with_columns(kind=pl.when(has_sequence).then("again").fill_null(plain))


def _labels(arrows: pl.DataFrame, flow: FlowOf) -> pl.Series:
    """Return each arrow's label: flags, bytes as in tcpdump, ACK, newest SACK block, number of others."""
    names = ("seq", "end", "ack", "flags", "sack", "payload_bytes", "marked")
    rows = arrows.select(names).iter_rows(named=True)
    transfer = flow.protocol in TRANSFER_PROTOCOLS
    return pl.Series([_label(transfer=transfer, **row) for row in rows], dtype=pl.String)


def _label(
    *,
    transfer: bool,
    seq: int,
    end: int,
    ack: int | None,
    flags: int,
    sack: str,
    payload_bytes: int,
    marked: bool | None,
) -> str:
    words = [name for bit, name in _FLAGS.items() if flags & bit]
    if not transfer:
        words.append(f"#{seq} ({payload_bytes})")
    elif payload_bytes:
        words.append(f"{seq}:{end} ({payload_bytes})")
    elif end > seq:  # SYN and FIN have a sequence number
        words.append(str(seq))
    parts = [" ".join(words)] if words else []
    parts += [f"ACK {ack}"] if ack is not None and not payload_bytes else []
    newest, *others = sack.split() or [""]
    parts += [f"SACK {newest}" + (f" +{len(others)}" if others else "")] if sack else []
    return ", ".join(parts + (["CE"] if marked else []))


def _arrows(arrows: pl.DataFrame, look: Look) -> Iterator[Layer]:
    """Yield the arrows of packets that arrived, and of packets in flight at the end of the run."""
    arrived = arrows.filter(pl.col("event_end") == "delivered")
    own = {"data": marks.LADDER_DATA.tinted(look), "control": marks.LADDER_CONTROL, **marks.LADDER_AGAIN}
    for kind, mark in own.items():
        own_kind = arrived.filter(pl.col("kind") == kind)
        yield _layer(mark, own_kind, [1.0] * own_kind.height)
    under_way = arrows.filter(pl.col("event_end").is_null())
    yield _layer(marks.LADDER_UNDER_WAY, under_way, [_ON_LINK] * under_way.height)


def _losses(arrows: pl.DataFrame, facts: Facts, flow: FlowOf) -> Iterator[Layer]:
    routes = facts.applications[flow.application].routes
    for event, cause in DROP_EVENTS.items():
        lost = arrows.filter(pl.col("event_end") == event)
        over_hop = _ON_LINK if cause.on_link else _AT_ROUTER
        ways = [(routes[direction], place) for direction, place in lost["direction", "place_end"].iter_rows()]
        shares = [(route.index(place) + over_hop) / len(route) for route, place in ways]
        yield _layer(marks.LADDER_LOSSES[event], lost, shares)


def _layer(mark: Mark, rows: pl.DataFrame, shares: Sequence[float]) -> Layer:
    """Return arrows from the line of the sending host over shares of the way to the other host."""
    down = rows["direction"] == "down"
    start = [SERVER if is_down else CLIENT for is_down in down]
    ways = zip(down, shares, strict=True)
    stop = [SERVER + share if is_down else CLIENT - share for is_down, share in ways]
    times = rows["time_s"].to_list(), rows["end_s"].to_list()
    return Layer(mark, times[0], start, times[1], rows["label"].to_list(), ends=stop)


def _expiries(tables: TraceTables, flow: FlowOf, look: Look) -> Iterator[Layer]:
    times = tables.sender_events(flow).filter(pl.col("event") == "timeout")["time_s"].to_list()
    line = SERVER if flow.sender == "server" else CLIENT
    yield Layer(marks.TIMER.tinted(look), times, [line] * len(times))
