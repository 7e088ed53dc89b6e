"""The version of lasthop."""

import functools
from pathlib import Path

from lasthop import _core


@functools.cache
def commit() -> str:
    """Return the commit that lasthop was built from, or "unknown" for a build outside a checkout.

    `make build` writes it to a file of the package, so that a new commit needs no compilation.
    """
    file = Path(__file__).parents[1] / "COMMIT"
    return file.read_text(encoding="utf-8").strip() if file.exists() else "unknown"


def version() -> str:
    return f"{_core.VERSION} (commit {commit()})"
