"""Chooses the flows of a picture, and their looks.

Readers tell few colours apart, and a page holds few panels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.present.pictures.marks import FLOW_COLORS, FLOW_SYMBOLS, OTHERS_COLOR, Look
from lasthop.present.pictures.shapes import Panel
from lasthop.present.pictures.trace_tables import FlowOf, TraceTables

MOST_COLOURS = len(FLOW_COLORS)
"""This many flows have a colour; further flows are grey."""
MOST_QUEUES = 6
"""This many places of a network of several hops have a panel of their queue."""
MOST_PANELS = 4
"""This many flows have a sequence panel, and this many page loads a waterfall.

Flows chosen by name have more.
"""

_NAMED_AT_MOST = 12
_TELLING = "those with most losses and timeouts, then the longest"


@dataclass(frozen=True, slots=True)
class Cast:
    """The flows of a picture, in the order of the scenario.

    `looks` holds the look of each flow that has a colour, by the flow's number. The other flows look alike;
    `one_by_one` says whether each of them has its own goodput, or all have one together. `apart` are the TCP
    flows, `pages` the page loads, and `places` the places of the network, with panels of their own. `said`
    tells the reader what is missing or grey, by the kind of panel; an empty kind stands for panels that show
    flows together.
    """

    flows: list[FlowOf]
    looks: dict[int, Look]
    others: Look
    apart: list[FlowOf]
    pages: list[str]
    places: list[int]
    said: dict[str, str]
    one_by_one: bool

    @classmethod
    def of(cls, tables: TraceTables, named: Sequence[FlowOf] = (), *, one_by_one: bool = False) -> Cast:
        """Choose among all flows of a run, or among flows chosen by name.

        If the run has at most `MOST_COLOURS` flows, each has the colour of its number. Otherwise the flows
        that tell most have a colour: for every application in turn the flow with most drops, retransmissions
        and timeouts, and among equals the longest.
        """
        flows = list(named or tables.flows)
        ranked = _ranked(tables, flows)
        coloured = _in_order(ranked[:MOST_COLOURS])
        by_number = len(tables.flows) <= MOST_COLOURS
        looks = {
            flow.number: _look(flow, flow.number if by_number else place)
            for place, flow in enumerate(coloured)
        }
        most = MOST_COLOURS if named else MOST_PANELS
        transfers = [flow for flow in ranked if flow.protocol in TRANSFER_PROTOCOLS]
        apart = [flow for flow in transfers if flow.number in looks][:most]
        loading = set(tables.objects["flow"])
        pages = list(dict.fromkeys(flow.application for flow in ranked if flow.number in loading))
        places = list(dict.fromkeys(place for flow in flows for place in flow.route))
        busiest = set(_busiest(tables, places)[:MOST_QUEUES])
        said = {
            "queue": _said(
                len(busiest), len(places), "queues have a panel", "those with most drops, then the longest"
            ),
            "": _said(len(coloured), len(flows), "flows have a colour"),
            "sequence": _said(len(apart), len(transfers), "TCP flows have a panel of sequence numbers"),
            "waterfall": _said(most, len(pages), "page loads have a waterfall"),
        }
        others = Look(f"{len(flows) - len(coloured)} other flows", OTHERS_COLOR)
        shown = [place for place in places if place in busiest]
        return cls(flows, looks, others, _in_order(apart), sorted(pages[:most]), shown, said, one_by_one)

    def painted(self, flows: Sequence[FlowOf]) -> list[tuple[FlowOf, Look]]:
        """Return flows with their looks, grey flows first: what is drawn later lies above."""
        grey = [(flow, self.others) for flow in flows if flow.number not in self.looks]
        return [*grey, *((flow, self.looks[flow.number]) for flow in flows if flow.number in self.looks)]

    def notes(self, panels: Sequence[Panel]) -> list[str]:
        """Say what panels leave out or show in grey."""
        kinds = dict.fromkeys(
            panel.kind if panel.kind in self.said else ""
            for panel in panels
            if panel.of_flows or panel.kind in self.said
        )
        return [self.said[kind] for kind in kinds if self.said[kind]]


def check_flows(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise `InputError` if the run has no flow of a name in `--flow`."""
    for name in names:
        if name not in known:
            some = ", ".join(known[:_NAMED_AT_MOST]) + (", ..." if len(known) > _NAMED_AT_MOST else "")
            raise InputError(
                f"--flow {name}: there is no such flow; did you mean '{nearest(name, known)}'? Flows: {some}."
            )


def _in_order(flows: Sequence[FlowOf]) -> list[FlowOf]:
    return sorted(flows, key=lambda flow: flow.number)


def _look(flow: FlowOf, place: int) -> Look:
    return Look(flow.name, FLOW_COLORS[place], FLOW_SYMBOLS[place % len(FLOW_SYMBOLS)])


def _said(shown: int, total: int, what: str, telling: str = _TELLING) -> str:
    return f"{shown} of {total} {what}: {telling}." if shown < total else ""


def _busiest(tables: TraceTables, places: Sequence[int]) -> list[int]:
    """Return places by how much happened in their queues."""
    seen = tables.packets.group_by("place").agg(
        pl.col("event").str.starts_with("dropped").sum().alias("drops"),
        pl.col("queue_packets").cast(pl.Int64).max().fill_null(0).alias("longest"),
    )
    found = {place: (-drops, -longest) for place, drops, longest in seen.iter_rows()}
    return sorted(places, key=lambda place: found.get(place, (0, 0)))


def _ranked(tables: TraceTables, flows: Sequence[FlowOf]) -> list[FlowOf]:
    """Return the flows by how much they tell: the first of each application, then the second, and so on."""
    in_trouble = pl.col("event").str.contains("^(dropped|retransmitted|timeout)")
    troubles = pl.concat(
        [table.filter(in_trouble).select("flow") for table in (tables.packets, tables.transport)]
    )
    counts = dict(troubles.group_by("flow").len().iter_rows())
    lengths = dict(
        tables.packets.group_by("flow").agg(pl.col("time_s").max() - pl.col("time_s").min()).iter_rows()
    )
    applications: dict[str, list[FlowOf]] = {}
    for flow in sorted(
        flows, key=lambda f: (-counts.get(f.number, 0), -lengths.get(f.number, 0.0), f.number)
    ):
        applications.setdefault(flow.application, []).append(flow)
    places = [(place, flow) for siblings in applications.values() for place, flow in enumerate(siblings)]
    return [flow for _, flow in sorted(places, key=lambda pair: pair[0])]
