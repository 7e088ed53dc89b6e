"""Compression of plotly.js and the figures in a report to a third of their size."""

from __future__ import annotations

import base64
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from lasthop.common.cache import cache_folder
from lasthop.common.files import replace_atomically

_LEVEL = 6
"""Higher levels take longer and save less than 0.1 per cent."""
_PLAIN = bytes.maketrans(b"<>&", b",./")
"""Characters with a meaning in HTML, and their replacements."""


def pack(content: bytes) -> bytes:
    """Encode bytes as text for a script element: browsers' `deflate` in base 85, shorter than base 64."""
    return base64.b85encode(zlib.compress(content, _LEVEL)).translate(_PLAIN)


def plotly_js() -> bytes:
    """Return plotly.js, packed, from the user's cache if possible: packing takes a tenth of a second."""
    # Not imported, because none of plotly's Python is needed.
    package = find_spec("plotly")
    assert package is not None
    assert package.origin is not None
    source = Path(package.origin).with_name("package_data") / "plotly.min.js"
    facts = source.stat()
    cached = cache_folder("plotly") / f"{facts.st_size}-{facts.st_mtime_ns}-base85"
    with suppress(OSError):
        return cached.read_bytes()
    content = pack(source.read_bytes())
    with suppress(OSError):  # the disk is full or read-only, or there is no home
        cached.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(cached, lambda path: path.write_bytes(content))
    return content
