"""The summary of a transfer: numbers by which measured and simulated transfers are compared.

All are logarithms or shares, so that their relation to a line's properties is nearly linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.signal import lfilter

from lasthop.fit.measurement import Delays, Floats, Transfer

# Differences of round trips below this, in milliseconds, are noise: Linux' timestamps are in milliseconds.
FLOOR_MS = 0.2
# The unevenness due to clocks and hosts.
UNEVEN_FLOOR_MS = 0.02
# The largest number of packets of a step for unevenness, and the least number of such steps.
MOST_OF_A_STEP, LEAST_STEPS = 4.5, 50
# Steps of a short train, and the least number of trains for a pace.
SHORT, LEAST_TRAINS = 3, 4


@dataclass(frozen=True)
class View:
    """The resolution of the measured data, which is also applied to simulated data."""

    until_s: float
    grid_s: Floats
    """Times at which the delivered bytes are compared."""
    fine: bool
    """Whether the data contain packets."""
    rtt_at_s: Floats | None = None
    """Times of round trips, if there are only few."""
    smoothed: bool = False
    """Whether round trips are smoothed."""
    losses: Literal["times", "number", "none"] = "times"
    """The available data on losses."""

    @classmethod
    def of(
        cls, transfers: tuple[Transfer, ...], delays: Delays | None, until_s: float, *, fine: bool
    ) -> View:
        if fine:
            return cls(until_s, np.linspace(0, until_s, 101), fine=True)
        grid = transfers[0].time_s
        rtt = None if delays is None else delays.time_s
        losses: Literal["times", "number", "none"] = "times"
        if not all(transfer.timed for transfer in transfers):
            losses = "none" if any(transfer.repeated is None for transfer in transfers) else "number"
        return cls(
            until_s,
            np.concatenate([[0.0], grid[grid > 0]]),
            fine=False,
            rtt_at_s=rtt,
            smoothed=delays is not None and delays.smoothed,
            losses=losses,
        )


def delivered(transfers: tuple[Transfer, ...], times: Floats) -> Floats:
    """Return the bytes of all transfers delivered until these times, including headers."""
    total = np.zeros(len(times))
    for transfer in transfers:
        scale = 1 + transfer.overhead / transfer.payload
        total += np.interp(times, transfer.time_s, transfer.bytes * scale, left=0.0)
    return total


def summarise(transfers: tuple[Transfer, ...], delays: Delays | None, view: View) -> Floats:
    time = view.grid_s
    if not view.fine:
        transfers = tuple(replace(transfer, lost_s=_spread(transfer.lost_s, time)) for transfer in transfers)
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
    # Over windows of a twentieth: the highest throughput of the line.
    width = max(1, len(rates) // 20)
    smooth = np.convolve(rates, np.ones(width) / width, "valid")
    ranks = np.concatenate([ranks, np.percentile(smooth, [50, 80, 95, 100])])
    return [*means, *np.log(np.maximum(ranks, means_floor(volume, until))).tolist()]


def means_floor(volume: Floats, until: float) -> float:
    """Return a hundredth of the mean rate; lower rates are not distinguished."""
    return float(max(volume[-1] * 8e-6 / until * 0.01, 1e-4))


def _spread(lost: Floats, grid: Floats) -> Floats:
    """Distribute losses evenly over each interval, as in counters."""
    counts = np.histogram(lost, grid)[0]
    ends = zip(grid[:-1], grid[1:], counts, strict=True)
    return np.concatenate([np.linspace(start, end, count + 2)[1:-1] for start, end, count in ends])


def lost_times(transfers: tuple[Transfer, ...]) -> Floats:
    """Return the times of losses of all transfers, in order."""
    return np.sort(np.concatenate([transfer.lost_s for transfer in transfers]))


def lost_of(transfers: tuple[Transfer, ...], until_s: float) -> int:
    """Return the number of packets lost or retransmitted until a time."""
    return sum(
        int((transfer.lost_s <= until_s).sum()) if transfer.repeated is None else transfer.repeated
        for transfer in transfers
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
    time, rtt = delays.answered
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
        *(float(np.log(trip - least + FLOOR_MS)) for trip in at_losses),
    ]


def _at_losses(transfers: tuple[Transfer, ...], time: Floats, rtt: Floats, view: View) -> float:
    """Return the median of the greatest round trip just before losses, or a high quantile without losses."""
    lost = lost_times(transfers)
    lost = lost[lost <= view.until_s]
    back = 2.0 * float(np.median(rtt)) / 1e3
    greatest = []
    last = -np.inf
    for at in lost:
        if at < last + back:
            continue
        last = at
        inside = rtt[np.searchsorted(time, at - back) : np.searchsorted(time, at)]
        if len(inside):
            greatest.append(inside.max())
    return float(np.median(greatest)) if greatest else float(np.percentile(rtt, 99))


def at_first(transfers: tuple[Transfer, ...], time: Floats, rtt: Floats) -> float:
    """Return the greatest round trip before the first loss, due to the queue in slow start.

    Later round trips may be longer because of repairs.
    """
    lost = lost_times(transfers)
    before = rtt[time <= lost[0]] if len(lost) else rtt
    return float(before.max()) if len(before) else float(rtt[0])


def trains(transfers: tuple[Transfer, ...], length: int) -> Floats:
    """Return the paces of trains of this number of steps, in Mbit/s."""
    paces = [np.empty(0)]
    for transfer in transfers:
        amount = transfer.bytes[length:] - transfer.bytes[:-length]
        duration = transfer.time_s[length:] - transfer.time_s[:-length]
        good = (amount > 0) & (duration > 0)
        paces.append(amount[good] * (1 + transfer.overhead / transfer.payload) * 8e-6 / duration[good])
    return np.concatenate(paces)


def _spacing(transfers: tuple[Transfer, ...]) -> list[float]:
    """Return quantiles of the pace of trains of packets, which depends on the line's serialisation."""
    numbers = []
    for length in (SHORT, 8, 32):
        pace = trains(transfers, length)
        if len(pace) < LEAST_TRAINS:
            numbers += [0.0] * 4
        else:
            numbers += np.log(np.percentile(pace, [25, 50, 75, 90])).tolist()
    return [*numbers, float(np.log(unevenness(transfers) + UNEVEN_FLOOR_MS))]


def unevenness(transfers: tuple[Transfer, ...]) -> float:
    """Return the variation of the time per packet on a busy line, in ms.

    It is the interquartile range of the difference between the time of a step of few packets and the time at
    the median pace. A busy line without jitter serialises evenly.
    """
    late = []
    for transfer in transfers:
        durations, packets = np.diff(transfer.time_s) * 1e3, np.diff(transfer.bytes) / transfer.payload
        good = (packets > 0) & (packets < MOST_OF_A_STEP)
        if good.sum() < LEAST_STEPS:
            continue
        pace = float(np.median(durations[good] / packets[good]))
        if pace <= 0:  # most packets arrived at once
            continue
        expected = packets[good] * pace
        late.append((durations[good] - expected)[durations[good] < 3 * expected])
    if not late:
        return 0.0
    ends = np.percentile(np.concatenate(late), [25, 75])
    return float(ends[1] - ends[0])
