"""What a file tells of a line: transfers and delays, whatever program wrote it.

Times are in seconds since the first record of the file. `down` is towards the user's host, as in scenarios.
"""

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


# Bytes of a full packet of Ethernet, in which queues and a policer's bucket are counted.
PACKET = 1500


def packet_ms(rate: float) -> float:
    """How long a full packet takes at a rate in Mbit/s."""
    return 8e-3 * PACKET / max(rate, 1e-3)


@dataclass(frozen=True)
class Transfer:
    """The data of one flow in one direction."""

    name: str
    direction: Direction
    time_s: Floats
    """When `bytes` was known to be delivered."""
    bytes: Floats
    """Bytes delivered until then: acked, as the sender learns it, or received for the first time."""
    lost_s: Floats = field(default_factory=lambda: np.empty(0))
    """When losses or retransmissions were seen."""
    timed: bool = True
    """Whether `lost_s` is known; if not, `repeated` may be."""
    repeated: int | None = None
    """Packets sent again, where only their number is known."""
    sent: int | None = None
    """Data packets sent, retransmissions included; of a capture at the receiver, those that arrived."""
    mss: int | None = None
    """Bytes of data in a full packet."""
    app_limited: bool | None = None
    """Whether the application had too little to send for much of the time; None if the file cannot tell."""
    protocol: Literal["tcp", "udp"] = "tcp"
    control: str | None = None
    """The congestion control, where the file names it."""
    initial_window: int | None = None
    """Packets of the first flight."""
    receive_window: int | None = None
    """The largest window that the receiver offered, in bytes."""
    overhead: int = 40
    """Bytes of IP and transport headers in front of the data of each packet."""

    @property
    def payload(self) -> int:
        """Bytes of data in a full packet; those of Ethernet if the file does not tell."""
        return self.mss or 1448

    @property
    def packet(self) -> int:
        """Bytes of a full packet with its headers."""
        return self.payload + self.overhead


@dataclass(frozen=True)
class Delays:
    """Round trips, or one-way delays where the clocks of both ends agree."""

    time_s: Floats
    rtt_ms: Floats
    """NaN where a probe was lost."""
    down_ms: Floats | None = None
    up_ms: Floats | None = None
    loaded: Bools | None = None
    """Whether a transfer ran at that time; None if the file does not tell."""
    smoothed: bool = False
    """Whether each is the kernel's smoothed one (RFC 6298) during a transfer, and none is of an idle line."""
    lost: int = 0
    whose: Ints | None = None
    """Of a capture, the transfer that each round trip belongs to."""
    sent: int | None = None
    """Probes sent; None for round trips of a transfer's own packets."""

    @property
    def known(self) -> tuple[Floats, Floats]:
        """Times and round trips of the probes that were answered."""
        good = np.isfinite(self.rtt_ms)
        return self.time_s[good], self.rtt_ms[good]


@dataclass(frozen=True)
class Measurement:
    file: Path
    kind: Kind
    transfers: tuple[Transfer, ...] = ()
    delays: Delays | None = None
    seen_at: End | None = None
    """Which end of its transfers a capture was made at."""
    notes: tuple[str, ...] = ()
    """What the file cannot tell, each a sentence that starts with what is missing."""
    start_s: float | None = None
    """The first record's time since 1970; None if the file does not tell."""
