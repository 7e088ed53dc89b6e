"""Transfers and delays in a file, whatever program wrote it.

Times are in seconds since the first record of the file. `down` is towards the user's host, as in scenarios.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

Direction = Literal["down", "up"]
Kind = Literal["capture", "iperf3", "flent", "irtt", "ping"]
End = Literal["sender", "receiver", "both"]


# Bytes of a full Ethernet packet, the unit of queues and of a policer's bucket.
PACKET = 1500


def packet_ms(rate: float) -> float:
    """Return the serialisation time of a full packet at a rate in Mbit/s."""
    return 8e-3 * PACKET / max(rate, 1e-3)


@dataclass(frozen=True)
class Transfer:
    """The data of a flow in a direction."""

    name: str
    direction: Direction
    time_s: Floats
    """Times at which `bytes` was observed to be delivered."""
    bytes: Floats
    """Bytes delivered until these times: acknowledged at the sender, or received for the first time."""
    lost_s: Floats = field(default_factory=lambda: np.empty(0))
    """Times at which losses or retransmissions were observed."""
    timed: bool = True
    """Whether the file contains `lost_s`; if not, it may contain `repeated`."""
    repeated: int | None = None
    """Number of retransmissions, if their times are not in the file."""
    sent: int | None = None
    """Data packets sent, including retransmissions; in a capture at the receiver, those that arrived."""
    mss: int | None = None
    """Bytes of data in a full packet."""
    app_limited: bool | None = None
    """Whether the application had too little to send for much of the time; `None` if unknown."""
    protocol: Literal["tcp", "udp"] = "tcp"
    control: str | None = None
    """The congestion control, if it is in the file."""
    initial_window: int | None = None
    """Packets of the first flight."""
    receive_window: int | None = None
    """The largest window that the receiver offered, in bytes."""
    overhead: int = 40
    """Bytes of IP and transport headers in front of the data of each packet."""

    @property
    def payload(self) -> int:
        """Bytes of data in a full packet, by default for Ethernet."""
        return self.mss or 1448

    @property
    def packets(self) -> float:
        """Data packets sent, estimated from the bytes if the file does not count them."""
        return self.sent or float(self.bytes[-1]) / self.payload

    @property
    def packet(self) -> int:
        """Bytes of a full packet with its headers."""
        return self.payload + self.overhead


@dataclass(frozen=True)
class Delays:
    """Round trips, and one-way delays if the clocks of both ends agree."""

    time_s: Floats
    rtt_ms: Floats
    """NaN where a probe was lost."""
    down_ms: Floats | None = None
    up_ms: Floats | None = None
    loaded: Bools | None = None
    """Whether a transfer ran at the same time; `None` if unknown."""
    smoothed: bool = False
    """Whether these are the kernel's smoothed round trips (RFC 6298), never those of an idle line."""
    lost: int = 0
    whose: Ints | None = None
    """In a capture, the transfer of each round trip."""
    sent: int | None = None
    """Probes sent; `None` for round trips of a transfer's packets."""

    @property
    def answered(self) -> tuple[Floats, Floats]:
        """Times and round trips of the probes that were answered."""
        good = np.isfinite(self.rtt_ms)
        return self.time_s[good], self.rtt_ms[good]


@dataclass(frozen=True)
class Recording:
    """Packets of a capture that belong to no transfer: when they passed, and bytes with IP headers."""

    time_s: Floats
    bytes: Floats

    def until(self, until_s: float) -> "Recording":
        chosen = (self.time_s >= 0) & (self.time_s <= until_s)
        return Recording(self.time_s[chosen], self.bytes[chosen])

    def delivered(self, delay_s: Floats | float) -> Transfer:
        """Return them as a transfer that is observed this much later."""
        at = np.maximum.accumulate(self.time_s + delay_s)
        total = np.concatenate([[0.0], np.cumsum(self.bytes)])
        return Transfer("others", "down", np.concatenate([[0.0], at]), total, overhead=0)


@dataclass(frozen=True)
class Measurement:
    file: Path
    kind: Kind
    transfers: tuple[Transfer, ...] = ()
    delays: Delays | None = None
    seen_at: End | None = None
    """The end of the transfers at which a capture was made."""
    notes: tuple[str, ...] = ()
    """Information that is missing from the file, as sentences that start with it."""
    others: Mapping[Direction, Recording] = field(default_factory=dict)
    """In a capture, other packets, by direction."""
    start_s: float | None = None
    """The first record's time since 1970; `None` if unknown."""
