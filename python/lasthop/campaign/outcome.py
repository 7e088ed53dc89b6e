"""From what an engine returns to what the store takes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lasthop import _core
from lasthop.engines.live.engine import LiveResults
from lasthop.results.store import Results


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of some replications, and what the engine says of them, as JSON."""

    results: Results
    facts: str | None


def outcome_of(results: _core.Results | LiveResults) -> Outcome:
    """Take what an engine returned."""
    facts = None
    if isinstance(results, LiveResults):
        facts = json.dumps({key: results.facts[key] for key in ("priority", "differences")})
    return Outcome(results, facts)
