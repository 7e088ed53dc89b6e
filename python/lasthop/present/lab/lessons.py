"""The lessons: files in `lessons/`, each with a scenario, observations and questions."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import TypedDict, cast


class Lesson(TypedDict):
    title: str
    statement: str
    text: str
    look_for: object
    questions: object
    knobs: list[str]
    scenario: str


@functools.cache
def lessons() -> list[Lesson]:
    files = [
        file
        for file in resources.files("lasthop.present.lab").joinpath("lessons").iterdir()
        if file.name.endswith(".toml")
    ]
    return [
        cast("Lesson", tomllib.loads(file.read_text(encoding="utf-8")))
        for file in sorted(files, key=lambda file: file.name)
    ]
