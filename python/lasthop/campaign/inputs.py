"""The files that the command lines of real programs name. Their contents decide the results."""

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
    """Whatever else may decide the results, in words."""


def inputs_of(program: Flow) -> Inputs:
    """Return the files that a scenario's program names; raise `InputError` if an `input` is unreadable."""
    named = [Path(path) for path in program.get("input", ())]
    reader = _Reader(named, [Path(path) for path in program.get("write", ())])
    reader.take_words(program.get("command", ()))
    for other in (*program.get("hosts", ()), *program.get("servers", ())):
        reader.folder = Path.cwd()
        reader.take_line(other["command"])
    for path in named:
        reader.digests[str(path)] = _digest_of_input(path)
    unseen = dict.fromkeys(reader.unseen if named else ["what else they read", *reader.unseen])
    return Inputs(reader.digests, list(unseen))


@dataclass(slots=True)
class _Reader:
    """Reads command lines word by word. In doubt, it takes in a file too many rather than one too few."""

    seen: Sequence[Path]
    """Files and folders that are taken in as a whole."""
    written: Sequence[Path]
    """Folders that programs may change: their contents are results."""
    folder: Path = field(default_factory=Path.cwd)
    digests: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)

    def take_line(self, line: str) -> None:
        """Take in the files that a shell's command line names."""
        self.unseen += [f"what {found} stands for" for found in _EXPANDED.findall(_LITERAL.sub("", line))]
        self.take_words(_words_of(line))

    def take_words(self, words: Sequence[str], *, programs: bool = True) -> None:
        """Take in files among words and options, and words that are `programs` in PATH."""
        has_shell = False
        for before, word in pairwise(["", *words]):
            if programs and has_shell and _SCRIPT_OPTION.fullmatch(before):
                self.take_line(word)
            elif before == "cd":
                self._take_path(word)
                self.folder /= os.path.expanduser(word)  # noqa: PTH111  an unknown user is no error
            elif ">" not in before:  # a file that a line writes is no input
                self._take_word(word, programs)
            has_shell |= Path(word).name in _SHELLS

    def _take_word(self, word: str, programs: bool) -> None:
        for name in _names_in(word):
            self._take_path(name)
        if programs and (found := "/" not in word and shutil.which(word)):
            self._take_file(Path(found))
        if len(words := _words_of(word)) > 1:
            self.take_words(words, programs=False)

    def _take_path(self, name: str) -> None:
        """Take in the file of that name, or the files that a pattern matches; note a folder."""
        name = os.path.expanduser(name)  # noqa: PTH111
        for path in glob.glob(name, root_dir=self.folder) if glob.has_magic(name) else [name]:  # noqa: PTH207
            full = os.path.normpath(self.folder / path)
            if os.path.isfile(full):  # noqa: PTH113  whatever a word is, it is no error
                self._take_file(Path(full))
            elif path and os.path.isdir(full) and not _within(Path(full), self.seen):  # noqa: PTH112
                self.unseen.append(f"what is in {path}")

    def _take_file(self, file: Path) -> None:
        if str(file) in self.digests or _within(file, self.written):
            return
        try:
            self.digests[str(file)] = digest(file)
        except OSError:
            self.unseen.append(f"what is in {file}")


def _names_in(word: str) -> Iterator[str]:
    """Yield the parts of a word that may name a file: the whole, and what follows an option, `=` or `@`."""
    yield word
    if re.match("-[^-]", word):
        yield word[2:]
    for mark in "=@":
        _, found, rest = word.partition(mark)
        if found:
            yield rest


def _words_of(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quotation mark without a second one, as in prose
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
    """Return the digest of names and contents of all files below a folder; lasthop's results do not count."""
    known: list[tuple[str, str]] = []
    size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_results(Path(place, name))]
        for file in (Path(place, name) for name in (*names, *folders)):
            if file.is_file():
                size += file.stat().st_size
                if len(known) >= _MOST_FILES or size > _MOST_BYTES:
                    raise InputError(
                        f"--input {folder}: this folder holds more than {_MOST_FILES} files or 1 GiB; name "
                        "the parts that the programs read."
                    )
                known.append((str(file.relative_to(folder)), digest(file)))
            elif file.is_symlink():
                known.append((str(file.relative_to(folder)), str(file.readlink())))
    return hashlib.sha256(json.dumps(sorted(known)).encode()).hexdigest()
