"""How fast commands start: they load only what they use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from commands import commands_of
from conftest import EXAMPLE
from lasthop.commands.check import check_group
from lasthop.commands.cli import cli, main
from lasthop.commands.results import results_group

HEAVY = (
    "duckdb matplotlib numpy pandas plotly polars pydantic rich scipy.special scipy.stats statsmodels "
    "numpy.ma lasthop.present.report.comparisons lasthop.analysis.studies.comparison "
    "lasthop.engines.kernel.kernel_engine lasthop.engines.kernel.guest_programs "
    "lasthop.analysis.statistics.anova lasthop.studies.claims.file lasthop.present.answer.precision"
)


def loaded(*arguments: object) -> set[str]:
    """Return which of what is heavy the command has loaded when it ends."""
    code = (
        "import sys; from lasthop.commands.cli import main; "
        "code = main(sys.argv[2:]); print(*({*sys.argv[1].split()} & {*sys.modules})); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, HEAVY, *map(str, arguments)]
    return {
        *subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split()
    }


@pytest.mark.parametrize(
    "command", ["--help", "--version", "results --help", "shell --list", "kernel --help"]
)
def test_a_command_without_tables_loads_no_package_for_them(command: str) -> None:
    assert loaded(*command.split()) == set()


def test_the_commands_of_the_guest_kernel_run_without_the_extension() -> None:
    # `make kernel` builds the kernel while the extension is being compiled.
    code = "import sys; sys.modules['lasthop._core'] = None; import lasthop.commands.kernel"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("file", "replications", "more"),
    [
        ("first.toml", 1, ""),
        ("first.toml", 2, "numpy numpy.ma scipy.special"),
        (
            "queue.toml",
            1,
            "lasthop.present.report.comparisons numpy numpy.ma",
        ),  # the differences between cells are printed
        ("queue.toml", 2, "lasthop.present.report.comparisons numpy numpy.ma scipy.special"),
    ],
)
def test_a_run_loads_what_its_tables_need(file: str, replications: int, more: str, tmp_path: Path) -> None:
    run = ("run", EXAMPLE.with_name(file), "--replications", replications, "--out", tmp_path / "out")
    assert loaded(*run, "--quiet") == {"polars", *more.split()}


def test_the_answer_of_a_single_replication_takes_no_more(tmp_path: Path) -> None:
    assert loaded("run", EXAMPLE.with_name("first.toml"), "--out", tmp_path / "out") == {"polars"}


def test_the_answer_is_printed_before_the_report_is_loaded_and_written(tmp_path: Path) -> None:
    code = """
import sys
import click
from lasthop.commands.cli import main

late = {"jinja2", "lasthop.present.report.page", "lasthop.studies.presentation.spec"}
echo = click.echo

def noting(line):
    print(*sorted(late & {*sys.modules}) or ["-"], str(line).split(":")[0], sep=" ")

click.echo = noting
sys.exit(main(sys.argv[1:]))
"""
    run = ("run", EXAMPLE.with_name("first.toml"), "--out", tmp_path / "out")
    command = [sys.executable, "-c", code, *map(str, run)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.split()[-1] in ("Flows", "report")]
    assert lines == ["- Flows", "jinja2 lasthop.present.report.page lasthop.studies.presentation.spec report"]


def test_the_end_of_a_command_searches_nothing_for_garbage() -> None:
    code = (
        "import atexit, gc; from lasthop.commands.cli import main; atexit.register(lambda: "
        "print(len(gc.get_objects()))); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], check=True, capture_output=True, text=True
    )
    assert int(done.stdout.splitlines()[-1]) < 100


@pytest.mark.parametrize("group", [cli, results_group, check_group], ids=lambda group: group.name)
def test_the_overview_of_a_group_has_the_first_sentence_of_each_command(
    group: click.Group, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"] if group is cli else [str(group.name), "--help"]) == 0
    printed = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    sentences = {words[0]: words[1] for words in printed if len(words) == 2}
    for name, command in commands_of(group).items():
        assert sentences[name] == command.get_short_help_str(limit=80)
        assert command.name == name
