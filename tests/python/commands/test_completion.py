"""Shell completion: what Tab offers, and a real bash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from conftest import write_manifest
from lasthop.commands.cli import cli

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "two-flows.toml"


def offered(arguments: Sequence[str], incomplete: str) -> list[str]:
    complete = ShellComplete(cli, {}, "lasthop", "_LASTHOP_COMPLETE")
    return [item.value for item in complete.get_completions(list(arguments), incomplete)]


@pytest.mark.parametrize(
    ("arguments", "incomplete", "expected"),
    [
        (["study", "run"], "ku", ["kulve2003"]),
        (["study", "show"], "ii", ["iip2004"]),
        (["example", "copy"], "queue-", ["queue-length"]),
        (["plot"], "ku", ["kulve2003"]),
        (["explain"], "atm", ["atmf1998"]),
        (["crosscheck"], "ku", ["kulve2003"]),
        (["shell", "--link"], "gp", ["gprs"]),
        (["study", "run", "kulve2003", "--only"], "", ["link=", "workload=", "variant="]),
        (["study", "run", "kulve2003", "--only"], "li", ["link="]),
        (["study", "run", "kulve2003", "--only"], "link=r", ["link=r1", "link=r3", "link=r6"]),
        (["plot", "kulve2003", "--only"], "link=e0,var", ["link=e0,variant="]),
        (["export", "kulve2003", "--only"], "link=e0,variant=fr", ["link=e0,variant=frto"]),
        (["run", str(EXAMPLE), "--only"], "memory=", ["memory=none", "memory=cbi"]),
        (["shell", "--link", str(EXAMPLE), "--only"], "memory=c", ["memory=cbi"]),
        (["run", "no-such-file.toml", "--only"], "", []),
        (["study", "run", "kulve2003"], "--over", ["--overwrite"]),
        ([], "resul", ["results"]),
    ],
)
def test_tab_offers_what_fits(arguments: list[str], incomplete: str, expected: list[str]) -> None:
    assert offered(arguments, incomplete) == expected


def test_scenario_files_of_the_folder_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("", encoding="utf-8")
    assert offered(["run"], "mi") == ["mine.toml"]
    assert offered(["shell", "--link"], "mi") == ["mine.toml"]
    assert offered(["run"], "sub/f") == ["sub/f"]  # of type file: the shell goes on by itself


@pytest.mark.parametrize("command", ["plot", "results compare", "results factors"])
def test_a_results_folder_offers_its_own_factors_and_levels(tmp_path: Path, command: str) -> None:
    write_manifest(tmp_path, ["link=r1,variant=frto", "link=r1,variant=eifel+red", "link=r3,variant=frto"])
    assert offered([*command.split(), str(tmp_path), "--only"], "") == ["link=", "variant="]
    assert offered([*command.split(), str(tmp_path), "--only"], "link=r1,variant=") == [
        "link=r1,variant=frto",
        "link=r1,variant=eifel+red",
    ]
    (tmp_path / "manifest.json").unlink()
    assert offered([*command.split(), str(tmp_path), "--only"], "") == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["study", "run", "kul"], ["kulve2003"]),
        (["study", "run", "kulve2003", "--only", "link", "="], ["e0", "r1", "r3", "r6"]),
        (["study", "run", "kulve2003", "--only", "link", "=", "r1,wor"], ["r1,workload="]),
        (["study", "run", "kulve2003", "--only", "link", "=", "r1,variant", "=", "eifel+c"], None),
        (["shell", "--link", "=", "gp"], ["gprs"]),
    ],
)
def test_bash_completes_although_it_splits_words_at_equal_signs(
    tmp_path: Path, words: list[str], expected: list[str] | None
) -> None:
    program = tmp_path / "lasthop"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lasthop.commands.cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    main = "from lasthop.commands.cli import main; main()"
    script = f"""
        PATH={tmp_path}:$PATH
        eval "$(_LASTHOP_COMPLETE=bash_source {sys.executable} -c '{main}')"
        COMP_WORDS=(lasthop {" ".join(words)}) COMP_CWORD={len(words)}
        _lasthop_completion {program}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    wanted = ["eifel+cbi", "eifel+cbi+ecn"] if expected is None else expected
    assert done.stdout.splitlines() == wanted, done.stderr
