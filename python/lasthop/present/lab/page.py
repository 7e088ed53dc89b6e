"""The lab's page: a self-contained HTML file with styles, scripts and data."""

from __future__ import annotations

import json
from pathlib import Path

from markupsafe import Markup

from lasthop.common.html import template
from lasthop.present.lab.lessons import lessons
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.picture import DARK

_SCRIPTS = (
    "base",
    "source",
    "chart",
    "controls",
    "editor",
    "story",
    "compare",
    "lessons",
    "results",
    "classroom",
    "main",
)
_STATIC = Path(__file__).with_name("static")


def _text(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")


def page(opened: Opened, **more: object) -> str:
    """Return the page of an opened scenario; `more` is additional data for its scripts."""
    config: dict[str, object] = {
        "text": opened.text,
        "file": opened.file,
        "dark": DARK,
        "lessons": lessons(),
        **more,
    }
    parts = {
        "config": json.dumps(config, separators=(",", ":")).replace("</", "<\\/"),
        "css": _text("lab.css"),
        "script": "\n".join(_text(f"{name}.js") for name in _SCRIPTS),
    }
    context = {"title": "lasthop lab", **{name: Markup(text) for name, text in parts.items()}}
    return template.page(_STATIC / "lab.html.j2", context)
