"""Which role a flow plays in its replication.

Studies compare "the faster" with "the slower" of two equal transfers, not "flow 1" with "flow 2", because chance
decides which of the two wins. So roles are assigned afterwards, within each replication.

Connections of a page load fall into classes: `main`, and the in-line objects by throughput, from `inline-1`, the
fastest, to the slowest. A connection that carries several objects keeps its name. The many clients of one entry of the
scenario are all alike, and their role is the name of the entry.
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
_RULES = ("by-name", "by-elapsed", "by-start", "by-start-then-elapsed")
_TOGETHER_S = 1.0
_BY_START = ["tcp-first", "tcp-second", "tcp-third"]


def _names_by_elapsed(count: int) -> list[str]:
    return _BY_ELAPSED.get(count) or [f"tcp-rank-{rank}" for rank in range(1, count + 1)]


def _names_by_start(count: int) -> list[str]:
    return [_BY_START[i] if i < len(_BY_START) else f"tcp-{i + 1}" for i in range(count)]


def _ranked_by_start_then_elapsed(flows: Mapping[str, Sequence[Any]], rows: Sequence[int]) -> dict[int, str]:
    """Rank flows that start together among themselves; name those that start alone by their place."""
    started = sorted(rows, key=lambda row: (_start(flows, row), row))
    groups: list[list[int]] = []
    for row in started:
        together = groups and _start(flows, row) - _start(flows, groups[-1][0]) <= _TOGETHER_S
        if together:
            groups[-1].append(row)
        else:
            groups.append([row])
    roles: dict[int, str] = {}
    for group in groups:
        names = _names_by_elapsed(len(group)) if len(group) > 1 else [_names_by_start(len(rows))[len(roles)]]
        roles |= dict(zip(sorted(group, key=lambda row: _sort_key(flows, row)), names, strict=True))
    return roles


def _start(flows: Mapping[str, Sequence[Any]], row: int) -> float:
    start = flows["start_s"][row]
    return math.inf if start is None else float(start)


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


def _transfer_roles(flows: Mapping[str, Sequence[Any]], rows: Sequence[int], rule: str) -> dict[int, str]:
    """Return the roles of TCP flows that stand for themselves."""
    if rule == "by-start-then-elapsed":
        return _ranked_by_start_then_elapsed(flows, rows)
    if rule == "by-elapsed":
        ordered = sorted(rows, key=lambda row: _sort_key(flows, row))
        return dict(zip(ordered, _names_by_elapsed(len(rows)), strict=True))
    return dict(zip(rows, _names_by_start(len(rows)), strict=True))


def assign_roles(flows: Mapping[str, Sequence[Any]], rule: str) -> list[str]:
    """Return the role of every row of `flows`.

    `flows` needs the columns `replication`, `application`, `flow`, `protocol`, `outcome`, `start_s`, `elapsed_s` and
    `throughput_Bps`; rows of one replication are in scenario order. Connections of a page load have the name of their
    `application` and a slash before their own; with several page loads in the scenario it stands before their roles.
    Other flows whose `application` has another name are clients that are all alike. `rule` is `by-name`, `by-elapsed`,
    `by-start` or `by-start-then-elapsed`, and ranks what stands for itself. Flows that did not complete rank as the
    slowest.
    """
    if rule not in _RULES:
        raise ValueError(f"unknown rule for roles: {rule}")
    pages: dict[tuple[Any, str], list[int]] = defaultdict(list)
    transfers: dict[Any, list[int]] = defaultdict(list)
    streams: dict[Any, list[int]] = defaultdict(list)
    roles = dict(enumerate(map(str, flows["flow"])))
    for row, replication in enumerate(flows["replication"]):
        application, flow = str(flows["application"][row]), str(flows["flow"][row])
        if flow.startswith(f"{application}/"):
            pages[replication, application].append(row)
        elif flow != application:
            roles[row] = application
        elif flows["protocol"][row] == "tcp":
            transfers[replication].append(row)
        else:
            streams[replication].append(row)
    several = len({application for _, application in pages}) > 1
    for (_, application), rows in pages.items():
        roles |= _page_roles(flows, rows, f"{application}/" if several else "")
    if rule != "by-name":
        for rows in transfers.values():
            roles |= _transfer_roles(flows, rows, rule)
        for rows in streams.values():
            roles |= dict(zip(rows, _numbered(["udp"] * len(rows)), strict=True))
    return list(roles.values())
