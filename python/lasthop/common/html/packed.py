"""The packed parts of a report: plotly.js and the figures, at a third of their size.

The browser unpacks them.
"""

from __future__ import annotations

import base64
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from lasthop.common.cache import cache_folder
from lasthop.common.files import replace_atomically

_LEVEL = 6
"""Harder packing takes longer and saves less than 0.1 per cent."""
_PLAIN = bytes.maketrans(b"<>&", b",./")
"""Characters with a meaning in HTML, and their replacements."""


def packed(content: bytes) -> bytes:
    """Pack bytes as text for a script element: browsers' `deflate`, in digits of base 85.

    Five digits hold four bytes, while base64 holds three bytes in four.
    """
    return base64.b85encode(zlib.compress(content, _LEVEL)).translate(_PLAIN)


def plotly_js() -> bytes:
    """Return plotly.js, packed. The user's cache keeps it if possible: packing takes a tenth of a second."""
    # Found without an import, because none of plotly's Python is needed.
    package = find_spec("plotly")
    assert package is not None
    assert package.origin is not None
    source = Path(package.origin).with_name("package_data") / "plotly.min.js"
    facts = source.stat()
    kept = cache_folder("plotly") / f"{facts.st_size}-{facts.st_mtime_ns}-base85"
    with suppress(OSError):
        return kept.read_bytes()
    content = packed(source.read_bytes())
    with suppress(OSError):  # the disk is full or read-only, or there is no home
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(kept, lambda path: path.write_bytes(content))
    return content
