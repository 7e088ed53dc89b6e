"""A congestion control under test, which examples/check/control.toml uses."""

from __future__ import annotations

from typing import Literal

import lasthop


class Mine(lasthop.CongestionControl):
    """Reno, except that a loss reduces the window by 30 % instead of 50 %."""

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        """Reduce the window by 30 %."""
        del sign
        self.ssthresh = max(0.7 * in_use, 2)
