"""Algorithms of one's own, by examples. examples/algorithms/own.toml names them.

Each says only what it does otherwise than its base class: `CongestionControl` is Reno, `QueueDiscipline` is
drop-tail.
"""

from __future__ import annotations

from typing import Literal

import lasthop


class Gentle(lasthop.CongestionControl):
    """Additive increase as Reno, but losses cost a fifth of the window, not half of it."""

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        """Keep four fifths."""
        self.ssthresh = max(0.8 * in_use, 2)


class Early(lasthop.QueueDiscipline):
    """Drop-tail that drops arrivals by chance once the queue is half full, the sooner the fuller it is."""

    def enqueue(self, now_s: float, packet: lasthop.Packet) -> bool:
        """Take in a packet, or drop it early."""
        limit = self.limit_packets or 10
        share = 2 * len(self.packets) / limit - 1
        if self.random.random() < 0.1 * share:
            self.drop(packet)
            return True
        return super().enqueue(now_s, packet)


class Flicker(lasthop.ErrorModel):
    """A link that loses everything for the first 20 ms of each second."""

    def loses(self, now_s: float, packet_bytes: int) -> bool:
        """Tell whether a packet is lost."""
        return now_s % 1 < 0.02


class Sensor(lasthop.Traffic):
    """A reading of 100 to 400 bytes every half a second, give or take a tenth."""

    def on_start(self, now_s: float) -> None:
        """Send the first reading."""
        self.on_wakeup(now_s)

    def on_wakeup(self, now_s: float) -> None:
        """Send a reading, and plan the next one."""
        self.send(self.random.randint(100, 400))
        self.wake_at(now_s + self.random.uniform(0.4, 0.6))
