"""The commands in the studies' READMEs that draw their figures and tables do so from the studies' results."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import ROOT, documents

# The shared results of balekaki2012 lack most of its design.
OPTIONS = {"balekaki2012": ("--only", "link=64k", "--replications", "2")}


def long(study: str, seconds: float) -> pytest.MarkDecorator:
    return pytest.mark.long(covers=(f"studies/{study}", "python/lasthop/present/pictures"), seconds=seconds)


def figures_of(study: str) -> list[tuple[str, ...]]:
    """Return the words of the commands that draw the study's results."""
    commands = documents()[f"studies/{study}/README.md"]
    return [command.words for command in commands if command.words[:2] == ("plot", f"results/{study}")]


@pytest.mark.parametrize(
    "study",
    [
        pytest.param("atmf1998", marks=long("atmf1998", 13)),
        pytest.param("balekaki2012", marks=long("balekaki2012", 10)),
        pytest.param("iip2004", marks=long("iip2004", 6)),
        "kulve2003",
        pytest.param("saarto2003", marks=long("saarto2003", 4)),
    ],
)
def test_the_commands_of_a_studys_figures_draw(
    study: str,
    study_results: Callable[..., Path],
    lasthop_main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = study_results(study, *OPTIONS.get(study, ()))
    Path("results").mkdir()
    (Path("results") / study).symlink_to(results)
    commands = figures_of(study)
    assert len(commands) >= 4
    for number, words in enumerate(commands):
        assert lasthop_main(*words, "--out", f"{number}.png") == 0, (
            f"{shlex.join(words)}\n{capsys.readouterr().err}"
        )


@pytest.mark.parametrize("study", ["atmf1998", "iip2004", "kulve2003"])
def test_each_printed_table_has_a_figure(study: str) -> None:
    text = (ROOT / "studies" / study / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Figures\n")[2].partition("\n## ")[0]
    named: set[str] = set()
    for first, last in re.findall(r"\bT(\d+)\b(?: to T(\d+)\b)?", section):
        named |= {f"T{number}" for number in range(int(first), int(last or first) + 1)}
    table = (ROOT / "studies" / study / "tables.csv").read_text(encoding="utf-8")
    printed = {line.split(",")[1] for line in table.splitlines()[1:]}
    assert printed
    assert named == printed
