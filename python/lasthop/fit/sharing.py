"""Whether what crosses the line at the same time waits in one queue, or each flow in its own.

In one queue, packets that leave at the same time have waited as long. So the difference of two round trips
stays the same while both vary. Queues of their own that are always as long as each other look like one.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from lasthop.fit.measurement import Delays, Direction, Floats, Measurement

Queues = Literal["one", "own"]
# Round trips of the second flow that are needed while the first one's vary.
LEAST = 20
# How much those must vary, in ms and in times that a packet takes, as a median deviation.
VARIES_MS, VARIES_PACKETS = 2.0, 2.0
# How much the difference varies as a part of that: little in one queue, as much in separate ones.
LITTLE, MOST = 0.35, 0.65
# Round trips of the first flow that are further away in time say nothing.
NEAR_S = 0.1

Trips = tuple[Floats, Floats]


def queues(
    one: Measurement, direction: Direction, others: Sequence[Measurement], packet_ms: float
) -> Queues | None:
    """What the flows of a capture and probes at the same time show; None if they cannot."""
    flows = list(_flows(one, direction))
    if not flows:
        return None
    flows.sort(key=lambda trips: -len(trips[0]))
    judged = [
        _judged(flows[0], second, packet_ms)
        for second in (*flows[1:], *(trips for other in others for trips in _probes(one, other)))
    ]
    told = np.array([varies for varies in judged if varies is not None])
    if not len(told):
        return None
    usual, wide = np.median(told, axis=0)
    # Queues of their own may be alike for most of the time. Round trips of repairs and late ACKs stray.
    return "own" if min(usual, wide) > MOST else "one" if max(usual, wide) < LITTLE else None


def _flows(one: Measurement, direction: Direction) -> Iterator[Trips]:
    delays = one.delays
    if delays is None or delays.whose is None:
        return
    for number, transfer in enumerate(one.transfers):
        own = delays.whose == number
        if transfer.direction == direction and own.any():
            yield delays.time_s[own], delays.rtt_ms[own]


def _probes(one: Measurement, other: Measurement) -> Iterator[Trips]:
    """Round trips of probes at the times of their answers, by the capture's clock."""
    probed: Delays | None = other.delays
    if probed is None or other.transfers or one.start_s is None or other.start_s is None:
        return
    sent, rtt = probed.known
    yield sent + rtt / 1e3 + (other.start_s - one.start_s), rtt


def _judged(first: Trips, second: Trips, packet_ms: float) -> tuple[float, float] | None:
    """How much the difference of the round trips varies, as a part of how much the first ones do.

    Once by the median deviation, and once by the one that a tenth exceeds.
    """
    time, rtt = first
    at, other = second
    place = np.clip(np.searchsorted(time, at), 1, len(time) - 1)
    near = np.minimum(np.abs(time[place] - at), np.abs(time[place - 1] - at)) < NEAR_S
    if near.sum() < LEAST:
        return None
    beside = np.interp(at[near], time, rtt)
    alone, apart = _deviations(beside), _deviations(beside - other[near])
    if alone[0] < max(VARIES_MS, VARIES_PACKETS * packet_ms):
        return None
    return apart[0] / alone[0], apart[1] / alone[1]


def _deviations(values: Floats) -> tuple[float, float]:
    usual, wide = np.percentile(np.abs(values - np.median(values)), [50, 90]).tolist()
    return usual, wide
