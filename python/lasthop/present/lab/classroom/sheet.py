"""The sheet of a class: a TOML file with questions, whose answers are metrics of a run.

[[question]]
text = "What is the speech quality of the call?"
metric = "mos"
flow = "call"
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.units import label, units_for
from lasthop.present.lab.desk import Desk
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.picture import split

_KEYS = ("text", "metric", "flow")
_MOST = 50
_MOST_LETTERS = 60
"""The longest prediction."""
_AMOUNT = re.compile(
    r"\s*(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*(?P<unit>\S*)\s*", re.IGNORECASE
)

Measured = Mapping[str, Any]
"""The answer of the lab to `measure`."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the sheet."""

    text: str
    metric: str
    flow: str = ""
    """The flow, page or hop, or `the run`; if empty, that of most interest with this metric."""

    def for_page(self) -> dict[str, object]:
        return {
            "text": self.text,
            "label": label(self.metric) + (f" of {self.flow}" if self.flow else ""),
            "units": [unit for unit in units_for(self.metric) if unit],
        }

    def value(self, text: object) -> float:
        """Return the value of a prediction such as `120 ms`. Raises `InputError` if it is not a number."""
        units = units_for(self.metric)
        named = [unit for unit in units if unit]
        form = f"a number and a unit ({', '.join(named)})" if "" not in units else "a number"
        found = _AMOUNT.fullmatch(text) if isinstance(text, str) and len(text) <= _MOST_LETTERS else None
        value = math.nan
        if found is not None and found["unit"] in units:
            value = float(found["number"]) * units[found["unit"]]
        if not math.isfinite(value):
            raise InputError(f"Predict {label(self.metric)} as {form}.")
        return value

    def measured(self, answer: Measured) -> float:
        """Return the value of the metric in a run. Raises `InputError` if the run has none."""
        parts = {part["of"]: {m["name"]: m["value"] for m in part["metrics"]} for part in answer["measures"]}
        order = [self.flow] if self.flow else [answer["flow"], *parts]
        for name in order:
            if self.metric in parts.get(name, {}):
                return float(parts[name][self.metric])
        if self.flow and self.flow not in parts:
            raise InputError(
                f"The run has no '{self.flow}'; did you mean '{nearest(self.flow, parts)}'? It has "
                f"{', '.join(parts)}."
            )
        own = [name for flow in order for name in parts.get(flow, ())]
        raise InputError(
            f"The run has no {self.metric}{f' of {self.flow}' if self.flow else ''}; did you mean "
            f"'{nearest(self.metric, own)}'?"
        )


def read_sheet(file: Path, opened: Opened) -> list[Question]:
    """Read the questions, and check that a run of the opened scenario answers them."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"--sheet {file}: {error}.") from error
    _check_keys(f"{file}", content, ("question",))
    tables = content.get("question")
    if not isinstance(tables, list) or not 1 <= len(tables) <= _MOST:
        raise InputError(f"{file}: write 1 to {_MOST} questions, each as a table [[question]].")
    questions = [_question(f"{file}: question {number}", table) for number, table in enumerate(tables, 1)]
    desk = Desk(opened, lambda: False)
    answer, _ = split(desk.answer({"ask": "measure", "text": opened.text}))
    if errors := answer.get("errors"):
        raise InputError("\n".join(f"{opened.file}: {error['text']}" for error in errors))
    for number, question in enumerate(questions, 1):
        try:
            question.measured(answer)
        except InputError as error:
            raise InputError(f"{file}: question {number}: {error}") from error
    return questions


def _question(place: str, table: object) -> Question:
    if not isinstance(table, Mapping):
        raise InputError(f"{place}: write a table [[question]].")
    _check_keys(place, table, _KEYS)
    for key in _KEYS:
        if not isinstance(table.get(key, ""), str):
            raise InputError(f"{place}: `{key}` must be a string.")
    for key in ("text", "metric"):
        if not table.get(key):
            raise InputError(f"{place}: `{key}` is missing.")
    return Question(**table)


def _check_keys(place: str, table: Mapping[str, object], keys: Sequence[str]) -> None:
    for key in table:
        if key not in keys:
            suggestion = f"did you mean `{nearest(key, keys)}`? (accepted: {', '.join(keys)})"
            raise InputError(f"{place}: unknown key `{key}`; {suggestion}")
