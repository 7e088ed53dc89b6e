"""Files in the current folder that have the names of modules: no process that lasthop starts runs them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from commands import ROOT
from lasthop.present.lab.keeper import Keeper
from lasthop.present.lab.opened import Opened

FIRST = ROOT / "examples" / "first.toml"
FEW = ("--replications", "2", "--quiet", "--out", "out")


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that modules in the current folder write if they are run."""
    ran = tmp_path / "ran"
    for name in ("random", "json", "struct", "socket", "lasthop"):
        source = (
            f"open({str(ran)!r}, 'a').write('{name} ')\nraise SystemExit('{name} of the current folder')\n"
        )
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return ran


def command(*arguments: str | Path) -> None:
    """Run the command as users do; it must succeed."""
    program = Path(sys.executable).with_name("lasthop")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 3), done.stderr  # 3 on a machine too busy to be punctual


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", FIRST, *FEW),
        ("run", FIRST, *FEW, "--engine", "live"),
        ("shell", "--link", "none", "--quiet", "--", "true"),
        pytest.param(
            ("run", FIRST, *FEW, "--cluster", "local:1"),
            marks=pytest.mark.long(covers=("python/lasthop/campaign/cluster",), seconds=8),
        ),
    ],
    ids=["model", "live", "shell", "cluster"],
)
def test_no_module_of_the_current_folder_is_run(arguments: tuple[str | Path, ...], taken: Path) -> None:
    command(*arguments)
    assert not taken.exists(), taken.read_text(encoding="utf-8")


def test_the_lab_runs_no_module_of_the_current_folder(taken: Path) -> None:
    text = FIRST.read_text(encoding="utf-8")

    async def ask() -> bytes:
        keeper = Keeper(Opened(text), most_seconds=30)
        try:
            return await keeper.ask({"ask": "look", "text": text})
        finally:
            await keeper.close()

    assert asyncio.run(ask())
    assert not taken.exists(), taken.read_text(encoding="utf-8")
