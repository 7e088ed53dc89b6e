from __future__ import annotations

import pytest

from lasthop.roles import assign_roles


def flows(*rows: tuple[int, str, str, str, float | None]) -> dict[str, list[object]]:
    names = ("replication", "flow", "protocol", "outcome", "elapsed_s")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


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


def test_by_name_uses_the_flow_names() -> None:
    table = flows((1, "bulk", "tcp", "closed", 9.0), (1, "voice", "udp", "closed", 1.0))
    assert assign_roles(table, "by-name") == ["bulk", "voice"]


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match="by-luck"):
        assign_roles(flows(), "by-luck")
