"""The story of a flow: `gather` collects the facts, `tell` puts them into words."""

from collections.abc import Iterator

from lasthop import _core
from lasthop.analysis.explain.coap import tell_coap
from lasthop.analysis.explain.facts import gather
from lasthop.analysis.explain.packets import Packets
from lasthop.analysis.explain.pages import tell_page
from lasthop.analysis.explain.quic import tell_quic
from lasthop.analysis.explain.relayed import tell_relayed
from lasthop.analysis.explain.stacks import with_view
from lasthop.analysis.explain.tell import tell_tcp
from lasthop.analysis.explain.tell_udp import tell_udp
from lasthop.analysis.explain.udp import gather_udp
from lasthop.analysis.explain.words import Story, plain
from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.engines.engine import Trace, views_of
from lasthop.engines.rows import rows
from lasthop.scenario.facts import Facts


def explain(run: ChosenRun, flow: str | None = None) -> Iterator[str]:
    """Yield the story of each flow of a run, or of the flow named `flow`, as plain text.

    The name of a page load selects all its connections, too, and that of a flow through a relay both its
    connections.
    """
    facts = Facts.of(run.cell)
    trace = run.trace()
    names = list(dict.fromkeys([*map(str, trace.flows["application"]), *map(str, trace.flows["flow"])]))
    if flow is not None and flow not in names:
        raise InputError(
            f"--flow {flow}: no flow has this name; did you mean '{nearest(flow, names)}'? Flows: "
            f"{', '.join(names)}."
        )
    yield "\n".join(
        [
            plain(f"{run.title}, seed {run.plan.seed} (lasthop {_core.VERSION})."),
            plain(
                "Times are seconds since the start of the run; windows are in segments; sequence numbers are "
                "relative, as in Wireshark: the SYN is 0, the first data byte 1."
            ),
        ]
    )
    yield from map(str, stories(trace, facts, flow))


def follow(trace: Trace, facts: Facts) -> Packets:
    """Follow every packet of a trace."""
    return Packets(trace.packets, facts)


def stories(
    trace: Trace, facts: Facts, flow: str | None = None, *, packets: Packets | None = None
) -> Iterator[Story]:
    """Yield the story of each flow of a trace, or of the flow named `flow`; a page load precedes its flows.

    `packets` is the result of `follow`, if the caller already has it.
    """
    packets = packets or follow(trace, facts)
    states, tcp = trace.bad_periods, trace.transport  # each access builds the table again
    views = views_of(trace)
    names = [str(name) for name in trace.flows["flow"]]
    pages_done = set()
    for number, record in enumerate(rows(trace.flows)):
        whole = str(record["flow"]).removesuffix("/peer-side").removesuffix("/host-side")
        if flow not in (None, record["flow"], record["application"], whole):
            continue
        of_page = record["flow"].startswith(f"{record['application']}/")
        if of_page and record["flow"] != flow and record["application"] not in pages_done:
            pages_done.add(record["application"])
            yield tell_page(trace, record["application"])
        if facts.relay_sides(record["application"]):
            yield tell_relayed(record)
        elif not packets.of_flow(number):
            yield Story(record["flow"], f"{record['flow']}: the run ended before its first packet.")
        elif record["protocol"] == "quic":
            yield tell_quic(packets, tcp, record, number, states)
        elif facts.applications[record["application"]].kind == "coap":
            yield tell_coap(packets, tcp, record, number)
        elif record["protocol"] not in TRANSFER_PROTOCOLS:
            voice = facts.applications[record["application"]].voice
            story = tell_udp(gather_udp(packets, tcp, record, number, states, voice=voice), packets, names)
            view = views.get(record["flow"])
            yield story if view is None else with_view(story, view)
        else:
            switches = facts.applications[record["application"]].tcp
            yield tell_tcp(gather(packets, tcp, record, number, states), packets, switches)
