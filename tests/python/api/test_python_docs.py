"""The blocks of the guides python.md and congestion-control.md run, in one folder, from top to bottom."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lasthop
from commands import ROOT

BLOCK = re.compile(r"^```(python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w-]+\.(?:py|toml))\n")


def blocks(document: str) -> list[tuple[str, str]]:
    """Return language and text of each block."""
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


def test_the_page_on_python_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    session = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", session)
    code = [text for _, text in blocks("docs/guides/python.md")]
    assert len(code) >= 8
    for text in code:
        exec(compile(text, "docs/guides/python.md", "exec"), vars(session))
    assert (tmp_path / "cubic.pdf").stat().st_size > 1000
    assert (tmp_path / "captures" / "server.pcapng").is_file()


def test_the_examples_of_algorithms_run(tmp_path: Path) -> None:
    files = {}
    for _, text in blocks("docs/guides/congestion-control.md"):
        name = FILE.match(text)
        assert name is not None, text
        files[name[1]] = tmp_path / name[1]
        files[name[1]].write_text(text, encoding="utf-8")
    scenarios = [file for name, file in files.items() if name.endswith(".toml")]
    assert len(scenarios) == 3
    for file in scenarios:
        flows = lasthop.run(file, progress=False).flows
        assert flows["outcome"].to_list() == ["closed"]
