"""The way of the ACKs: what its rate may be, which they do not tell, and what that means for the delay."""

from collections.abc import Mapping

import numpy as np

from lasthop.fit.measurement import Direction, Floats

Shares = tuple[float, float]
"""The least and the most of what a rate may be, as parts of the rate of the way of the data."""

# Lines of access are slower up than down, if uneven.
ANY: dict[Direction, Shares] = {"down": (1 / 20, 2.0), "up": (1 / 2, 20.0)}
# Bytes of an ACK with timestamps, which most have.
ACK = 52
# Parts of the golden ratio fall evenly into an interval, however many there are.
GOLDEN = 0.618034


def usual(rate: Floats | float) -> Floats:
    """The rate of the way back, in Mbit/s, that is taken for that of the data if nothing else is said."""
    return np.maximum(rate, 1.0)


def drawn(rates: Floats, shares: Shares, seed: int) -> Floats:
    """Draw a rate of the way back for each rate of the data, uniform in the logarithm."""
    return _between(rates, shares, np.random.default_rng((seed, 1)).random(len(rates)))


def _between(rates: Floats, shares: Shares, part: Floats | float) -> Floats:
    """The rates of the way back that lie so far from the least to the most, in the logarithm."""
    low, high = np.log(shares)
    between: Floats = rates * np.exp(low + (high - low) * part)
    return between


def delay_with(rtt: Floats, rate: Floats, back: Floats) -> Floats:
    """The delays in ms that go with these rates of the way back, for those that go with the usual ones.

    The round trips stay the same, and the time of an ACK on its way is part of them.
    """
    later = 8e-3 * ACK * (1 / usual(rate) - 1 / back)
    return np.maximum(rtt + later, rtt / 2)


def of_run(values: Mapping[str, float], shares: Shares, number: int) -> dict[str, float]:
    """The values of a line for a run: with a rate of the way back by its number, and the same round trips."""
    rate = np.array(values["rate"])
    back = _between(rate, shares, number * GOLDEN % 1.0)
    rtt = delay_with(np.array(values["rtt"]), rate, back)
    return {**values, "back": float(back), "rtt": float(rtt)}
