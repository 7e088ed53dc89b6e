"""The findings of a cross-check as text."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.common.metrics.units import label
from lasthop.crosscheck.align import State
from lasthop.crosscheck.cause import TIES, Cause, Kind
from lasthop.crosscheck.compare import COUNTS, DELAYS, Distance, FlowComparison

_MAX_SEGMENTS = 6


def tell_flow(comparison: FlowComparison) -> Iterator[str]:
    """Describe one flow: every metric that differs, and the first difference of its histories."""
    reference, other = comparison.engines
    place = f"{comparison.cell or 'the scenario'}, replication {comparison.replication}, {comparison.flow}"
    yield f"{place}: {other} compared with {reference}"
    if comparison.outcomes[0] != comparison.outcomes[1]:
        yield f"  outcome: {comparison.outcomes[1]} instead of {comparison.outcomes[0]}"
    differing = [distance for distance in comparison.distances if distance.values[0] != distance.values[1]]
    yield f"  {len(comparison.distances) - len(differing)} of {len(comparison.distances)} metrics are equal"
    for distance in differing:
        left, right = (f"{value:.0f}" if value.is_integer() else f"{value:.6g}" for value in distance.values)
        yield f"    {distance.metric:<28} {right:>14} {left:>14}  {_apart(distance)}"
    if comparison.protocol not in TRANSFER_PROTOCOLS:
        return
    parting = comparison.parting
    if parting is None:
        yield f"  the sender's state is the same at all {comparison.acks} ACKs"
        return
    yield (
        f"  the same up to ACK {comparison.same_acks} of {comparison.acks}; "
        f"first difference ({', '.join(parting.what)}):"
    )
    for engine, state in zip(comparison.engines, parting.states, strict=True):
        yield f"    {engine:<7} {_state(state)}"
    if comparison.cause is not None:
        yield from _cause(comparison.engines, comparison.cause)


def tell_all(comparisons: Sequence[FlowComparison]) -> Iterator[str]:
    """Summarize many flows: how much they differ, and the causes of their first differences."""
    for engines in sorted({comparison.engines for comparison in comparisons}):
        flows = [comparison for comparison in comparisons if comparison.engines == engines]
        yield f"{engines[1]} compared with {engines[0]}: {len(flows)} flows"
        if shares := _shares(flow.distance("elapsed_s") for flow in flows):
            yield f"  elapsed time: {_spread(shares)}"
            yield from _without_ties(flows)
            yield from _medians(flows)
        for metric in DELAYS:
            if shares := _shares(flow.distance(metric) for flow in flows):
                yield f"  {label(metric)}: {_spread(shares)}"
        transfers = [comparison for comparison in flows if comparison.protocol in TRANSFER_PROTOCOLS]
        if not transfers:
            continue
        equal = sum(all(_equal(flow.distance(metric)) for metric in COUNTS) for flow in transfers)
        same_share = statistics.mean(flow.same_acks / flow.acks if flow.acks else 1.0 for flow in transfers)
        identical = sum(flow.parting is None for flow in transfers)
        yield f"  equal drops and retransmissions: {equal} of {len(transfers)} transfers"
        yield f"  the same state at every ACK: {identical} of {len(transfers)}"
        yield f"  share of ACKs before the first difference: {same_share:.0%} on average"
        yield from _causes(transfers)


def _spread(shares: Sequence[float]) -> str:
    within = sum(share <= 0.005 for share in shares)
    return (
        f"median distance {statistics.median(shares):.3%}, greatest {max(shares):.3%}, "
        f"within 0.5 % for {within} of {len(shares)}"
    )


def _without_ties(chosen: Sequence[FlowComparison]) -> Iterator[str]:
    """Leave out flows that differ because of a tie, if there are any: no model can agree on these."""
    others = [flow for flow in chosen if flow.cause is None or flow.cause.kind not in TIES]
    if len(others) < len(chosen) and (shares := _shares(flow.distance("elapsed_s") for flow in others)):
        yield f"  the same without ties: {_spread(shares)}"


def _medians(chosen: Sequence[FlowComparison]) -> Iterator[str]:
    """Compare medians over replications, if there are several, because single runs differ by chance."""
    runs: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for comparison in chosen:
        if distance := comparison.distance("elapsed_s"):
            runs[comparison.cell, comparison.flow].append(distance.values)
    if all(len(values) == 1 for values in runs.values()):
        return
    medians = (tuple(map(statistics.median, zip(*values, strict=True))) for values in runs.values())
    if shares := _shares(Distance("elapsed_s", (reference, other)) for reference, other in medians):
        yield f"  medians over replications: {_spread(shares)}"


def _causes(transfers: Sequence[FlowComparison]) -> Iterator[str]:
    """Count the causes of first differences, with the median distance of elapsed times for each cause."""
    by_kind: dict[Kind, list[FlowComparison]] = defaultdict(list)
    for flow in transfers:
        if flow.cause is not None:
            by_kind[flow.cause.kind].append(flow)
    if by_kind:
        yield f"    {'first difference':<24}{'flows':>6}{'after a timer':>15}{'median distance':>17}"
    for kind, flows in sorted(by_kind.items(), key=lambda item: -len(item[1])):
        ticks = sum(flow.cause is not None and flow.cause.after_timer for flow in flows)
        shares = _shares(flow.distance("elapsed_s") for flow in flows)
        median = f"{statistics.median(shares):.3%}" if shares else "-"
        yield f"    {kind:<24}{len(flows):>6}{ticks:>15}{median:>17}"


def _shares(distances: Iterable[Distance | None]) -> list[float]:
    return [abs(distance.relative) for distance in distances if distance and distance.relative is not None]


def _cause(engines: tuple[str, str], cause: Cause) -> Iterator[str]:
    ticks = ", after a timer fired on another tick" if cause.after_timer else ""
    yield f"  cause: {cause.kind}{ticks} ({cause.place.kind} of {cause.place.of})"
    for engine, step in zip(engines, cause.steps, strict=True):
        text = f"{step.ns / 1e9:.6f} s; {' '.join(map(str, step.decision))}" if step else "no further step"
        yield f"    {engine:<7} {text}"


def _equal(distance: Distance | None) -> bool:
    return distance is None or distance.values[0] == distance.values[1]


def _apart(distance: Distance) -> str:
    share = distance.relative
    return f"{distance.values[1] - distance.values[0]:+.6g}" if share is None else f"{share:+.3%}"


def _state(state: State | None) -> str:
    if state is None:
        return "no such ACK"
    parts = [f"{state.time_ns / 1e9:.6f} s", "before any ACK" if state.ack is None else f"ACK {state.ack}"]
    if state.sack:
        parts.append(f"SACK {state.sack}")
    ssthresh = "infinite" if state.ssthresh is None else state.ssthresh
    parts.append(f"cwnd {state.cwnd}, ssthresh {ssthresh}, in flight {state.in_flight}")
    if state.happened:
        parts.append(", ".join(state.happened))
    segments = [f"{first}-{end}" for first, end in state.sent[:_MAX_SEGMENTS]]
    more = len(state.sent) - len(segments)
    sent = " ".join(segments) + (f" and {more} more" if more else "")
    parts.append(f"sent {sent}" if segments else "sent nothing")
    return "; ".join(parts)
