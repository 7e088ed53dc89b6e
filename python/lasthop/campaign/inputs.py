"""The files named on the command lines of real programs: results depend on their contents."""

import glob
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from lasthop.campaign.results.folder import digest, is_results
from lasthop.common.errors import InputError
from lasthop.engines.resolved import Flow

_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_SCRIPT_OPTION = re.compile(r"-\w*c")
"""Matches the option of a shell that precedes a line to run."""
_LITERAL = re.compile(r"'[^']*'|\\.", re.DOTALL)
_EXPANDED = re.compile(r"\$\(|\$\{?\w+\}?|`")
# Limits for a folder that --input names. A gigabyte takes some seconds.
_MOST_FILES, _MOST_BYTES = 10_000, 1 << 30


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a program and its servers, as far as their command lines name them."""

    digests: Mapping[str, str]
    """SHA-256 of each file or folder, by its path."""
    unseen: Sequence[str]
    """Descriptions of other inputs that may affect the results."""


def inputs_of(program: Flow) -> Inputs:
    """Return the files that a scenario's program names; raise `InputError` if an `input` is unreadable."""
    named = [Path(path) for path in program.get("input", ())]
    reader = _Reader(named, [Path(path) for path in program.get("write", ())])
    reader.add_words(program.get("command", ()))
    for other in (*program.get("hosts", ()), *program.get("servers", ())):
        reader.folder = Path.cwd()
        reader.add_line(other["command"])
    for path in named:
        reader.digests[str(path)] = _digest_of_input(path)
    unseen = dict.fromkeys(reader.unseen if named else ["other files that they read", *reader.unseen])
    return Inputs(reader.digests, list(unseen))


@dataclass(slots=True)
class _Reader:
    """Reads command lines word by word. In doubt, it includes a file too many rather than one too few."""

    whole: Sequence[Path]
    """Files and folders that are included as a whole."""
    written: Sequence[Path]
    """Folders that programs may write to: their contents are results."""
    folder: Path = field(default_factory=Path.cwd)
    digests: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)

    def add_line(self, line: str) -> None:
        """Add the files named in a shell's command line."""
        self.unseen += [f"the value of {text}" for text in _EXPANDED.findall(_LITERAL.sub("", line))]
        self.add_words(_words_of(line))

    def add_words(self, words: Sequence[str], *, programs: bool = True) -> None:
        """Add the files among words and options, and with `programs` those in PATH."""
        has_shell = False
        for before, word in pairwise(["", *words]):
            if programs and has_shell and _SCRIPT_OPTION.fullmatch(before):
                self.add_line(word)
            elif before == "cd":
                self._add_path(word)
                self.folder /= os.path.expanduser(word)  # noqa: PTH111  an unknown user is no error
            elif ">" not in before:  # the target of a redirection is no input
                self._add_word(word, programs)
            has_shell |= Path(word).name in _SHELLS

    def _add_word(self, word: str, programs: bool) -> None:
        for name in _names_in(word):
            self._add_path(name)
        if programs and (program := "/" not in word and shutil.which(word)):
            self._add_file(Path(program))
        if len(words := _words_of(word)) > 1:
            self.add_words(words, programs=False)

    def _add_path(self, name: str) -> None:
        """Add the file of this name, or the files that a pattern matches; a folder is only noted."""
        name = os.path.expanduser(name)  # noqa: PTH111
        for path in glob.glob(name, root_dir=self.folder) if glob.has_magic(name) else [name]:  # noqa: PTH207
            full = os.path.normpath(self.folder / path)
            if os.path.isfile(full):  # noqa: PTH113  whatever a word is, it is no error
                self._add_file(Path(full))
            elif path and os.path.isdir(full) and not _within(Path(full), self.whole):  # noqa: PTH112
                self.unseen.append(f"the contents of {path}")

    def _add_file(self, file: Path) -> None:
        if str(file) in self.digests or _within(file, self.written):
            return
        try:
            self.digests[str(file)] = digest(file)
        except OSError:
            self.unseen.append(f"the contents of {file}")


def _names_in(word: str) -> Iterator[str]:
    """Yield the parts of a word that may name a file: the whole, and what follows an option, `=` or `@`."""
    yield word
    if re.match("-[^-]", word):
        yield word[2:]
    for mark in "=@":
        _, separator, rest = word.partition(mark)
        if separator:
            yield rest


def _words_of(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # an unbalanced quotation mark, as in prose
        return line.split()


def _within(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)


def _digest_of_input(path: Path) -> str:
    try:
        if path.is_dir():
            return _digest_of_folder(path)
        return digest(path)
    except OSError as error:
        raise InputError(
            f"--input {path}: cannot read {error.filename or path}: {error.strerror}."
        ) from error


def _digest_of_folder(folder: Path) -> str:
    """Return the digest of names and contents of all files below a folder, without lasthop's results."""
    entries: list[tuple[str, str]] = []
    size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_results(Path(place, name))]
        for file in (Path(place, name) for name in (*names, *folders)):
            if file.is_file():
                size += file.stat().st_size
                if len(entries) >= _MOST_FILES or size > _MOST_BYTES:
                    raise InputError(
                        f"--input {folder}: this folder contains more than {_MOST_FILES} files or 1 GiB. "
                        "Name only the files or folders that the programs read."
                    )
                entries.append((str(file.relative_to(folder)), digest(file)))
            elif file.is_symlink():
                entries.append((str(file.relative_to(folder)), str(file.readlink())))
    return hashlib.sha256(json.dumps(sorted(entries)).encode()).hexdigest()
