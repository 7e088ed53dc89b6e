"""The set: sections in the order of RFC 9743, and a scenario for each of their rows.

A row's file is a scenario without its factor `control`, with a table `[evaluation]`: the numbers that the
dossier shows, the predictions of laws for the first of them, and the levels and replications of the quick
set. In its claims, `{against}` stands for the controls of the comparison. In their texts, `{all}` and `{any}`
are the names of these controls; `{larger}` and the other `_WORSE` say which of their values is the limit.

A stack is evaluated with the same rows as transfers (`transfers.py`). A file in the folder `stack` replaces a
row of the same name that transfers cannot express, or that would take too long.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from lasthop.scenario.named import named_files
from lasthop.scenario.toml import to_toml

FOLDER = Path(__file__).with_name("set")
_EXAMPLES = Path(__file__).parents[1] / "scenario" / "examples"
FACTOR = "control"
TESTED = "tested"
QUICK, WHOLE = SETS = ("quick", "whole")
_TITLES = {"reno": "Reno", "cubic": "CUBIC"}
_WORSE = ("larger", "longer", "smaller", "worse")


@dataclass(frozen=True)
class Number:
    """A number in the dossier; `formula` is an expression in the language of claims."""

    name: str
    unit: str
    formula: str


@dataclass(frozen=True)
class Law:
    """The prediction of an equation for the first number of a row, for each level of its only factor."""

    name: str
    values: Mapping[str, float]


_Number = TypedDict("_Number", {"name": str, "unit": NotRequired[str], "is": str})


class _Law(TypedDict):
    name: str
    values: dict[str, float]


class _Evaluation(TypedDict):
    number: list[_Number]
    law: NotRequired[list[_Law]]
    fixed: NotRequired[list[str]]
    quick: dict[str, list[str]]


class RowScenario(TypedDict, total=False):
    """A scenario in its file; other keys are those of any scenario."""

    title: str
    replications: object
    factor: dict[str, dict[str, object]]
    claim: list[dict[str, object]]
    evaluation: _Evaluation


@dataclass(frozen=True)
class Row:
    name: str
    numbers: Sequence[Number]
    laws: Sequence[Law]
    scenario: RowScenario
    claims: Sequence[Mapping[str, object]]
    text: str
    left_out: Sequence[str] = ()
    """Numbers and claims without an answer for a stack, with reasons."""
    refused: str = ""
    """Why a stack cannot run it."""
    fixed: Sequence[str] = ()
    """What the quick set of stacks does not reduce (`lighter.py`)."""

    @property
    def title(self) -> str:
        return str(self.scenario["title"])

    def with_scenario(self, scenario: Mapping[str, Any]) -> "Row":
        """Return the row with another scenario, and those of its claims that are about the levels of that."""
        found = cast("RowScenario", scenario)
        factors = found.get("factor", {})
        wheres = [cast("Mapping[str, str]", claim.get("where", {})) for claim in self.claims]
        has = [all(level in factors[factor] for factor, level in where.items()) for where in wheres]
        return replace(self, scenario=found, claims=list(compress(self.claims, has)))

    def file_text(self, levels: Mapping[str, Mapping[str, object]]) -> str:
        """Return the complete scenario, with these levels of the factor `control`, `TESTED` first."""
        factors = {**self.scenario.get("factor", {}), FACTOR: levels}
        return to_toml({"name": self.name, **self.scenario, "factor": factors})

    def claims_text(self, against: Sequence[str]) -> str:
        """Return the text of the file of claims; empty without claims."""
        names = list(map(_TITLES.get, against, against)) if list(against) == list(_TITLES) else against
        which = {1: "", 2: ", the {} of the two"}.get(len(against), ", the worst of them")
        words = {
            "against": list(against),
            "all": " and ".join(names),
            "any": " or ".join(names),
            **{word: which.format(word) for word in _WORSE},
        }
        claims = [
            {**claim, **{key: str(claim[key]).format_map(words) for key in ("text", "holds")}}
            for claim in self.claims
        ]
        return to_toml({"claim": claims}) if claims else ""

    def files(self) -> list[Path]:
        """Return the recordings that the scenario uses."""
        names = named_files(self.text)
        return [next(f / name for f in (FOLDER, _EXAMPLES) if (f / name).is_file()) for name in names]


@dataclass(frozen=True)
class Section:
    """A section of RFC 9743 with its criterion."""

    id: str
    title: str
    part: str
    criterion: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Set:
    """All sections, and the version of their contents."""

    name: str
    version: int
    sections: Sequence[Section]


def read_set(name: str, *, of_stacks: bool = False) -> Set:
    """Read the set for congestion controls, or for stacks before it is translated to transfers."""
    data = tomllib.loads((FOLDER / "set.toml").read_text(encoding="utf-8"))
    sections = [
        Section(
            **{key: entry[key] for key in ("id", "title", "part", "criterion")},
            rows=[_row(row, quick=name == QUICK, of_stacks=of_stacks) for row in entry["rows"]],
        )
        for entry in data["section"]
        if name == WHOLE or not entry.get("whole_only", False)
    ]
    return Set(name, data["version"], sections)


def _row(name: str, *, quick: bool, of_stacks: bool) -> Row:
    file = FOLDER / f"{name}.toml"
    if of_stacks and (own := FOLDER / "stack" / file.name).is_file():
        file = own
    text = file.read_text(encoding="utf-8")
    scenario = cast("RowScenario", tomllib.loads(text))
    evaluation = scenario.pop("evaluation")
    numbers = [Number(entry["name"], entry.get("unit", ""), entry["is"]) for entry in evaluation["number"]]
    laws = [Law(entry["name"], entry["values"]) for entry in evaluation.get("law", [])]
    if quick:
        levels = dict(evaluation["quick"])
        scenario["replications"] = levels.pop("replications")
        for factor, names in levels.items():
            scenario["factor"][factor] = {level: scenario["factor"][factor][level] for level in names}
    claims = scenario.pop("claim", [])
    return Row(name, numbers, laws, scenario, claims, text, fixed=evaluation.get("fixed", ()))


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with the values of another table merged into it, recursively."""
    result = dict(base)
    for key, value in more.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result
