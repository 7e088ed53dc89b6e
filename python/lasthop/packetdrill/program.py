"""The packetdrill program: installed, or built from the user's copy of its source."""

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
"""The environment variable with the path of packetdrill or its source."""
# In the public repository.
_SOURCE = Path("gtests/net/packetdrill")
_PROGRAM = "packetdrill"
_TOOLS = {"make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison"}
# Lets the thread of blocking system calls run: virtual time passes only during a sleep.
_GIVE_WAY = "\\trun_unlock(state);\n\\tusleep(1);\n\\trun_lock(state);\n"
# Changes to the source: file, place, new text.
_CHANGES = (
    # It busy-waits for an event for the sake of precision, but a guest's sleep is exact.
    ("run.c", r"(?<=const int MAX_SPIN_USECS = )\d+", "0"),
    # It waits some ticks for the machine to settle, which a guest does not need.
    ("run.c", r"(?<=const int TARGET_JIFFY_TICKS = )\d+", "1"),
    # A guest has one processor. A system call that the previous event unblocked must end before a command
    # starts, or the signal of the command's end interrupts it.
    ("run_command.c", r"(?<=\twait_for_event\(state\);\n)", _GIVE_WAY),
    ("run.c", r"(?=\tif \(run_cleanup_command\(\) == STATUS_ERR\))", _GIVE_WAY),
    # A kernel older than packetdrill has fewer fields; the others stay zero.
    ("code.c", r"assert\(len >= sizeof\(struct _tcp_info\)\);(?=\n\n\twrite_symbols)", ""),
)
_ERROR_LINES = 10


def find_program(program: Path | None) -> Path:
    """Return packetdrill: `program`, else the environment variable's, else the installed one.

    A folder is its source, which is built once. Raises `InputError` if there is no packetdrill.
    """
    path = program or (Path(value) if (value := os.environ.get(VARIABLE)) else None)
    if path is None:
        installed = shutil.which(_PROGRAM)
        if installed is None:
            raise InputError(
                "packetdrill is not installed. Get its source (git clone "
                "https://github.com/google/packetdrill) and give the folder with --packetdrill PATH or in "
                f"{VARIABLE}; lasthop then builds it in its cache."
            )
        return Path(installed)
    if path.is_dir():
        source = next((folder for folder in (path, path / _SOURCE) if (folder / "run.c").is_file()), None)
        if source is None:
            raise InputError(
                f"{path} is not packetdrill's source: there is no run.c in it or in {path / _SOURCE}."
            )
        return _build(source)
    if not os.access(path, os.X_OK):
        raise InputError(f"{path} is neither an executable file nor the folder of packetdrill's source.")
    return path.resolve()


def _build(source: Path) -> Path:
    """Return the program built from a source; it is cached."""
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
    """Return the digest of a source and of the changes to it."""
    digest = hashlib.sha256(repr(_CHANGES).encode())
    for file in sorted(source.iterdir()):
        if file.is_file() and (file.suffix in {".c", ".h", ".l", ".y"} or file.name.startswith("Makefile")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _change(tree: Path) -> None:
    for name, place, text in _CHANGES:
        file = tree / name
        changed, count = re.subn(place, text, file.read_text(encoding="utf-8"))
        if count == 0:
            raise InputError(
                f"lasthop cannot build this version of packetdrill: nothing in {name} matches '{place}'. "
                "Build it yourself, and give the program with --packetdrill PATH."
            )
        file.write_text(changed, encoding="utf-8")


def _make(tree: Path) -> None:
    # Its own flags turn warnings into errors, and newer compilers have new warnings.
    command = ["make", "-f", "Makefile.Linux", f"-j{os.cpu_count() or 1}", "CFLAGS=-O1", _PROGRAM]
    process = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        end = "\n  ".join(process.stderr.strip().splitlines()[-_ERROR_LINES:])
        raise InputError(f"packetdrill cannot be built ({' '.join(command)}):\n  {end}")
