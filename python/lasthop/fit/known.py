"""What data show of a line without any simulation: the course of its rate, traffic of others, stalls.

It is looked for only where a queue stood, and is the same in all simulated runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lasthop.fit.course import LEAST_TOLD, Course, course, windows
from lasthop.fit.cross import Cross, Verdict, judge
from lasthop.fit.measurement import Delays, Direction, End, Floats, Transfer
from lasthop.fit.posterior import Parameter, Source
from lasthop.fit.sharing import Queues
from lasthop.fit.stalls import Stalls, errors, stalls

# A queue for each flow with the drops of the common ones.
FAIR = {"drop-tail": "sfq", "codel": "fq_codel"}


@dataclass(frozen=True)
class Known:
    """What was found, and of what was not, the reason why these data cannot show it."""

    course: Course | None = None
    """A rate that varies."""
    cross: Cross | None = None
    stalls: Stalls | None = None
    verdict: Verdict | None = None
    """Whether the link or others took what is missing of the highest rate; None if nothing is missing."""
    told: float = 0.0
    """Part of the time in which a queue stood."""
    queues: Queues | None = None
    """Whether flows wait in one queue or each in its own; None if none ran beside the transfer."""
    refused: dict[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        """Values that need no inference."""
        found = {} if self.course is None else {"rate": self.course.mean}
        return found | ({} if self.stalls is None else self.stalls.values)

    def link(self, values: Mapping[str, float]) -> dict[str, object]:
        """More keys of the link."""
        return {} if self.stalls is None else {"errors": errors(values, self.stalls.shortest)}

    def discipline(self, queue: str) -> str:
        """The discipline that treats a single flow like this one, and several as these data show."""
        return FAIR.get(queue, queue) if self.queues == "own" else queue

    def flows(self, direction: Direction, shift_s: float) -> list[dict[str, object]]:
        return [] if self.cross is None else self.cross.flows(direction, shift_s)


def known(transfers: tuple[Transfer, ...], delays: Delays | None, until_s: float, seen_at: End) -> Known:
    seen = None if delays is None else windows(transfers, delays, until_s, seen_at)
    if delays is None or seen is None or not seen.busy.any():
        return Known(refused={"course": "a queue never stood long enough to tell"})
    held = stalls(transfers, delays, until_s, seen.usual, seen_at)
    if held is not None:
        seen = windows(transfers, delays, until_s, seen_at, held) or seen
    told = float(seen.lengths[seen.busy].sum() / seen.lengths.sum())
    found = course(seen)
    if found is None or told < LEAST_TOLD:
        why = f"a queue stood in {100 * told:.0f} % of the time only, and without it less may have been sent"
        return Known(stalls=held, told=told, refused={"course": why})
    if not found.varies:
        return Known(stalls=held, told=told)
    verdict, cross = judge(transfers, delays, found)
    return Known(None if verdict == "others" else found, cross, held, verdict, told)


def beside(
    found: Known, direction: Direction, source: Source, drawn: Mapping[str, Floats]
) -> list[Parameter]:
    """What the fit says of these; `drawn` are draws of how often and how long it stalls."""
    key = f"{direction}.link.course"
    course, others = found.refused.get("course"), None
    value = "one rate explains what was carried" if course is None else None
    if found.verdict == "untold":
        others = "packets come too unevenly to tell others from a slower link: the course is what was left"
    if found.course is not None:
        steps = found.course.rate
        value = f"{len(steps)} steps from {steps.min():.3g} to {steps.max():.3g} Mbit/s"
    return [
        Parameter(
            "course", key, "", value, reason=course, assumed="one rate" if course else None, source=source
        ),
        Parameter(
            "cross_traffic",
            "flow",
            "",
            None if others or course else _others(found),
            reason=others or course,
            assumed="none",
            source=source,
        ),
        *_stalls(found, direction, source, drawn),
        _sharing(found, direction, source),
    ]


def _others(found: Known) -> str:
    if found.cross is None:
        return "none seen"
    length = found.cross.end_s - found.cross.start_s
    rate = float(length @ found.cross.rate / length.sum())
    times = "once" if len(length) == 1 else f"{len(length)} times"
    return f"{rate:.3g} Mbit/s, {times}, for {length.sum():.3g} s together"


def _sharing(found: Known, direction: Direction, source: Source) -> Parameter:
    key = f"{direction}.queue.discipline"
    if found.queues is None:
        why = "no other flow, and no probe, met a queue that grew and shrank"
        return Parameter("sharing", key, "", reason=why, assumed="one queue", source=source)
    value = "one queue explains the round trips of all" if found.queues == "one" else "a queue for each flow"
    return Parameter("sharing", key, "", value, source=source)


def _stalls(
    found: Known, direction: Direction, source: Source, drawn: Mapping[str, Floats]
) -> list[Parameter]:
    key = f"{direction}.link.errors"
    if found.stalls is None:
        return [Parameter("stalls", key, "", "none seen", source=source)]
    made = []
    for name, value, unit in (("stalls", "stall", "ms"), ("stall_interval", "stall_every", "s")):
        low, high = np.percentile(drawn[value], [5, 95]).tolist()
        made.append(Parameter(name, key, unit, found.stalls.values[value], low, high, source=source))
    return made
