"""Whether concurrent flows share a queue, or each flow has its own queue.

In a shared queue, packets that leave at the same time have the same queueing delay, so the difference of two
round trips is constant while both vary. Separate queues of always equal length look like a shared queue.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from lasthop.fit.estimate import transfers_of
from lasthop.fit.measurement import Delays, Direction, Floats, Measurement

Queues = Literal["one", "own"]
# The least number of round trips of the second flow while the first flow's vary.
LEAST = 20
# The least variation of the first flow's round trips, in ms and in times per packet, as a median deviation.
VARIES_MS, VARIES_PACKETS = 2.0, 2.0
# The variation of the difference relative to this: little in a shared queue, large in separate queues.
LITTLE, MOST = 0.35, 0.65
# The largest distance in time of compared round trips.
NEAR_S = 0.1
# With a larger share of losses, too many round trips include repairs.
MOST_LOST = 0.05

Trips = tuple[Floats, Floats]


def queues(
    capture: Measurement, direction: Direction, others: Sequence[Measurement], packet_ms: float
) -> Queues | None:
    """Judge from the flows of a capture and from concurrent probes; `None` if this is impossible."""
    flows = list(_flows(capture, direction))
    if not flows or _lost(capture, direction) > MOST_LOST:
        return None
    flows.sort(key=lambda trips: -len(trips[0]))
    results = [
        _compare(flows[0], second, packet_ms)
        for second in (*flows[1:], *(trips for other in others for trips in _probes(capture, other)))
    ]
    ratios = np.array([varies for varies in results if varies is not None])
    if not len(ratios):
        return None
    usual, wide = np.median(ratios, axis=0)
    # Separate queues may be similar most of the time. Round trips of repairs and late ACKs are outliers.
    return "own" if min(usual, wide) > MOST else "one" if max(usual, wide) < LITTLE else None


def _flows(capture: Measurement, direction: Direction) -> Iterator[Trips]:
    delays = capture.delays
    if delays is None or delays.whose is None:
        return
    for number, transfer in enumerate(capture.transfers):
        own = delays.whose == number
        if transfer.direction == direction and own.any():
            yield delays.time_s[own], delays.rtt_ms[own]


def _lost(capture: Measurement, direction: Direction) -> float:
    """Return the share of lost packets."""
    transfers = transfers_of(capture.transfers, direction)
    return sum(len(one.lost_s) for one in transfers) / sum(one.packets for one in transfers)


def _probes(capture: Measurement, other: Measurement) -> Iterator[Trips]:
    """Yield round trips of probes at the times of their answers, by the capture's clock."""
    probed: Delays | None = other.delays
    if probed is None or other.transfers or capture.start_s is None or other.start_s is None:
        return
    sent, rtt = probed.answered
    yield sent + rtt / 1e3 + (other.start_s - capture.start_s), rtt


def _compare(first: Trips, second: Trips, packet_ms: float) -> tuple[float, float] | None:
    """Return the variation of the difference of round trips relative to that of the first flow's.

    The measures of variation are the median and the 90 % quantile of the absolute deviation.
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
