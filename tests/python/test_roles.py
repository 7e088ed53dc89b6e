from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lasthop.roles import assign_roles


def flows(*rows: tuple[int, str, str, str, float | None], starts: Sequence[float] = ()) -> dict[str, list[Any]]:
    """Make a table; a flow called `page/main` is a connection of the page load `page`."""
    names = ("replication", "flow", "protocol", "outcome", "elapsed_s")
    table: dict[str, list[Any]] = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    table["application"] = [name.partition("/")[0] for name in table["flow"]]
    table["start_s"] = list(starts) or [0.0] * len(rows)
    table["throughput_Bps"] = [elapsed and 1000 / elapsed for elapsed in table["elapsed_s"]]
    return table


def test_by_elapsed_ranks_within_each_replication() -> None:
    table = flows(
        (1, "a", "tcp", "closed", 50.0),
        (1, "b", "tcp", "closed", 40.0),
        (2, "a", "tcp", "closed", 30.0),
        (2, "b", "tcp", "closed", 60.0),
    )
    assert assign_roles(table, "by-elapsed") == ["tcp-slower", "tcp-faster", "tcp-faster", "tcp-slower"]


def test_by_elapsed_names_three_flows_and_leaves_udp_apart() -> None:
    table = flows(
        (1, "a", "tcp", "closed", 3.0),
        (1, "u", "udp", "closed", 0.1),
        (1, "b", "tcp", "closed", 1.0),
        (1, "c", "tcp", "closed", 2.0),
    )
    assert assign_roles(table, "by-elapsed") == ["tcp-slowest", "udp", "tcp-fastest", "tcp-medium"]


@pytest.mark.parametrize("outcome", ["aborted", "unfinished"])
def test_a_flow_that_gave_up_early_is_the_slowest(outcome: str) -> None:
    table = flows((1, "a", "tcp", outcome, 5.0), (1, "b", "tcp", "closed", 90.0))
    assert assign_roles(table, "by-elapsed") == ["tcp-slower", "tcp-faster"]


def test_a_missing_elapsed_time_ranks_last() -> None:
    table = flows((1, "a", "tcp", "unfinished", None), (1, "b", "tcp", "aborted", 7.0), (1, "c", "tcp", "closed", 8.0))
    assert assign_roles(table, "by-elapsed") == ["tcp-slowest", "tcp-medium", "tcp-fastest"]


def test_equal_times_keep_scenario_order() -> None:
    table = flows((1, "a", "tcp", "closed", 8.0), (1, "b", "tcp", "closed", 8.0))
    assert assign_roles(table, "by-elapsed") == ["tcp-faster", "tcp-slower"]


def test_by_start_follows_scenario_order() -> None:
    table = flows((1, "a", "tcp", "closed", 9.0), (1, "u", "udp", "closed", 1.0), (1, "b", "tcp", "closed", 2.0))
    assert assign_roles(table, "by-start") == ["tcp-first", "udp", "tcp-second"]


def test_flows_that_start_together_are_ranked_and_a_late_one_is_named_by_its_place() -> None:
    rows = [(1, "a", "tcp", "closed", 9.0), (1, "b", "tcp", "closed", 7.0), (1, "c", "tcp", "closed", 5.0)]
    table = flows(*rows, starts=[0.0, 0.05, 5.01])
    assert assign_roles(table, "by-start-then-elapsed") == ["tcp-slower", "tcp-faster", "tcp-third"]
    table = flows(*rows, starts=[0.0, 5.0, 5.05])
    assert assign_roles(table, "by-start-then-elapsed") == ["tcp-first", "tcp-slower", "tcp-faster"]


@pytest.mark.parametrize("rule", ["by-name", "by-elapsed"])
def test_in_line_objects_are_classed_by_throughput_within_each_page_load(rule: str) -> None:
    table = flows(
        (1, "page/main", "tcp", "closed", 3.0),
        (1, "page/inline-1", "tcp", "closed", 2.0),
        (1, "page/inline-2", "tcp", "closed", 1.0),
        (2, "page/main", "tcp", "closed", 1.0),
        (2, "page/inline-1", "tcp", "aborted", None),
        (2, "page/inline-2", "tcp", "closed", 5.0),
        (2, "bulk", "tcp", "closed", 5.0),
    )
    bulk = "bulk" if rule == "by-name" else "tcp"
    classes = ["main", "inline-2", "inline-1", "main", "inline-2", "inline-1"]
    assert assign_roles(table, rule) == [*classes, bulk]


def test_several_page_loads_stand_before_their_classes_and_shared_connections_keep_their_names() -> None:
    table = flows((1, "a/main", "tcp", "closed", 1.0), (1, "b/connection-1", "tcp", "closed", 1.0))
    assert assign_roles(table, "by-name") == ["a/main", "b/connection-1"]


def test_by_name_uses_the_flow_names() -> None:
    table = flows((1, "bulk", "tcp", "closed", 9.0), (1, "voice", "udp", "closed", 1.0))
    assert assign_roles(table, "by-name") == ["bulk", "voice"]


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match="by-luck"):
        assign_roles(flows(), "by-luck")


@pytest.mark.parametrize("rule", ["by-name", "by-elapsed"])
def test_clients_that_are_all_alike_share_a_role(rule: str) -> None:
    table = flows(*((1, name, "tcp", "unfinished", None) for name in ("client-1", "client-2", "client-1b")))
    table["application"] = ["client"] * 3
    assert assign_roles(table, rule) == ["client"] * 3
