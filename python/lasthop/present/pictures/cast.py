"""Choose the flows of a picture, and their looks: colours and panels are limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.present.pictures.marks import FLOW_COLORS, FLOW_SYMBOLS, OTHERS_COLOR, Look
from lasthop.present.pictures.shapes import Panel
from lasthop.present.pictures.trace_tables import FlowOf, TraceTables

MOST_COLOURS = len(FLOW_COLORS)
"""The number of flows with a colour; further flows are grey."""
MOST_QUEUES = 6
"""The number of places with a panel of their queue in a network of several hops."""
MOST_PANELS = 4
"""The number of flows with a sequence panel, and of page loads with a waterfall, unless chosen by name."""

_NAMED_AT_MOST = 12
_MOST_LOSSES = "those with most losses and timeouts, then the longest"


@dataclass(frozen=True, slots=True)
class Cast:
    """The flows of a picture, in the order of the scenario.

    `looks` holds the look of each flow with a colour, by the flow's number. The other flows look alike;
    `one_by_one` is whether their goodput is drawn separately or as a sum. `apart` are the TCP flows, `viewed`
    those with the logs of their stacks, `pages` the page loads, and `places` the places of the network, with
    separate panels. `remarks` describes what is
    missing or grey, by the kind of panel; the empty kind is for panels with several flows.
    """

    flows: list[FlowOf]
    looks: dict[int, Look]
    others: Look
    apart: list[FlowOf]
    pages: list[str]
    places: list[int]
    remarks: dict[str, str]
    one_by_one: bool
    viewed: list[FlowOf] = field(default_factory=list)

    @classmethod
    def of(cls, tables: TraceTables, named: Sequence[FlowOf] = (), *, one_by_one: bool = False) -> Cast:
        """Choose among all flows of a run, or among flows chosen by name.

        If the run has at most `MOST_COLOURS` flows, each has the colour of its number. Otherwise the colours
        go to the flow of each application with most drops, retransmissions and timeouts (of equals, the
        longest), then to the second flow of each, and so on.
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
        logged = [flow for flow in ranked if flow.name in tables.views]
        viewed = [flow for flow in logged if flow.number in looks][:most]
        loading = set(tables.objects["flow"])
        pages = list(dict.fromkeys(flow.application for flow in ranked if flow.number in loading))
        places = list(dict.fromkeys(place for flow in flows for place in flow.route))
        busiest = set(_busiest(tables, places)[:MOST_QUEUES])
        remarks = {
            "queue": _remark(
                len(busiest), len(places), "queues have a panel", "those with most drops, then the longest"
            ),
            "": _remark(len(coloured), len(flows), "flows have a colour"),
            "sequence": _remark(len(apart), len(transfers), "TCP flows have a panel of sequence numbers")
            or _remark(len(viewed), len(logged), "flows with logs of their stacks have panels of them"),
            "waterfall": _remark(most, len(pages), "page loads have a waterfall"),
        }
        others = Look(f"{len(flows) - len(coloured)} other flows", OTHERS_COLOR)
        chosen = [place for place in places if place in busiest]
        return cls(
            flows,
            looks,
            others,
            _in_order(apart),
            sorted(pages[:most]),
            chosen,
            remarks,
            one_by_one,
            _in_order(viewed),
        )

    def painted(self, flows: Sequence[FlowOf]) -> list[tuple[FlowOf, Look]]:
        """Return flows with their looks, grey flows first, because later flows are drawn on top."""
        grey = [(flow, self.others) for flow in flows if flow.number not in self.looks]
        return [*grey, *((flow, self.looks[flow.number]) for flow in flows if flow.number in self.looks)]

    def notes(self, panels: Sequence[Panel]) -> list[str]:
        """Return remarks on what panels omit or show in grey."""
        kinds = dict.fromkeys(
            panel.kind if panel.kind in self.remarks else ""
            for panel in panels
            if panel.of_flows or panel.kind in self.remarks
        )
        return [self.remarks[kind] for kind in kinds if self.remarks[kind]]


def check_flows(names: Sequence[str], flows: Sequence[str]) -> None:
    for name in names:
        if name not in flows:
            some = ", ".join(flows[:_NAMED_AT_MOST]) + (", ..." if len(flows) > _NAMED_AT_MOST else "")
            raise InputError(
                f"--flow {name}: no flow has this name; did you mean '{nearest(name, flows)}'? Flows: {some}."
            )


def _in_order(flows: Sequence[FlowOf]) -> list[FlowOf]:
    return sorted(flows, key=lambda flow: flow.number)


def _look(flow: FlowOf, place: int) -> Look:
    return Look(flow.name, FLOW_COLORS[place], FLOW_SYMBOLS[place % len(FLOW_SYMBOLS)])


def _remark(count: int, total: int, what: str, chosen: str = _MOST_LOSSES) -> str:
    return f"{count} of {total} {what}: {chosen}." if count < total else ""


def _busiest(tables: TraceTables, places: Sequence[int]) -> list[int]:
    """Return places sorted by the drops in their queues, then by their length."""
    activity = tables.packets.group_by("place").agg(
        pl.col("event").str.starts_with("dropped").sum().alias("drops"),
        pl.col("queue_packets").cast(pl.Int64).max().fill_null(0).alias("longest"),
    )
    rank = {place: (-drops, -longest) for place, drops, longest in activity.iter_rows()}
    return sorted(places, key=lambda place: rank.get(place, (0, 0)))


def _ranked(tables: TraceTables, flows: Sequence[FlowOf]) -> list[FlowOf]:
    """Return the flows in the order of their claim to a colour (see `Cast.of`)."""
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
