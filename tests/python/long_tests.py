"""Which long tests run: all of them or, with `--changed-since REV`, those whose code has changed.

A long test names what it covers and what it takes, `@pytest.mark.long(covers=(...), seconds=60)`, or says
why only people start it, `@pytest.mark.long(by_hand="takes an hour")`. Tests that share a mark run
together or not at all; `seconds` is what all of them take.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Processor seconds that a change may cost: some two minutes on two cores. Cheap tests come first, so that a
# change of everything leaves out few.
BUDGET_S = 240.0

# What decides the numbers of a simulation.
ENGINE = (
    *(f"crates/lasthop-{name}" for name in ("core", "link", "tcp", "traffic", "sim", "trace", "scenario")),
    "Cargo.lock",
)
# What decides what a guest kernel does.
GUEST = ("python/lasthop/engines", "crates/lasthop-guest", "crates/lasthop-host")
REPORT = pytest.StashKey[list[str]]()


@dataclass(frozen=True)
class Long:
    """What tests with the same mark cover, the processor seconds that they take, and their names."""

    covers: Sequence[str] = ()
    seconds: float = 0
    by_hand: str = ""
    tests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if bool(self.covers) == bool(self.by_hand) or bool(self.covers) != bool(self.seconds):
            raise pytest.UsageError("a long test needs covers=(...) and seconds=..., or by_hand='why'")
        if missing := [name for name in self.covers if not (ROOT / name).exists()]:
            raise pytest.UsageError(f"a long test covers what does not exist: {', '.join(missing)}")

    @property
    def name(self) -> str:
        """The first test, and how many others there are."""
        more = len(self.tests) - 1
        return self.tests[0].removeprefix("tests/python/") + (f" and {more} more" if more else "")

    def touched(self, changed: Iterable[str]) -> str | None:
        """Return a changed file that they cover; their own count, too."""
        covered = {Path(name) for name in (*self.covers, *(test.partition("::")[0] for test in self.tests))}
        return next(
            (path for path in changed if any(Path(path).is_relative_to(each) for each in covered)), None
        )


def changed_since(revision: str) -> list[str] | None:
    """Return the files that differ from a revision, committed or not; `None` if git cannot tell."""
    listings = [
        subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=False)
        for words in (
            ("diff", "--name-only", revision, "--"),
            ("ls-files", "--others", "--exclude-standard"),
        )
    ]
    if any(listing.returncode for listing in listings):
        return None
    return sorted({line for listing in listings for line in listing.stdout.splitlines()})


def choose(
    groups: Iterable[Long], changed: Sequence[str] | None, budget: float = BUDGET_S
) -> tuple[list[tuple[Long, str]], list[tuple[Long, str]]]:
    """Return the groups that a change calls for and the budget pays, and the others, each with the reason."""
    chosen, left_out = [], []
    for group in sorted(groups, key=lambda group: (group.seconds, group.tests)):
        file = "git cannot tell what has changed" if changed is None else group.touched(changed)
        if group.by_hand:
            left_out.append((group, f"by hand only: {group.by_hand}"))
        elif file is None:
            left_out.append((group, "nothing that it covers has changed"))
        elif group.seconds > budget:
            left_out.append((group, f"its {group.seconds:g} s exceed the {budget:g} s that are left"))
        else:
            budget -= group.seconds
            chosen.append((group, file))
    return chosen, left_out


def groups_of(items: Iterable[pytest.Item]) -> dict[int, Long]:
    """Return the long tests by their marks."""
    groups: dict[int, Long] = {}
    for item in items:
        if mark := item.get_closest_marker("long"):
            groups.setdefault(id(mark), Long(*mark.args, **mark.kwargs)).tests.append(item.nodeid)
    return groups


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tests whose code has not changed, and keep in mind what to tell of it."""
    groups = groups_of(items)  # also without the option: a mark that says nothing is an error
    revision = config.getoption("--changed-since")
    if revision is None:
        return
    chosen, left_out = choose(groups.values(), changed_since(revision))
    config.stash[REPORT] = [
        *(f"ran {group.name}: {reason}" for group, reason in chosen),
        *(f"left out {group.name}: {reason}" for group, reason in left_out),
    ]
    dropped = {id(group) for group, _ in left_out}
    gone = [
        item
        for item in items
        if (mark := item.get_closest_marker("long")) and id(groups[id(mark)]) in dropped
    ]
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in set(gone)]
