"""scripts/check-prose finds words that scripts/prose.txt replaces, outside of code, and misspelt ones."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "check-prose"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The runs are made anew.\n", "page.md:1: anew ==> again"),
        ("A line.\n\nIt lists teh runs.\n", "page.md:3: teh ==> the"),
        ("Code:\n\n    lasthop tell\n\n```\ntell\n```\nAlso `tell` and [a page](tell.md).\n", ""),
    ],
)
def test_words_are_found_outside_of_code(text: str, found: str, capfd: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(SCRIPT))
    main = script["main"]
    main.__globals__.update(prose=lambda: [("page.md", text)], tracked=lambda *_: ["pyproject.toml"])
    assert main() == bool(found)
    assert found in capfd.readouterr().out
