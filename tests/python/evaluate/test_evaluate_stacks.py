"""`lasthop evaluate --stack`: the set as transfers, what has no equivalent, and a row in a guest."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lasthop.stacks
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.evaluate import transfers
from lasthop.evaluate.bbr import read_cases, run_cases_of_stack
from lasthop.evaluate.lighter import lighter
from lasthop.evaluate.rows import SETS, TESTED, Number, Row, Set
from lasthop.evaluate.transfers import as_transfers, level_of, level_of_control, read_set_of_stacks
from lasthop.studies.loading import load

Main = Callable[..., int]
TCP = Path(lasthop.stacks.__file__).parent / "tcp.py"
LINE = f"exec {sys.executable} -I {TCP}"
ADAPTER = f"""
title = "Linux' TCP as somebody's stack"
client = "{LINE}"
server = "{LINE}"
control = "bbr"
env = {{ LASTHOP_CONTROL = "bbr" }}
"""
BULK = {"kind": "bulk-tcp", "name": "flow", "duration": "5 s"}


SEEN, UNSEEN = Number("throughput", "", "throughput_Bps()"), Number("timeouts", "", "timeouts()")


def row(*flows: dict[str, object], **scenario: object) -> Row:
    path = {"rate": "1 Mbit/s", "delay": "10 ms"}
    whole: Any = {"title": "r", "down": {"link": path}, "flow": list(flows), **scenario}
    return Row("r", [SEEN, UNSEEN], [], whole, [], "")


def test_the_tested_stack_carries_what_the_factor_governs_and_linux_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A governed flow, one of CUBIC, and one that is QUIC or BBR in the levels."""
    cubic = {**BULK, "name": "b", "tcp": {"congestion_control": "cubic", "ecn": False}}
    quic = {"stack": "quic", "quic": {"congestion_control": "newreno"}}
    levels = {
        "quic": {"flow": {"c": quic}},
        "bbr": {"flow": {"c": {"tcp": {"congestion_control": "bbr"}}}},
        "more": {"flow": {"d": BULK}},
    }
    whole = row({**BULK, "name": "a"}, cubic, {**BULK, "name": "c"}, factor={"other": levels})
    monkeypatch.setattr(transfers, "_why_no_quic", lambda: "")
    found: Any = as_transfers(whole)
    assert [flow["stack"] for flow in found.scenario["flow"]] == ["subject", "linux", "linux"]
    assert {flow["kind"] for flow in found.scenario["flow"]} == {"transfer"}
    assert found.scenario["flow"][1]["tcp"] == {"congestion_control": "cubic"}
    changes = {text: level["flow"] for text, level in found.scenario["factor"]["other"].items()}
    assert changes["quic"]["c"] == {"stack": "quic"}
    assert changes["bbr"]["c"] == {"stack": "linux", "tcp": {"congestion_control": "bbr"}}
    assert changes["more"]["d"]["stack"] == "subject"
    # Packets show throughput, but no timeouts.
    assert found.numbers == [SEEN]
    assert found.left_out == ["timeouts: only the sender of an encrypted connection knows it"]
    monkeypatch.setattr(transfers, "_why_no_quic", lambda: "it is not installed")
    assert as_transfers(whole).left_out[0] == "other=quic: it is not installed"


def test_the_quick_set_has_lower_rates_shorter_flows_and_fewer_levels() -> None:
    change = {"at": "10 s", "rate": "2 Mbit/s"}
    factor = {"queue": {name: {"down": {"queue": {"limit": f"{name} packets"}}} for name in ("1", "5", "9")}}
    flow = {**BULK, "duration": "40 s", "start": {"distribution": "uniform", "min": "0 s", "max": "1 s"}}
    whole = row(flow, factor=factor, replications=10)
    path = {"link": {"rate": "20 Mbit/s", "delay": "20 ms", "change": [change]}}
    number = replace(SEEN, name="throughput over 40 s")
    scenario: Any = {**whole.scenario, "down": path, "title": "20 Mbit/s, 40 ms"}
    found: Any = lighter(replace(whole, scenario=scenario, numbers=[number]))
    link = {"rate": "5 Mbit/s", "delay": "20 ms", "change": [{"at": "2.5 s", "rate": "0.5 Mbit/s"}]}
    assert found.scenario["down"]["link"] == link
    assert found.scenario["flow"][0]["duration"] == "10 s"
    assert found.scenario["flow"][0]["start"]["max"] == "0.25 s"
    limits = {name: own["down"]["queue"]["limit"] for name, own in found.scenario["factor"]["queue"].items()}
    assert limits == {"1": "1 packets", "9": "2 packets"}
    assert (found.title, found.numbers[0].name) == ("5 Mbit/s, 40 ms", "throughput over 10 s")
    # Without a claim, two are enough.
    assert found.scenario["replications"] == 2
    claim = {"text": "x", "holds": "throughput_Bps() > 0"}
    judged: Any = lighter(replace(whole, claims=[claim]))
    assert judged.scenario["replications"] == 3
    fixed: Any = lighter(replace(whole, scenario=scenario, fixed=["rates", "times"]))
    assert (fixed.scenario["down"], fixed.scenario["flow"]) == (path, [flow])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "voip"}, 'a transfer cannot replace flows of kind "voip"'),
        ({"tcp": {"ecn": True}}, "tcp.ecn cannot be given to programs"),
        ({"access": {"delay": "5 ms"}}, "transfers have no key access.delay"),
    ],
)
def test_what_a_transfer_cannot_express_is_refused_with_the_key(
    changes: dict[str, object], reason: str
) -> None:
    assert as_transfers(row({**BULK, **changes})).refused == reason
    # A level like that is left out, if there are others.
    levels = {"plain": {}, "other": {"flow": {"flow": changes}}}
    text, _ = as_transfers(row(BULK, factor={"f": levels})).left_out
    assert text == f"f=other: {reason}"


@pytest.mark.parametrize("name", SETS)
def test_every_row_is_a_scenario_of_programs_or_says_why_not(name: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(ADAPTER, encoding="utf-8")
    levels = {TESTED: level_of(str(file)), "reno": level_of_control("reno")}
    chosen = [row for section in read_set_of_stacks(name).sections for row in section.rows]
    refused = {row.name for row in chosen if row.refused}
    assert {"beside-call", "aqm", "applications", "bottlenecks"} <= refused
    assert not {row for row in refused if not row.startswith("tcpeval-")} - {
        "beside-call",
        "aqm",
        "applications",
        "bottlenecks",
    }
    for row in chosen:
        if row.refused:
            continue
        file = tmp_path / f"{row.name}.toml"
        file.write_text(row.file_text(levels), encoding="utf-8")
        if claims := row.claims_text(["reno"]):
            file.with_suffix(".claims.toml").write_text(claims, encoding="utf-8")
        for named in row.files():
            (tmp_path / named.name).write_bytes(named.read_bytes())
        for cell in load(file).study.cells:
            assert cell.transfers(1, 1), (row.name, cell.key)


@pytest.fixture
def one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command know one row, and a part of its levels."""
    whole = read_set_of_stacks("quick")

    def read(_: str) -> Set:
        (section,) = [one for one in whole.sections if one.id == "low-rate"]
        (own,) = section.rows
        link = own.scenario["factor"]["link"]
        scenario = {**own.scenario, "replications": 2, "factor": {"link": {"sub-packet": link["sub-packet"]}}}
        refused = next(row for one in whole.sections for row in one.rows if row.name == "aqm")
        rows = [replace(own, scenario=scenario), refused]  # type: ignore[arg-type]
        return replace(whole, sections=[replace(section, rows=rows)])

    monkeypatch.setattr(transfers, "read_set_of_stacks", read)
    monkeypatch.setattr("lasthop.evaluate.dossier.run_cases_of_stack", lambda *_: [])


@pytest.mark.usefixtures("one_row")
def test_a_users_stack_has_a_dossier(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(ADAPTER, encoding="utf-8")
    assert lasthop_main("evaluate", "--stack", "mine.toml", "--against", "reno", "--jobs", "2") == 0
    said = capsys.readouterr().out
    assert "mine.toml against reno: quick set, version" in said
    assert "engine kernel" in said
    assert "aqm: not run: tcp.ecn cannot be given to programs" in said
    assert "packets sent again: only the sender of an encrypted connection knows it" in said
    table = list(csv.DictReader(Path("dossiers/mine/dossier.csv").read_text(encoding="utf-8").splitlines()))
    times = {row["control"]: float(row["value"]) for row in table}
    # 30 kB at 64 kbit/s take 3.75 s.
    assert set(times) == {"mine", "reno"}
    assert all(3.75 < time < 8 for time in times.values()), times
    page = Path("dossiers/mine/dossier.html").read_text(encoding="utf-8")
    assert "Not run: tcp.ecn cannot be given to programs" in page
    assert "Left out: packets sent again" in page
    assert "with reno of Linux" in page


def test_a_bbr_is_judged_by_the_cases_that_packets_decide(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(ADAPTER, encoding="utf-8")
    cases = read_cases()
    chosen = [case for case in cases.cases if case.id in {"sub-packet", "drain-time", "probe-rtt", "policer"}]
    engine = KernelEngine.choose(None)
    told = run_cases_of_stack(replace(cases, cases=chosen), level_of(str(file)), engine, tmp_path)
    results = {one.case.id: one for one in told}
    assert results["drain-time"].refused == "it depends on when a state begins"
    assert results["probe-rtt"].refused == "it is about states, which packets do not show"
    assert (results["sub-packet"].refused, list(results["sub-packet"].faults)) == ("", [])
    # Linux has the first version of BBR, which ignores the losses behind a policer.
    (fault,) = results["policer"].faults
    assert "of the packets are lost from 5 to 25 s, more than 0.05" in fault


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stack", "quicgo"], "did you mean quic-go?"),
        (["--stack", "mine.toml", "--engine", "model"], "leave out --engine model"),
        (["--stack", "mine.toml", "bbr"], "--stack and CONTROL: evaluate one at a time"),
        (["--stack", "absent.toml"], "absent.toml"),
        (["--stack", "new.toml"], "Run 'lasthop stack try new.toml --install'"),
        (["--stack", "mine.toml", "--against", "dctcp"], "dctcp needs ECN"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error_in_a_line(
    words: list[str], said: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.toml").write_text(ADAPTER, encoding="utf-8")
    Path("new.toml").write_text(f'{ADAPTER}\ninstall = ["make"]\n', encoding="utf-8")
    assert lasthop_main("evaluate", *words) == 2
    assert said in capsys.readouterr().err
