"""The story of a flow in words: `gather` collects the facts, `tell` words them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lasthop import _core
from lasthop.campaign.plan import ChosenRun
from lasthop.engines.engine import Trace
from lasthop.errors import InputError, nearest
from lasthop.explain.call import Voice
from lasthop.explain.facts import gather
from lasthop.explain.packets import Packets, rows
from lasthop.explain.pages import tell_page
from lasthop.explain.quic import tell_quic
from lasthop.explain.tell import tell_tcp
from lasthop.explain.tell_udp import tell_udp
from lasthop.explain.udp import gather_udp
from lasthop.explain.words import Story, nanoseconds, plain
from lasthop.metrics.labels import TRANSFER_PROTOCOLS


def explain(run: ChosenRun, flow: str | None = None) -> Iterator[str]:
    """Yield the story of each flow of a run, or of the one named `flow`, as plain text.

    The name of a page load stands for the page load and all its connections.
    """
    scenario = json.loads(run.cell.scenario)
    trace = run.trace()
    names = list(dict.fromkeys([*map(str, trace.flows["application"]), *map(str, trace.flows["flow"])]))
    if flow is not None and flow not in names:
        raise InputError(
            f"--flow {flow}: there is no such flow; did you mean '{nearest(flow, names)}'? Flows: {', '.join(names)}."
        )
    yield "\n".join(
        [
            plain(f"{run.title}, seed {run.plan.seed} (lasthop {_core.VERSION})."),
            plain(
                "Times are seconds since the start of the run; windows are in segments; sequence numbers are relative, "
                "as in Wireshark: the SYN is 0, the first data byte 1."
            ),
        ]
    )
    yield from map(str, stories(trace, scenario, flow))


def followed(trace: Trace, scenario: Mapping[str, Any]) -> Packets:
    """Follow every packet of a trace."""
    return Packets(trace.packets, {way: arq_delay_ns(scenario, way) for way in ("down", "up")})


def stories(
    trace: Trace, scenario: Mapping[str, Any], flow: str | None = None, *, packets: Packets | None = None
) -> Iterator[Story]:
    """Yield the story of each flow of a trace, or of the one named `flow`; of a page load first its objects.

    Whoever has `followed` its packets already may hand them in.
    """
    packets = packets or followed(trace, scenario)
    states, tcp = trace.link_states, trace.tcp  # each call makes the table anew
    names = [str(name) for name in trace.flows["flow"]]
    told = set()
    for number, record in enumerate(rows(trace.flows)):
        if flow not in (None, record["flow"], record["application"]):
            continue
        of_page = record["flow"].startswith(f"{record['application']}/")
        if of_page and record["flow"] != flow and record["application"] not in told:
            told.add(record["application"])
            yield tell_page(trace, record["application"])
        if not packets.of_flow(number):
            yield Story(record["flow"], f"{record['flow']}: the run ended before its first packet.")
        elif record["protocol"] == "quic":
            yield tell_quic(packets, tcp, record, number, states)
        elif record["protocol"] not in TRANSFER_PROTOCOLS:
            voice = voice_of(scenario, record["application"])
            yield tell_udp(gather_udp(packets, tcp, record, number, states, voice=voice), packets, names)
        else:
            switches = _tcp_of(scenario, record["application"])
            yield tell_tcp(gather(packets, tcp, record, number, states), packets, switches)


def _tcp_of(scenario: Mapping[str, Any], application: str) -> Mapping[str, Any]:
    """Return the TCP of an application's flows; each page load of a `count` is an application."""
    for entry in scenario.get("flow", []):
        pages = (f"{entry['name']}-{number}" for number in range(1, entry.get("count", 0) + 1))
        if entry.get("tcp") and application in (entry["name"], *pages):
            own: Mapping[str, Any] = entry["tcp"]
            return own
    switches: Mapping[str, Any] = scenario["tcp"]
    return switches


def voice_of(scenario: Mapping[str, Any], application: str) -> Voice | None:
    """Return the call that an application is, which has a name for each way if it goes both; `None` if it is none."""
    for entry in scenario.get("flow", []):
        ways = ("-down", "-up") if entry.get("direction") == "both" else ("",)
        if application in (f"{entry['name']}{way}" for way in ways):
            return Voice.of(entry)
    return None


def arq_delay_ns(scenario: Mapping[str, Any], direction: str) -> int:
    """Return how long a failed try waits for the next one, by the direction's own errors or else the shared ones."""
    link = (scenario.get(direction) or {}).get("link", {})  # behind an ATM switch there is none
    processes = (link.get("errors"), scenario.get("errors"))
    return next((nanoseconds(errors["arq"]["delay"]) for errors in processes if errors and errors.get("arq")), 0)
