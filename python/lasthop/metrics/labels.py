"""What the engine calls things: its list of the causes of drops."""

from __future__ import annotations

from dataclasses import dataclass

from lasthop import _core


@dataclass(frozen=True, slots=True)
class DropCause:
    """Why packets are lost.

    `event` is what the drop is called in a trace, `count` what it counts as: a column of `flows.parquet`, behind
    `data_` or `ack_`. `place` is `arrival` or `queue` (of the router) or `link`. `label` stands in legends behind
    "dropped: ", `words` in stories; `symbol` is plotly's.
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


DROP_CAUSES = {cause.name: cause for cause in (DropCause(**row) for row in _core.DROP_CAUSES)}
DROP_EVENTS = {cause.event: cause for cause in DROP_CAUSES.values()}
DROP_COUNTS: dict[str, str] = {}
"""What drops are called that count alike."""
for _cause in DROP_CAUSES.values():
    DROP_COUNTS.setdefault(_cause.count, "link" if _cause.on_link else _cause.label)
