"""A run on two engines: by how much each flow's metrics differ, and where its histories first differ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lasthop import _core
from lasthop.common.metrics.labels import DROP_COUNTS, TRANSFER_PROTOCOLS
from lasthop.crosscheck.align import Parting, history, parting
from lasthop.crosscheck.cause import Cause, cause, differences, steps
from lasthop.engines.engine import Trace
from lasthop.engines.rows import Record, rows
from lasthop.scenario.facts import Facts

# Columns that identify a row or are text, and the start time, which is an input.
_NO_METRICS = frozenset(
    {
        "replication",
        "flow",
        "application",
        "host",
        "peer",
        "role",
        "protocol",
        "direction",
        "outcome",
        "start_s",
        "drop_hops",
        "part_of",
    }
)
# Metrics whose distance is relative; of counts, it is the difference.
_MEASURED = ("_s", "_ms", "_Bps")
COUNTS = (*(f"data_{count}" for count in DROP_COUNTS), "retransmitted_packets")
"""Counts that are equal on both engines if a flow behaves the same."""
DELAYS = ("queue_delay_median_s", "queue_delay_p95_s")


@dataclass(frozen=True, slots=True)
class Distance:
    metric: str
    values: tuple[float, float]

    @property
    def relative(self) -> float | None:
        """The difference from the reference engine's value, as a share of it; `None` for counts."""
        reference, other = self.values
        return (other - reference) / reference if self.metric.endswith(_MEASURED) and reference else None


@dataclass(frozen=True, slots=True)
class FlowComparison:
    """A flow on the reference engine and on another."""

    cell: str
    replication: int
    flow: str
    protocol: str
    engines: tuple[str, str]
    outcomes: tuple[str, str]
    distances: Sequence[Distance]
    acks: int
    """Number of ACKs that the sender received on the reference engine."""
    parting: Parting | None
    cause: Cause | None

    @property
    def same_acks(self) -> int:
        """Number of ACKs up to which the histories are the same."""
        return self.acks if self.parting is None else max(0, min(self.acks, self.parting.ack_number - 1))

    def distance(self, metric: str) -> Distance | None:
        return next((distance for distance in self.distances if distance.metric == metric), None)

    def row(self) -> dict[str, object]:
        """Return the comparison as a row of a table."""
        elapsed = self.distance("elapsed_s")
        delays = {
            f"{metric.removesuffix('_s')}_distance": distance.relative
            for metric in DELAYS
            if (distance := self.distance(metric)) is not None
        }
        changes = {
            f"{metric}_more": distance.values[1] - distance.values[0]
            for metric in COUNTS
            if (distance := self.distance(metric)) is not None
        }
        return {
            "cell": self.cell,
            "replication": self.replication,
            "flow": self.flow,
            "reference": self.engines[0],
            "engine": self.engines[1],
            "outcome_reference": self.outcomes[0],
            "outcome": self.outcomes[1],
            "elapsed_reference_s": elapsed.values[0] if elapsed else None,
            "elapsed_s": elapsed.values[1] if elapsed else None,
            "elapsed_distance": elapsed.relative if elapsed else None,
            **delays,
            **changes,
            "acks": self.acks,
            "same_acks": self.same_acks,
            "parting": " ".join(self.parting.what) if self.parting else "",
            "cause": self.cause.kind if self.cause else "",
            "after_timer": self.cause.after_timer if self.cause else None,
        }


def compare(
    cell: _core.Cell, replication: int, engines: tuple[str, str], traces: tuple[Trace, Trace]
) -> Iterator[FlowComparison]:
    """Compare every flow that both engines report."""
    facts = Facts.of(cell)
    places = {place: facts.title(place) for place in facts.directions}
    run_differences = None
    flows = [{row["flow"]: (index, row) for index, row in enumerate(rows(trace.flows))} for trace in traces]
    for name, (index, reference) in flows[0].items():
        if name not in flows[1]:
            continue
        other_index, other = flows[1][name]
        states = history(traces[0], index), history(traces[1], other_index)
        difference = parting(*states) if reference["protocol"] in TRANSFER_PROTOCOLS else None
        if difference is not None and run_differences is None:
            run_differences = differences((steps(traces[0], places), steps(traces[1], places)))
        yield FlowComparison(
            cell=cell.key,
            replication=replication,
            flow=name,
            protocol=reference["protocol"],
            engines=engines,
            outcomes=(reference["outcome"], other["outcome"]),
            distances=list(_distances(reference, other)),
            acks=len(states[0]) - 1,
            parting=difference,
            cause=cause(run_differences, index) if difference and run_differences else None,
        )


def _distances(reference: Record, other: Record) -> Iterator[Distance]:
    for metric, value in reference.items():
        if metric not in _NO_METRICS and None not in (value, other.get(metric)):
            yield Distance(metric, (float(value), float(other[metric])))
