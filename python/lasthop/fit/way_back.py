"""The unknown rate of the ACKs' direction, and its effect on the estimate of the delay."""

from collections.abc import Mapping

import numpy as np

from lasthop.fit.measurement import Direction, Floats

Shares = tuple[float, float]
"""The least and the greatest rate, relative to the rate in the direction of the data."""

# Asymmetric access lines are slower in the direction up.
ANY: dict[Direction, Shares] = {"down": (1 / 20, 2.0), "up": (1 / 2, 20.0)}
# Bytes of an ACK with timestamps, which are common.
ACK = 52
# Multiples of the golden ratio, modulo 1, are evenly distributed, whatever their number.
GOLDEN = 0.618034


def usual(rate: Floats | float) -> Floats:
    """Return the default rate of the ACKs' direction for a rate of the data, in Mbit/s."""
    return np.maximum(rate, 1.0)


def draw(rates: Floats, shares: Shares, seed: int) -> Floats:
    """Draw a rate of the ACKs' direction for each rate of the data, log-uniformly."""
    return _between(rates, shares, np.random.default_rng((seed, 1)).random(len(rates)))


def _between(rates: Floats, shares: Shares, part: Floats | float) -> Floats:
    """Interpolate between the least and the greatest rate, logarithmically."""
    low, high = np.log(shares)
    between: Floats = rates * np.exp(low + (high - low) * part)
    return between


def delay_with(rtt: Floats, rate: Floats, back: Floats) -> Floats:
    """Convert delays in ms from the default rates of the ACKs' direction to other rates.

    The round trips, which include the serialisation of an ACK, stay the same.
    """
    later = 8e-3 * ACK * (1 / usual(rate) - 1 / back)
    return np.maximum(rtt + later, rtt / 2)


def of_run(values: Mapping[str, float], shares: Shares, number: int) -> dict[str, float]:
    """Return the values for run `number`, with a rate of the ACKs' direction and the same round trips."""
    rate = np.array(values["rate"])
    back = _between(rate, shares, number * GOLDEN % 1.0)
    rtt = delay_with(np.array(values["rtt"]), rate, back)
    return {**values, "back": float(back), "rtt": float(rtt)}
