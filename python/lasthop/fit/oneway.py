"""Queueing delays of each direction, from probes with timestamps of both ends.

The least delay of each direction includes the unknown difference of the clocks, but delays above the least do
not. So queueing delays can be computed for each direction, but delays without queueing only for round trips.
"""

import numpy as np

from lasthop.fit.measurement import Floats, Measurement


def waits(measurement: Measurement) -> str | None:
    """Return a sentence on the queueing delays in a file with one-way delays; `None` if it has none."""
    delays = measurement.delays
    if delays is None or delays.down_ms is None or delays.up_ms is None:
        return None
    down, up = (_above_least(delay_ms) for delay_ms in (delays.down_ms, delays.up_ms))
    return (
        f"{measurement.file}: for 95 % of the probes, the queueing delay was at most {down:.3g} ms towards "
        f"the user and {up:.3g} ms in the other direction. The delays of each direction without queueing are "
        "not identified, because the clocks differ."
    )


def _above_least(delay_ms: Floats) -> float:
    finite = delay_ms[np.isfinite(delay_ms)]
    return float(np.percentile(finite, 95) - finite.min())
