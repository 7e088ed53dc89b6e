"""First estimates of a line from what was measured, and what the data cannot tell."""

from dataclasses import dataclass, field

import numpy as np

from lasthop.fit.measurement import Delays, Direction, Floats, Transfer, packet_ms
from lasthop.fit.summary import LEAST_TRAINS, SHORT, delivered, lost_of, trains, unevenness

# Fewer packets or round trips do not leave slow start behind.
LEAST_PACKETS = 150
LEAST_ROUND_TRIPS = 8


@dataclass(frozen=True)
class Estimate:
    """Of one direction: Mbit/s, ms and packets."""

    rate: float
    rtt: float
    queue_ms: float
    """How long the longest usual wait was."""
    loss: float
    jitter: float
    packets: int
    losses: int
    refused: dict[str, str] = field(default_factory=dict)
    """Reasons, by parameter."""
    usual: float = 0.0
    """The median rate. `rate` is that of better times, and may have in it what a repair released at once."""
    loaded: bool = False
    """Whether the round trip is one of a busy line only, so that the line's own may be much less."""
    pinged: bool = False
    """Whether the round trip is that of probes of the idle line."""
    filled: bool = True
    """Whether a queue grew, or where that is unknown, overflowed."""
    pace: float = 0.0
    """The rate at which short trains of packets came; 0 if these data show none."""

    @property
    def buffer(self) -> float:
        """Packets that the longest usual wait is worth."""
        return max(1.0, self.queue_ms / packet_ms(self.rate))


def estimate(
    transfers: tuple[Transfer, ...], delays: Delays | None, until_s: float, idle_ms: float | None = None
) -> Estimate:
    """Look at plateaus, minima and losses. `idle_ms` is the least round trip of probes of the idle line."""
    rtt = delays.known[1] if delays is not None else np.empty(0)
    smoothed = delays is not None and delays.smoothed
    base = float(rtt.min()) if len(rtt) else float("nan")
    if idle_ms is not None:
        base = idle_ms
    span = until_s
    grid = np.linspace(0, span, int(np.clip(span / max(4e-3 * (base if base > 0 else 50), 0.05), 5, 200)))
    rates = np.diff(delivered(transfers, grid)) * 8e-6 / np.diff(grid)
    rate = float(np.percentile(rates, 90))
    packets = sum(one.sent or int(one.bytes[-1] // one.payload) for one in transfers)
    losses = lost_of(transfers, until_s)
    queue = float(np.percentile(rtt, 98) - base) if len(rtt) else 0.0
    steps = np.abs(np.diff(rtt)) if len(rtt) > 2 else np.zeros(1)
    packet = packet_ms(rate)
    filled = queue > max(4 * packet, 0.05 * base, 1.5) if len(rtt) else losses > 0
    refused = _refused(
        transfers,
        np.append(rtt, base) if base > 0 else rtt,
        filled=filled,
        base=base,
        queue=queue,
        packets=packets,
        losses=losses,
        span=span,
        rate=rate,
    )
    if smoothed:
        refused["jitter"] = "smoothed round trips hide it"
    jitter = 0.0 if smoothed else max(float(np.percentile(steps, 75)) - packet, _jitter(transfers, packet))
    return Estimate(
        rate,
        base,
        queue,
        losses / max(packets, 1),
        max(jitter, 0.0),
        packets,
        losses,
        refused,
        usual=float(np.median(rates)),
        loaded=smoothed and idle_ms is None,
        pinged=idle_ms is not None,
        filled=filled,
        pace=_pace(transfers),
    )


def _pace(transfers: tuple[Transfer, ...]) -> float:
    """The pace that a tenth of short trains exceed."""
    paces = trains(transfers, SHORT)
    return float(np.percentile(paces, 90)) if len(paces) >= LEAST_TRAINS else 0.0


def _jitter(transfers: tuple[Transfer, ...], packet: float) -> float:
    """The width of a uniform jitter that makes the steps of a busy line as uneven, in ms; 0 if even."""
    # The quartiles of the difference of two uniform numbers are 0.586 times their width apart.
    width = unevenness(transfers) / 0.586
    return width if width > 0.05 * packet + 0.05 else 0.0


def _refused(
    transfers: tuple[Transfer, ...],
    rtt: Floats,
    *,
    filled: bool,
    base: float,
    queue: float,
    packets: int,
    losses: int,
    span: float,
    rate: float,
) -> dict[str, str]:
    """Which parameters these data cannot tell, and why."""
    refused = {}
    if not len(rtt):
        refused["delay"] = "these data have no round trips"
        trips = np.inf
    else:
        trips = span * 1e3 / base
    why = None
    if packets < LEAST_PACKETS or trips < LEAST_ROUND_TRIPS:
        why = (
            f"the transfer is too short: {packets} packets in {trips:.0f} round trips, and slow start alone "
            "takes as many"
        )
    elif all(one.app_limited for one in transfers):
        why = "the application limited the transfer: it was silent for more than a fifth of the time"
    elif not filled and not losses:
        limit = _window_limited(transfers, rtt, rate)
        why = (
            "the receiver's window limited the transfer, and nothing filled the line"
            if limit
            else "nothing filled the line: no packet was lost, and round trips did not grow"
        )
    if why is not None:
        refused["rate"] = refused["buffer"] = refused["queue"] = refused["control"] = why
    elif not filled:
        refused["buffer"] = "no queue grew: round trips stayed near their minimum, so losses had other causes"
        refused["queue"] = refused["buffer"]
    elif not losses:
        refused["buffer"] = (
            f"nothing overflowed it: it holds at least {max(1, round(queue / packet_ms(rate)))} packets"
        )
    return refused


def _window_limited(transfers: tuple[Transfer, ...], rtt: Floats, rate: float) -> bool:
    windows = [one.receive_window for one in transfers if one.receive_window]
    if not windows or not len(rtt):
        return False
    return rate * 1e6 / 8 * float(np.median(rtt)) / 1e3 > 0.8 * sum(windows)


def way(transfers: tuple[Transfer, ...], direction: Direction) -> tuple[Transfer, ...]:
    """The transfers of one direction."""
    return tuple(one for one in transfers if one.direction == direction)
