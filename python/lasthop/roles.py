"""Which part a flow plays in its replication.

Studies compare "the faster" with "the slower" of two equal transfers, not "flow 1" with "flow 2": which of the two wins
is chance. A role is therefore given within each replication, after the fact.
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


def assign_roles(flows: Mapping[str, Sequence[Any]], rule: str) -> list[str]:
    """Return the role of every row of `flows`.

    `flows` needs the columns `replication`, `flow`, `protocol`, `outcome` and `elapsed_s`; rows of one replication are
    in scenario order. `rule` is `by-name`, `by-elapsed` or `by-start`. Under `by-elapsed` flows that did not complete
    rank as the slowest.
    """
    if rule == "by-name":
        return [str(name) for name in flows["flow"]]
    if rule not in ("by-elapsed", "by-start"):
        raise ValueError(f"unknown rule for roles: {rule}")
    rows_of: dict[tuple[Any, bool], list[int]] = defaultdict(list)
    for row, (replication, protocol) in enumerate(zip(flows["replication"], flows["protocol"], strict=True)):
        rows_of[replication, protocol == "tcp"].append(row)
    roles = [""] * len(flows["replication"])
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
