"""Commands of a shell script, with their lines: no control flow, but variables with constant values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lasthop.exchange.place import Place

_ASSIGNMENT = re.compile(r"\s*(?:export\s+|local\s+)?(?P<name>[A-Za-z_]\w*)=(?P<value>.*)")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<name>[A-Za-z_]\w*))")
_FOLDER = re.compile(r"\$\{?\w+\}?/")
_PUNCTUATION = re.compile(r"[();<>|&]+")
_LINES_MAX = 40
"""Lines of one command, with a quotation that goes over several."""


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command: a program and its arguments."""

    words: list[str]
    place: Place

    def __getitem__(self, index: int) -> str:
        """Return a word; raises InputError if the command ends before it."""
        if index >= len(self.words):
            raise self.place.fault(f"the command ends after '{self.words[-1]}', which needs a value")
        return self.words[index]


def commands(text: str, file: Path) -> Iterator[Command]:
    """Yield the commands of a script in order. A line with `;`, `&` or `|` has several."""
    variables: dict[str, str] = {}
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        place, whole = Place(file, number), line
        if (assignment := _ASSIGNMENT.fullmatch(line)) is not None and _assign(assignment, variables):
            continue
        count = 1
        while (words := _split(whole)) is None or _continues(whole):
            count += 1
            after = next(lines, None)
            if after is None or count > _LINES_MAX:
                break
            whole = _joined(whole, after[1])
        if words is None:
            raise place.fault("a quotation is not closed")
        for command in _commands(words):
            yield Command([_expanded(word, variables) for word in command], place)


def path_of(word: str) -> str:
    """Return the name of a file without a variable in front, such as that of the script's folder."""
    return _FOLDER.sub("", word, count=1) if word.startswith("$") else word


def _assign(match: re.Match[str], variables: dict[str, str]) -> bool:
    """Note the value of a variable; false if the line has more than an assignment."""
    value = match["value"]
    if "$(" in value or "`" in value:
        variables.pop(match["name"], None)
        return True
    words = _split(value)
    if words is None or len(words) > 1:
        return False
    variables[match["name"]] = _expanded(words[0], variables) if words else ""
    return True


def _continues(line: str) -> bool:
    return line.endswith("\\") and not line.lstrip().startswith("#")


def _joined(line: str, after: str) -> str:
    return f"{line[:-1]} {after}" if _continues(line) else f"{line}\n{after}"


def _split(line: str) -> list[str] | None:
    """Return the words of a line; `None` if a quotation is open."""
    lexer = shlex.shlex(line.removesuffix("\\"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return None


def _commands(words: list[str]) -> Iterator[list[str]]:
    """Yield the commands of a line, without redirections."""
    command: list[str] = []
    redirected = False
    for word in words:
        if _PUNCTUATION.fullmatch(word):
            redirected = "<" in word or ">" in word
            if redirected and command and command[-1].isdigit():
                command.pop()
            if not redirected and command:
                yield command
                command = []
        elif redirected:
            redirected = False
        else:
            command.append(word)
    if command:
        yield command


def _expanded(word: str, variables: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return variables.get(match["braced"] or match["name"], match[0])

    return _VARIABLE.sub(value, word)[:10_000]
