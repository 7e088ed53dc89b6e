"""Stalls: times without any delivery, after which what waited comes in a burst, and nothing is lost.

A link that repeats what it lost and keeps packets in order makes them. A pause that follows a loss is TCP's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lasthop.fit.measurement import Bools, Delays, End, Floats, Transfer, packet_ms
from lasthop.fit.summary import delivered, lost_times

# The shortest, in seconds and in times that a packet takes.
LEAST_S, LEAST_PACKETS = 0.025, 8
# Fewer tell neither how often nor how long.
LEAST_COUNT = 3
# A burst is so many times as fast as the line.
BURST, BURST_S = 2.0, 0.01
# Part of what the line can carry that comes soon after a stall at least. After a timeout, TCP sends little.
AT_WORK = 0.5
# Tries after which ARQ would give up; these stalls end without a loss.
TRIES = 100


@dataclass(frozen=True)
class Stalls:
    """When they began and how long they took, in seconds."""

    start_s: Floats
    length_s: Floats
    until_s: float

    def touch(self, edges: Floats) -> Bools:
        """Which of the windows between these edges a stall touches, or until the line has caught up."""
        ends = self.start_s + 1.5 * self.length_s
        return np.searchsorted(self.start_s, edges[1:]) > np.searchsorted(ends, edges[:-1])

    @property
    def values(self) -> dict[str, float]:
        """Mean time from the end of a stall to the next, in seconds, and mean length, in ms."""
        free = max(self.until_s - float(self.length_s.sum()), self.until_s / 100)
        return {"stall_every": free / len(self.length_s), "stall": float(self.length_s.mean()) * 1e3}

    @property
    def shortest(self) -> float:
        """How long the shorter ones are, as a part of the mean length."""
        return float(np.percentile(self.length_s, 10) / self.length_s.mean())

    def drawn(self, count: int, rng: np.random.Generator) -> dict[str, Floats]:
        """Draws of `values`: stalls come at random times, and their lengths vary as those seen."""
        seen = len(self.length_s)
        every = seen * self.values["stall_every"] / rng.gamma(seen, size=count)
        error = float(np.std(self.length_s, ddof=1)) / seen**0.5
        length = np.maximum(self.length_s.mean() + error * rng.standard_t(seen - 1, count), LEAST_S / 2)
        return {"stall_every": every, "stall": length * 1e3}


def errors(values: Mapping[str, float], shortest: float) -> dict[str, object]:
    """The key `errors` of a link: bad times in which each try fails, repeated until one succeeds.

    A stall is a whole number of tries, so bad times that are exponential make stalls of this mean length.
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
    """The stalls of a transfer; None if there are too few."""
    time = np.sort(np.concatenate([one.time_s for one in transfers]))
    packet_s = packet_ms(rate) / 1e3
    begins, ends = _gaps(time, max(LEAST_S, LEAST_PACKETS * packet_s))
    at, rtt = delays.known
    if not len(begins) or not len(rtt):
        return None
    length = ends - begins
    at_work, released = _afterwards(transfers, begins, ends, rate)
    kept = _waited(at, rtt, begins, ends) & at_work
    if seen_at != "receiver":
        lost = lost_times(transfers)
        kept &= np.searchsorted(lost, begins) == np.searchsorted(lost, ends, "right")
    if kept.sum() < LEAST_COUNT or released[kept].mean() < 0.5:
        return None
    return Stalls(begins[kept], length[kept], until_s)


def _gaps(time: Floats, least: float) -> tuple[Floats, Floats]:
    """Long times between deliveries. One ACK within them may be that of the timer for delayed ACKs."""
    long = np.flatnonzero(np.diff(time) > least)
    if not len(long):
        return np.empty(0), np.empty(0)
    first = np.diff(long, prepend=-2) > 1
    last = np.append(first[1:], True)
    return time[long[first]], time[long[last] + 1]


def _waited(at: Floats, rtt: Floats, begins: Floats, ends: Floats) -> Bools:
    """Whether what came after the gap had waited for most of it, so that the sender was not silent."""
    place = np.minimum(np.searchsorted(at, ends), len(at) - 1)
    near = at[place] < ends + 0.5 * (ends - begins)
    waited: Bools = rtt[place] - rtt.min() > 800 * (ends - begins)
    return near & waited


def _afterwards(
    transfers: tuple[Transfer, ...], begins: Floats, ends: Floats, rate: float
) -> tuple[Bools, Bools]:
    """Whether the line was at work again at once, and whether it released together what it had held back."""
    before = delivered(transfers, begins)
    half = (ends - begins) / 2
    soon = (delivered(transfers, ends + BURST_S) - before) * 8e-6
    later = (delivered(transfers, ends + half) - before) * 8e-6
    return later > AT_WORK * half * rate, soon > BURST * BURST_S * rate
