"""What a report carries packed: plotly.js and the figures, which take a third of the room then. The browser unpacks."""

from __future__ import annotations

import base64
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from lasthop.cache import cache_folder
from lasthop.results.atomic import replace_atomically

_LEVEL = 6
"""Harder packing takes longer and saves no tenth of a per cent."""
_PLAIN = bytes.maketrans(b"<>&", b",./")
"""What HTML gives a meaning, and what stands for it."""


def packed(content: bytes) -> bytes:
    """Pack bytes as text that may stand inside a script element: what browsers call `deflate`, in digits of base 85.

    Five of them have four bytes, where base64 has three in four.
    """
    return base64.b85encode(zlib.compress(content, _LEVEL)).translate(_PLAIN)


def plotly_js() -> bytes:
    """Return plotly.js, packed. It is kept in the user's cache if it can be: packing takes a tenth of a second."""
    # Found without an import: none of plotly's Python is needed.
    package = find_spec("plotly")
    assert package is not None
    assert package.origin is not None
    source = Path(package.origin).with_name("package_data") / "plotly.min.js"
    facts = source.stat()
    kept = cache_folder("plotly") / f"{facts.st_size}-{facts.st_mtime_ns}-base85"
    with suppress(OSError):
        return kept.read_bytes()
    content = packed(source.read_bytes())
    with suppress(OSError):  # full, read-only, or there is no home
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(kept, lambda path: path.write_bytes(content))
    return content
