"""Theory in pictures of runs and results: `--theory`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lasthop import _core
from lasthop.analysis.explain.facts import AVOIDANCE
from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.units import scale
from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.marks import Look
from lasthop.present.pictures.shapes import Layer, Panel
from lasthop.present.pictures.theory import Share, aimd_sawtooth, mathis_rate, max_min_shares
from lasthop.scenario import levels
from lasthop.scenario.facts import Facts, Side

AIMD, MATHIS, MAX_MIN = "aimd", "mathis", "max-min"
SOURCES = {
    AIMD: "Dashed: AIMD from the first congestion avoidance on: one segment per round trip up to what path "
    "and queue hold, then half (RFC 5681, sections 3.1 and 3.2).",
    MATHIS: "Dashed: 1.22 MSS/(RTT \u221ap), with the RTT without queues (Mathis, Semke, Mahdavi, Ott 1997).",
    MAX_MIN: "Dashed: max-min fair shares of the payload while all flows send (Bertsekas, Gallager 1992, "
    "section 6.5.2).",
}
"""The theories, with the notes of their pictures."""
_KINDS = {AIMD: "cwnd", MAX_MIN: "goodput"}
"""The kinds of pictures of one run that show a theory."""
_IP_UDP_BYTES = 28


def check_theory(name: str) -> None:
    """Raise `InputError` if there is no theory of this name."""
    if name not in SOURCES:
        raise InputError(
            f"--theory {name}: did you mean '{nearest(name, SOURCES)}'? Theories: {', '.join(SOURCES)}."
        )


def check_theory_of_run(name: str, kinds: Sequence[str]) -> None:
    """Raise `InputError` if no picture of one run, or none of these kinds, can show a theory."""
    check_theory(name)
    if name == MATHIS:
        raise InputError(
            f"--theory {name}: this is for results over a loss probability; give their folder instead of a "
            "scenario."
        )
    if _KINDS[name] not in kinds:
        raise InputError(
            f"--theory {name}: this is for --kind {_KINDS[name]}, which the picture does not have."
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    """A `[[flow]]` entry of a cell's scenario, and facts on its flows."""

    facts: Facts
    scenario: dict[str, Any]
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    @property
    def direction(self) -> str:
        return str(self.entry.get("direction", "down"))

    @property
    def tcp(self) -> dict[str, Any]:
        return self.entry.get("tcp") or self.scenario["tcp"]  # type: ignore[no-any-return]

    @property
    def mtu(self) -> int:
        return round(_number(self.scenario["mtu"]))

    @property
    def segment_bytes(self) -> int:
        """The payload of a full segment, without the time stamps of RFC 7323."""
        return self.mtu - 40 - (12 if self.tcp["timestamps"] else 0)

    @property
    def round_trip_s(self) -> float:
        return self.facts.applications[self.name].round_trip_ns / 1e9

    def sides(self) -> Iterator[Side]:
        """Yield the links that its data cross."""
        for place in self.facts.applications[self.name].routes[self.direction]:
            yield self.facts.sides[place]

    def link(self, place: int) -> dict[str, Any]:
        """Return the keys of the link at a place."""
        hop = self.facts.hop_names.get(place)
        parts = self.scenario if hop is None else self.scenario["hop"][hop]
        return (parts[self.facts.directions[place]] or {}).get("link", {})  # type: ignore[no-any-return]

    def has_constant_rate(self, side: Side) -> bool:
        """Return whether a link has one rate throughout the run, and one queue."""
        varies = side["changes"] or self.link(side["place"]).keys() & {"trace", "course"}
        return side["queue_s"] is not None and not varies

    def loss(self) -> float:
        """Return the probability that a link loses a packet of its data."""
        losses = (float(self.link(side["place"]).get("loss", 0.0)) for side in self.sides())
        return 1 - math.prod(1 - loss for loss in losses)


def _entries(cell: _core.Cell) -> list[_Entry]:
    scenario, facts = json.loads(cell.scenario), Facts.of(cell)
    return [_Entry(facts, scenario, entry) for entry in scenario["flow"]]


def _number(text: str) -> float:
    """Return a quantity of a resolved scenario in bit/s, s or B."""
    numbers = levels.numbers([text])
    assert numbers is not None, text
    return numbers[0]


# One run


def with_theory(name: str, run: ChosenRun, panels: Sequence[Panel], cast: Cast, stop_s: float) -> list[Panel]:
    """Return the panels of a run with a theory in those that it is about, until `stop_s`."""
    layers_of = _aimd if name == AIMD else _max_min
    return [
        replace(panel, layers=[*panel.layers, *layers_of(run, panel, cast, stop_s)])
        if panel.kind == _KINDS[name]
        else panel
        for panel in panels
    ]


def _aimd(run: ChosenRun, panel: Panel, cast: Cast, stop_s: float) -> list[Layer]:
    option = f"--theory {AIMD}"
    if len(cast.flows) != 1:
        raise InputError(f"{option}: this is for one flow; choose one with --flow.")
    flow = cast.flows[0]
    entry = next((entry for entry in _entries(run.cell) if entry.name == flow.application), None)
    if entry is None or entry.entry["kind"] != "bulk-tcp":
        raise InputError(f"{option}: this is for a transfer (bulk-tcp), which {flow.name} is not.")
    side = entry.facts.sides[entry.facts.bottlenecks[entry.direction]]
    if (control := entry.tcp["congestion_control"]) != "reno":
        raise InputError(f"{option}: this is the sawtooth of reno; {flow.name} uses {control}.")
    if not entry.has_constant_rate(side) or not side["queue"].startswith("drop-tail"):
        raise InputError(
            f"{option}: this needs a link of constant rate with a drop-tail queue, which "
            f"{entry.facts.title(side['place'])} ({side['queue']}) is not."
        )
    assert side["queue_s"] is not None
    phase = next((phase for phase in panel.phases if phase.kind == AVOIDANCE), None)
    if phase is None:
        raise InputError(f"{option}: lasthop finds no congestion avoidance of {flow.name} in this run.")
    windows = next(layer for layer in panel.layers if layer.mark.quantity == marks.CWND.name)
    before = windows.within(0.0, phase.start).y
    first = before[-1] if before else None
    rate = side["ip_rate_bps"] / 8 / entry.mtu
    buffer_bytes = _number(entry.link(side["place"]).get("send_buffer", "0 B"))
    most = rate * (entry.round_trip_s + side["queue_s"]) + buffer_bytes / entry.mtu
    points = aimd_sawtooth((phase.start, first or 1.0), stop_s, most, entry.round_trip_s, rate)
    return [Layer(marks.AIMD, [x for x, _ in points], [y for _, y in points])]


def _max_min(run: ChosenRun, panel: Panel, cast: Cast, stop_s: float) -> list[Layer]:
    """Return a line for each share, in the colour of its flow unless several have the same share."""
    shares = goodput_shares(run.cell)
    by_share: dict[float, list[Look]] = {}
    for flow in cast.flows:
        by_share.setdefault(shares[flow.application], []).append(cast.looks.get(flow.number, cast.others))
    scales = (scale("B/s", [size]) for size in (1.0, 1e6, 1e9))
    factor = next(by.factor for by in scales if by.unit == panel.unit)
    layers = []
    for share, looks in by_share.items():
        mark = marks.MAX_MIN.of(looks[0]) if len(looks) == 1 else marks.MAX_MIN
        layers.append(Layer(mark, [0.0, stop_s], [share * factor] * 2))
    return layers


def goodput_shares(cell: _core.Cell) -> dict[str, float]:
    """Return the max-min fair goodput of a flow of each entry in B/s, while the flows of all entries send.

    A transfer takes all it can get, a stream at most its rate. ACKs are left out.
    """
    entries = _entries(cell)
    flows, payload_shares = [], []
    for entry in entries:
        share, payload_share = _share(entry)
        flows += [share] * entry.entry.get("count", 1)
        payload_shares.append(payload_share)
    capacities = {side["place"]: round(side["ip_rate_bps"]) for entry in entries for side in entry.sides()}
    rates = iter(max_min_shares(capacities, flows))
    goodputs = {}
    for entry, payload_share in zip(entries, payload_shares, strict=True):
        own = [next(rates) for _ in range(entry.entry.get("count", 1))]
        goodputs[entry.name] = own[0] * payload_share / 8
    return goodputs


def _share(entry: _Entry) -> tuple[Share, float]:
    """Return the links and the demand of a flow in bit/s of IP packets, and the share of payload in these."""
    limits = [_number(access["rate"])] if (access := entry.entry.get("access")) else []
    kind = entry.entry["kind"]
    if kind == "bulk-tcp":
        payload_share = entry.segment_bytes / entry.mtu
    elif kind == "constant-udp":
        payload = _number(entry.entry["payload"])
        payload_share = payload / (payload + _IP_UDP_BYTES)
        limits.append(_number(entry.entry["rate"]) / payload_share)
    else:
        raise InputError(
            f"--theory {MAX_MIN}: this needs flows of the kinds bulk-tcp and constant-udp, whose demand is "
            f"known; {entry.name} is {kind}."
        )
    for side in entry.sides():
        if not entry.has_constant_rate(side):
            raise InputError(
                f"--theory {MAX_MIN}: this needs links of constant rate with one queue each; "
                f"{entry.facts.title(side['place'])} ({side['queue']}) is not one."
            )
    links = [side["place"] for side in entry.sides()]
    return Share(links, round(min(limits)) if limits else None), payload_share


# Results


def rates_of_cell(name: str, cell: _core.Cell) -> dict[str, float]:
    """Return the throughput in B/s that a theory predicts for a flow of each entry of a cell."""
    return goodput_shares(cell) if name == MAX_MIN else _mathis_rates(cell)


def losses_of_cell(cell: _core.Cell) -> dict[str, float]:
    """Return the loss probability of the data of each transfer of a cell."""
    return {entry.name: entry.loss() for entry in _entries(cell) if entry.entry["kind"] == "bulk-tcp"}


def _mathis_rates(cell: _core.Cell) -> dict[str, float]:
    losses = losses_of_cell(cell)
    if not losses or min(losses.values()) <= 0:
        where = f"cell {cell.key} has none" if cell.key else "it has none"
        raise InputError(
            f"--theory {MATHIS}: this needs transfers over a link with a loss probability, such as "
            f"down.link.loss, in every cell; {where}. Select others with --only."
        )
    return {
        entry.name: mathis_rate(entry.segment_bytes, entry.round_trip_s, losses[entry.name])
        for entry in _entries(cell)
        if entry.name in losses
    }
