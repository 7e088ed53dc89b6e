"""From what an engine returns to what the store takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lasthop import _core
from lasthop.live.engine import LiveResults
from lasthop.roles import assign_roles
from lasthop.store import TABLES, Columns


@dataclass(frozen=True, slots=True)
class Outcome:
    """The tables of some replications, and what the engine says of them, as JSON."""

    tables: Mapping[str, Columns]
    facts: str | None


def outcome_of(results: _core.Results | LiveResults, roles: str) -> Outcome:
    """Give the flows their roles by the rule called `roles`."""
    flows = dict(results.flows)
    flows["role"] = assign_roles(flows, roles)
    facts = None
    if isinstance(results, LiveResults):
        facts = json.dumps({key: results.facts[key] for key in ("priority", "differences")})
    return Outcome({table: flows if table == "flows" else getattr(results, table) for table in TABLES}, facts)
