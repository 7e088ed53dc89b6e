"""`--changed-since` chooses the long tests that cover a change, within the budget."""

from __future__ import annotations

import pytest

from long_tests import Long, changed_since, choose

FIT = Long(("python/lasthop/fit", "Cargo.lock"), 60, tests=["tests/python/fit/test_fit_line.py::test_long"])
LAB = Long(
    ("python/lasthop/present/lab",),
    50,
    tests=["tests/python/present/lab/test_lab.py::test_long[1]", "another"],
)
NIGHT = Long(by_hand="takes a night", tests=["tests/python/campaign/cluster/test_cluster.py::test_night"])


@pytest.mark.parametrize(
    ("changed", "budget", "chosen"),
    [
        (["python/lasthop/fit/fit.py", "README.md"], 100, [FIT]),
        (["python/lasthop/fitness.py", "tests/python/fit/test_fit_kept.py"], 100, []),
        (["tests/python/fit/test_fit_line.py"], 100, [FIT]),
        (["Cargo.lock", "python/lasthop/present/lab/page.py"], 110, [LAB, FIT]),
        (["Cargo.lock", "python/lasthop/present/lab/page.py"], 109, [LAB]),
        ([], 1000, []),
        (None, 1000, [LAB, FIT]),
        (["tests/python/campaign/cluster/test_cluster.py"], 1000, []),
    ],
)
def test_what_covers_a_change_runs_while_the_budget_lasts(
    changed: list[str] | None, budget: float, chosen: list[Long]
) -> None:
    ran, left_out = choose([FIT, LAB, NIGHT], changed, budget)
    assert [group for group, _ in ran] == chosen
    assert {group.name for group, _ in left_out} == {
        group.name for group in (FIT, LAB, NIGHT) if group not in chosen
    }
    reasons = {group.name: reason for group, reason in left_out}
    assert reasons[NIGHT.name] == "by hand only: takes a night"
    if budget == 109:
        assert reasons[FIT.name] == "its 60 s exceed the 59 s that are left"


def test_a_group_is_named_by_its_first_test() -> None:
    assert LAB.name == "present/lab/test_lab.py::test_long[1] and 1 more"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "or by_hand"),
        ({"covers": ("Cargo.lock",)}, "or by_hand"),
        ({"covers": ("Cargo.lock",), "seconds": 9, "by_hand": "takes a night"}, "or by_hand"),
        ({"covers": ("Cargo.lock", "python/lasthop/fitt"), "seconds": 9}, "python/lasthop/fitt"),
    ],
)
def test_a_mark_says_what_exists_and_what_it_takes_or_why_not(said: dict[str, object], reason: str) -> None:
    with pytest.raises(pytest.UsageError, match=reason):
        Long(**said)  # type: ignore[arg-type]


def test_what_git_does_not_know_has_changed_in_an_unknown_way() -> None:
    assert changed_since("HEAD") is not None
    assert changed_since("no-such-revision") is None
