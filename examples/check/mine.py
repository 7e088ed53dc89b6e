"""A congestion control under test. examples/check/control.toml names it."""

from __future__ import annotations

from typing import Literal

import lasthop


class Mine(lasthop.CongestionControl):
    """Additive increase as Reno, but losses cost three tenths of the window, not half of it."""

    def on_congestion(self, sign: Literal["loss", "ecn"], in_use: int) -> None:
        """Keep seven tenths."""
        del sign
        self.ssthresh = max(0.7 * in_use, 2)
