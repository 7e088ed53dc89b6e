"""What every guest needs to boot: its program, and files that nobody else sees."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lasthop.errors import InputError

CONSOLE_LINES = 40
"""So much of a console is shown of a guest that failed."""
_GUEST = Path(__file__).with_name("guest")
_MEMORY_BYTES = 1 << 30


def guest_program() -> bytes:
    """Return what the guest starts."""
    try:
        return _GUEST.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"The program that runs in the guest is missing: {_GUEST}. Build it with 'make kernel'."
        ) from error


def memory_folder() -> str:
    """Return where a guest's memory lies, as a file that is unlinked at once: in memory, if there is room."""
    shared = "/dev/shm"
    try:
        state = os.statvfs(shared)
    except OSError:
        return tempfile.gettempdir()
    roomy = state.f_bavail * state.f_frsize > _MEMORY_BYTES and not state.f_flag & os.ST_NOEXEC
    return shared if roomy and os.access(shared, os.W_OK) else tempfile.gettempdir()


@contextmanager
def memory_file(name: str, content: bytes = b"") -> Iterator[int]:
    """Yield a file without a place in any file system, which a guest inherits."""
    descriptor = os.memfd_create(name)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield descriptor
    finally:
        os.close(descriptor)


def read_file(descriptor: int) -> bytes:
    """Return what is in a file, from its start."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()
