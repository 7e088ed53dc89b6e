"""CONTRIBUTING.md says which files an addition touches. Existing examples hold it to its word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

EXAMPLES = {
    # What is added: (the example's name in a path, its name in code)
    "A queue discipline": ("sfq", r"(?i)\bsfq"),
    "A congestion control": ("vegas", r"(?i)vegas"),
    "A kind of traffic": ("web", r"WebClients|WebClass|mod web\b|web::"),
    "An impairment of a link": ("", r"\bcorrupt\b|Corrupt\b|\bcorruption\b"),
    "An engine": ("", r"LiveEngine|\blive_run\b|\blive_shell\b|\bmod live\b"),
    "A part of the report": ("", r"report\.engines\b|\bengines_view\b|\{% if engines %\}"),
    "A metric": ("", r"\bred_average_max\b"),
    "A picture of a run": ("", r"_round_trips\b"),
}


def _section(title: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.search(rf"^\*\*{title}\.\*\*(.*?)(?=^\*\*|^## )", text, re.DOTALL | re.MULTILINE)
    assert found, f"CONTRIBUTING.md has no section on adding {title.lower()}"
    return found[1]


def _code(file: Path) -> str:
    """Return the lines of a file that are no comments."""
    lines = file.read_text().splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(("//", "#")))


def _sources() -> list[Path]:
    """Return the source files of crates and package, without tests."""
    rust = (file for file in ROOT.glob("crates/*/src/**/*.rs") if "tests" not in {*file.parts, file.stem})
    python = (file for end in ("py", "j2") for file in ROOT.glob(f"python/lasthop/**/*.{end}"))
    return [*rust, *(file for file in python if "published" not in file.parts)]


@pytest.mark.parametrize("addition", EXAMPLES)
def test_an_example_touches_the_files_that_contributing_lists_and_no_others(addition: str) -> None:
    name, code = EXAMPLES[addition]
    mentions = {str(file.relative_to(ROOT)) for file in _sources() if re.search(code, _code(file))}
    section = _section(addition)
    listed = {
        path.replace("<name>", name)
        for path in re.findall(r"`((?:crates|python)/[^`]*\.(?:rs|py|j2))`", section)
    }
    assert mentions, f"nothing mentions {code}"
    assert mentions <= listed, "files that CONTRIBUTING.md does not list"
    assert {path for path in listed if (ROOT / path).is_file()} == listed, "files that are not there"
