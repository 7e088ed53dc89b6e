"""Congestion controls with a fault each, which `lasthop evaluate` must find."""

from __future__ import annotations

from typing import Literal

import lasthop


class NeverBacksOff(lasthop.CongestionControl):
    """Reno that ignores losses, marks and timeouts: its window only grows."""

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        """Keep the window."""
        self.ssthresh = self.window

    def on_timeout(self, now_s: float, in_use: int) -> None:
        """Keep the window."""
        self.ssthresh = self.window = max(self.window, 10.0)


class IgnoresMarks(lasthop.CongestionControl):
    """Reno that asks for ECN and then ignores the marks."""

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        """Halve the window after losses only."""
        if sign == "loss":
            super().on_congestion(sign, in_use)
        else:
            self.ssthresh = self.window


class StarvesFarFlows(lasthop.CongestionControl):
    """Reno whose window grows no further once the round trip is longer than 70 ms."""

    def __init__(self) -> None:
        """Know no round trip yet."""
        self.least_s = float("inf")

    def on_rtt(self, now_s: float, rtt_s: float) -> None:
        """Remember the shortest."""
        self.least_s = min(self.least_s, rtt_s)

    def on_ack(self, ack: lasthop.Ack) -> None:
        """Grow only on a short path."""
        if self.least_s < 0.07:
            super().on_ack(ack)
        else:
            self.window = self.ssthresh = 2.0


class FillsBuffers(lasthop.CongestionControl):
    """A control that gives way by a twentieth after a loss, and probes for more at once."""

    def on_ack(self, ack: lasthop.Ack) -> None:
        """Grow by four segments in each round trip."""
        if self.window < self.ssthresh:
            super().on_ack(ack)
        elif ack.window_limited:
            self.window += 4 * ack.acked / self.window

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        """Keep nineteen twentieths."""
        self.ssthresh = max(0.95 * in_use, 2)
