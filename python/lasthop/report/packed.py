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


def packed(content: bytes) -> bytes:
    """Pack bytes as text that may stand inside a script element: base64 of what browsers call `deflate`."""
    return base64.b64encode(zlib.compress(content, _LEVEL))


def plotly_js() -> bytes:
    """Return plotly.js, packed. It is kept in the user's cache if it can be: packing takes a tenth of a second."""
    # Found without an import: none of plotly's Python is needed.
    package = find_spec("plotly")
    assert package is not None
    assert package.origin is not None
    source = Path(package.origin).with_name("package_data") / "plotly.min.js"
    facts = source.stat()
    kept = cache_folder("plotly") / f"{facts.st_size}-{facts.st_mtime_ns}"
    with suppress(OSError):
        return kept.read_bytes()
    content = packed(source.read_bytes())
    with suppress(OSError):  # full, read-only, or there is no home
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(kept, lambda path: path.write_bytes(content))
    return content
