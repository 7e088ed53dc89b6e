"""Data that were acknowledged although the capture does not contain them.

A program that captures too slowly misses packets, usually many in a row. They are not losses, and the time in
which they are missing is not a pause.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop.fit.measurement import Floats, Ints


@dataclass(frozen=True)
class Missing:
    """The missing packets, at even distances within the gaps."""

    time: Floats
    begin: Ints
    size: Ints
    start: Floats
    """The beginning of each gap, in seconds."""
    end: Floats

    def note(self, name: str, captured: int) -> str | None:
        """Return a sentence on them; `None` if there are none."""
        count = len(self.time)
        if not count:
            return None
        longest = 1e3 * float((self.end - self.start).max())
        return (
            f"Missing packets: {count} of the {captured + count} data packets of {name} were acknowledged "
            f"but are not in the capture, in gaps of up to {longest:.3g} ms. Deliveries in the gaps were "
            "interpolated and losses there not counted, so buffer, loss, jitter and congestion control may "
            "be wrong."
        )

    def acknowledged(self, time: Floats, acked: Ints, step: int) -> tuple[Floats, Ints]:
        """Return the times of ACKs and what they acknowledge, with ACKs in the gaps for each `step` bytes."""
        times, totals = [time], [acked]
        after = np.unique(np.searchsorted(time, self.end))
        for place in after[(after > 0) & (after < len(time))]:
            count = int(acked[place] - acked[place - 1]) // step
            part = np.arange(1, count) / max(count, 1)
            times.append(time[place - 1] + part * (time[place] - time[place - 1]))
            totals.append(acked[place - 1] + np.arange(1, count) * step)
        order = np.argsort(np.concatenate(times), kind="stable")
        return np.concatenate(times)[order], np.concatenate(totals)[order]


def missing(every: Floats, time: Floats, begin: Ints, size: Ints, *, acked: int, mss: int) -> Missing:
    """Return the packets that a flow's data packets lack up to the byte `acked`.

    `every` has the times of all packets of the file. The gap is the longest time without any packet between
    the neighbours of what is missing.
    """
    order = np.argsort(begin, kind="stable")
    high = np.maximum.accumulate((begin + size)[order])
    holes = np.flatnonzero((begin[order][1:] > high[:-1]) & (begin[order][1:] <= acked))
    reach = np.maximum.accumulate(begin + size)
    rows = []
    for hole in holes:
        first, last = int(high[hole]), int(begin[order][hole + 1])
        after = int(np.searchsorted(reach, first, "right"))
        around = every[
            np.searchsorted(every, time[max(after - 1, 0)]) : np.searchsorted(every, time[after], "right")
        ]
        longest = int(np.argmax(np.diff(around))) if len(around) > 1 else 0
        start, end = float(around[longest]), float(around[min(longest + 1, len(around) - 1)])
        begins = np.arange(first, last, mss)
        rows.append(
            (begins, np.diff(begins, append=last), np.full(len(begins), start), np.full(len(begins), end))
        )
    if not rows:
        empty, none = np.empty(0), np.empty(0, np.int64)
        return Missing(empty, none, none, empty, empty)
    begins, sizes, starts, ends = (np.concatenate(column) for column in zip(*rows, strict=True))
    gaps, gap, counts = np.unique(starts, return_inverse=True, return_counts=True)
    # In the order of their data: holes are sorted, and those of a gap may be several.
    order = np.argsort(gap, kind="stable")
    number = np.arange(len(gap)) - np.repeat(np.cumsum(counts) - counts, counts)
    part = (number + 1) / (np.repeat(counts, counts) + 1)
    times = starts[order] + part * (ends - starts)[order]
    last_of = np.searchsorted(starts[order], gaps, "right") - 1
    return Missing(times, begins[order], sizes[order], gaps, ends[order][last_of])
