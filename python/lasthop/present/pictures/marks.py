"""The name and the look of each kind of event in pictures of a run.

A flow has the same colour in all panels. Its events have colours that no flow has: black for drops, reds for
retransmissions, greys for reports of receiver, link and router. The first five colours of flows are from
Okabe and Ito (2008), the last two from Tol (2021). Colour-blind readers can distinguish them, and neighbours
differ in lightness. Shapes and dashes differ as well, so that prints in grey are readable. Symbols have
plotly's names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from lasthop.analysis.explain import facts
from lasthop.common.metrics.labels import DROP_EVENTS, EVENTS

BLACK, DARK, GREY, PALE = "#000000", "#41474f", "#7d8690", "#bcc2c9"
BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
ORANGE, VERMILLION, PURPLE = "#E69F00", "#D55E00", "#CC79A7"
INDIGO, OLIVE, CRIMSON = "#332288", "#77761c", "#8f1020"
FLOW_COLORS = (BLUE, ORANGE, GREEN, PURPLE, INDIGO, SKY, OLIVE)
FLOW_SYMBOLS = ("circle", "square", "triangle-up", "diamond")
_DROP_SIZES = {"x-thin-open": 6}
OTHERS_COLOR = PALE
"""Colour of flows without a separate colour."""
CLASS_COLORS = (GREY, BLACK, "#a5814f")
"""Colours of a router's classes that serve several flows."""


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a flow, or of a class of a router, in every panel."""

    name: str
    color: str
    symbol: str = FLOW_SYMBOLS[0]


class Shape(Enum):
    POINTS = "points"
    STEPS = "steps"
    BARS = "bars"  # vertical, from y to `far`
    SPANS = "spans"  # horizontal, from x to `far`
    BANDS = "bands"  # areas from y to `far`, both in steps
    ARROWS = "arrows"  # from one host to the other, time downwards; with a symbol if they do not arrive


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
    optional: bool = False  # shown only on request, and not in static pictures
    owner: str = ""
    """The flow or class to which the mark belongs."""
    quantity: str = ""
    """The quantity of the owner that the mark shows."""

    def of(self, look: Look) -> Mark:
        """Return the mark with the name, colour and symbol of a flow or class."""
        symbol = look.symbol if self.symbol in FLOW_SYMBOLS else self.symbol
        return replace(self.tinted(look), name=f"{self.name} of {look.name}", symbol=symbol)

    def banded(self, look: Look) -> Mark:
        """Return the mark of a transparent band around the line. Legends have the line only."""
        name = f"band of {look.name}".strip()
        return replace(self, name=name, color=f"{look.color}33", shape=Shape.BANDS, quantity=self.name)

    def tinted(self, look: Look) -> Mark:
        """Return the mark in the colour of a flow or class, under its own name."""
        return replace(self, color=look.color, owner=look.name, quantity=self.name)


def _event(
    name: str,
    color: str,
    shape: Shape = Shape.POINTS,
    *,
    size: float,
    width: float = 0.0,
    optional: bool = False,
) -> Mark:
    """Return the mark of a kind of event."""
    kind = EVENTS[name]
    return Mark(kind.label, color, shape, kind.symbol, size, width, optional=optional)


ACKNOWLEDGED = Mark("acknowledged", DARK, Shape.STEPS, width=1.4)
ADVERTISED = Mark("advertised window", GREY, Shape.STEPS, width=1.1, dash="dash")
SEGMENT = _event("sent", BLUE, Shape.BARS, size=2.6, width=1.8)
ARRIVED = _event("delivered", GREY, Shape.BARS, size=2.6, width=1.2, optional=True)
SACK = Mark("SACK block", GREY, Shape.BARS, width=1.8)
TIMER = _event("timeout", BLACK, size=10)
BAD_PERIODS = {
    "": Mark("bad link period", "#e8e8e8", symbol="square", size=11),
    "down": Mark("bad period of the link down", "#f0e6d2", symbol="square", size=11),
    "up": Mark("bad period of the link up", "#dbe8f2", symbol="square", size=11),
}
"""Bad periods of both directions, or of a direction whose link has separate errors."""
PHASES = {
    facts.SET_UP: Mark(facts.SET_UP, "#e6d9c2", symbol="square", size=11),
    facts.SLOW_START: Mark(facts.SLOW_START, "#d5ecd0", symbol="square", size=11),
    facts.AVOIDANCE: Mark(facts.AVOIDANCE, "#d8e8f6", symbol="square", size=11),
    facts.RECOVERY: Mark(facts.RECOVERY, "#fbdcb6", symbol="square", size=11),
    facts.AFTER_TIMEOUT: Mark(facts.AFTER_TIMEOUT, "#f5bdb4", symbol="square", size=11),
    facts.WAITING: Mark(facts.WAITING, "#d9c6e4", symbol="square", size=11),
    facts.IDLE: Mark(facts.IDLE, "#f8f3c0", symbol="square", size=11),
}
"""Phases of a TCP connection, as `lasthop explain` names them."""

_AGAIN_COLORS = {"timeout": CRIMSON}
_AGAIN_SIZES = {"timeout": 6.5, "forward": 6}
RETRANSMISSIONS = {
    kind.name: _event(
        kind.name,
        _AGAIN_COLORS.get(kind.reason, VERMILLION),
        Shape.BARS,
        size=_AGAIN_SIZES.get(kind.reason, 7),
        width=1.8,
    )
    for kind in EVENTS.values()
    if kind.role == "retransmission"
}
NEW_PROBE = _event("tail-loss-probe", VERMILLION, Shape.BARS, size=6.5, width=1.8)
DROPS = {
    event: Mark(f"dropped: {cause.label}", BLACK, symbol=cause.symbol, size=_DROP_SIZES.get(cause.symbol, 8))
    for event, cause in DROP_EVENTS.items()
}
LINK_DROPS = tuple(event for event, cause in DROP_EVENTS.items() if cause.on_link)
"""Drops after the router queue."""
UNDOS = tuple(kind.name for kind in EVENTS.values() if kind.role == "undo")

CWND = Mark("cwnd", BLUE, Shape.STEPS, width=1.5)
SSTHRESH = Mark("ssthresh", BLUE, Shape.STEPS, width=2.6, dash="dot")
UNDONE = _event(UNDOS[0], BLACK, size=9)

AIMD = Mark("AIMD", BLACK, Shape.STEPS, width=1.4, dash="dash")

RTT = _event("rtt-sample", BLUE, size=4)
RTO = Mark("RTO", BLUE, Shape.STEPS, width=1.6, dash="dot")

QUEUE = Mark("packets in the router queue", GREY, Shape.STEPS, width=1.2)
RED_AVERAGE = Mark("RED's average queue", BLACK, Shape.STEPS, width=1.9, dash="dash")
ECN_MARK = _event("marked", VERMILLION, size=7)

GOODPUT = Mark("goodput", BLUE, Shape.STEPS, width=1.2)

MAX_MIN = Mark("max-min share", DARK, Shape.STEPS, width=1.6, dash="dash")

STACKED = Mark("goodput", BLUE, Shape.BANDS)
SENT_SIZES = Mark("packets sent", BLUE, Shape.BANDS)
CAPACITY = Mark("capacity of the link", BLACK, Shape.STEPS, width=1.4, dash="dash")
MEDIAN = Mark("median", BLUE, Shape.STEPS, width=1.8)
FAIRNESS = Mark("Jain's index", BLUE, Shape.STEPS, width=1.6)
DELAY = Mark("one-way delay", BLUE, Shape.STEPS, width=1.6)

LADDER_DATA = Mark("data", BLUE, Shape.ARROWS, width=1.5)
LADDER_CONTROL = Mark("no data", DARK, Shape.ARROWS, width=1.1)
LADDER_AGAIN = {
    event: replace(mark, shape=Shape.ARROWS, symbol=None, width=1.9, dash="dash")
    for event, mark in RETRANSMISSIONS.items()
}
LADDER_LOSSES = {event: replace(mark, shape=Shape.ARROWS, width=1.1) for event, mark in DROPS.items()}
LADDER_UNDER_WAY = Mark("in flight when the run ends", GREY, Shape.ARROWS, width=1.1, dash="dot")

CONNECTING = Mark("connecting", "#e6d5b8", Shape.SPANS)
WAITING = Mark("waiting for the first byte", "#c39a5f", Shape.SPANS)
RECEIVING = Mark("receiving", "#6e4a1e", Shape.SPANS)
ENDING = Mark("ending", PALE, Shape.SPANS)
