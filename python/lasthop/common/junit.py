"""Verdicts as a JUnit file, which CI services display."""

from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True)
class Case:
    """The name of a test and its outcome."""

    classname: str
    name: str
    outcome: str = ""
    """`failure`, `error` or `skipped`; empty if it passed."""
    message: str = ""
    time_s: float = 0.0


def junit(cases: Iterable[Case], suite: str) -> bytes:
    root = ElementTree.Element("testsuite", name=suite)
    counts = {"failure": 0, "error": 0, "skipped": 0}
    total = 0
    for case in cases:
        total += 1
        place = {"classname": case.classname, "name": case.name, "time": f"{case.time_s:.6f}"}
        element = ElementTree.SubElement(root, "testcase", place)
        if case.outcome:
            counts[case.outcome] += 1
            ElementTree.SubElement(element, case.outcome, message=case.message)
    root.set("tests", str(total))
    for name, count in zip(("failures", "errors", "skipped"), counts.values(), strict=True):
        root.set(name, str(count))
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()
