"""The names of drop causes and of kinds of events, from the engine's lists."""

from dataclasses import dataclass
from typing import NamedTuple

from lasthop import _core


@dataclass(frozen=True, slots=True)
class DropCause:
    """A cause of lost packets.

    `event` is the name of the drop in a trace, and `count` that of its count in `flows.parquet`, after
    `data_` or `ack_`. `place` is `arrival` or `queue` (of the router) or `link`. `label` is used in legends
    after "dropped: ", `words` in stories; `symbol` is plotly's.
    """

    name: str
    event: str
    place: str
    count: str
    label: str
    words: str
    symbol: str
    doc: str

    @property
    def on_link(self) -> bool:
        """Whether the packet had left the router's queue."""
        return self.place == "link"


class EventKind(NamedTuple):
    """A kind of event of a packet, or inside a transport.

    `name` is its name in traces. `role` is `packet`, `transport`, `retransmission` or `undo`, of which the
    last two are also of transports. `label` is used in legends, `words` in stories; `symbol` is plotly's, or
    empty.
    """

    name: str
    role: str
    label: str
    words: str
    symbol: str
    doc: str

    @property
    def reason(self) -> str:
        """The reason for a retransmission, or the evidence that a reduction was unnecessary."""
        return self.name.partition("-")[2]


DROP_CAUSES = {cause.name: cause for cause in (DropCause(**row) for row in _core.DROP_CAUSES)}
DROP_EVENTS = {cause.event: cause for cause in DROP_CAUSES.values()}
EVENTS = {kind.name: kind for kind in (EventKind(**row) for row in _core.EVENT_KINDS)}
"""The kinds of events in traces, without drops."""
TRANSFER_PROTOCOLS = tuple(name for name, is_transfer in _core.PROTOCOLS.items() if is_transfer)
"""Transports that adapt to the network, whose flows are transfers. Flows of other transports are streams."""
DROP_COUNTS: dict[str, str] = {}
"""Labels of drops by their common count."""
for _cause in DROP_CAUSES.values():
    DROP_COUNTS.setdefault(_cause.count, _cause.label)
    if _cause.on_link:
        DROP_COUNTS[_cause.count] = "link"
