"""Histograms of the sizes of packets that the hosts sent, stacked by flow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.marks import Look
from lasthop.present.pictures.shapes import Layer, Panel
from lasthop.present.pictures.trace_tables import TraceTables

SIZES = "sizes"
_MOST_BINS = 50


def size_panels(tables: TraceTables, cast: Cast) -> list[Panel]:
    """Return a panel for each direction with packets. Flows without a colour are summed in one band."""
    numbers = [flow.number for flow in cast.flows]
    sent = tables.packets.filter(pl.col("event") == "sent", pl.col("flow").is_in(numbers))
    if sent.is_empty():
        return []
    largest = max(sent["ip_bytes"])
    width = _width(largest)
    binned = sent.with_columns(bin=(pl.col("ip_bytes") - 1) // width)  # 1500 B is in the bin up to 1500 B
    edges = [float(place * width) for place in range(1 + -(-largest // width))]
    ways = [direction for direction in ("down", "up") if direction in set(sent["direction"])]
    return [_panel(binned.filter(direction=direction), cast, edges, direction) for direction in ways]


def _width(largest: int) -> int:
    """Return the width of bins, 1, 2 or 5 times a power of ten, for at most `_MOST_BINS` bins."""
    least = largest / _MOST_BINS
    power = int(10 ** max(0, math.floor(math.log10(least))))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _panel(binned: pl.DataFrame, cast: Cast, edges: Sequence[float], direction: str) -> Panel:
    together = [flow for flow in cast.flows if flow.number not in cast.looks]
    bands = [(look, [flow.number]) for flow, look in cast.painted(cast.flows) if flow not in together]
    if together:
        name = together[0].name if len(together) == 1 else f"{cast.others.name} together"
        bands.append((Look(name, marks.OTHERS_COLOR), [flow.number for flow in together]))
    layers = []
    low = [0.0] * len(edges)
    for look, members in bands:
        own = binned.filter(pl.col("flow").is_in(members)).group_by("bin").len()
        counts = dict(own.iter_rows())
        high = [below + counts.get(place, 0) for place, below in enumerate(low)]
        if counts:
            layers.append(Layer(marks.SENT_SIZES.of(look), edges, low, high))
        low = high
    across = f"size of IP packets (B), in bins of {edges[1]:g} B"
    return Panel(SIZES, "packets", "", layers, direction, of_flows=True, across=across)
