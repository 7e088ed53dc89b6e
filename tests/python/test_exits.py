"""How commands end: full standard output, closed pipes, runs without a packet, live runs that are too late."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import fake_core
from lasthop import _core
from lasthop.engines.hosts import HostResults
from lasthop.engines.live.engine import LiveEngine

Main = Callable[..., int]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two-flows.toml"
COMMANDS = [
    ["schema"],
    ["study", "list"],
    ["study", "show", "kulve2003"],
    ["validate", str(EXAMPLE)],
    ["explain", str(EXAMPLE), "--only", "memory=cbi", "--replication", "1"],
    ["run", str(EXAMPLE), "--out", "results"],
    ["shell", "--list"],
    ["--help"],
]


def lasthop(*arguments: str, cwd: Path, stdout: int) -> tuple[int, str]:
    command = [sys.executable, "-m", "lasthop.cli", *arguments]
    done = subprocess.run(command, cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_full_standard_output_is_one_line(command: list[str], tmp_path: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        code, error = lasthop(*command, cwd=tmp_path, stdout=full.fileno())
    assert code == 1
    assert error.splitlines()[-1] == "Error: Cannot write to standard output: No space left on device."
    assert "Traceback" not in error


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[5]], ids=lambda command: command[0])
def test_a_closed_pipe_ends_a_command_without_a_word(command: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        _, error = lasthop(*command, cwd=tmp_path, stdout=writer)
    finally:
        os.close(writer)
    assert error == ""


def test_a_run_without_a_packet_leaves_tables_and_a_report_that_says_so(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace('"10 min"', '"1 ms"')
    late = tmp_path / "late.toml"
    late.write_text(text.replace('start = "0 s"', 'start = "500 ms"'), encoding="utf-8")
    assert lasthop_main("run", late, "--out", "out") == 0
    said = "No packet was sent in any of the 10 runs."
    assert said in capsys.readouterr().out
    assert said in Path("out/report.html").read_text(encoding="utf-8")
    assert pl.read_parquet("out/runs.parquet")["packets_sent"].to_list() == [0] * 10
    early = tmp_path / "early.toml"
    early.write_text(text, encoding="utf-8")
    assert lasthop_main("run", early, "--out", "early") == 0
    assert "No packet" not in capsys.readouterr().out


def test_live_runs_that_are_too_late_have_an_exit_code(
    engine: fake_core.Engine,
    scenario_file: Path,
    lasthop_main: Main,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del engine

    def late_cell(own: LiveEngine, cell: fake_core.Cell, seed: int, first: int, count: int, **_: object) -> HostResults:
        del own
        results = cell.run(seed, first, count)
        runs = results.runs | {"valid": [number != 1 for number in results.runs["replication"]]}
        facts = {"priority": "ordinary", "differences": []}
        return HostResults(results.flows, results.pages, results.shorts, runs, facts, None)

    monkeypatch.setattr(LiveEngine, "run_cell", late_cell)
    assert lasthop_main("run", scenario_file, "--engine", "live", "--quiet") == 3
    assert "INVALID: in 2 of 8 runs" in capsys.readouterr().err
    assert Path("results/small/report.html").is_file()
    assert lasthop_main("--help") == 0
    assert "3 the live engine left runs" in " ".join(capsys.readouterr().out.split())


def test_the_version_has_a_short_option(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("-V") == 0
    assert capsys.readouterr().out == f"lasthop, version {_core.VERSION} (commit {_core.COMMIT})\n"


def test_an_unknown_option_of_the_shell_is_an_error(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("shell", "--lnik", "gprs", "--", "true") == 2
    error = capsys.readouterr().err
    assert "No such option '--lnik'" in error
    assert "'--link'" in error


def test_the_shell_takes_a_cell_as_its_error_advises(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("shell", "--link", EXAMPLE, "--", "true") == 2
    assert "--cell KEY" in capsys.readouterr().err
    assert lasthop_main("shell", "--link", EXAMPLE, "--cell", "memory=cib", "--", "true") == 2
    assert "did you mean 'memory=cbi'?" in capsys.readouterr().err
