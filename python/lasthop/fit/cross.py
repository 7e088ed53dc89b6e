"""Whether a flow's rate fell because of cross traffic, or because the link became slower.

With cross traffic, two packets of the flow that are neighbours in the queue still leave at the pace of the
link; on a slower link they do not. With cross traffic, the delay of a full queue also stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lasthop.fit.course import Course
from lasthop.fit.measurement import Bools, Delays, Direction, Floats, Ints, Recording, Transfer
from lasthop.fit.summary import MOST_OF_A_STEP

Verdict = Literal["others", "link", "unknown"]
# Below this share of the highest rate, the rate counts as reduced.
WHOLE = 0.93
# The least duration of steps that determine the highest rate.
LEAST_S = 0.2
# Quantile of the time per packet for neighbours in the queue, and the least number of steps of few packets.
NEIGHBOURS, LEAST_STEPS = 8, 30
# Below this share of the line's time per packet, something else makes packets arrive together.
EVEN = 0.8
# The least share of the packets at reduced rates that must be usable.
LEAST_TELLING = 0.25
# The share of the reduction that is visible in the pace of neighbours: none with cross traffic, all with a
# slower link.
LITTLE, MOST = 0.35, 0.65
# With more changes, cross traffic is not a plausible cause.
MOST_FLOWS = 40
PAYLOAD, HEADERS = 1200, 28
# The longest payload of a packet of the capture in a scenario, as without segmentation offload.
LONGEST = 1200


@dataclass(frozen=True)
class Known:
    """Cross traffic that the capture contains, with the times at which it reached the queue."""

    time_s: Floats
    payload: Ints
    rate: float
    """The mean rate with headers, in Mbit/s."""

    @classmethod
    def of(cls, recording: Recording, delays: Delays, until_s: float, *, waited: bool) -> Known:
        """`waited`: the packets were captured behind the queue."""
        time = recording.time_s
        if waited:
            at, rtt = delays.answered
            time = np.maximum(time - (np.interp(time, at, rtt) - rtt.min()) / 1e3, 0.0)
        payload = np.maximum(recording.bytes - HEADERS, 1).astype(np.int64)
        parts = -(-payload // LONGEST)
        rate = float(recording.bytes.sum()) * 8e-6 / until_s
        order = np.argsort(np.repeat(time, parts), kind="stable")
        return cls(np.repeat(time, parts)[order], np.repeat(payload // parts, parts)[order], rate)

    def text(self) -> str:
        """Return the text of a file to replay."""
        rows = (f"{at:.6f},{size}" for at, size in zip(self.time_s, self.payload, strict=True))
        return "\n".join(["time_s,bytes", *rows]) + "\n"

    def flow(self, direction: Direction, shift_s: float, file: str) -> dict[str, object]:
        """Return a flow of a scenario that replays the file."""
        start = f"{shift_s:.6f} s"
        return {"kind": "replay", "name": "captured", "direction": direction, "file": file, "start": start}


@dataclass(frozen=True)
class Cross:
    """Cross traffic: the times at which it reached the queue, and its rates, in Mbit/s."""

    start_s: Floats
    end_s: Floats
    rate: Floats
    line: float
    """The rate of the line."""

    def flows(self, direction: Direction, shift_s: float) -> list[dict[str, object]]:
        """Return flows of a scenario with the same rates and times."""
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
    """Return the cause of reduced rates and, if it is `others`, the cross traffic."""
    length = course.lengths
    long = length >= min(LEAST_S, float(length.max()))
    top = course.rate >= WHOLE * course.rate[long].max()
    if top.all():
        return "unknown", None
    line = float(length[top] @ course.rate[top] / length[top].sum())
    verdict = _by_neighbours(transfers, course, top, line)
    if verdict == "unknown":
        verdict = _by_waits(transfers, delays, course, top, line)
    if verdict != "others":
        return verdict, None
    low = ~top & (course.rate < line)
    if low.sum() > MOST_FLOWS:
        return "unknown", None
    ends = course.time_s + length
    time, rtt = delays.answered
    wait = (rtt - rtt.min()) / 1e3
    # Cross traffic that leaves the queue with the flow's packets arrived with them.
    start, end = (at[low] - np.interp(at[low], time, wait) for at in (course.time_s, ends))
    long_enough = end - start > 0.02
    return verdict, Cross(start[long_enough], end[long_enough], (line - course.rate[low])[long_enough], line)


def _within(times: Floats, course: Course) -> Ints:
    return np.searchsorted(course.time_s, times, "right") - 1


def _paces(transfers: tuple[Transfer, ...], course: Course) -> Iterator[tuple[Floats, Any]]:
    """Yield the time per packet in seconds, and the step of the course."""
    for transfer in transfers:
        duration, packets = np.diff(transfer.time_s), np.diff(transfer.bytes) / transfer.payload
        good = (packets > 0.5) & (packets < MOST_OF_A_STEP) & (duration > 0)
        yield duration[good] / packets[good], _within(transfer.time_s[1:][good], course)


def _by_neighbours(transfers: tuple[Transfer, ...], course: Course, top: Bools, line: float) -> Verdict:
    parts = list(_paces(transfers, course))
    durations, step = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    high = durations[top[step]]
    if len(high) < LEAST_STEPS:
        return "unknown"
    pace = float(np.percentile(high, NEIGHBOURS))
    if pace < EVEN * float(np.median(high)):
        return "unknown"
    shares, weight = [], []
    for number in np.flatnonzero(~top):
        own = durations[step == number]
        if len(own) < LEAST_STEPS or course.rate[number] <= 0:
            continue
        least = float(np.percentile(own, NEIGHBOURS)) / pace
        if least > EVEN:
            shares.append(np.log(least) / np.log(line / course.rate[number]))
            weight.append(len(own))
    if sum(weight) < LEAST_TELLING * (~top[step]).sum() or not shares:
        return "unknown"
    return _verdict(float(np.average(shares, weights=weight)))


def _by_waits(
    transfers: tuple[Transfer, ...], delays: Delays, course: Course, top: Bools, line: float
) -> Verdict:
    """The delay of a full queue increases on a slower link."""
    lost = np.concatenate([transfer.lost_s for transfer in transfers])
    of_losses = _within(lost, course)
    time, rtt = delays.answered
    wait, step = rtt - rtt.min(), _within(time, course)
    high = wait[top[step]]
    if not top[of_losses].any() or len(high) < LEAST_STEPS:
        return "unknown"
    shares = [
        np.log(max(float(np.percentile(wait[step == number], 95)), 0.1) / float(np.percentile(high, 95)))
        / np.log(line / course.rate[number])
        for number in np.flatnonzero(~top)
        if (of_losses == number).any() and (step == number).sum() >= LEAST_STEPS and course.rate[number] > 0
    ]
    return _verdict(float(np.median(shares))) if shares else "unknown"


def _verdict(share: float) -> Verdict:
    return "others" if share < LITTLE else "link" if share > MOST else "unknown"
