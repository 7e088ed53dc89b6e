"""What the stack of a flow says in its log (qlog), and whether it was so, as part of the flow's story."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lasthop.analysis.explain.udp import episodes
from lasthop.analysis.explain.words import Entry, Story, length
from lasthop.common.metrics.units import counted, human, listed

if TYPE_CHECKING:
    from lasthop.stacks.view import Declared, View

_SHOWN = 4
_TOGETHER_NS = 1_000_000
"""Stacks log a new state and the window that follows from it within this time."""


def with_view(story: Story, view: View) -> Story:
    """Return the story of a flow with what its sender's log says, in order of time."""
    own = [*_losses(view), *_states(view), *_worst_rtt(view)]
    name = f", {view.log.stack}" if view.log.stack else ""
    head = (
        f"{story.head} What the stack declares and believes is from the log (qlog) of its sender{name}, with "
        "the packet numbers of QUIC."
    )
    entries = sorted([*story.entries, *own], key=lambda entry: entry.ns)
    return replace(story, head=head, entries=entries, summary=[*story.summary, *_summary(view)])


def _losses(view: View) -> Iterator[Entry]:
    """Yield the declared losses; those that are less than a round trip apart are told together."""
    declared = sorted(view.declared, key=lambda own: own.declared_s)
    for own in episodes(declared, lambda one: (_ns(one.declared_s),) * 2, _trip_ns(view)):
        times = [_ns(one.declared_s) for one in own]
        until = f" within {length(times[-1] - times[0])}" if times[-1] > times[0] else ""
        numbers = _numbers([one.number for one in own])
        text = f"The stack declares {counted(len(own), 'packet')} lost{until}, {numbers}: {_truth(own)}."
        waits = [_ns(one.declared_s - one.sent_s) for one in own]
        least, most = min(waits), max(waits)
        span = length(most) if least == most else f"{length(least)} to {length(most)}"
        each = "Each" if len(own) > 1 else "It"
        yield Entry(times[0], f"{text} {each} was sent {span} earlier.", times)


def _truth(own: Sequence[Declared]) -> str:
    fates = [(False, "lost on the network"), (True, "not lost"), (None, "on the way when the run ended")]
    counts = {words: count for fate, words in fates if (count := sum(one.arrived is fate for one in own))}
    arrived = [one for one in own if one.arrived_s is not None]
    text = listed([f"{count} {words}" for words, count in counts.items()])
    if len(counts) == 1:
        who = {1: "it was", 2: "both were"}.get(len(own), "all were")
        text = "none was lost" if len(arrived) == len(own) > 1 else f"{who} {next(iter(counts))}"
    if not arrived:
        return text
    late = max(arrived, key=lambda one: one.arrived_s or 0.0)
    after = _ns((late.arrived_s or 0.0) - late.declared_s)
    side = "after" if after > 0 else "before"
    which = "it" if len(own) == 1 else f"number {late.number}"
    return f"{text} ({which} arrived {length(abs(after))} {side} it was declared lost)"


def _numbers(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    if len(numbers) <= _SHOWN:
        return f"{'number' if len(numbers) == 1 else 'numbers'} {listed([str(own) for own in numbers])}"
    return f"numbers {least} to {most}"


def _states(view: View) -> Iterator[Entry]:
    """Yield the congestion states of the log, and the reductions of the window."""
    cuts = list(_reductions(view))
    for state in view.log.states:
        now = state.time_ns + view.clock_ns
        cut = next((own for own in cuts if abs(own[0] - now) <= _TOGETHER_NS), None)
        text = f"The stack enters the congestion state {state.name.replace('_', ' ')}"
        if cut is not None:
            cuts.remove(cut)
            text += f"; {_window(*cut[1:])}"
        yield Entry(now, f"{text}.", [now])
    for now, before, after in cuts:
        text = _window(before, after)
        yield Entry(now, f"The stack reduces its window: {text}.", [now])


def _reductions(view: View) -> Iterator[tuple[int, float, float]]:
    """Yield when the window fell, from where and to where; what follows within a round trip is one fall."""
    times, values = view.series_of("cwnd_bytes")
    steps = list(zip(map(_ns, times.tolist()), values.tolist(), strict=True))
    falls = [
        (now, before, after) for (_, before), (now, after) in itertools.pairwise(steps) if after < before
    ]
    trip_ns = _trip_ns(view)
    while falls:
        own = [fall for fall in falls if fall[0] < falls[0][0] + trip_ns]
        yield own[0][0], own[0][1], own[-1][2]
        falls = falls[len(own) :]


def _trip_ns(view: View) -> int:
    """Return the median of the actual round-trip times, at least a millisecond."""
    return max(_TOGETHER_NS, round((view.metrics()["wire_rtt_ms"] or 0.0) * 1e6))


def _window(before: float, after: float) -> str:
    return f"cwnd {_bytes(before)} -> {_bytes(after)}"


def _worst_rtt(view: View) -> Iterator[Entry]:
    """Yield when the smoothed round-trip time was furthest from the actual one."""
    trips = [own for own in view.trips if own.smoothed_ms is not None]
    if not trips:
        return
    worst = max(trips, key=lambda own: abs((own.smoothed_ms or 0.0) - own.actual_ms))
    yield Entry(
        _ns(worst.time_s),
        f"The stack's smoothed RTT is furthest from the actual one: {_ms(worst.smoothed_ms)}, while a round "
        f"trip takes {_ms(worst.actual_ms)}.",
        [_ns(worst.time_s)],
    )


def _summary(view: View) -> Iterator[str]:
    known = view.metrics()
    declared, lost = known["stack_declared_losses"], known["wire_lost_datagrams"]
    text = f"Stack and network: {counted(int(declared or 0), 'packet')} declared lost"
    if known["stack_real_losses_share"] is not None:
        share = 100 * known["stack_real_losses_share"]
        text += f", {share:.1f} % of them lost, {known['stack_spurious_losses']} arrived"
    if known["stack_detection_ms"] is not None:
        text += f"; a loss was declared {_ms(known['stack_detection_ms'])} after its packet was sent (median)"
    yield f"{text}. The network lost {counted(int(lost or 0), 'datagram')} of the sender."
    if known["stack_srtt_ms"] is not None:
        errors = [(known["stack_srtt_error"], "smoothed RTT"), (known["stack_rtt_error"], "RTT samples")]
        wrong = listed([f"{100 * error:.1f} % ({what})" for error, what in errors if error is not None])
        yield (
            f"Round-trip time: smoothed {_ms(known['stack_srtt_ms'])}, actual {_ms(known['wire_rtt_ms'])}; "
            f"error {wrong}; all medians."
        )
    parts = [
        f"{words} {_bytes(value)}"
        for name, words in (
            ("stack_cwnd_bytes", "cwnd"),
            ("stack_in_flight_bytes", "in flight by the stack"),
            ("wire_in_flight_bytes", "on the way in the network"),
        )
        if (value := known[name]) is not None
    ]
    if parts:
        yield f"Means over time: {', '.join(parts)}."


def _bytes(value: float) -> str:
    return human("stack_cwnd_bytes", value)


def _ms(value: float | None) -> str:
    return f"{value:.1f} ms"


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
