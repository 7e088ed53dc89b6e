"""Files that are written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def replace_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in `path`'s place."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        write(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
