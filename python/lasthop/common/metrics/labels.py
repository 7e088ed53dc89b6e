"""Names in the engine: its lists of the causes of drops and of the kinds of events."""

from dataclasses import dataclass
from typing import NamedTuple

from lasthop import _core


@dataclass(frozen=True, slots=True)
class DropCause:
    """A cause of lost packets.

    `event` is the name of the drop in a trace, and `count` its count: a column of `flows.parquet`, behind
    `data_` or `ack_`. `place` is `arrival` or `queue` (of the router) or `link`. `label` stands in legends
    behind "dropped: ", `words` in stories; `symbol` is plotly's.
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
        """Whether the packet had left the router queue for good."""
        return self.place == "link"


class EventKind(NamedTuple):
    """A kind of event of a packet, or inside a transport.

    `name` is its name in traces. `role` is `packet`, `transport`, `retransmission` or `undo`; the last two
    belong to transports, too. `label` stands in legends, `words` in stories; `symbol` is plotly's, empty if
    there is none.
    """

    name: str
    role: str
    label: str
    words: str
    symbol: str
    doc: str

    @property
    def reason(self) -> str:
        """The reason for sending something again, or the proof that a reduction had been needless."""
        return self.name.partition("-")[2]


DROP_CAUSES = {cause.name: cause for cause in (DropCause(**row) for row in _core.DROP_CAUSES)}
DROP_EVENTS = {cause.event: cause for cause in DROP_CAUSES.values()}
EVENTS = {kind.name: kind for kind in (EventKind(**row) for row in _core.EVENT_KINDS)}
"""The kinds of events in traces, without drops."""
TRANSFER_PROTOCOLS = tuple(name for name, is_transfer in _core.PROTOCOLS.items() if is_transfer)
"""Transports whose flows are transfers: they adapt to the network. Flows of other transports are streams."""
DROP_COUNTS: dict[str, str] = {}
"""Words for drops, by their common count."""
for _cause in DROP_CAUSES.values():
    DROP_COUNTS.setdefault(_cause.count, _cause.label)
    if _cause.on_link:
        DROP_COUNTS[_cause.count] = "link"
