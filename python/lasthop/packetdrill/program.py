"""packetdrill itself: installed, or built from the user's copy of its source."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from lasthop.common.cache import cache_folder
from lasthop.common.errors import InputError
from lasthop.common.extras import tools_missing

VARIABLE = "LASTHOP_PACKETDRILL"
"""The environment variable that says where packetdrill or its source is."""
# Below the root of the public repository.
_SOURCE = Path("gtests/net/packetdrill")
_PROGRAM = "packetdrill"
_TOOLS = {"make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison"}
# Lets the thread of blocking system calls run; virtual time goes by only in sleep.
_GIVE_WAY = "\\trun_unlock(state);\n\\tusleep(1);\n\\trun_lock(state);\n"
# What a build of ours changes: the file, the place, the text there.
_CHANGES = (
    # On real machines it waits for an event in a loop, for the sake of precision; a guest's sleep is exact.
    ("run.c", r"(?<=const int MAX_SPIN_USECS = )\d+", "0"),
    # It lets ticks go by until a machine has settled; a guest has nothing to settle.
    ("run.c", r"(?<=const int TARGET_JIFFY_TICKS = )\d+", "1"),
    # A guest has one processor. A system call that the event before let go on must end before a command
    # begins: the signal of the command's end would interrupt it.
    ("run_command.c", r"(?<=\twait_for_event\(state\);\n)", _GIVE_WAY),
    ("run.c", r"(?=\tif \(run_cleanup_command\(\) == STATUS_ERR\))", _GIVE_WAY),
    # A kernel older than packetdrill knows fewer fields; the others stay zero.
    ("code.c", r"assert\(len >= sizeof\(struct _tcp_info\)\);(?=\n\n\twrite_symbols)", ""),
)
_LINES = 10


def find_program(given: Path | None) -> Path:
    """Return packetdrill: `given`, else what the environment names, else the one that is installed.

    A folder is its source, which is built once. Raises `InputError` if there is none.
    """
    named = given or (Path(value) if (value := os.environ.get(VARIABLE)) else None)
    if named is None:
        installed = shutil.which(_PROGRAM)
        if installed is None:
            raise InputError(
                "packetdrill is not installed. Get its source (git clone "
                "https://github.com/google/packetdrill) and name the folder with --packetdrill PATH or in "
                f"{VARIABLE}; lasthop builds it there and then, in its cache."
            )
        return Path(installed)
    if named.is_dir():
        source = next((folder for folder in (named, named / _SOURCE) if (folder / "run.c").is_file()), None)
        if source is None:
            raise InputError(
                f"{named} is not packetdrill's source: it has no run.c, nor has {_SOURCE} in it."
            )
        return _built(source)
    if not os.access(named, os.X_OK):
        raise InputError(f"{named} is neither packetdrill, which could be run, nor the folder of its source.")
    return named.resolve()


def _built(source: Path) -> Path:
    """Return the program built from a source, now or earlier."""
    target = cache_folder(_PROGRAM) / _digest(source)[:16]
    program = target / _PROGRAM
    if not program.is_file():
        if missing := [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]:
            raise tools_missing("building packetdrill", missing)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as folder:
            tree = Path(folder) / "source"
            shutil.copytree(source, tree, ignore=shutil.ignore_patterns("*.o", _PROGRAM))
            _change(tree)
            _make(tree)
            target.mkdir(exist_ok=True)
            (tree / _PROGRAM).rename(program)
    return program


def _digest(source: Path) -> str:
    """Return the digest of a source and of our changes."""
    digest = hashlib.sha256(repr(_CHANGES).encode())
    for file in sorted(source.iterdir()):
        if file.is_file() and (file.suffix in {".c", ".h", ".l", ".y"} or file.name.startswith("Makefile")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _change(tree: Path) -> None:
    for name, place, text in _CHANGES:
        file = tree / name
        after, count = re.subn(place, text, file.read_text(encoding="utf-8"))
        if count == 0:
            raise InputError(
                f"This packetdrill's {name} differs from those that lasthop builds: it lacks '{place}'. "
                "Build it yourself, and name the program with --packetdrill PATH."
            )
        file.write_text(after, encoding="utf-8")


def _make(tree: Path) -> None:
    # Its own flags make an error of each warning of a compiler newer than the source.
    command = ["make", "-f", "Makefile.Linux", f"-j{os.cpu_count() or 1}", "CFLAGS=-O1", _PROGRAM]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        end = "\n  ".join(done.stderr.strip().splitlines()[-_LINES:])
        raise InputError(f"packetdrill cannot be built ({' '.join(command)}):\n  {end}")
