"""Whether others took what a flow lost while a queue stood, or the link itself became slower.

Where others come between, two packets of the flow that are neighbours in the queue still leave at the pace of
the link. On a slower link none do. A full queue also takes as long as before to go through it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lasthop.fit.course import Course
from lasthop.fit.measurement import Bools, Delays, Direction, Floats, Ints, Transfer
from lasthop.fit.summary import MOST_OF_A_STEP

Verdict = Literal["others", "link", "untold"]
# Below this part of the highest rate, something is missing.
WHOLE = 0.93
# Steps of the course that are shorter say too little of the highest rate.
LEAST_S = 0.2
# Quantile of the time that a packet takes, for neighbours in the queue, and steps of few packets it needs.
NEIGHBOURS, LEAST_STEPS = 8, 30
# Below this part of the time that the line takes, something else makes packets come together.
EVEN = 0.8
# Part of the packets with less than the highest rate that must tell.
LEAST_TELLING = 0.25
# How much of the fall shows in the pace of neighbours: none if others came between, all on a slower link.
LITTLE, MOST = 0.35, 0.65
# More changes are no traffic that comes and goes.
MOST_FLOWS = 40
PAYLOAD, HEADERS = 1200, 28


@dataclass(frozen=True)
class Cross:
    """Traffic of others: when it reached the queue, and at which rate, in Mbit/s."""

    start_s: Floats
    end_s: Floats
    rate: Floats
    line: float
    """The rate of the line."""

    def flows(self, direction: Direction, shift_s: float) -> list[dict[str, object]]:
        """Flows of a scenario that are as large, at the same times."""
        rows = zip(self.start_s + shift_s, self.end_s + shift_s, self.rate, strict=True)
        return [
            {
                "kind": "constant-udp",
                "name": f"others-{number}",
                "direction": direction,
                "rate": f"{rate * 1e3 * PAYLOAD / (PAYLOAD + HEADERS):.3f} kbit/s",
                "payload": f"{PAYLOAD} B",
                "start": f"{max(start, 0.0):.4f} s",
                "duration": f"{end - max(start, 0.0):.4f} s",
            }
            for number, (start, end, rate) in enumerate(rows, 1)
        ]


def judge(transfers: tuple[Transfer, ...], delays: Delays, course: Course) -> tuple[Verdict, Cross | None]:
    """Who took it. With the verdict `others` comes what they sent."""
    length = course.lengths
    long = length >= min(LEAST_S, float(length.max()))
    top = course.rate >= WHOLE * course.rate[long].max()
    if top.all():
        return "untold", None
    line = float(length[top] @ course.rate[top] / length[top].sum())
    verdict = _by_neighbours(transfers, course, top, line)
    if verdict == "untold":
        verdict = _by_waits(transfers, delays, course, top, line)
    if verdict != "others":
        return verdict, None
    low = ~top & (course.rate < line)
    if low.sum() > MOST_FLOWS:
        return "untold", None
    ends = course.time_s + length
    time, rtt = delays.known
    wait = (rtt - rtt.min()) / 1e3
    # What leaves the queue with the flow's packets came as they did.
    start, end = (at[low] - np.interp(at[low], time, wait) for at in (course.time_s, ends))
    kept = end - start > 0.02
    return verdict, Cross(start[kept], end[kept], (line - course.rate[low])[kept], line)


def _within(times: Floats, course: Course) -> Ints:
    return np.searchsorted(course.time_s, times, "right") - 1


def _paces(transfers: tuple[Transfer, ...], course: Course) -> Iterator[tuple[Floats, Any]]:
    """Seconds that each packet took, and the step of the course that it came in."""
    for one in transfers:
        took, packets = np.diff(one.time_s), np.diff(one.bytes) / one.payload
        good = (packets > 0.5) & (packets < MOST_OF_A_STEP) & (took > 0)
        yield took[good] / packets[good], _within(one.time_s[1:][good], course)


def _by_neighbours(transfers: tuple[Transfer, ...], course: Course, top: Bools, line: float) -> Verdict:
    parts = list(_paces(transfers, course))
    took, step = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    high = took[top[step]]
    if len(high) < LEAST_STEPS:
        return "untold"
    pace = float(np.percentile(high, NEIGHBOURS))
    if pace < EVEN * float(np.median(high)):
        return "untold"
    shown, weight = [], []
    for number in np.flatnonzero(~top):
        own = took[step == number]
        if len(own) < LEAST_STEPS or course.rate[number] <= 0:
            continue
        least = float(np.percentile(own, NEIGHBOURS)) / pace
        if least > EVEN:
            shown.append(np.log(least) / np.log(line / course.rate[number]))
            weight.append(len(own))
    if sum(weight) < LEAST_TELLING * (~top[step]).sum() or not shown:
        return "untold"
    return _verdict(float(np.average(shown, weights=weight)))


def _by_waits(
    transfers: tuple[Transfer, ...], delays: Delays, course: Course, top: Bools, line: float
) -> Verdict:
    """A queue that overflows in both cases takes the longer to go through, the slower the link is."""
    lost = np.concatenate([one.lost_s for one in transfers])
    of_losses = _within(lost, course)
    time, rtt = delays.known
    wait, step = rtt - rtt.min(), _within(time, course)
    high = wait[top[step]]
    if not top[of_losses].any() or len(high) < LEAST_STEPS:
        return "untold"
    shown = [
        np.log(max(float(np.percentile(wait[step == number], 95)), 0.1) / float(np.percentile(high, 95)))
        / np.log(line / course.rate[number])
        for number in np.flatnonzero(~top)
        if (of_losses == number).any() and (step == number).sum() >= LEAST_STEPS and course.rate[number] > 0
    ]
    return _verdict(float(np.median(shown))) if shown else "untold"


def _verdict(shown: float) -> Verdict:
    return "others" if shown < LITTLE else "link" if shown > MOST else "untold"
