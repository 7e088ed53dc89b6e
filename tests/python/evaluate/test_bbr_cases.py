"""BBR's test cases of draft-ietf-ccwg-bbr: bbr3 keeps them, and what breaks one is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lasthop.analysis.claims import NOT_UPHELD, UPHELD
from lasthop.evaluate.bbr import CaseResult, read_cases, run_cases
from lasthop.evaluate.page import write_page
from test_evaluate import build

CASES = read_cases()
# Reno, with states that the draft does not have in this order.
LIAR = """
import lasthop


class Liar(lasthop.CongestionControl):
    def __init__(self):
        self.states = ["Startup", "ProbeBW_UP", "ProbeBW_CRUISE", "ProbeBW_UP"]

    def on_ack(self, ack):
        super().on_ack(ack)
        if self.states:
            self.state = self.states.pop(0)
"""


def tell(tmp_path: Path, control: str, *ids: str) -> dict[str, CaseResult]:
    cases = replace(CASES, cases=[case for case in CASES.cases if not ids or case.id in ids])
    return {told.case.id: told for told in run_cases(cases, {"congestion_control": control}, tmp_path)}


@pytest.mark.parametrize("control", ["reno", "bbr"])
def test_a_control_without_the_states_of_the_draft_has_no_cases(tmp_path: Path, control: str) -> None:
    assert tell(tmp_path, control) == {}
    assert list(tmp_path.iterdir()) == []


def test_states_out_of_order_are_reported(tmp_path: Path) -> None:
    (tmp_path / "liar.py").write_text(LIAR, encoding="utf-8")
    faults = tell(tmp_path, "python:liar.Liar", "drain-inflight")["drain-inflight"].faults
    assert "the draft has no transition from Startup to ProbeBW_UP" in faults
    assert "the draft has no transition from ProbeBW_CRUISE to ProbeBW_UP" in faults
    assert any(fault.startswith("the states do not match ^Startup Drain") for fault in faults)


@pytest.mark.parametrize(
    ("case", "change", "fault"),
    [
        ("probe-rtt", {"lasts": {"state": "ProbeRTT", "from": 0.01, "to": 0.1}}, "ProbeRTT lasts 0.2"),
        (
            "policer",
            {"loses": {"from": 5.0, "to": 25.0, "share": 0.0}},
            "of the packets are lost from 5 to 25 s",
        ),
        ("sub-packet", {"window": 1000}, "below 1000"),
        ("up-plateau", {"undone": 1}, "0 reductions are undone, less than 1"),
        ("drain-time", {"lasts": {"state": "Cruising", "from": 0.1, "to": 1.0}}, "Cruising lasts 0.000 s"),
        (
            "rate-tenfold",
            {"carries": {"from": 5.0, "to": 6.0, "of": 100e6, "share": 0.9}},
            "of the rate arrives",
        ),
    ],
)
def test_each_bound_can_be_missed(tmp_path: Path, case: str, change: dict[str, object], fault: str) -> None:
    (chosen,) = [one for one in CASES.cases if one.id == case]
    first = CASES.cases[0]
    cases = replace(CASES, cases=[first, replace(chosen, expected={**chosen.expected, **change})])
    told = run_cases(cases, {"congestion_control": "bbr3"}, tmp_path)[1]
    assert any(fault in one for one in told.faults), told.faults


def test_bbr3_keeps_the_cases_of_the_draft_in_a_section_of_their_own(tmp_path: Path) -> None:
    found = build("bbr3", ["low-rate"], tmp_path / "out", replications=2)
    judgement = found.judgements[-1]
    assert {told.case.id: told.faults for told in judgement.cases if told.faults} == {}
    assert len(judgement.cases) == len(CASES.cases)
    assert (judgement.section.id, judgement.verdict) == ("bbr", UPHELD)
    failed = [replace(told, faults=["<planted>"]) for told in judgement.cases[:1]]
    broken = replace(judgement, cases=[*failed, *judgement.cases[1:]])
    assert broken.verdict == NOT_UPHELD
    write_page(replace(found, judgements=[broken]), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(case.title in page for case in CASES.cases)
    assert "<strong>&lt;planted&gt;</strong>" in page
    assert f"{CASES.cases[0].title}: &lt;planted&gt;" in page
