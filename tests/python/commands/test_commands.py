"""Every command of README, documents, examples and help texts works: it is run, or at least read.

Those of a document are run one after the other in one folder, as its reader would. Runs have one replication.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from commands import ROOT, Command, commands_of, documents
from lasthop.commands.cli import cli

Main = Callable[..., int]

ONLY_READ = {
    r"study run |run studies/": "takes minutes; the test of the study runs it",
    r".*--engine (live|kernel)|crosscheck |shell ": (
        "needs namespaces or a guest kernel; tests of the engines run it"
    ),
    r".*--cluster ": "needs a cluster; test_cluster.py runs it",
    r"kernel (build|remove|info)": "builds and removes guest kernels; test_kernel.py runs it",
    r"results (show|compare|factors|size|gc) |results results/|check results "
    r"|plot results/(kulve2003|saarto2003|iip2004|atmf1998|balekaki2012|coexistence) ": (
        "reads a whole study's results; other tests do"
    ),
    r"results query results/(my|kulve2003|model|cell-neighbours) ": (
        "reads results of the reader's; test_query.py and docs/guides/results.md have others"
    ),
    r"(check|evaluate) |(explain|plot) dossiers/": (
        "runs what the reader has, or takes half a minute; tests of checks and of evaluate run them"
    ),
    r"stack try ": "installs programs; test_transfers.py runs it",
    r"lab( |$)": "serves until Ctrl-C; test_lab.py runs it",
    r"packetdrill ": "reads scripts of others; tests of packetdrill run it, and the site runs ours",
    r"fit |run (my-line|what-if|results/what-if)": (
        "reads a measurement of the reader's, and takes half a minute; tests/python/fit and the site run it"
    ),
    r"analyze ": "reads a capture of the reader's; test_analyze.py runs it",
}
"""Commands, by how they start, whose options and files are checked but which are not run, and why."""

MY_FILE = """extends = "examples/first.toml"
[factor.link.e0]
[factor.link.r6]
[factor.variant.baseline]
[factor.scenario.s007]
"""


def _fence(document: str, contains: str) -> str:
    """Return the TOML block of a document that has these words, which its reader saves as a file."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return next(
        block
        for block in re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        if contains in block
    )


OF_THE_READER = {
    **{
        file.name: file.read_text(encoding="utf-8")
        for folder in ("start/tutorial", "guides/fit")
        for file in (ROOT / "docs" / folder).glob("*.toml")
    },
    **{
        file.name: file.read_text(encoding="utf-8") for file in (ROOT / "tests" / "packetdrill").glob("*.pkt")
    },
    "homes.toml": _fence("docs/guides/satellite.md", "factor.homes"),
    "my.toml": MY_FILE,
    "what-if.toml": MY_FILE,
    "random.toml": MY_FILE,
    "linux.toml": MY_FILE,
    "cellular.trace": "1\n",
    "server.pcapng": "",
    "tcp_cubic.c": "",
    "sheet.toml": _fence("docs/start/class.md", "[[question]]"),
}
"""Files that a document expects its reader to have."""
FOLDERS_OF_THE_READER = (
    "packetdrill/gtests/net/tcp",
    "linux/tools/testing/selftests/net/packetdrill",
    "gtests/net/packetdrill",
    "gtests/net/tcp/slow_start",
)
"""Folders of other projects, as a document has it."""


PICTURES = {".png", ".svg", ".pdf", ".html"}
LONG = pytest.mark.long(covers=("docs", "examples", "python/lasthop", "crates/lasthop-scenario"), seconds=50)
"""The mark of documents and examples, which have most commands; those of help and README run always."""


def _reason(command: Command) -> str | None:
    text = shlex.join(command.words)
    return next((reason for start, reason in ONLY_READ.items() if re.match(start, text)), None)


def _read(words: list[str]) -> None:
    """Parse a command's options; click raises an error for unknown ones."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words[0] in (known := commands_of(command)):
        command, words = known[words[0]], words[1:]
    command.make_context("lasthop", words)


def _once(words: list[str]) -> list[str]:
    """Return the words of a run with the least number of replications, and nothing printed."""
    words = list(words)
    if "--replications" in words:
        at = words.index("--replications")
        del words[at : at + 2]
    # A campaign with --until looks first after ten replications.
    return [*words, "--replications", "10" if "--until" in words else "1", "--quiet"]


def _scratch(folder: Path) -> None:
    for name in ("examples", "docs", "studies", "tests"):
        (folder / name).symlink_to(ROOT / name)
    for name in FOLDERS_OF_THE_READER:
        (folder / name).mkdir(parents=True)
    for name, text in OF_THE_READER.items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "document",
    [pytest.param(one, marks=LONG if one.startswith(("docs/", "examples/")) else ()) for one in documents()],
)
def test_the_commands_of_a_document_work(
    document: str,
    tmp_path: Path,
    lasthop_main: Main,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _scratch(tmp_path)
    for name in ("queue", "two-flows"):  # documents() has the command that copies them once
        assert lasthop_main("example", "copy", name) == 0
    for command in documents()[document]:
        words = [re.sub(r"^/tmp/", "results/tmp/", word) for word in command.words]
        shown = f"{command.place}: lasthop {shlex.join(words)}"
        missing = [
            word
            for word in words
            if word.startswith(("examples/", "docs/", "studies/", "tests/")) and not Path(word).exists()
        ]
        assert not missing, shown
        if _reason(command):
            for word in words:
                if word.startswith("results/") and not Path(word).suffix:
                    Path(word).mkdir(parents=True, exist_ok=True)
            try:
                _read(words)
            except click.ClickException as error:
                pytest.fail(f"{shown}: {error.format_message()}")
        else:
            before = set(Path().rglob("*"))
            code = lasthop_main(*(_once(words) if words[0] == "run" else words))
            assert code == 0, f"{shown}\n{capsys.readouterr().err}"
            if words[0] == "plot":
                assert any(file.suffix in PICTURES for file in set(Path().rglob("*")) - before), shown


def test_there_are_commands_everywhere_and_most_examples_are_run() -> None:
    found = documents()
    assert {"docs/guides/programs.md", "docs/reference/kernel.md", "--help"} <= found.keys()
    assert len(found["--help"]) > 15
    examples = [
        command for name, commands in found.items() if name.startswith("examples/") for command in commands
    ]
    assert sum(_reason(command) is None for command in examples) >= 10
