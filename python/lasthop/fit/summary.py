"""A transfer in a few numbers, which a measured and a simulated one are compared by.

All are logarithms or shares, so that they change about as a line's properties do, and steps of a regression
fit them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.signal import lfilter

from lasthop.fit.measurement import Delays, Floats, Transfer

# Milliseconds below which differences of round trips say nothing: Linux counts timestamps in milliseconds.
FLOOR_MS = 0.2
# Of clocks and hosts, below which the steps of a busy line are even.
UNEVEN_FLOOR_MS = 0.02
# Packets of a step that says how evenly they came, and how many such steps it takes.
MOST_OF_A_STEP, LEAST_STEPS = 4.5, 50
# Steps of a short train, and trains that say something of the pace.
SHORT, LEAST_TRAINS = 3, 4


@dataclass(frozen=True)
class View:
    """How closely the measured data can be looked at. The simulated ones are looked at through the same."""

    until_s: float
    grid_s: Floats
    """Times at which the delivered bytes are compared."""
    fine: bool
    """Whether single packets were seen."""
    rtt_at_s: Floats | None = None
    """When round trips were seen, where that is at few times only."""
    smoothed: bool = False
    """Whether these are smoothed."""
    losses: Literal["times", "number", "none"] = "times"
    """What is known of losses."""

    @classmethod
    def of(
        cls, transfers: tuple[Transfer, ...], delays: Delays | None, until_s: float, *, fine: bool
    ) -> View:
        """Look as closely as these data allow."""
        if fine:
            return cls(until_s, np.linspace(0, until_s, 101), fine=True)
        grid = transfers[0].time_s
        rtt = None if delays is None else delays.time_s
        losses: Literal["times", "number", "none"] = "times"
        if not all(one.timed for one in transfers):
            losses = "none" if any(one.repeated is None for one in transfers) else "number"
        return cls(
            until_s,
            np.concatenate([[0.0], grid[grid > 0]]),
            fine=False,
            rtt_at_s=rtt,
            smoothed=delays is not None and delays.smoothed,
            losses=losses,
        )


def delivered(transfers: tuple[Transfer, ...], times: Floats) -> Floats:
    """Bytes of all transfers delivered until these times, with their headers."""
    total = np.zeros(len(times))
    for one in transfers:
        scale = 1 + one.overhead / one.payload
        total += np.interp(times, one.time_s, one.bytes * scale, left=0.0)
    return total


def summarise(transfers: tuple[Transfer, ...], delays: Delays | None, view: View) -> Floats:
    time = view.grid_s
    if not view.fine:
        transfers = tuple(replace(one, lost_s=_spread(one.lost_s, time)) for one in transfers)
    volume = delivered(transfers, time)
    rates = np.diff(volume) * 8 / 1e6 / np.maximum(np.diff(time), 1e-9)
    numbers = _goodput(volume, time, rates)
    if view.losses == "times":
        numbers += _losses(transfers, view)
    elif view.losses == "number":
        numbers.append(float(np.log(lost_of(transfers, view.until_s) + 0.5)))
    if delays is not None and np.isfinite(delays.rtt_ms).sum() > 3:
        numbers += _trips(transfers, delays, view)
    if view.fine:
        numbers += _spacing(transfers)
    return np.asarray(numbers)


def _goodput(volume: Floats, time: Floats, rates: Floats) -> list[float]:
    until = time[-1]
    parts = [(0, 1), (0, 0.02), (0.02, 0.05), (0.05, 0.1), (0.1, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)]
    between = [np.diff(np.interp([a * until, b * until], time, volume))[0] for a, b in parts]
    means = [
        float(np.log(max(amount, 500) * 8e-6 / ((b - a) * until)))
        for amount, (a, b) in zip(between, parts, strict=True)
    ]
    ranks = np.percentile(rates, [10, 25, 50, 75, 90, 97])
    # Over windows of a twentieth: what the line carries at its best.
    width = max(1, len(rates) // 20)
    smooth = np.convolve(rates, np.ones(width) / width, "valid")
    ranks = np.concatenate([ranks, np.percentile(smooth, [50, 80, 95, 100])])
    return [*means, *np.log(np.maximum(ranks, means_floor(volume, until))).tolist()]


def means_floor(volume: Floats, until: float) -> float:
    """A hundredth of the mean rate, below which rates are not told apart."""
    return float(max(volume[-1] * 8e-6 / until * 0.01, 1e-4))


def _spread(lost: Floats, grid: Floats) -> Floats:
    """The same losses at even times of each interval: counters know no others."""
    counts = np.histogram(lost, grid)[0]
    ends = zip(grid[:-1], grid[1:], counts, strict=True)
    return np.concatenate([np.linspace(start, end, count + 2)[1:-1] for start, end, count in ends])


def lost_times(transfers: tuple[Transfer, ...]) -> Floats:
    """When losses of all transfers were seen, in order."""
    return np.sort(np.concatenate([one.lost_s for one in transfers]))


def lost_of(transfers: tuple[Transfer, ...], until_s: float) -> int:
    """How many packets were lost or sent again until then, as far as that is known."""
    return sum(
        int((one.lost_s <= until_s).sum()) if one.repeated is None else one.repeated for one in transfers
    )


def _losses(transfers: tuple[Transfer, ...], view: View) -> list[float]:
    lost = lost_times(transfers)
    lost = lost[lost <= view.until_s]
    gap = view.until_s / 50
    episodes = 1 + int((np.diff(lost) > gap).sum()) if len(lost) else 0
    first = float(lost[0]) if len(lost) else view.until_s
    half = int((lost > view.until_s / 2).sum())
    numbers = [np.log(len(lost) + 0.5), np.log(half + 0.5), np.log(episodes + 0.5)]
    return [*map(float, numbers), float(np.log(first + 0.01 * view.until_s))]


def _trips(transfers: tuple[Transfer, ...], delays: Delays, view: View) -> list[float]:
    time, rtt = delays.known
    if view.rtt_at_s is not None and len(time):
        if view.smoothed and len(rtt) > len(view.rtt_at_s):  # as a sender does (RFC 6298, section 2)
            rtt = np.asarray(lfilter([1 / 8], [1, -7 / 8], rtt, zi=[7 / 8 * rtt[0]])[0])
        rtt = np.interp(view.rtt_at_s[view.rtt_at_s <= view.until_s], time, rtt)
        time = view.rtt_at_s[view.rtt_at_s <= view.until_s]
    ranks = np.percentile(rtt, [0, 5, 25, 50, 75, 95, 99])
    least = ranks[0]
    above = np.log(ranks[1:] - least + FLOOR_MS)
    late = rtt[time > view.until_s / 3]
    late_ranks = np.percentile(late if len(late) else rtt, [0, 10, 50, 90])
    steps = np.abs(np.diff(rtt)) if len(rtt) > 1 else np.zeros(1)
    jitter = np.log(np.percentile(steps, [50, 90]) + FLOOR_MS / 4)
    at_losses = []
    if view.losses == "times":
        at_losses = [_at_losses(transfers, time, rtt, view), at_first(transfers, time, rtt)]
    return [
        float(np.log(least)),
        *np.log(ranks[1:]).tolist(),
        *above.tolist(),
        *np.log(late_ranks - least + FLOOR_MS).tolist(),
        *jitter.tolist(),
        *(float(np.log(one - least + FLOOR_MS)) for one in at_losses),
    ]


def _at_losses(transfers: tuple[Transfer, ...], time: Floats, rtt: Floats, view: View) -> float:
    """The usual greatest round trip just before a loss was seen; the greatest of all without losses."""
    lost = lost_times(transfers)
    lost = lost[lost <= view.until_s]
    back = 2.0 * float(np.median(rtt)) / 1e3
    seen = []
    last = -np.inf
    for at in lost:
        if at < last + back:
            continue
        last = at
        inside = rtt[np.searchsorted(time, at - back) : np.searchsorted(time, at)]
        if len(inside):
            seen.append(inside.max())
    return float(np.median(seen)) if seen else float(np.percentile(rtt, 99))


def at_first(transfers: tuple[Transfer, ...], time: Floats, rtt: Floats) -> float:
    """The greatest round trip before the first loss: of the queue that slow start filled.

    No repair has made any of these longer, as it makes later ones.
    """
    lost = lost_times(transfers)
    before = rtt[time <= lost[0]] if len(lost) else rtt
    return float(before.max()) if len(before) else float(rtt[0])


def trains(transfers: tuple[Transfer, ...], length: int) -> Floats:
    """The paces of so many steps in a row, in Mbit/s."""
    paces = [np.empty(0)]
    for one in transfers:
        amount = one.bytes[length:] - one.bytes[:-length]
        took = one.time_s[length:] - one.time_s[:-length]
        good = (amount > 0) & (took > 0)
        paces.append(amount[good] * (1 + one.overhead / one.payload) * 8e-6 / took[good])
    return np.concatenate(paces)


def _spacing(transfers: tuple[Transfer, ...]) -> list[float]:
    """The pace of trains of packets: what the line's serialisation leaves of them."""
    numbers = []
    for length in (SHORT, 8, 32):
        pace = trains(transfers, length)
        if len(pace) < LEAST_TRAINS:
            numbers += [0.0] * 4
        else:
            numbers += np.log(np.percentile(pace, [25, 50, 75, 90])).tolist()
    return [*numbers, float(np.log(unevenness(transfers) + UNEVEN_FLOOR_MS))]


def unevenness(transfers: tuple[Transfer, ...]) -> float:
    """How much the time that packets took beside each other varies in a busy line, in ms.

    It is the distance between the quartiles of what each step of few packets took beyond its share of the
    usual pace. A busy line without jitter serialises evenly.
    """
    late = []
    for one in transfers:
        took, packets = np.diff(one.time_s) * 1e3, np.diff(one.bytes) / one.payload
        good = (packets > 0) & (packets < MOST_OF_A_STEP)
        if good.sum() < LEAST_STEPS:
            continue
        pace = float(np.median(took[good] / packets[good]))
        if pace <= 0:  # Most came at once, as after a wait of all.
            continue
        expected = packets[good] * pace
        late.append((took[good] - expected)[took[good] < 3 * expected])
    if not late:
        return 0.0
    ends = np.percentile(np.concatenate(late), [25, 75])
    return float(ends[1] - ends[0])
