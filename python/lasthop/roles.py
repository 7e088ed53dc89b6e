"""Which part a flow plays in its replication.

Studies compare "the faster" with "the slower" of two equal transfers, not "flow 1" with "flow 2": which of the two wins
is chance. A role is therefore given within each replication, after the fact.

Connections of a page load are put into classes: `main`, and the in-line objects by throughput from `inline-1`, the
fastest, to the slowest. A connection that carries several objects keeps its name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

COMPLETED = "closed"
"""Outcome of a flow that did all its work."""

_BY_ELAPSED: dict[int, list[str]] = {
    1: ["tcp"],
    2: ["tcp-faster", "tcp-slower"],
    3: ["tcp-fastest", "tcp-medium", "tcp-slowest"],
}
_BY_START = ["tcp-first", "tcp-second", "tcp-third"]


def _names_by_elapsed(count: int) -> list[str]:
    return _BY_ELAPSED.get(count) or [f"tcp-rank-{rank}" for rank in range(1, count + 1)]


def _names_by_start(count: int) -> list[str]:
    return [_BY_START[i] if i < len(_BY_START) else f"tcp-{i + 1}" for i in range(count)]


def _numbered(names: Sequence[str]) -> list[str]:
    return [name if len(names) == 1 else f"{name}-{i}" for i, name in enumerate(names, 1)]


def _sort_key(flows: Mapping[str, Sequence[Any]], row: int) -> tuple[bool, float, int]:
    # A flow that was aborted early has a short elapsed time; it must not win for that.
    elapsed = flows["elapsed_s"][row]
    unfinished = flows["outcome"][row] != COMPLETED or elapsed is None
    return unfinished, math.inf if elapsed is None else float(elapsed), row


def _page_roles(flows: Mapping[str, Sequence[Any]], rows: Sequence[int], prefix: str) -> dict[int, str]:
    """Return the roles of one page load's connections."""
    names = {row: str(flows["flow"][row]).removeprefix(f"{flows['application'][row]}/") for row in rows}
    inline = [row for row in rows if names[row].startswith("inline-")]
    ranked = sorted(inline, key=lambda row: (-(flows["throughput_Bps"][row] or 0.0), row))
    names.update({row: f"inline-{rank}" for rank, row in enumerate(ranked, 1)})
    return {row: prefix + name for row, name in names.items()}


def assign_roles(flows: Mapping[str, Sequence[Any]], rule: str) -> list[str]:
    """Return the role of every row of `flows`.

    `flows` needs the columns `replication`, `application`, `flow`, `protocol`, `outcome`, `elapsed_s` and
    `throughput_Bps`; rows of one replication are in scenario order. Connections of a page load have an `application`
    that is not their `flow`; with several page loads in the scenario its name stands before their roles. `rule` is `by-name`, `by-elapsed` or `by-start`. Under `by-elapsed` flows that did not complete
    rank as the slowest.
    """
    if rule not in ("by-name", "by-elapsed", "by-start"):
        raise ValueError(f"unknown rule for roles: {rule}")
    roles = [str(name) for name in flows["flow"]]
    pages: dict[tuple[Any, str], list[int]] = defaultdict(list)
    for row, (replication, application) in enumerate(zip(flows["replication"], flows["application"], strict=True)):
        if application != flows["flow"][row]:
            pages[replication, application].append(row)
    several = len({application for _, application in pages}) > 1
    of_pages: dict[int, str] = {}
    for (_, application), rows in pages.items():
        of_pages |= _page_roles(flows, rows, f"{application}/" if several else "")
    for row, role in of_pages.items():
        roles[row] = role
    if rule == "by-name":
        return roles
    rows_of: dict[tuple[Any, bool], list[int]] = defaultdict(list)
    for row, (replication, protocol) in enumerate(zip(flows["replication"], flows["protocol"], strict=True)):
        if row not in of_pages:
            rows_of[replication, protocol == "tcp"].append(row)
    for (_, is_tcp), rows in rows_of.items():
        if not is_tcp:
            names = _numbered(["udp"] * len(rows))
            ordered = rows
        elif rule == "by-elapsed":
            names = _names_by_elapsed(len(rows))
            ordered = sorted(rows, key=lambda row: _sort_key(flows, row))
        else:
            names = _names_by_start(len(rows))
            ordered = rows
        for row, name in zip(ordered, names, strict=True):
            roles[row] = name
    return roles
