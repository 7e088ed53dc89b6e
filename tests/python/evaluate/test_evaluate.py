"""`lasthop evaluate`: planted faults are found where they belong, and Reno and CUBIC pass."""

from __future__ import annotations

import csv
import re
import signal
import tomllib
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from lasthop.analysis.claims import NOT_UPHELD, UPHELD
from lasthop.campaign.runner import Assignment, Ledger, Threads
from lasthop.campaign.simulate import Asked
from lasthop.commands import evaluate as command
from lasthop.commands.cli import main
from lasthop.commands.judging import asked_of_judge
from lasthop.common.errors import InputError
from lasthop.engines.kernel import build as kernels
from lasthop.engines.kernel import wanted as kernel_names
from lasthop.engines.kernel.store import Kernel, find_kernel
from lasthop.evaluate import dossier as dossiers
from lasthop.evaluate import rows
from lasthop.evaluate.controls import read_control
from lasthop.evaluate.dossier import Dossier, Judgement
from lasthop.evaluate.page import write_page
from lasthop.evaluate.rows import SETS, WHOLE, Set, read_set
from lasthop.scenario.examples import find_example
from lasthop.studies.loading import load
from long_tests import ENGINE

Main = Callable[..., int]
COVERS = (
    "python/lasthop/evaluate",
    "python/lasthop/studies/claims",
    "python/lasthop/analysis/claims",
    *ENGINE,
)
FAULTS = Path(__file__).with_name("planted_faults.py")
CAUGHT_BY = {
    "NeverBacksOff": "collapse",
    "IgnoresMarks": "aqm",
    "StarvesFarFlows": "fairness",
    "FillsBuffers": "bufferbloat",
}


def only(chosen: Set, sections: Collection[str]) -> Set:
    """Return the set with these sections."""
    return replace(chosen, sections=[one for one in chosen.sections if one.id in sections])


def build(control: str, sections: Collection[str], out: Path, replications: int | None = None) -> Dossier:
    asked = Asked((), replications, (), 1, None, "model", None, anyway=False, limit_memory=None)
    said: list[Judgement] = []
    tested = read_control(control)
    found = dossiers.build(
        tested,
        {"tested": tested.level, **{name: read_control(name).level for name in ("reno", "cubic")}},
        only(read_set("quick"), sections),
        asked,
        out=out,
        place=Threads(2),
        quiet=True,
        say=said.append,
    )
    assert said == found.judgements
    return found


@pytest.mark.long(covers=COVERS, seconds=12)
@pytest.mark.parametrize(("fault", "section"), CAUGHT_BY.items())
def test_a_planted_fault_is_found_by_the_section_that_should(
    fault: str, section: str, tmp_path: Path
) -> None:
    (judgement,) = build(f"{FAULTS}:{fault}", [section], tmp_path / "out").judgements
    assert judgement.verdict == NOT_UPHELD


@pytest.mark.long(covers=COVERS, seconds=7)
@pytest.mark.parametrize("control", ["reno", "cubic"])
def test_reno_and_cubic_pass_these_sections(control: str, tmp_path: Path) -> None:
    found = build(control, list(CAUGHT_BY.values()), tmp_path / "out")
    verdicts = {one.section.id: one.verdict for one in found.judgements}
    assert verdicts == dict.fromkeys(CAUGHT_BY.values(), UPHELD)
    assert found.exit_code == 0


@pytest.mark.long(covers=COVERS, seconds=3)
def test_reno_and_cubic_follow_the_laws_of_random_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (section,) = only(read_set("quick"), ["loss"]).sections
    law = replace(section, rows=[row for row in section.rows if row.laws])
    monkeypatch.setattr(f"{__name__}.only", lambda chosen, _: replace(chosen, sections=[law]))
    dossier = build("reno", ["loss"], tmp_path / "out", replications=60)
    (ran,) = dossier.judgements[0].rows
    reno, cubic = (law.values for law in ran.row.laws)
    found = {
        (value.control, value.place["loss"]): value.interval.estimate
        for value in ran.measured[0].values
        if value.interval is not None
    }
    for level in ("0.1", "1", "3"):
        assert found["reno", level] == pytest.approx(reno[level], rel=0.2), level
        assert found["cubic", level] == pytest.approx(max(reno[level], cubic[level]), rel=0.4), level
    write_page(dossier, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<title>RFC 5348</title>") == page.count("<td>RFC 5348</td>") == 3


def test_ignored_marks_are_found_by_no_other_of_these_sections(tmp_path: Path) -> None:
    found = build(f"{FAULTS}:IgnoresMarks", ["envelope", "bufferbloat"], tmp_path / "out")
    assert {one.verdict for one in found.judgements} == {UPHELD}


@pytest.mark.parametrize("name", SETS)
def test_every_row_is_a_scenario_with_claims_on_all_its_levels(name: str, tmp_path: Path) -> None:
    chosen = read_set(name)
    levels = {one: read_control(control).level for one, control in (("tested", "prague"), ("reno", "reno"))}
    used = set()
    for section in chosen.sections:
        for row in section.rows:
            used.add(f"{row.name}.toml")
            file = tmp_path / f"{row.name}.toml"
            file.write_text(row.file_text(levels), encoding="utf-8")
            if claims := row.claims_text(["reno"]):
                file.with_suffix(".claims.toml").write_text(claims, encoding="utf-8")
            for named in row.files():
                (tmp_path / named.name).write_bytes(named.read_bytes())
            loaded = load(file)
            assert list(loaded.study.factors)[-1] == "control"
            assert bool(loaded.claims) == bool(row.claims)
            assert row.numbers
            assert all(claim["section"].startswith(("RFC ", "ITU-T ")) for claim in row.claims), row.name
    # The quick set leaves out the section that is not quick.
    whole_only = set() if name == WHOLE else set(rows.FOLDER.glob("tcpeval-*.toml"))
    expected = {file.name for file in set(rows.FOLDER.glob("*.toml")) - whole_only}
    assert used == expected - {"set.toml"}


@pytest.mark.parametrize(
    ("against", "said"),
    [
        (["reno", "cubic"], "Reno and CUBIC, the larger of the two (ms)"),
        (["reno"], "reno (ms)"),
        (["cubic", "dctcp"], "cubic and dctcp, the larger of the two (ms)"),
        (["reno", "cubic", "bbr"], "reno and cubic and bbr, the worst of them (ms)"),
    ],
)
def test_a_claim_names_the_controls_that_it_compares_with(against: list[str], said: str) -> None:
    (row,) = (
        one for section in read_set("quick").sections for one in section.rows if one.name == "bufferbloat"
    )
    (claim,) = tomllib.loads(row.claims_text(against))["claim"]
    assert claim["text"] == f"its median queueing delay is at most a tenth above that of {said}"
    assert f"control=[{', '.join(map(repr, against))}]" in claim["holds"]


def test_every_claim_names_other_controls_than_the_usual_ones() -> None:
    for section in read_set("whole").sections:
        for row in section.rows:
            texts = [claim["text"] for claim in tomllib.loads(row.claims_text(["dctcp"])).get("claim", [])]
            assert not any("Reno" in text or "of both" in text for text in texts), row.name


def test_the_quick_set_takes_levels_of_the_whole_one() -> None:
    for file in rows.FOLDER.glob("*.toml"):
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        for factor, levels in data.get("evaluation", {}).get("quick", {}).items():
            if factor != "replications":
                assert set(levels) < data["factor"][factor].keys(), file.name


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command know one section that is done at once."""
    monkeypatch.setattr(rows, "read_set", lambda name: only(read_set(name), ["low-rate"]))


@pytest.mark.usefixtures("short")
def test_the_command_leaves_a_page_a_table_and_scenarios(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    example = find_example("own").with_name("own.py")
    assert lasthop_main("evaluate", f"{example}:Gentle", "--jobs", "2") == 0
    said = capsys.readouterr().out
    assert "numbers only  Internet of Things" in said
    out = Path("dossiers/Gentle")
    table = list(csv.DictReader((out / "dossier.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["control"] for row in table} == {"Gentle", "reno", "cubic"}
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in table)
    page = (out / "dossier.html").read_text(encoding="utf-8")
    assert len(page) < 3e6
    assert all(row["metric"] in page for row in table)
    assert page.count("<svg") == 1
    assert main(["run", str(out / "scenarios" / "low-rate.toml"), "--only", "control=tested", "--quiet"]) == 0
    before = {file: file.read_bytes() for file in out.glob("dossier.*")}
    assert lasthop_main("evaluate", f"{example}:Gentle", "--quiet") == 0
    assert {file: file.read_bytes() for file in out.glob("dossier.*")} == before


def test_after_ctrl_c_the_same_command_goes_on_where_it_stopped(
    lasthop_main: Main, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rows, "read_set", lambda name: only(read_set(name), ["loss"]))
    code = lasthop_main("evaluate", "vegas", "--out", "whole", "--quiet")
    ran: list[int] = []
    undisturbed = Threads.run

    def run(place: Threads, assignment: Assignment, ledger: Ledger, advance: Callable[[int], None]) -> None:
        def stop_in_the_second_row(count: int) -> None:
            advance(count)
            if len(ran) == 2 and count:
                signal.raise_signal(signal.SIGINT)

        ran.append(assignment.runs)
        undisturbed(place, assignment, ledger, stop_in_the_second_row)

    monkeypatch.setattr(Threads, "run", run)
    words = ("evaluate", "vegas", "--out", "out", "--quiet", "--jobs", "1")
    assert lasthop_main(*words) == 130
    said = re.fullmatch(
        r"Stopped: (\d+) of (\d+) runs are stored in out/results/loss-response\. Repeat .*\n",
        capsys.readouterr().err,
    )
    assert said
    kept, total = map(int, said.groups())
    assert 0 < kept < total == ran[1]
    assert lasthop_main(*words) == code
    assert ran[2] == total - kept
    assert len(ran) == 4
    assert (Path("out") / "dossier.csv").read_bytes() == (Path("whole") / "dossier.csv").read_bytes()


@pytest.mark.usefixtures("short")
def test_a_control_that_the_engine_lacks_is_an_error(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("evaluate", f"{FAULTS}:FillsBuffers", "--engine", "kernel", "--quiet") == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bbr4"], "did you mean 'bbr'"),
        ([f"{FAULTS}"], "add the name of the class in the file"),
        (["missing.py:Mine"], "missing.py is not a Python file"),
        ([f"{FAULTS}:FillBuffers"], "did you mean 'python:planted_faults.FillsBuffers'"),
        (["reno", "--against", "cubik"], "did you mean 'cubic'"),
        (["reno", "--against", ","], "--against: missing a congestion control"),
        ([f"{FAULTS}:FillsBuffers", "--cluster", "local:2"], "the scenario uses your own code FillsBuffers"),
        (["reno", "--cluster", "locl:2"], "did you mean local:4"),
        (["reno", "--cluster", "local:2", "--jobs", "2"], "omit one of them"),
        (["reno", "--out", "occupied"], "does not contain a dossier"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error_in_a_line(
    words: list[str], said: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("occupied").mkdir()
    Path("occupied/thesis.tex").touch()
    assert lasthop_main("evaluate", *words) == 2
    assert said in capsys.readouterr().err


def test_a_module_goes_into_a_kernel_once_for_each_content(
    lasthop_main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: list[kernels.Wanted] = []

    def build(one: kernels.Wanted, *_: object) -> Kernel:
        wanted.append(one)
        raise InputError("it does not compile")

    monkeypatch.setattr(kernels, "build", build)
    file = tmp_path / "tcp_vegas.c"
    file.write_text("struct tcp_congestion_ops mine;", encoding="utf-8")
    assert lasthop_main("evaluate", "--module", file) == 125
    assert "it does not compile" in capsys.readouterr().err
    (one,) = wanted
    release = find_kernel(None).name
    assert (one.source, one.modules) == (release, (file,))
    assert re.fullmatch(rf"{re.escape(release)}\+tcp_vegas-[0-9a-f]{{8}}", one.name or "")
    # With a kernel of that name there is nothing to build.
    there = replace(find_kernel(None), name=one.name or "")
    monkeypatch.setattr(kernel_names, "kernels", lambda: [there])
    with command.evaluate_command.make_context("evaluate", ["--module", str(file)]) as context:
        found = asked_of_judge(context)
    assert (found.engine, found.kernel) == ("kernel", one.name)
    assert lasthop_main("evaluate", "--module", file, "--engine", "model") == 2
    assert "leave out --engine model" in capsys.readouterr().err
    assert lasthop_main("evaluate") == 2
    assert "or give --module" in capsys.readouterr().err


def test_a_page_says_what_was_refused(tmp_path: Path) -> None:
    found = build("reno", ["low-rate"], tmp_path / "out", replications=2)
    (judgement,) = found.judgements
    refused = replace(judgement.rows[0], checked=None, measured=(), refused="no <such> thing")
    write_page(replace(found, judgements=[replace(judgement, rows=[refused])]), tmp_path / "page.html")
    assert "Not run: no &lt;such&gt; thing" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_command_names_the_sets_that_there_are() -> None:
    (option,) = [one for one in command.evaluate_command.params if one.name == "set_name"]
    assert option.type.choices == SETS  # type: ignore[attr-defined]
