"""How commands end: full standard output, closed pipes, runs without a packet, live runs that are too
late.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import polars as pl
import pytest

import fake_core
from commands import commands_of
from lasthop.commands import cli as cli_module
from lasthop.commands.cli import cli, main
from lasthop.commands.output import guarded_output
from lasthop.common.version import version
from lasthop.engines.engine import Request
from lasthop.engines.hosts import HostResults
from lasthop.engines.live.live_engine import LiveEngine

Main = Callable[..., int]
Shared = Callable[[str, Callable[[Path], object]], Path]
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "two-flows.toml"
SCRIPT = Path(__file__).parents[2] / "packetdrill" / "slow-start.pkt"
CLAIMED = EXAMPLE.parent / "check" / "control.toml"
TWO_FLOWS = [str(EXAMPLE), "--only", "memory=none"]
ARGUMENTS: dict[str, list[str]] = {
    "run": [str(EXAMPLE), "--replications", "1", "--quiet"],
    "study run": ["kulve2003", "--replications", "1", "--quiet"],
    "study show": ["kulve2003"],
    "example copy": ["queue", "new"],
    "check run": [str(CLAIMED), "--replications", "2", "--quiet"],
    "evaluate": ["reno", "--quiet"],
    "check baseline save": ["up", "--from", "finished"],
    "validate": [str(EXAMPLE)],
    "results show": ["finished"],
    "results compare": ["finished", "--reference", "memory=none", "--metric", "elapsed_s"],
    "plot": [*TWO_FLOWS, "--out", "new.svg"],
    "check results": ["finished"],
    "results factors": ["finished", "--metric", "elapsed_s", "--factors", "memory"],
    "results query": ["finished", "FROM flows"],
    "results size": ["finished"],
    "results gc": ["finished"],
    "lab": [str(EXAMPLE), "--export", "new.html"],
    "explain": TWO_FLOWS,
    "export": [*TWO_FLOWS, "--out", "new.csv"],
    "analyze": ["finished/manifest.json"],
    "fit": ["finished/manifest.json", "--out", "new.toml"],
    "shell": ["--", "true"],
    "crosscheck": TWO_FLOWS,
    "packetdrill": [str(SCRIPT), "--stack", "linux-6"],
    "results metrics": [],
    "stack show": ["ngtcp2"],
    "stack try": ["ngtcp2"],
    "kernel build": [],
}
"""Further arguments of each command that takes a place from the user; `finished` are results of `EXAMPLE`."""
NO_PLACES = {
    "check baseline list",
    "check baseline remove",
    "example list",
    "example show",
    "stack list",
    "study list",
    "kernel info",
    "kernel list",
    "kernel remove",
}
COMMANDS = [
    ["validate", "--schema"],
    ["study", "list"],
    ["study", "show", "kulve2003"],
    ["validate", str(EXAMPLE)],
    ["explain", str(EXAMPLE), "--only", "memory=cbi", "--replication", "1"],
    ["run", str(EXAMPLE), "--out", "results"],
    ["shell", "--list"],
    ["--help"],
]


def lasthop(*arguments: str, cwd: Path, stdout: int) -> tuple[int, str]:
    command = [sys.executable, "-m", "lasthop.commands.cli", *arguments]
    done = subprocess.run(
        command, cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
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


def all_commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in commands_of(group).items():
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{path}{name} ")
        else:
            yield path + name, command


def places(name: str, command: click.Command) -> Iterator[tuple[str, list[str]]]:
    """Yield each parameter that takes a place, or a text in place of one, and how to ask with `PLACE`."""
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    for parameter in command.params:
        words = list(ARGUMENTS[name])
        if parameter in arguments:
            at = arguments.index(parameter)
            words[at : at + 1] = ["PLACE"]
        elif isinstance(parameter.type, click.Path) or "FILE" in str(parameter.metavar):
            option, ending = parameter.opts[0], {"FILE": ".csv", "FILE.html": ".html", "FILE|DIR": ".svg"}
            given = f"PLACE{ending.get(str(parameter.metavar), '')}"
            if option in words:
                words[words.index(option) + 1] = given
            else:
                words = [option, given, *words]
        else:
            continue
        yield parameter.opts[0], words


def test_every_command_that_takes_a_place_is_tried_below() -> None:
    assert {name for name, _ in all_commands(cli)} == ARGUMENTS.keys() | NO_PLACES


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_place_that_cannot_be_used_is_an_error_in_a_line(
    name: str, lasthop_main: Main, shared_folder: Shared, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ["run", str(EXAMPLE), "--replications", "1", "--quiet", "--out"]
    Path("finished").symlink_to(shared_folder("a run of two flows", lambda out: main([*made, str(out)])))
    Path("loop").symlink_to("loop")
    command = dict(all_commands(cli))[name]
    for parameter, words in places(name, command):
        for place in ("x" * 300, "deep/" * 1000, f"{EXAMPLE}/inside", "loop/inside"):
            shown = f"{name} {parameter} {place[:20]}"
            capsys.readouterr()
            assert lasthop_main(*name.split(), *(word.replace("PLACE", place) for word in words)) == 2, shown
            error = capsys.readouterr().err
            assert "Traceback" not in error, shown
            assert [line for line in error.splitlines() if line.startswith("Error: ")], shown


@pytest.mark.parametrize(
    ("command", "said"),
    [
        *(
            (["plot", option, number], "is not a time within a run")
            for option in ("--from", "--to")
            for number in ("nan", "inf")
        ),
        (["plot", "--from", "1e30"], "is not a time within a run"),
        (["plot", "--set", "9" * 30], "Invalid value for '--set'"),
        (["explain", "--set", "9" * 30], "Invalid value for '--set'"),
        (["export", "--set", "9" * 30, "--out", "new.csv"], "Invalid value for '--set'"),
        (["export", "--step", "1e400 s", "--out", "new.csv"], "Invalid value for '--step'"),
        (["run", "--seed", "9" * 5000], "Invalid value for '--seed'"),
        (["run", "--jobs", "nan"], "Invalid value for '--jobs'"),
        (["run", "--only", "memory=none=1"], "--only"),
        (["run", "--only", "=" * 100], "--only"),
        (["run", "--until", "median(elapsed_s) within nan %"], "--until"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else None,
)
def test_a_number_or_a_name_out_of_range_is_an_error_in_a_line(
    command: list[str], said: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = command
    only = [] if name == "run" else ["--only", "memory=none"]
    assert lasthop_main(name, EXAMPLE, *only, *options) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_only_without_factors_is_refused_without_a_guess(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", EXAMPLE.with_name("first.toml"), "--only", "queue=long") == 2
    message = "--only queue=long: the scenario has no factors and a single cell; leave out --only."
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"a=" + b"[" * 50_000, b'extends = "\\u0000"\n', bytes(range(256))]
)
@pytest.mark.parametrize(
    "command", [["validate"], ["run", "--quiet"], ["explain"], ["lab", "--export", "x.html"]]
)
def test_a_file_that_is_no_scenario_is_an_error(
    command: list[str], content: bytes, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("odd.toml").write_bytes(content)
    assert lasthop_main(*command, "odd.toml") == 2
    error = capsys.readouterr().err
    assert "odd.toml" in error
    assert "Traceback" not in error


def test_a_name_that_is_no_text_is_an_error(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    Path(os.fsdecode(b"\xff")).mkdir()
    for command in (
        ["run", EXAMPLE, "--out", os.fsdecode(b"\xff")],
        ["results", "metrics", "--out", os.fsdecode(b"\xff.csv")],
    ):
        assert lasthop_main(*command) == 2
        assert "is not UTF-8" in capsys.readouterr().err


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

    def late_cell(own: LiveEngine, cell: fake_core.Cell, request: Request) -> HostResults:
        del own
        results = cell.run(request.seed, request.first, request.count)
        runs = results.runs | {"valid": [number != 1 for number in results.runs["replication"]]}
        facts = {"priority": "ordinary", "differences": []}
        tables = (results.flows, results.pages, results.shorts, results.hops, results.stations)
        return HostResults(*tables, runs, facts, None)

    monkeypatch.setattr(LiveEngine, "run_cell", late_cell)
    assert lasthop_main("run", scenario_file, "--engine", "live", "--quiet") == 3
    assert "INVALID: in 2 of 8 runs" in capsys.readouterr().err
    assert Path("results/small/report.html").is_file()
    assert lasthop_main("check", "run", "--help") == 0
    assert "3 runs of the live engine were too late" in " ".join(capsys.readouterr().out.split())


def test_the_version_has_a_short_option(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("-V") == 0
    assert capsys.readouterr().out == f"lasthop, version {version()}\n"


def test_an_unknown_option_of_the_shell_is_an_error(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("shell", "--lnik", "gprs", "--", "true") == 2
    error = capsys.readouterr().err
    assert "No such option '--lnik'" in error
    assert "'--link'" in error


def test_the_shell_takes_a_cell_as_its_error_advises(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("shell", "--link", EXAMPLE, "--", "true") == 2
    assert "--cell KEY" in capsys.readouterr().err
    assert lasthop_main("shell", "--link", EXAMPLE, "--cell", "memory=cib", "--", "true") == 2
    assert "did you mean 'memory=cbi'?" in capsys.readouterr().err


def test_control_characters_in_texts_of_others_do_not_reach_the_terminal_or_the_report(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "named.toml"
    name = "d\\u001b]52;c;aGk=\\u0007\\u009b2J\\u202eab"
    text = EXAMPLE.with_name("first.toml").read_text(encoding="utf-8")
    file.write_text(f'{text}name = "{name}"\n', encoding="utf-8")
    out = tmp_path / "out\x07"
    assert lasthop_main("run", file, "--out", out) == 0
    assert lasthop_main("explain", file) == 0
    shown = capsys.readouterr().out
    assert name in shown
    assert r"out\u0007/report.html" in shown
    assert lasthop_main("results", "query", out, "SELECT flow FROM flows") == 0
    assert lasthop_main("results", "show", out, "--metric", "no\x1b[2Jne") == 2
    assert lasthop_main("plot", file, "--flow", "no\u2066ne") == 2
    captured = capsys.readouterr()
    assert r"no\u2066ne" in captured.err
    report = (out / "report.html").read_text(encoding="utf-8")
    assert name in report
    for letter in {*shown, *captured.out, *captured.err, *report}:
        assert letter == "\n" or unicodedata.category(letter) not in {"Cc", "Cf"}


def test_colours_of_tables_stay(capsys: pytest.CaptureFixture[str]) -> None:
    with guarded_output():
        sys.stdout.write("\x1b[1;31mhead\x1b[0m \x1b[8mhidden\x1b[2K")
    assert capsys.readouterr().out == "\x1b[1;31mhead\x1b[0m \\u001b[8mhidden\\u001b[2K"


def test_the_documentation_has_every_exit_code() -> None:
    constants = {value for name, value in vars(cli_module).items() if name.startswith("EXIT_")}
    brief = re.findall(r"\b(\d+) [a-z]", cli.epilog or "")
    of_checks = re.findall(r"^ +(\d+) {2,}", dict(all_commands(cli))["check run"].help or "", re.MULTILINE)
    assert len(brief) == 8
    assert len(of_checks) == 5
    documented = (EXAMPLE.parents[1] / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    table = documented.partition("## Exit codes")[2]
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]
    assert listed == sorted(constants | set(map(int, brief + of_checks)))
