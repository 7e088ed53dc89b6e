"""Waits of each direction, from probes with times of both ends.

The least delay of each direction holds an unknown part of the difference of the clocks, but what is above it
does not. So the waits are known one by one, while the delay without them is known for the round trip only.
"""

import numpy as np

from lasthop.fit.measurement import Floats, Measurement


def waits(one: Measurement) -> str | None:
    """What a file with one-way delays says of the waits, as a sentence; None if it has none."""
    delays = one.delays
    if delays is None or delays.down_ms is None or delays.up_ms is None:
        return None
    down, up = (_above_least(each) for each in (delays.down_ms, delays.up_ms))
    return (
        f"{one.file}: of its probes, 95 % waited at most {down:.3g} ms towards the user and {up:.3g} ms from "
        "them, above the least of each direction. How the delay without waits is shared stays assumed: the "
        "difference of the clocks hides it."
    )


def _above_least(delay_ms: Floats) -> float:
    known = delay_ms[np.isfinite(delay_ms)]
    return float(np.percentile(known, 95) - known.min())
