"""What stories and pictures of a run have to know of its scenario.

`facts.rs` of lasthop-scenario derives it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypedDict

from lasthop import _core


@dataclass(frozen=True, slots=True)
class Voice:
    """How a call sounds, beside what the network does."""

    codec: str
    frame_ns: int
    codec_delay_ns: int
    """How long encoder and decoder hold speech back."""
    jitter_buffer_ns: int
    impairment: float
    """Ie of ITU-T G.107."""
    loss_robustness: float
    """Bpl of ITU-T G.107."""
    conceals_ns: int | None
    """The longest gap that loss concealment fills; `None` if it has no end."""


class Switches(TypedDict):
    """The switches of an application's TCP that stories ask for, by their keys; there are more."""

    cached_metrics: bool
    dupack_threshold: int
    ecn: bool
    frto: str
    sack: bool
    syn_timeout_cuts_window: bool
    tail_loss_probe: bool


@dataclass(frozen=True, slots=True)
class Application:
    """An application of a scenario."""

    kind: str
    tcp: Switches
    voice: Voice | None
    """Present of a call."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of a router: that of a class, or the only one, which has no name."""

    name: str
    red_in_bytes: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of a scenario. Directions are `down` and `up`."""

    applications: Mapping[str, Application]
    """By their names in the records."""
    retry_delay_ns: Mapping[str, int]
    """How long a failed try waits for the next one (ARQ); 0 without."""
    queues: Mapping[str, Sequence[Queue]]

    @classmethod
    def of(cls, cell: _core.Cell) -> Self:
        """Return the facts of a cell's scenario."""
        told = json.loads(cell.facts)
        return cls(
            {name: _application(**facts) for name, facts in told["applications"].items()},
            told["retry_delay_ns"],
            {way: [Queue(**queue) for queue in queues] for way, queues in told["queues"].items()},
        )


def _application(kind: str, tcp: Switches, voice: Mapping[str, Any] | None) -> Application:
    return Application(kind, tcp, None if voice is None else Voice(**voice))
