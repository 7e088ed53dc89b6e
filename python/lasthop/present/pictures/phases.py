"""The phases of a TCP connection as shaded bands, with labels where they fit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lasthop.analysis.explain import follow
from lasthop.analysis.explain.facts import WAITING, TcpFacts, gather
from lasthop.campaign.plan import ChosenRun
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.engines.rows import rows
from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.shapes import Panel, Phase
from lasthop.present.pictures.trace_tables import FlowOf, TraceTables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_EVENTS = 500_000
"""The largest number of events of a run with phases, which need every event: about 7 us and 1 kB for each."""
_LABEL_PT = 6.5
_LINE_IN = 0.1
_BESIDE_IN = 0.03
_NANO = 1e9


def with_phases(
    run: ChosenRun, tables: TraceTables, panels: Sequence[Panel], cast: Cast, events: int
) -> tuple[list[Panel], str]:
    """Add the phases of the connection to the panel of windows, if it shows a single one, of TCP.

    `events` is the number of events in the run. Return the panels, and a remark if there are too many.
    """
    shown = [flow for flow in cast.flows if flow.protocol in TRANSFER_PROTOCOLS]
    is_drawn = any(panel.kind == "cwnd" for panel in panels) and run.plan.repeatable
    if not is_drawn or [flow.protocol for flow in shown] != ["tcp"]:
        return list(panels), ""
    if tables.facts.relay_sides(shown[0].application):
        return list(panels), ""
    if events > _MOST_EVENTS:
        return list(panels), f"Phases are not shaded, because the run has more than {_MOST_EVENTS:,} events."
    phases = _phases_of_run(run, tables, shown[0])
    is_of_tcp = [panel.kind == "cwnd" and panel.of_flows for panel in panels]
    return [
        replace(own, phases=phases) if its else own for own, its in zip(panels, is_of_tcp, strict=True)
    ], ""


def _phases_of_run(run: ChosenRun, tables: TraceTables, flow: FlowOf) -> list[Phase]:
    trace = run.trace()
    record = list(rows(trace.flows))[flow.number]
    packets = follow(trace, tables.facts)
    if not packets.of_flow(flow.number):
        return []
    return list(phases_of(gather(packets, trace.transport, record, flow.number, trace.bad_periods)))


def phases_of(facts: TcpFacts) -> Iterator[Phase]:
    """Yield the phases of `lasthop explain`, without the times in which the sender waits for its timer.

    These are phases as well, so that the total of each kind is that of `seconds_by_phase`.
    """
    pieces: list[tuple[str, int, int]] = []
    for phase in facts.phases:
        at = phase.start_ns
        for since, until in sorted(facts.waits):
            low, high = max(since, at), min(until, phase.end_ns)
            if low < high:
                pieces += [(phase.kind, at, low), (WAITING, low, high)]
                at = high
        pieces.append((phase.kind, at, phase.end_ns))
    before: Phase | None = None
    for kind, start_ns, end_ns in pieces:
        if start_ns == end_ns:
            continue
        if before is not None and before.kind == kind:
            before = replace(before, stop=end_ns / _NANO)
            continue
        if before is not None:
            yield before
        before = Phase(kind, start_ns / _NANO, end_ns / _NANO)
    if before is not None:
        yield before


def draw_phases(
    axes: Axes, phases: Sequence[Phase], size_in: tuple[float, float], *, below: bool
) -> list[str]:
    """Shade phases behind the lines, and label those that are wide enough above the lines.

    `size_in` are the width and the height of the axes. Without `below`, only the strip with the labels is
    shaded, because the space below shows bad periods of the link. Return the kinds without a label.
    """
    width_in, height_in = size_in
    all_ends = {phase: [_across(axes, time) for time in (phase.start, phase.stop)] for phase in phases}
    ends = {phase: (low, high) for phase, (low, high) in all_ends.items() if low < high}
    labels = _labels(axes, {phase: (high - low) * width_in for phase, (low, high) in ends.items()})
    lines = max((text.count("\n") + 1 for text in labels.values()), default=1)
    strip = (lines * _LINE_IN + _BESIDE_IN) / height_in
    _make_room(axes, strip)
    over_time = axes.get_xaxis_transform()
    for kind in dict.fromkeys(phase.kind for phase in ends):
        spans = [(phase.start, phase.stop - phase.start) for phase in ends if phase.kind == kind]
        heights = (0, 1) if below else (1 - strip, strip)
        color = marks.PHASES[kind].color
        axes.broken_barh(spans, heights, transform=over_time, color=color, linewidth=0, zorder=0)
    look: dict[str, Any] = {
        "transform": axes.transAxes,
        "ha": "center",
        "fontsize": _LABEL_PT,
        "color": marks.DARK,
    }
    for phase, text in labels.items():
        for number, line in enumerate(text.splitlines(), 1):
            axes.text(sum(ends[phase]) / 2, 1 - number * _LINE_IN / height_in, line, **look)
    labelled = {phase.kind for phase in labels}
    return [kind for kind in marks.PHASES if kind in {phase.kind for phase in ends} - labelled]


def _across(axes: Axes, time: float) -> float:
    """Return a time as a share of the width of the axes."""
    point = axes.transData.transform((time, axes.get_ylim()[1]))
    return min(max(float(axes.transAxes.inverted().transform(point)[0]), 0.0), 1.0)


def _labels(axes: Axes, widths_in: Mapping[Phase, float]) -> dict[Phase, str]:
    """Return the texts, in one line or two, of the phases that are wide enough."""
    measured = axes.text(0, 0, "", fontsize=_LABEL_PT)
    fitting: dict[str, list[tuple[str, float]]] = {}
    for kind in dict.fromkeys(phase.kind for phase in widths_in):
        for text in (kind, textwrap.fill(kind, (len(kind) + 1) // 2 + 2)):
            measured.set_text(text)
            width = measured.get_window_extent().width / axes.figure.dpi + 2 * _BESIDE_IN
            fitting.setdefault(kind, []).append((text, width))
    measured.remove()
    labels = {}
    for phase, width_in in widths_in.items():
        text = next((text for text, width in fitting[phase.kind] if width <= width_in), "")
        if text:
            labels[phase] = text
    return labels


def _make_room(axes: Axes, share: float) -> None:
    """Extend the vertical axis so that a share of the height is free at the top."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        axes.set_ylim(low, low * (high / low) ** (1 / (1 - share)))
    else:
        axes.set_ylim(low, low + (high - low) / (1 - share))
