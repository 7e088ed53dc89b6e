"""The commands that documents, comments and help texts tell people to type."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path

import click

from lasthop.commands.cli import cli

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    "examples/*.toml",
    "docs/reference/*.toml",
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{folder}/*.md" for folder in ("start", "guides", "reference", "validation", "internals")),
    "studies/*/README.md",
]


@dataclass(frozen=True, slots=True)
class Command:
    """The words after `lasthop`, and where they stand."""

    place: str
    words: tuple[str, ...]


@functools.cache
def documents() -> dict[str, list[Command]]:
    """Return the commands of every document that has some, and those of all help texts, in order; each
    once.
    """
    files = [file for pattern in DOCUMENTS for file in sorted(ROOT.glob(pattern))]
    texts = {str(file.relative_to(ROOT)): _of_file(file) for file in files}
    texts["--help"] = _of_help(cli, [])
    seen: set[tuple[str, ...]] = set()
    new = {name: [each for each in commands if _is_new(each, seen)] for name, commands in texts.items()}
    return {name: commands for name, commands in new.items() if commands}


def _is_new(command: Command, seen: set[tuple[str, ...]]) -> bool:
    before = len(seen)
    seen.add(command.words)
    return len(seen) > before


def _of_file(file: Path) -> Iterator[Command]:
    text = file.read_text(encoding="utf-8").replace("\\\n", " ")
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{file.relative_to(ROOT)}:{number}"
        fenced ^= line.startswith("```")
        if file.suffix == ".toml":
            comment = re.match(r"#(?:.*:)?\s+(lasthop .*)", line)
            yield from _command(place, comment[1] if comment else "")
        elif fenced or line.startswith("    "):
            yield from _command(place, line)


def _of_help(command: click.Command, path: list[str]) -> Iterator[Command]:
    text = re.sub(r"^(Example: .*)\n(?=\S)", r"\1 ", cleandoc(command.help or ""), flags=re.MULTILINE)
    for example in re.findall(r"^(?:Example:| ) *(lasthop .*)", text, re.MULTILINE):
        yield from _command(" ".join(["lasthop", *path, "--help"]), example)
    if isinstance(command, click.Group):
        for name, inner in commands_of(command).items():
            yield from _of_help(inner, [*path, name])


def commands_of(group: click.Group) -> dict[str, click.Command]:
    """Return the commands of a group by their names."""
    context = click.Context(group)
    texts = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in texts.items() if command is not None}


def _command(place: str, text: str) -> Iterator[Command]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # prose with an apostrophe
        return
    if not words or words[0] not in ("lasthop", ".venv/bin/lasthop"):
        return
    for end in (">", "|", "&&"):
        words = words[: words.index(end)] if end in words else words
    synopsis = any(word.startswith("[") or "|" in word or word == "..." for word in words)
    if not synopsis:
        yield Command(place, tuple(words[1:]))
