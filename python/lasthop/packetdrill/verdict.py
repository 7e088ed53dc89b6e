"""The verdict on a script, on a kernel or on the model."""

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
    """Address family of the run: ipv4, ipv6 or ipv4-mapped-ipv6."""
    state: State
    line: int | None = None
    """The line of the script that failed or that needs something missing."""
    message: str = ""
    """The expected and the actual behaviour, or what is missing."""
    duration_s: float = 0.0
    """Virtual time."""


def junit(verdicts: Iterable[Verdict], suite: str) -> bytes:
    return files.junit(map(_case, verdicts), suite)


def _case(verdict: Verdict) -> files.Case:
    outcome = {State.PASSED: "", State.FAILED: "failure", State.NOT_RUNNABLE: "skipped"}[verdict.state]
    place = "" if verdict.line is None else f"line {verdict.line}: "
    return files.Case(
        verdict.family, str(verdict.script), outcome, f"{place}{verdict.message}", verdict.duration_s
    )
