"""The verdict on a script, whatever ran it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from xml.etree import ElementTree


class State(Enum):
    """What became of a script."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUNNABLE = "not runnable"


@dataclass(frozen=True)
class Verdict:
    """What became of one script on one host."""

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
    root = ElementTree.Element("testsuite", name=suite)
    counts = dict.fromkeys(State, 0)
    for verdict in verdicts:
        counts[verdict.state] += 1
        case = ElementTree.SubElement(
            root,
            "testcase",
            classname=verdict.family,
            name=str(verdict.script),
            time=f"{verdict.duration_s:.6f}",
        )
        if verdict.state is State.PASSED:
            continue
        place = "" if verdict.line is None else f"line {verdict.line}: "
        kind = "failure" if verdict.state is State.FAILED else "skipped"
        ElementTree.SubElement(case, kind, message=f"{place}{verdict.message}")
    root.set("tests", str(sum(counts.values())))
    root.set("failures", str(counts[State.FAILED]))
    root.set("skipped", str(counts[State.NOT_RUNNABLE]))
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()
