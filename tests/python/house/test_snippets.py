"""Every piece of a scenario in README and documents is valid, by itself or laid over an example."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import ROOT

OTHER_FILES = {
    "docs/start/class.md": "the sheet of a class; test_classroom.py reads it",
    "docs/guides/congestion-control.md": "their modules stand beside them; test_python_docs.py runs them",
    "docs/reference/claims.md": "claims.toml of a study; test_claims_docs.py reads it",
    "docs/guides/cluster.md": "a cluster file; test_cluster.py has others",
    "docs/reference/report.md": "report.toml of a study; test_study.py has others",
}
"""Documents whose pieces belong to other files than scenarios, and who tests those."""
BASES = {"docs/guides/networks.md": "multipath", "docs/guides/precision.md": "first"}
"""What a piece is laid over if it is no scenario by itself: an example, by default `queue`."""

OF_THE_READER = {
    "my-line.toml": 'extends = "examples/first.toml"\n[factor.line.best]\n',
    "game.csv": "time_s,bytes\n0,200\n",
}
"""Files that a piece supposes its reader to have."""


def pieces() -> list[tuple[str, str]]:
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [str(file.relative_to(ROOT)) for file in files if "generated" not in file.parts]
    fences = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
    found = [
        (name, text) for name in names for text in fences.findall((ROOT / name).read_text(encoding="utf-8"))
    ]
    return [(name, text) for name, text in found if name not in OTHER_FILES]


@pytest.mark.parametrize(
    ("document", "text"), pieces(), ids=[f"{n}-{name}" for n, (name, _) in enumerate(pieces())]
)
def test_a_piece_of_a_scenario_is_valid(document: str, text: str, lasthop_main: Callable[..., int]) -> None:
    Path("examples").symlink_to(ROOT / "examples")
    for name, content in OF_THE_READER.items():
        Path(name).write_text(content, encoding="utf-8")
    whole = "extends =" in text or (
        "[[flow]]" in text and any(hop in text for hop in ("[down", "[hop.", "medium ="))
    )
    base = "" if whole else f'extends = "examples/{BASES.get(document, "queue")}.toml"\n'
    Path("piece.toml").write_text(base + text, encoding="utf-8")
    engines = {'kind = "program"': "live", 'kind = "transfer"': "live", 'stack = "mptcp"': "kernel"}
    real = [word for key, engine in engines.items() if key in text for word in ("--engine", engine)]
    assert lasthop_main("validate", "piece.toml", *real) == 0


def test_there_are_pieces() -> None:
    assert {"README.md", "docs/reference/tcp.md", "docs/guides/precision.md"} <= {
        document for document, _ in pieces()
    }
