"""The way of the ACKs: what its rate may be, which they do not tell, and what that means for the delay."""

from __future__ import annotations

import numpy as np

from lasthop.fit.measurement import Direction, Floats

# How many times as fast as the way of the data it may be: lines of access are slower up than down, if uneven.
SHARES: dict[Direction, tuple[float, float]] = {"down": (1 / 20, 2.0), "up": (1 / 2, 20.0)}
# Bytes of an ACK with timestamps, which most have.
ACK = 52


def in_runs(rate: Floats | float) -> Floats:
    """The rate of the way back that simulated lines have, for that of the data, in Mbit/s."""
    return np.maximum(rate, 1.0)


def drawn(rates: Floats, direction: Direction, seed: int) -> Floats:
    """Draw a rate of the way back for each rate of the data in a direction, uniform in the logarithm."""
    low, high = np.log(SHARES[direction])
    return rates * np.exp(np.random.default_rng((seed, 1)).uniform(low, high, len(rates)))


def delays(rtt: Floats, rate: Floats, back: Floats) -> Floats:
    """The delays in ms that go with these rates of the way back, for those that simulated lines had.

    The time of an ACK on its way is part of each round trip.
    """
    later = 8e-3 * ACK * (1 / in_runs(rate) - 1 / back)
    return np.maximum(rtt + later, rtt / 2)
