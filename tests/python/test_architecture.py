"""The modules of a crate use each other in one direction: none needs what needs it."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from commands import ROOT

CRATES = sorted(folder for folder in (ROOT / "crates").iterdir() if (folder / "src").is_dir())
TESTS = {"tests", "testing", "lib", "main"}


def _sources(source: Path, module: str) -> list[str]:
    """Return the code of a module and of all below it, without comments and tests."""
    files = [source / f"{module}.rs", *(source / module).rglob("*.rs")]
    own = [file for file in files if file.is_file() and not TESTS & {file.stem, *file.relative_to(source).parts}]
    texts = [re.sub(r"//.*", "", file.read_text(encoding="utf-8")) for file in own]
    return [re.split(r"#\[cfg\(test\)\]\s*mod ", text)[0] for text in texts]


def _used(text: str) -> set[str]:
    """Return the modules at the top of the crate that a text names."""
    grouped = re.findall(r"\bcrate::\{(.*?)\};", text, re.DOTALL)
    inner = {name for group in grouped for name in re.findall(r"(?:^|,)\s*(\w+)", group)}
    return set(re.findall(r"\bcrate::(\w+)", text)) | inner


def graph(source: Path) -> dict[str, set[str]]:
    """Return for every module at the top of a crate those that it uses."""
    names = {path.stem for path in source.iterdir() if path.is_dir() or path.suffix == ".rs"} - TESTS
    used = {name: set().union(*map(_used, _sources(source, name))) for name in names}
    return {name: (found & names) - {name} for name, found in used.items()}


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_module_needs_what_needs_it(crate: Path) -> None:
    TopologicalSorter(graph(crate / "src")).prepare()


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.rs").write_text("use crate::{Thing, two::Other};\n", encoding="utf-8")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "part.rs").write_text("use crate::one::Thing; // crate::three\n", encoding="utf-8")
    with pytest.raises(CycleError):
        TopologicalSorter(graph(tmp_path)).prepare()
