"""Examples of custom algorithms, which examples/algorithms/own.toml uses.

Each class overrides only what differs from its base class: `CongestionControl` is Reno, `QueueDiscipline` is
drop-tail.
"""

from __future__ import annotations

from typing import Literal

import lasthop


class Gentle(lasthop.CongestionControl):
    """Reno, except that a loss reduces the window by 20 % instead of 50 %."""

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        """Reduce the window by 20 %."""
        self.ssthresh = max(0.8 * in_use, 2)


class Early(lasthop.QueueDiscipline):
    """Drop-tail with random early drops, whose probability increases once the queue is half full."""

    def enqueue(self, now_s: float, packet: lasthop.Packet) -> bool:
        """Enqueue a packet, or drop it early."""
        limit = self.limit_packets or 10
        share = 2 * len(self.packets) / limit - 1
        if self.random.random() < 0.1 * share:
            self.drop(packet)
            return True
        return super().enqueue(now_s, packet)


class Flicker(lasthop.ErrorModel):
    """A link that loses all packets in the first 20 ms of each second."""

    def loses(self, now_s: float, packet_bytes: int) -> bool:
        """Return whether a packet is lost."""
        return now_s % 1 < 0.02


class Sensor(lasthop.Traffic):
    """A reading of 100 to 400 bytes every 0.4 to 0.6 seconds."""

    def on_start(self, now_s: float) -> None:
        """Send the first reading."""
        self.on_wakeup(now_s)

    def on_wakeup(self, now_s: float) -> None:
        """Send a reading, and schedule the next one."""
        self.send(self.random.randint(100, 400))
        self.wake_at(now_s + self.random.uniform(0.4, 0.6))
