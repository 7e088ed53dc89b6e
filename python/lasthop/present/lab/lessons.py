"""The lessons: files beside this one, each with a scenario, hints on what to look for, and questions."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import TypedDict, cast


class Lesson(TypedDict):
    """A lesson as its file has it."""

    title: str
    statement: str
    text: str
    look_for: object
    questions: object
    knobs: list[str]
    scenario: str


@functools.cache
def lessons() -> list[Lesson]:
    """Return the lessons in their order."""
    files = [
        file
        for file in resources.files("lasthop.present.lab").joinpath("lessons").iterdir()
        if file.name.endswith(".toml")
    ]
    return [
        cast("Lesson", tomllib.loads(file.read_text(encoding="utf-8")))
        for file in sorted(files, key=lambda file: file.name)
    ]
