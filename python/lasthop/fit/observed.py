"""Properties of a line that are observed without simulation: the course of its rate, cross traffic, stalls.

They are the same in all simulated runs. Their estimation requires a standing queue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lasthop.fit.course import LEAST_COVERED, Course, course, windows
from lasthop.fit.cross import Cross, Known, Verdict, judge
from lasthop.fit.measurement import Delays, Direction, End, Floats, Recording, Transfer
from lasthop.fit.posterior import Parameter, Source
from lasthop.fit.sharing import Queues
from lasthop.fit.stalls import Stalls, errors, stalls

# Disciplines with a queue for each flow, which drop like these common queues.
FAIR = {"drop-tail": "sfq", "codel": "fq_codel"}


@dataclass(frozen=True)
class Observed:
    """The observations; `refused` has the reasons for those that the data do not permit."""

    course: Course | None = None
    """The course of a rate that varies."""
    cross: Cross | None = None
    stalls: Stalls | None = None
    verdict: Verdict | None = None
    """Whether reduced rates are due to the link or to cross traffic; `None` without reduced rates."""
    varied: bool = False
    """Whether the rate varied while there was a standing queue."""
    covered_share: float = 0.0
    """Share of the time with a standing queue."""
    queues: Queues | None = None
    """Whether flows share a queue or have separate queues; `None` without concurrent flows."""
    known: Known | None = None
    """Cross traffic in the capture."""
    refused: dict[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        """Return values that need no inference."""
        values = {} if self.course is None else {"rate": self.course.mean}
        return values | ({} if self.stalls is None else self.stalls.values)

    def link(self, values: Mapping[str, float]) -> dict[str, object]:
        """Return additional keys of the link."""
        return {} if self.stalls is None else {"errors": errors(values, self.stalls.shortest)}

    def discipline(self, queue: str) -> str:
        """Return the discipline like `queue`, but with a queue for each flow if the data show this."""
        return FAIR.get(queue, queue) if self.queues == "own" else queue

    def flows(self, direction: Direction, shift_s: float) -> list[dict[str, object]]:
        return [] if self.cross is None else self.cross.flows(direction, shift_s)


def observe(
    transfers: tuple[Transfer, ...],
    delays: Delays | None,
    until_s: float,
    seen_at: End,
    others: Recording | None = None,
) -> Observed:
    if delays is None or others is None or not len(others.time_s):
        return _observe(transfers, delays, until_s, seen_at, ())
    found = _observe(transfers, delays, until_s, seen_at, delivered_with(others, delays, seen_at))
    return replace(found, known=Known.of(others, delays, until_s, waited=seen_at == "receiver"))


def delivered_with(others: Recording | None, delays: Delays | None, seen_at: End) -> tuple[Transfer, ...]:
    """Return other packets of a capture, with times as those of deliveries."""
    if others is None or delays is None or not len(delays.answered[0]):
        return ()
    at, rtt = delays.answered
    later = 0.0 if seen_at == "receiver" else np.interp(others.time_s, at, rtt) / 1e3
    return (others.delivered(later),)


def _observe(
    transfers: tuple[Transfer, ...],
    delays: Delays | None,
    until_s: float,
    seen_at: End,
    others: tuple[Transfer, ...],
) -> Observed:
    windows_ = None if delays is None else windows(transfers, delays, until_s, seen_at, others=others)
    if delays is None or windows_ is None or not windows_.busy.any():
        return Observed(refused={"course": "there was no standing queue for long enough"})
    stalls_ = stalls(transfers, delays, until_s, windows_.usual, seen_at)
    if stalls_ is not None:
        windows_ = windows(transfers, delays, until_s, seen_at, stalls=stalls_, others=others) or windows_
    covered_share = float(windows_.lengths[windows_.busy].sum() / windows_.lengths.sum())
    course_ = course(windows_)
    if course_ is None or covered_share < LEAST_COVERED:
        share = f"{100 * covered_share:.0f} %"
        why = (
            f"there was a standing queue in only {share} of the time, and the sender may have been the limit"
        )
        varied = course_ is not None and course_.varies
        return Observed(stalls=stalls_, varied=varied, covered_share=covered_share, refused={"course": why})
    if not course_.varies:
        return Observed(stalls=stalls_, covered_share=covered_share)
    verdict, cross = judge(transfers, delays, course_)
    return Observed(
        None if verdict == "others" else course_,
        cross,
        stalls_,
        verdict,
        varied=True,
        covered_share=covered_share,
    )


def parameters_of(
    observed: Observed, direction: Direction, source: Source, draws: Mapping[str, Floats]
) -> list[Parameter]:
    """Return the parameters of the fit; `draws` are those of the frequency and length of stalls."""
    key = f"{direction}.link.course"
    course, others = observed.refused.get("course"), None
    value = "a constant rate explains the data" if course is None else None
    if observed.verdict == "unknown":
        others = (
            "packets arrive too unevenly to distinguish cross traffic from a slower link; the course is "
            "that of the remaining rate"
        )
    if observed.course is not None:
        steps = observed.course.rate
        value = f"{len(steps)} steps from {steps.min():.3g} to {steps.max():.3g} Mbit/s"
    return [
        Parameter(
            "course", key, "", value, reason=course, assumed="one rate" if course else None, source=source
        ),
        Parameter(
            "cross_traffic",
            "flow",
            "",
            _others(observed) if observed.known or not (others or course) else None,
            reason=None if observed.known else others or course,
            assumed="none",
            source=source,
        ),
        *_stalls(observed, direction, source, draws),
        _sharing(observed, direction, source),
    ]


def _others(observed: Observed) -> str:
    if observed.known is not None:
        rate = observed.known.rate
        return f"{rate:.3g} Mbit/s on average, {len(observed.known.time_s)} packets of the capture"
    if observed.cross is None:
        return "none observed"
    length = observed.cross.end_s - observed.cross.start_s
    rate = float(length @ observed.cross.rate / length.sum())
    times = "once" if len(length) == 1 else f"{len(length)} times"
    return f"{rate:.3g} Mbit/s, {times}, for {length.sum():.3g} s in total"


def _sharing(observed: Observed, direction: Direction, source: Source) -> Parameter:
    key = f"{direction}.queue.discipline"
    if observed.queues is None:
        why = "there was no other flow or probe while the queue varied"
        return Parameter("sharing", key, "", reason=why, assumed="one queue", source=source)
    value = "a shared queue explains all round trips" if observed.queues == "one" else "a queue for each flow"
    return Parameter("sharing", key, "", value, source=source)


def _stalls(
    observed: Observed, direction: Direction, source: Source, draws: Mapping[str, Floats]
) -> list[Parameter]:
    key = f"{direction}.link.errors"
    if observed.stalls is None:
        return [Parameter("stalls", key, "", "none observed", source=source)]
    parameters = []
    for name, value, unit in (("stalls", "stall", "ms"), ("stall_interval", "stall_every", "s")):
        low, high = np.percentile(draws[value], [5, 95]).tolist()
        parameters.append(Parameter(name, key, unit, observed.stalls.values[value], low, high, source=source))
    return parameters
