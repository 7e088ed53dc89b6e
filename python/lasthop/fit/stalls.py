"""Stalls: periods without deliveries, after which the waiting packets arrive in a burst, without losses.

Links with ARQ and in-order delivery cause them. Pauses after a loss are due to TCP.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lasthop.fit.measurement import Bools, Delays, End, Floats, Transfer, packet_ms
from lasthop.fit.summary import delivered, lost_times

# The shortest stall, in seconds and in times per packet.
LEAST_S, LEAST_PACKETS = 0.025, 8
# With fewer stalls, their frequency and duration cannot be estimated.
LEAST_COUNT = 3
# The rate of a burst relative to the line's, and its duration.
BURST, BURST_S = 2.0, 0.01
# The least share of the line's rate soon after a stall. After a timeout, TCP sends little.
AT_WORK = 0.5
# Tries of ARQ, so many that stalls end without a loss.
TRIES = 100


@dataclass(frozen=True)
class Stalls:
    """The starts and durations of stalls, in seconds."""

    start_s: Floats
    length_s: Floats
    until_s: float

    def touch(self, edges: Floats) -> Bools:
        """Return which windows between these edges overlap a stall or the time to catch up afterwards."""
        ends = self.start_s + 1.5 * self.length_s
        return np.searchsorted(self.start_s, edges[1:]) > np.searchsorted(ends, edges[:-1])

    @property
    def values(self) -> dict[str, float]:
        """Mean time from the end of a stall to the next, in seconds, and mean length, in ms."""
        free = max(self.until_s - float(self.length_s.sum()), self.until_s / 100)
        return {"stall_every": free / len(self.length_s), "stall": float(self.length_s.mean()) * 1e3}

    @property
    def shortest(self) -> float:
        """The 10 % quantile of the length, relative to the mean length."""
        return float(np.percentile(self.length_s, 10) / self.length_s.mean())

    def draw(self, count: int, rng: np.random.Generator) -> dict[str, Floats]:
        """Return draws of `values`: stalls occur at random times, and their lengths vary as observed."""
        count_ = len(self.length_s)
        every = count_ * self.values["stall_every"] / rng.gamma(count_, size=count)
        error = float(np.std(self.length_s, ddof=1)) / count_**0.5
        length = np.maximum(self.length_s.mean() + error * rng.standard_t(count_ - 1, count), LEAST_S / 2)
        return {"stall_every": every, "stall": length * 1e3}


def errors(values: Mapping[str, float], shortest: float) -> dict[str, object]:
    """Return the key `errors` of a link: bad periods in which each try fails and is repeated.

    A stall is a whole number of tries; exponential bad periods yield stalls of this mean length.
    """
    share = min(shortest, 0.95)
    delay = share * values["stall"]
    bad = max(delay / -np.log1p(-share), 2 * packet_ms(values["rate"]))
    return {
        "good": {"distribution": "exponential", "mean": f"{values['stall_every']:.4f} s"},
        "bad": f"{2 * packet_ms(values['rate']):.3f} ms"
        if shortest > 0.9
        else {"distribution": "exponential", "mean": f"{bad:.3f} ms"},
        "packet_error_probability": 1.0,
        "arq": {"retransmissions": TRIES, "delay": f"{delay:.3f} ms"},
    }


def stalls(
    transfers: tuple[Transfer, ...], delays: Delays, until_s: float, rate: float, seen_at: End
) -> Stalls | None:
    """Return the stalls of a transfer; `None` if there are too few."""
    time = np.sort(np.concatenate([transfer.time_s for transfer in transfers]))
    packet_s = packet_ms(rate) / 1e3
    begins, ends = _gaps(time, max(LEAST_S, LEAST_PACKETS * packet_s))
    at, rtt = delays.answered
    if not len(begins) or not len(rtt):
        return None
    length = ends - begins
    at_work, released = _afterwards(transfers, begins, ends, rate)
    are_stalls = _had_waited(at, rtt, begins, ends) & at_work
    if seen_at != "receiver":
        lost = lost_times(transfers)
        are_stalls &= np.searchsorted(lost, begins) == np.searchsorted(lost, ends, "right")
    if are_stalls.sum() < LEAST_COUNT or released[are_stalls].mean() < 0.5:
        return None
    return Stalls(begins[are_stalls], length[are_stalls], until_s)


def _gaps(time: Floats, least: float) -> tuple[Floats, Floats]:
    """Return long gaps between deliveries, which may contain a single ACK (due to the delayed-ACK timer)."""
    long = np.flatnonzero(np.diff(time) > least)
    if not len(long):
        return np.empty(0), np.empty(0)
    first = np.diff(long, prepend=-2) > 1
    last = np.append(first[1:], True)
    return time[long[first]], time[long[last] + 1]


def _had_waited(at: Floats, rtt: Floats, begins: Floats, ends: Floats) -> Bools:
    """Return whether packets after the gap had waited for most of it, so the sender was not idle."""
    place = np.minimum(np.searchsorted(at, ends), len(at) - 1)
    near = at[place] < ends + 0.5 * (ends - begins)
    waited: Bools = rtt[place] - rtt.min() > 800 * (ends - begins)
    return near & waited


def _afterwards(
    transfers: tuple[Transfer, ...], begins: Floats, ends: Floats, rate: float
) -> tuple[Bools, Bools]:
    """Return whether the line was busy at once after the gap, and whether it released a burst."""
    before = delivered(transfers, begins)
    half = (ends - begins) / 2
    soon = (delivered(transfers, ends + BURST_S) - before) * 8e-6
    later = (delivered(transfers, ends + half) - before) * 8e-6
    return later > AT_WORK * half * rate, soon > BURST * BURST_S * rate
