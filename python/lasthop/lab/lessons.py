"""The lessons: files beside this one, each with a scenario, hints on what to look for, and questions."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any

Lesson = dict[str, Any]
"""`title`, `statement`, `text`, `look_for`, `questions`, `knobs` and `scenario`."""


@functools.cache
def lessons() -> list[Lesson]:
    """Return the lessons in their order."""
    files = [
        file
        for file in resources.files("lasthop.lab").joinpath("lessons").iterdir()
        if file.name.endswith(".toml")
    ]
    return [
        tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(files, key=lambda file: file.name)
    ]
