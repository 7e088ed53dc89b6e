"""Links that lead out of `docs/` in a checkout, led to the pages that the site has of the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

PAGES = (
    (r"(?:\.\./)*README\.md", "/index.md"),
    (r"(?:\.\./)*LIMITATIONS\.md", "/validation/limitations.md"),
    (r"(?:\.\./)*ARCHITECTURE\.md", "/internals/architecture.md"),
    (r"(?:\.\./)*CONTRIBUTING\.md", "/internals/contributing.md"),
    (r"(?:\.\./)*CHANGELOG\.md", "/internals/changelog.md"),
    (r"(?:\.\./)*(?:studies/)?(\w+)/README\.md", r"/validation/studies/\1.md"),
    (r"(?:\.\./)*benches/README\.md", "/internals/benchmarks.md"),
    (r"(?:\.\./)*examples/(?:algorithms/)?([\w-]+)\.toml", r"/generated/gallery/\1.md"),
    (r"(?:\.\./)*examples/([\w-]+\.ipynb)", r"/generated/gallery/\1"),
    (r"(?:\.\./)*docs/([\w/-]+)\.md", r"/\1.md"),
)
"""Regular expressions of a link's target, and the page that takes its place. A fragment stays."""


def _lead(app: Sphinx, docname: str, source: list[str]) -> None:
    del app, docname
    for target, page in PAGES:
        source[0] = re.sub(rf"\]\({target}(#[^)]*)?\)", lambda m, page=page: _link(m, page), source[0])


def _lead_included(app: Sphinx, path: Path, docname: str, source: list[str]) -> None:
    del path
    _lead(app, docname, source)


def _link(match: re.Match[str], page: str) -> str:
    fragment = match.groups()[-1] or ""
    return f"]({match.expand(page)}{fragment})"


def setup(app: Sphinx) -> dict[str, Any]:
    """Make it known to Sphinx."""
    app.connect("source-read", _lead)
    app.connect("include-read", _lead_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
