"""The course of a rate: the throughput of a line while there was a standing queue.

A standing queue keeps the link busy, so the rate of deliveries is then the link's rate, or the part that
other traffic leaves. A round trip shows a queueing delay, and the link was busy during this delay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lasthop.fit.measurement import Bools, Delays, End, Floats, Ints, Transfer
from lasthop.fit.stalls import Stalls
from lasthop.fit.summary import delivered, unevenness

# The least number of packets and duration of a window, and the largest number of windows.
LEAST_PACKETS, LEAST_S, MOST_WINDOWS = 12, 0.05, 300
# The uncertainty of a window's count in packets, as a standard deviation: ACKs cover two packets.
UNCERTAIN_PACKETS = 1.5
# The uncertainty of a window's volume as a share: no line is more even.
UNEVEN = 0.02
# The penalty of a change, in logarithms of the number of windows; 2 would be the Bayesian criterion.
PENALTY = 4.0
# Standard deviation of the logarithm below which a constant rate explains the course.
LEAST_SPREAD = 0.05
# The least share of the time with a standing queue.
LEAST_COVERED = 0.5
# The share of a window that queueing delays must cover.
COVERED = 0.9


@dataclass(frozen=True)
class Course:
    """A rate in steps, in Mbit/s."""

    time_s: Floats
    """Beginning of each step; the first is 0."""
    rate: Floats
    until_s: float
    covered_share: float
    """Share of the time with a standing queue."""
    error: float = 0.0
    """Relative standard deviation of the mean."""

    @property
    def lengths(self) -> Floats:
        return np.diff(self.time_s, append=self.until_s)

    @property
    def mean(self) -> float:
        return float(self.lengths @ self.rate / self.lengths.sum())

    @property
    def spread(self) -> float:
        """The standard deviation of the logarithm of the rate."""
        share = self.lengths / self.lengths.sum()
        level = np.log(np.maximum(self.rate, 1e-3 * self.rate.max()))
        return float(np.sqrt(share @ (level - share @ level) ** 2))

    @property
    def varies(self) -> bool:
        return len(self.rate) > 1 and self.spread > LEAST_SPREAD

    def shifted(self, by_s: float) -> Course:
        """Return the course shifted to later times; the first rate also applies before."""
        return replace(
            self, time_s=np.concatenate([[0.0], self.time_s[1:] + by_s]), until_s=self.until_s + by_s
        )

    def text(self) -> str:
        """Return the text of the file for a link's `course`."""
        rows = (f"{at:.4f},{rate * 1e6:.0f}" for at, rate in zip(self.time_s, self.rate, strict=True))
        return "\n".join(["time_s,rate_bps", *rows]) + "\n"


@dataclass(frozen=True)
class Windows:
    """The delivered volume in each window."""

    edges_s: Floats
    megabits: Floats
    busy: Bools
    """Whether there was a standing queue all the time."""
    uncertain: Floats
    """Standard deviations of `megabits`."""

    @property
    def lengths(self) -> Floats:
        return np.diff(self.edges_s)

    @property
    def usual(self) -> float:
        """The median rate with a standing queue, in Mbit/s; NaN if there was none."""
        rates = (self.megabits / self.lengths)[self.busy]
        return float(np.median(rates)) if len(rates) else float("nan")


def windows(
    transfers: tuple[Transfer, ...],
    delays: Delays,
    until_s: float,
    seen_at: End,
    *,
    stalls: Stalls | None = None,
    others: tuple[Transfer, ...] = (),
) -> Windows | None:
    """Count deliveries; `None` if there are too few data. Windows with stalls do not count as busy.

    Packets of `others` count, but show no queue.
    """
    time, rtt = delays.answered
    start = max(float(transfer.time_s[0]) for transfer in transfers)
    total = delivered(transfers, np.array([start, until_s]))
    packet = transfers[0].packet
    packets = float(total[1] - total[0]) / packet
    if not len(rtt) or packets < 10 * LEAST_PACKETS:
        return None
    span = until_s - start
    width = max(LEAST_S, LEAST_PACKETS * span / packets, span / MOST_WINDOWS)
    edges = np.linspace(start, until_s, max(3, int(span / width)) + 1)
    if seen_at != "receiver":
        edges = _outside_repairs(edges, transfers, time, rtt)
    megabits = np.diff(delivered((*transfers, *others), edges)) * 8e-6
    late = unevenness(transfers) / 1e3 * megabits / np.diff(edges)
    count_error = UNCERTAIN_PACKETS * packet * 8e-6
    uncertain = np.sqrt(count_error**2 + late**2 + (UNEVEN * megabits) ** 2)
    busy = _busy(edges, time, rtt, 1e3 * span / packets)
    if stalls is not None:
        busy &= ~stalls.touch(edges)
    return Windows(edges, megabits, busy, uncertain)


def _outside_repairs(edges: Floats, transfers: tuple[Transfer, ...], time: Floats, rtt: Floats) -> Floats:
    """Omit edges between a loss and the ACK of its repair, when ACKs do not show what has arrived."""
    inside = np.zeros(len(edges), bool)
    for transfer in transfers:
        lost = np.sort(transfer.lost_s)
        if not len(lost):
            continue
        duration = np.interp(lost, time, rtt) / 1e3
        inside |= np.searchsorted(
            lost, edges + 0.25 * np.interp(edges, time, rtt) / 1e3, "right"
        ) > np.searchsorted(np.maximum.accumulate(lost + 1.25 * duration), edges, "right")
    inside[[0, -1]] = False
    return edges[~inside]


def _busy(edges: Floats, time: Floats, rtt: Floats, packet_ms: float) -> Bools:
    """Return whether queueing delays, which end with deliveries, cover each window."""
    wait = rtt - rtt.min()
    stood = wait > max(2 * packet_ms, 0.05 * float(rtt.min()), 1.0)
    ends, begins = time[stood], time[stood] - wait[stood] / 1e3
    if not len(ends):
        return np.zeros(len(edges) - 1, bool)
    fine = np.linspace(edges[0], edges[-1], 20 * len(edges))
    order = np.argsort(begins)
    reach = np.maximum.accumulate(ends[order])
    place = np.searchsorted(begins[order], fine, "right") - 1
    covered = (place >= 0) & (reach[np.maximum(place, 0)] >= fine)
    sums = np.interp(edges, fine, np.cumsum(covered) / len(fine) * (edges[-1] - edges[0]))
    stands: Bools = np.diff(sums) >= COVERED * np.diff(edges)
    return stands


def course(seen: Windows) -> Course | None:
    """Return the steps that explain the deliveries best; `None` without a standing queue."""
    chosen = np.flatnonzero(seen.busy)
    if len(chosen) < 3:
        return None
    length, volume, doubt = seen.lengths[chosen], seen.megabits[chosen], seen.uncertain[chosen]
    firsts = _steps(length, volume, doubt)
    lasts = np.append(firsts[1:], len(chosen)) - 1
    rates = np.array(
        [volume[a : b + 1].sum() / length[a : b + 1].sum() for a, b in zip(firsts, lasts, strict=True)]
    )
    # Without a queue the rate was at least that of the deliveries: a smaller rate would have built a queue.
    begins = [0.0]
    for number in range(1, len(rates)):
        before, after = seen.edges_s[chosen[lasts[number - 1]] + 1], seen.edges_s[chosen[firsts[number]]]
        begins.append(before if rates[number] > rates[number - 1] else after)
    begin = _sharpened(np.asarray(begins), rates, seen)
    covered_share = float(length.sum() / (seen.edges_s[-1] - seen.edges_s[0]))
    error = float(np.sqrt((doubt**2).sum()) / volume.sum())
    return Course(begin, rates, float(seen.edges_s[-1]), covered_share, error)


def _steps(length: Floats, volume: Floats, doubt: Floats) -> Ints:
    """Return the first windows of the steps: the best partition (Jackson and others 2005), least squares."""
    weight = 1 / doubt**2
    # Cumulative sums, so that the squares of each part are three differences.
    a, b, c = (
        np.concatenate([[0.0], np.cumsum(weight * values)])
        for values in (length**2, length * volume, volume**2)
    )
    count = len(length)
    penalty = PENALTY * np.log(count)
    best, back = np.full(count + 1, np.inf), np.zeros(count + 1, np.int64)
    best[0] = -penalty
    for end in range(1, count + 1):
        squares = (c[end] - c[:end]) - (b[end] - b[:end]) ** 2 / (a[end] - a[:end])
        costs = best[:end] + squares + penalty
        back[end] = np.argmin(costs)
        best[end] = costs[back[end]]
    firsts = []
    at = count
    while at > 0:
        at = int(back[at])
        firsts.append(at)
    return np.asarray(firsts[::-1], np.int64)


def _sharpened(begins: Floats, rates: Floats, seen: Windows) -> Floats:
    """Move each change by up to a window to the intersection of two lines through the delivered volume."""
    total = np.concatenate([[0.0], np.cumsum(seen.megabits)])
    ends = np.append(begins[1:], seen.edges_s[-1])
    moved = begins.copy()
    for number in range(1, len(rates)):
        left, right = max(begins[number - 1], seen.edges_s[0]), ends[number]
        low, high = np.interp([left, right], seen.edges_s, total)
        before, after = rates[number - 1], rates[number]
        meet = (high - low + before * left - after * right) / (before - after)
        if abs(meet - begins[number]) <= seen.lengths.mean():
            moved[number] = meet
    return np.maximum.accumulate(moved)
