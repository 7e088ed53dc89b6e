"""First estimates of a line from measurements, and the parameters that the data do not identify."""

from dataclasses import dataclass, field

import numpy as np

from lasthop.fit.measurement import Delays, Direction, Floats, Transfer, packet_ms
from lasthop.fit.summary import LEAST_TRAINS, SHORT, delivered, lost_of, trains, unevenness

# With fewer packets or round trips, a transfer may still be in slow start.
LEAST_PACKETS = 150
LEAST_ROUND_TRIPS = 8


@dataclass(frozen=True)
class Estimate:
    """The estimates of a direction, in Mbit/s, ms and packets."""

    rate: float
    rtt: float
    queue_ms: float
    """The longest usual queueing delay."""
    loss: float
    jitter: float
    packets: int
    losses: int
    refused: dict[str, str] = field(default_factory=dict)
    """Reasons, by parameter."""
    usual: float = 0.0
    """The median rate. `rate` is a high quantile, and may include data that a repair released at once."""
    loaded: bool = False
    """Whether the round trips are those of a busy line, so that the idle line's may be much less."""
    pinged: bool = False
    """Whether the round trip is that of probes of the idle line."""
    filled: bool = True
    """Whether a queue grew or, if this is unknown, overflowed."""
    pace: float = 0.0
    """The rate of short trains of packets; 0 if there are none in the data."""

    @property
    def buffer(self) -> float:
        """The longest usual queueing delay in packets."""
        return max(1.0, self.queue_ms / packet_ms(self.rate))


def estimate(
    transfers: tuple[Transfer, ...],
    delays: Delays | None,
    until_s: float,
    idle_ms: float | None = None,
    others: tuple[Transfer, ...] = (),
) -> Estimate:
    """Estimate from plateaus, minima and losses. `idle_ms` is the least round trip of the idle line.

    The packets of `others` used the line, too.
    """
    rtt = delays.answered[1] if delays is not None else np.empty(0)
    smoothed = delays is not None and delays.smoothed
    base = float(rtt.min()) if len(rtt) else float("nan")
    if idle_ms is not None:
        base = idle_ms
    span = until_s
    grid = np.linspace(0, span, int(np.clip(span / max(4e-3 * (base if base > 0 else 50), 0.05), 5, 200)))
    rates = np.diff(delivered((*transfers, *others), grid)) * 8e-6 / np.diff(grid)
    rate = float(np.percentile(rates, 90))
    packets = sum(transfer.sent or int(transfer.bytes[-1] // transfer.payload) for transfer in transfers)
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
        refused["jitter"] = "it is not visible in smoothed round trips"
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
    """Return the pace that a tenth of the short trains exceed."""
    paces = trains(transfers, SHORT)
    return float(np.percentile(paces, 90)) if len(paces) >= LEAST_TRAINS else 0.0


def _jitter(transfers: tuple[Transfer, ...], packet: float) -> float:
    """Return the width in ms of a uniform jitter that explains the unevenness of a busy line; 0 if even."""
    # The distance of the quartiles of the difference of two uniform numbers is 0.586 times their width.
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
    """Return the parameters that the data do not identify, with reasons."""
    refused = {}
    if not len(rtt):
        refused["delay"] = "these data contain no round trips"
        trips = np.inf
    else:
        trips = span * 1e3 / base
    why = None
    if packets < LEAST_PACKETS or trips < LEAST_ROUND_TRIPS:
        why = (
            f"the transfer is too short: its {packets} packets in {trips:.0f} round trips may be slow start "
            "only"
        )
    elif all(transfer.app_limited for transfer in transfers):
        why = "the application limited the transfer: it sent nothing for more than a fifth of the time"
    elif not filled and not losses:
        limit = _window_limited(transfers, rtt, rate)
        why = (
            "the receiver's window limited the transfer, so the line was not filled"
            if limit
            else "the line was not filled: no packet was lost, and round trips did not grow"
        )
    if why is not None:
        refused["rate"] = refused["buffer"] = refused["queue"] = refused["control"] = why
    elif not filled:
        refused["buffer"] = (
            "no queue grew: round trips stayed near their minimum, so losses have other causes"
        )
        refused["queue"] = refused["buffer"]
    elif not losses:
        refused["buffer"] = (
            f"it never overflowed: it holds at least {max(1, round(queue / packet_ms(rate)))} packets"
        )
        if all(transfer.timed or transfer.repeated is not None for transfer in transfers):
            refused["queue"] = "no packet was dropped, and disciplines differ in what they drop"
    return refused


def _window_limited(transfers: tuple[Transfer, ...], rtt: Floats, rate: float) -> bool:
    windows = [transfer.receive_window for transfer in transfers if transfer.receive_window]
    if not windows or not len(rtt):
        return False
    return rate * 1e6 / 8 * float(np.median(rtt)) / 1e3 > 0.8 * sum(windows)


def transfers_of(transfers: tuple[Transfer, ...], direction: Direction) -> tuple[Transfer, ...]:
    return tuple(transfer for transfer in transfers if transfer.direction == direction)
