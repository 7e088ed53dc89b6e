"""Formulas of theory that pictures of simulations are compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

MATHIS_CONSTANT = math.sqrt(3 / 2)
"""C of `mathis_rate`, 1.22: the window grows by a segment per round trip.

It belongs to losses at equal distances and an ACK for every segment. Senders that count acknowledged bytes
(RFC 3465), as Linux does, have it with delayed ACKs as well. With other senders the window then grows by half
as much, and C is sqrt(3/4), 0.87. Independent losses give 1.31 (T. Ott, J. Kemperman, M. Mathis 1996).
"""


class Share(NamedTuple):
    """A flow for `max_min_shares`: the links that it crosses, and the most that it sends, or `None`."""

    links: Sequence[int]
    demand: int | None = None


def mathis_rate(segment_bytes: int, round_trip_s: float, loss: float) -> float:
    """Return the throughput of Reno in B/s with a loss probability of `loss`.

    M. Mathis, J. Semke, J. Mahdavi, T. Ott: The macroscopic behavior of the TCP congestion avoidance
    algorithm. ACM Computer Communication Review 27(3), 1997: BW = MSS/RTT * C/sqrt(p).
    """
    return segment_bytes / round_trip_s * MATHIS_CONSTANT / math.sqrt(loss)


def aimd_sawtooth(
    first: tuple[float, float], stop_s: float, most: float, round_trip_s: float, rate: float
) -> list[tuple[float, float]]:
    """Return times in seconds, and windows in segments, of Reno in congestion avoidance until `stop_s`.

    From the time and window `first`, the window grows by one segment per round trip, up to `most`, the
    segments that path and queue hold. Then a packet is lost, and the window is halved (RFC 5681, sections 3.1
    and 3.2). `round_trip_s` is the round-trip time without a queue. At a bottleneck that serves `rate`
    segments per second, a window of W segments needs at least W/`rate`.
    """
    now, window = first
    points = []
    while now < stop_s:
        if window > most:
            window = most / 2
        points.append((now, window))
        now += max(round_trip_s, window / rate)
        window += 1
    return points


def max_min_shares(capacities: Mapping[int, int], flows: Sequence[Share]) -> list[int]:
    """Return the max-min fair rate of each flow, rounded down.

    Progressive filling (D. Bertsekas, R. Gallager: Data Networks, 2nd edition 1992, section 6.5.2): the rates
    of all flows grow equally, until a flow has its demand or crosses a link that is full. `capacities` are
    those of the links. Each flow needs a demand or a link.
    """
    rates = [Fraction(0)] * len(flows)
    left = {link: Fraction(capacity) for link, capacity in capacities.items()}
    growing = list(range(len(flows)))
    while growing:
        users = {link: sum(link in flows[number].links for number in growing) for link in left}
        steps = [left[link] / count for link, count in users.items() if count]
        demands = {number: flows[number].demand for number in growing}
        steps += [demand - rates[number] for number, demand in demands.items() if demand is not None]
        step = min(steps)
        for number in growing:
            rates[number] += step
        left = {link: room - step * users[link] for link, room in left.items()}
        growing = [
            number
            for number in growing
            if rates[number] != flows[number].demand and all(left[link] > 0 for link in flows[number].links)
        ]
    return [math.floor(rate) for rate in rates]
