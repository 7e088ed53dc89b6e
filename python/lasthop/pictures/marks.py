"""What each kind of event is called, and how it looks: the legend of every picture of a run.

Colours are those of Okabe and Ito (2008), which colour-blind readers tell apart; shapes and dashes differ as well, so
that prints in grey can be read. Symbols are plotly's names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

BLACK, GREY = "#000000", "#6b7480"
BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
ORANGE, VERMILLION, PURPLE = "#E69F00", "#D55E00", "#CC79A7"
# Neighbours differ in lightness, too.
FLOW_COLORS = (BLUE, ORANGE, GREEN, PURPLE, BLACK, SKY, VERMILLION)
FLOW_SYMBOLS = ("circle", "square", "triangle-up", "diamond")


class Shape(Enum):
    """How values become ink."""

    POINTS = "points"
    STEPS = "steps"
    BARS = "bars"  # vertical, from y to `far`
    SPANS = "spans"  # horizontal, from x to `far`


@dataclass(frozen=True, slots=True)
class Mark:
    """A kind of event or quantity. Sizes and widths are in pixels on screen."""

    name: str
    color: str
    shape: Shape = Shape.POINTS
    symbol: str | None = None
    size: float = 0.0
    width: float = 0.0
    dash: str = "solid"
    optional: bool = False  # shown on request only: left out of static pictures

    def of(self, flow: str, number: int) -> Mark:
        """Return the mark of a flow, in the flow's colour and symbol."""
        color = FLOW_COLORS[number % len(FLOW_COLORS)]
        symbol = FLOW_SYMBOLS[number % len(FLOW_SYMBOLS)] if self.symbol else None
        return replace(self, name=f"{self.name} of {flow}", color=color, symbol=symbol)

    def of_class(self, name: str, number: int) -> Mark:
        """Return the mark of a router's class, in a colour of its own."""
        return replace(self, name=f"{self.name} of class {name}", color=FLOW_COLORS[number % len(FLOW_COLORS)])


ACKNOWLEDGED = Mark("acknowledged", GREEN, Shape.STEPS, width=1.4)
ADVERTISED = Mark("advertised window", GREY, Shape.STEPS, width=1.1, dash="dash")
SEGMENT = Mark("segment sent", BLUE, Shape.BARS, "square", size=2.6, width=1.8)
ARRIVED = Mark("segment arrived", SKY, Shape.BARS, "circle", size=2.6, width=1.2, optional=True)
SACK = Mark("SACK block", PURPLE, Shape.BARS, width=1.4)
TIMER = Mark("timer expired", BLACK, symbol="circle-open", size=10)
BAD_PERIOD = Mark("bad link period", "#e6e6e6", symbol="square", size=11)

RETRANSMISSIONS = {
    "retransmitted-fast": Mark("fast retransmission", VERMILLION, Shape.BARS, "triangle-up", 7, 1.8),
    "retransmitted-timeout": Mark("retransmission after timeout", ORANGE, Shape.BARS, "diamond", 6.5, 1.8),
    "retransmitted-forward": Mark("forward retransmission", SKY, Shape.BARS, "square", 6, 1.8),
}
DROPS = {
    "dropped-queue": Mark("dropped: queue full", BLACK, symbol="x-thin-open", size=6),
    "dropped-red": Mark("dropped: RED", BLACK, symbol="cross-thin-open", size=8),
    "dropped-epd": Mark("dropped: early packet discard", BLACK, symbol="triangle-up-open", size=8),
    "dropped-selective": Mark("dropped: beyond its share", BLACK, symbol="square-open", size=8),
    "dropped-error": Mark("dropped: link error", BLACK, symbol="asterisk-open", size=8),
    "dropped-arq": Mark("dropped: ARQ gave up", BLACK, symbol="y-down-open", size=8),
}
# These strike behind the router queue.
LINK_DROPS = ("dropped-error", "dropped-arq")
UNDOS = ("undone-timestamps", "undone-dsack", "undone-frto")

CWND = Mark("cwnd", BLUE, Shape.STEPS, width=1.5)
SSTHRESH = Mark("ssthresh", BLUE, Shape.STEPS, width=2.6, dash="dot")
UNDONE = Mark("reduction undone", BLACK, symbol="star-open", size=9)

RTT = Mark("RTT", BLUE, symbol="circle", size=4)
RTO = Mark("RTO", BLUE, Shape.STEPS, width=1.6, dash="dot")

QUEUE = Mark("packets in the router queue", BLUE, Shape.STEPS, width=1.2)
RED_AVERAGE = Mark("RED's average queue", ORANGE, Shape.STEPS, width=1.9, dash="dash")
ECN_MARK = Mark("ECN mark", VERMILLION, symbol="circle-open", size=7)

GOODPUT = Mark("goodput", BLUE, Shape.STEPS, width=1.2)

CONNECTING = Mark("connecting", GREY, Shape.SPANS)
WAITING = Mark("waiting for the first byte", ORANGE, Shape.SPANS)
RECEIVING = Mark("receiving", BLUE, Shape.SPANS)
ENDING = Mark("ending", "#c5cad1", Shape.SPANS)
