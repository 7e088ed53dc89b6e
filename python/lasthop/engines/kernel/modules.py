"""A user's files that are built into a kernel: a congestion control, or a queue discipline."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from lasthop.common.errors import InputError
from lasthop.engines.kernel.store import MODULE

_FOLDERS = {"tcp_congestion_ops": Path("net/ipv4"), "Qdisc_ops": Path("net/sched")}
"""The structure that a file registers, and the folder of such files in the kernel's source."""


def names_of(modules: Sequence[Path]) -> str:
    """Return the part of a kernel's name on its modules: their names and digests."""
    return "".join(f"{MODULE}{file.stem}-{hashlib.sha256(_read(file)).hexdigest()[:8]}" for file in modules)


def add_modules(tree: Path, modules: Sequence[Path]) -> None:
    """Copy modules into a kernel's source tree; a module replaces the kernel's file of the same name."""
    for file in modules:
        text = _read(file)
        folder = next((place for word, place in _FOLDERS.items() if word.encode() in text), None)
        if folder is None or file.suffix != ".c":
            raise InputError(
                f"--module {file}: this is not a C file with a congestion control (tcp_congestion_ops) or a "
                "queue discipline (Qdisc_ops)."
            )
        (tree / folder / file.name).write_bytes(text)
        # The kernel's build ignores duplicate names.
        with (tree / folder / "Makefile").open("a", encoding="utf-8") as makefile:
            makefile.write(f"\nobj-y += {file.stem}.o\n")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"--module {file}: {error.strerror}.") from error
