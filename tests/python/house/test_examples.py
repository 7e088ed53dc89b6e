"""The examples that come with lasthop: `lasthop example`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from commands import ROOT, commands_of
from lasthop.commands.cli import cli
from lasthop.engines.programs import program_of
from lasthop.engines.registry import ENGINES
from lasthop.scenario.examples import list_examples, title
from lasthop.scenario.points import read_study
from lasthop.studies.loading import load

Main = Callable[..., int]
EXAMPLES = ROOT / "examples"


def test_every_example_is_listed_with_what_it_asks(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("example", "list") == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    files = [*EXAMPLES.glob("*.toml"), *EXAMPLES.glob("*.ipynb"), *EXAMPLES.glob("[ac]*/*.toml")]
    assert sorted(listed) == sorted(file.stem for file in files), "two examples have the same name"
    assert listed["queue"] == "What does a longer queue at the router do to a call during a download?"
    assert listed["queue-length"] == "How long should a router's queue be?"


def test_an_example_is_shown(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("example", "show", "queue") == 0
    assert capsys.readouterr().out == (EXAMPLES / "queue.toml").read_text(encoding="utf-8")
    assert lasthop_main("example", "show", "queue-length") == 0
    assert "results = lasthop.run(scenario)" in capsys.readouterr().out


@pytest.mark.parametrize("name", list_examples())
def test_a_copied_example_has_all_that_it_needs(name: str, tmp_path: Path, lasthop_main: Main) -> None:
    folder = tmp_path / "new"
    assert lasthop_main("example", "copy", name, folder) == 0
    file = folder / list_examples()[name].name
    assert title(file)
    if file.suffix == ".toml":
        assert read_study(file).cells


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("control", "lasthop check new/control.toml"),
        ("kernel", "lasthop check new/kernel.toml --engine kernel"),
        ("multipath", "lasthop run new/multipath.toml --engine kernel"),
        ("upload", "cd new && lasthop check upload.toml --engine kernel"),
        (
            "quic-client",
            "pip install aioquic==1.2.0 && cd new && lasthop check quic-client.toml --engine kernel",
        ),
    ],
)
def test_a_copied_example_says_what_it_needs_to_run(
    name: str, command: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("example", "copy", name, "new") == 0
    assert capsys.readouterr().out.endswith(f"\nRun it with: {command}\n")


@pytest.mark.parametrize("name", [name for name, file in list_examples().items() if file.suffix == ".toml"])
def test_the_command_that_a_copied_example_prints_can_run(
    name: str, monkeypatch: pytest.MonkeyPatch, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("example", "copy", name, "new") == 0
    told = capsys.readouterr().out.splitlines()[-1].removeprefix("Run it with: ")
    *before, (program, *arguments) = map(shlex.split, told.split(" && "))
    for step in before:
        if step[0] == "cd":
            monkeypatch.chdir(step[1])
    assert program == "lasthop"
    # All but the work itself: options, files and, in the folder where it begins, programs are looked at.
    words = ["check", "run", *arguments[1:]] if arguments[0] == "check" else [*arguments]
    context, command = click.Context(cli), commands_of(cli)[words.pop(0)]
    if isinstance(command, click.Group):
        command = commands_of(command)[words.pop(0)]
    given = command.make_context(arguments[0], words, parent=context).params
    loaded = load(Path(given.get("file") or given["files"][0]))
    ENGINES[given["engine"]].check(loaded.study, loaded.study.cells)
    assert (arguments[0] == "check") == (loaded.claims is not None)
    for program_flow in filter(None, map(program_of, loaded.study.cells)):
        lines = [program_flow["command"], *(server["command"].split() for server in program_flow["servers"])]
        scripts = [word for line in lines for word in line if word.endswith(".py")]
        assert scripts
        assert all(Path(script).is_file() for script in scripts)


def test_commands_in_the_comments_of_a_copy_name_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasthop_main: Main
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (".", "new", "my examples"):
        assert lasthop_main("example", "copy", "two-flows", folder) == 0
        assert lasthop_main("example", "copy", "control", folder) == 0
    here, new, mine = (
        [(Path(folder) / name).read_text(encoding="utf-8") for name in ("two-flows.toml", "control.toml")]
        for folder in (".", "new", "my examples")
    )
    assert "lasthop run two-flows.toml --only memory=cbi" in here[0]
    assert "lasthop run new/two-flows.toml --only memory=cbi" in new[0]
    assert "lasthop run 'my examples'/two-flows.toml --only memory=cbi" in mine[0]
    assert "#\n#   lasthop check control.toml\n" in here[1]
    assert "#\n#   cd new/\n#   lasthop check control.toml\n" in new[1]
    assert "#\n#   cd 'my examples'/\n#   lasthop check control.toml\n" in mine[1]


@pytest.mark.parametrize("name", [name for name, file in list_examples().items() if file.suffix == ".toml"])
def test_no_comment_of_a_copy_names_a_checkout(name: str, tmp_path: Path, lasthop_main: Main) -> None:
    assert lasthop_main("example", "copy", name, tmp_path / "new") == 0
    for file in (tmp_path / "new").glob("*.toml"):
        assert "examples/" not in file.read_text(encoding="utf-8")


@pytest.mark.long(covers=("examples", "python/lasthop/scenario"), seconds=30)
@pytest.mark.parametrize("name", ["own", "codel", "trace", "two-ways", "parking-lot", "space", "home"])
def test_a_copied_example_runs_as_it_says(
    name: str, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("example", "copy", name, "new") == 0
    told = shlex.split(capsys.readouterr().out.splitlines()[-1].removeprefix("Run it with: "))
    assert lasthop_main(*told[1:], "--quiet") == 0


def test_a_copy_goes_here_says_how_to_run_it_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lasthop_main("example", "copy", "trace") == 0
    assert capsys.readouterr().out == "trace.toml\nradio.trace\n\nRun it with: lasthop run trace.toml\n"
    assert lasthop_main("example", "copy", "cellular") == 0, "radio.trace is the same"
    Path("radio.trace").write_text("1\n", encoding="utf-8")
    Path("trace.toml").unlink()
    assert lasthop_main("example", "copy", "trace") == 2
    assert "radio.trace already exists and differs; choose another folder" in capsys.readouterr().err
    assert not Path("trace.toml").exists()


def test_unknown_names_lead_to_the_nearest_and_missing_files_to_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lasthop_main("example", "copy", "quueue") == 2
    assert "There is no example 'quueue'; did you mean 'queue'?" in capsys.readouterr().err
    for named in ("queue", "queue.toml", "examples/queue.toml"):
        assert lasthop_main("run", named) == 2
        assert (
            f"There is no file {named}. To copy the example: lasthop example copy queue."
            in capsys.readouterr().err
        )
