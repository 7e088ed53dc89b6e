"""The verdict on a script, whatever ran it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from lasthop.common import junit as files


class State(Enum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_RUNNABLE = "not runnable"


@dataclass(frozen=True)
class Verdict:
    script: Path
    family: str
    """How the script's addresses are meant: ipv4, ipv6 or ipv4-mapped-ipv6."""
    state: State
    line: int | None = None
    """The line of the script that it failed at, or that asks for what is missing."""
    message: str = ""
    """What was expected and what came, or what is missing."""
    duration_s: float = 0.0
    """Virtual time that passed."""


def junit(verdicts: Iterable[Verdict], suite: str) -> bytes:
    """Return the verdicts as a JUnit file, for services that show tests."""
    return files.junit(map(_case, verdicts), suite)


def _case(verdict: Verdict) -> files.Case:
    outcome = {State.PASSED: "", State.FAILED: "failure", State.NOT_RUNNABLE: "skipped"}[verdict.state]
    place = "" if verdict.line is None else f"line {verdict.line}: "
    return files.Case(
        verdict.family, str(verdict.script), outcome, f"{place}{verdict.message}", verdict.duration_s
    )
