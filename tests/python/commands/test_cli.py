from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import fake_core
from conftest import EXAMPLE
from lasthop.campaign.results import folder
from lasthop.studies import catalogue

Main = Callable[..., int]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--only", "lnk=e0"], "did you mean 'link'"),
        (["--only", "link=e1"], "did you mean 'e0'"),
        (["--only", "link"], "is not FACTOR=LEVEL"),
        (["--only", "link=r6,workload=2tcp1udp"], "no cell with this combination"),
        (["--replications", "0"], "Invalid value for '--replications'"),
        (["--sets", "none"], "Invalid value for '--sets'"),
        (["--speed", "9"], "No such option"),
    ],
)
def test_bad_requests_end_with_2_and_leave_nothing(
    engine: fake_core.Engine,
    study_file: Path,
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
    *,
    arguments: list[str],
    expected: str,
) -> None:
    assert lasthop_main("run", study_file, *arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not Path("results").exists()
    assert engine.ran == []


@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_bad_scenario_is_one_paragraph(
    engine: fake_core.Engine,
    tmp_path: Path,
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    del engine
    file = tmp_path / "bad.toml"
    file.write_text("lnk", encoding="utf-8")
    assert lasthop_main(command, file) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert error.count("\n") == 1
    assert not Path("results").exists()


def test_a_folder_that_cannot_be_written_is_a_request_error(
    engine: fake_core.Engine,
    scenario_file: Path,
    tmp_path: Path,
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del engine
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert lasthop_main("run", scenario_file, "--out", tmp_path / "file" / "below") == 2
    assert "Cannot write results" in capsys.readouterr().err
    assert lasthop_main("run", scenario_file, "--out", tmp_path / "file") == 2
    assert "is a file, not a folder" in capsys.readouterr().err


def test_a_factor_may_be_called_like_a_measured_column(tmp_path: Path, lasthop_main: Main) -> None:
    text = (EXAMPLE.parent / "short-flows.toml").read_text(encoding="utf-8")
    file = tmp_path / "named.toml"
    file.write_text(
        text.replace("[factor.load.", "[factor.flows.").replace('"10 min"', '"5 s"'), encoding="utf-8"
    )
    assert lasthop_main("run", file, "--replications", 2, "--out", "out", "--quiet") == 0
    shorts = pl.read_parquet("out/shorts.parquet")
    assert set(shorts["factor_flows"]) == {"half", "busy"}
    assert shorts["flows"].dtype == pl.Int64
    assert lasthop_main("results", "show", "out", "--by", "flows") == 0


def test_run_leaves_all_files_and_says_where(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", study_file) == 0
    captured = capsys.readouterr()
    assert {path.name for path in Path("results/kulve2003").iterdir()} == {
        "manifest.json",
        "store.sqlite",
        "flows.parquet",
        "runs.parquet",
        "summary.csv",
        "comparison.csv",
        "report.html",
    }
    assert "simulated 192 runs in" in captured.out
    assert "Agreement with the published numbers" in captured.out
    assert "report: results/kulve2003/report.html" in captured.out
    assert len(engine.ran) == 192


def test_a_second_run_only_makes_the_report_again(
    engine: fake_core.Engine, scenario_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", scenario_file) == 0
    before = {path.name: path.read_bytes() for path in Path("results/small").iterdir()}
    Path("results/small/report.html").unlink()
    engine.ran.clear()
    capsys.readouterr()
    assert lasthop_main("run", scenario_file) == 0
    assert "is complete" in capsys.readouterr().out
    assert engine.ran == []
    assert {path.name: path.read_bytes() for path in Path("results/small").iterdir()} == before


def test_an_edited_run_says_what_is_there_and_what_is_left_out(
    engine: fake_core.Engine, scenario_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", scenario_file) == 0
    capsys.readouterr()
    engine.ran.clear()
    assert lasthop_main("run", scenario_file, "--replications", "6") == 0
    assert "8 of 12 runs are stored." in capsys.readouterr().out
    assert len(engine.ran) == 4
    assert lasthop_main("run", scenario_file, "--only", "queue=5 packets", "--replications", "2") == 0
    said = capsys.readouterr().out
    assert "2 of 2 runs are stored." in said
    assert "The store contains 10 more runs, which are not part of this command" in said
    assert pl.read_parquet("results/small/runs.parquet").height == 2


def test_overwrite_starts_afresh_and_touches_results_only(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", study_file, "--pcap") == 0
    Path("results/kulve2003/notes.txt").write_text("mine", encoding="utf-8")
    engine.ran.clear()
    assert lasthop_main("run", study_file, "--overwrite", "--only", "link=r3") == 0
    assert {key.split(",")[0] for key, _ in engine.ran} == {"link=r3"}
    assert len(engine.ran) == 32
    assert Path("results/kulve2003/notes.txt").read_text("utf-8") == "mine"
    assert not Path("results/kulve2003/traces").exists()
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine", encoding="utf-8")
    assert lasthop_main("run", study_file, "--overwrite", "--out", "mine") == 2
    assert "contains files that are not results of lasthop" in capsys.readouterr().err
    assert Path("mine/notes.txt").is_file()
    # Every file that a study's run leaves must be known as its own.
    folder.empty(Path("results/kulve2003"))
    assert {path.name for path in Path("results/kulve2003").iterdir()} == {"notes.txt", "store.sqlite"}


def test_quiet_prints_nothing(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    del engine
    assert lasthop_main("run", study_file, "--quiet") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_ctrl_c_keeps_what_is_done_and_resumes(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(number: int) -> None:
        if number == 10:
            signal.raise_signal(signal.SIGINT)
        elif number > 10:
            time.sleep(0.05)  # the main thread sees the signal, but not at once on a busy machine

    engine.before_run = stop
    # A shell that runs the tests in the background has them ignore Ctrl-C.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert lasthop_main("run", study_file, "--jobs", "1") == 130
    finally:
        signal.signal(signal.SIGINT, inherited)
    error = capsys.readouterr().err
    assert "runs are stored in results/kulve2003" in error
    assert not Path("results/kulve2003/report.html").exists()
    done = len(engine.ran)
    assert 10 <= done < 192
    engine.before_run = lambda _: None
    assert lasthop_main("run", study_file) == 0
    assert f"Resuming results/kulve2003: {done} of 192 runs are stored." in capsys.readouterr().out
    assert len(engine.ran) == 192


def test_only_selects_cells(engine: fake_core.Engine, study_file: Path, lasthop_main: Main) -> None:
    arguments = ["--only", "link=e0,workload=2tcp0udp,variant=eifel", "--only", "link=r6,variant=frto"]
    assert lasthop_main("run", study_file, *arguments, "--out", "part", "--replications", "2", "--quiet") == 0
    chosen = ["link=e0,workload=2tcp0udp,variant=eifel", "link=r6,workload=2tcp0udp,variant=frto"]
    assert sorted(engine.ran) == [(key, number) for key in chosen for number in (1, 2)]
    assert set(pl.read_parquet("part/flows.parquet")["replication"]) == {1, 2}


def test_several_levels_of_a_factor_are_alternatives(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Main
) -> None:
    arguments = ["--only", "link=e0,link=r1,workload=2tcp0udp,variant=dsack"]
    assert lasthop_main("run", study_file, *arguments, "--out", "part", "--quiet") == 0
    assert {key.split(",")[0] for key, _ in engine.ran} == {"link=e0", "link=r1"}


@pytest.fixture
def shipped(study_file: Path, monkeypatch: pytest.MonkeyPatch, engine: fake_core.Engine) -> None:
    del engine
    monkeypatch.setattr(catalogue, "PUBLISHED", study_file.parent.parent)


@pytest.mark.usefixtures("shipped")
def test_studies_are_listed_shown_and_run(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("study", "list") == 0
    assert capsys.readouterr().out == "kulve2003    48 cells x   4  A made-up study\n"
    assert lasthop_main("study", "show", "kulve2003") == 0
    shown = capsys.readouterr().out
    assert "eifel+cbi+ecn" in shown
    assert "lasthop study run kulve2003" in shown
    assert lasthop_main("study", "run", "kulve2003", "--only", "link=r3", "--quiet") == 0
    assert Path("results/kulve2003/comparison.csv").is_file()


@pytest.mark.usefixtures("shipped")
def test_an_unknown_study_names_the_nearest(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("study", "run", "kulve2004") == 2
    assert "did you mean 'kulve2003'" in capsys.readouterr().err


def test_validate_and_version(
    engine: fake_core.Engine, scenario_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    del engine
    assert lasthop_main("validate", scenario_file) == 0
    assert "small, 2 cells x 4 replications" in capsys.readouterr().out
    assert lasthop_main("--version") == 0
    assert capsys.readouterr().out.startswith("lasthop, version ")
    assert not Path("results").exists()


@pytest.mark.parametrize(
    "command", [["run"], ["study", "run"], ["study", "list"], ["study", "show"], ["validate"], ["export"]]
)
def test_every_command_has_help_with_an_example(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert lasthop_main(*command, "--help") == 0
    assert "Example: lasthop" in capsys.readouterr().out
