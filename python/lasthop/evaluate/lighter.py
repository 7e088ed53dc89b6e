"""The quick set of stacks: lower rates, shorter flows, fewer levels, because programs take time.

Rates and buffers are divided by four, and flows last ten seconds at most. Most flows have about as many of
Reno's cycles as before: a cycle takes as many round trips as half of the largest window has packets.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lasthop.evaluate.rows import Row

_SHARE = 0.25
_LONGEST_S = 10.0
_REPLICATIONS, _WITHOUT_CLAIMS = 3, 2
RATES, TIMES = "rates", "times"
"""What a row may exclude with the key `fixed`."""


def lighter(row: Row) -> Row:
    """Return a row that takes less time."""
    scenario: dict[str, Any] = dict(row.scenario)
    scenario["replications"] = min(scenario["replications"], _REPLICATIONS if row.claims else _WITHOUT_CLAIMS)
    scenario["factor"] = {name: _ends(levels) for name, levels in scenario.get("factor", {}).items()}
    texts: list[Callable[[str], str]] = []
    if RATES not in row.fixed:
        scenario = _throughout(scenario, _slower)
        texts.append(lambda text: _rewritten(text, "Mbit/s", _SHARE))
    longest = max((_seconds(own["duration"]) for own in _flows(scenario) if "duration" in own), default=0.0)
    if TIMES not in row.fixed and longest > _LONGEST_S:
        share = _LONGEST_S / longest
        scenario = _throughout(scenario, lambda key, value: _sooner(key, value, share))
        texts.append(lambda text: _rewritten(text, "s", share))

    def reworded(text: str) -> str:
        for change in texts:
            text = change(text)
        return text

    scenario["title"] = reworded(row.title)
    numbers = [replace(number, name=reworded(number.name)) for number in row.numbers]
    return replace(row, numbers=numbers).with_scenario(scenario)


def _ends(levels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first and the last level."""
    names = list(levels)
    return {name: levels[name] for name in dict.fromkeys((names[0], names[-1]))}


def _flows(scenario: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    levels = [level for factor in scenario["factor"].values() for level in factor.values()]
    return [*scenario["flow"], *(flow for level in levels for flow in level.get("flow", {}).values())]


def _throughout(scenario: Mapping[str, Any], change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Return a scenario with a change of the file and of all levels, whose names may be those of keys."""
    factors = {
        name: {text: _changed(level, change) for text, level in levels.items()}
        for name, levels in scenario["factor"].items()
    }
    rest = {key: value for key, value in scenario.items() if key != "factor"}
    return {**_changed(rest, change), "factor": factors}


def _changed(value: Any, change: Callable[[str, Any], Any]) -> Any:  # noqa: ANN401
    """Return a table in which `change` has replaced values by their keys; it returns None to leave them."""
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    if not isinstance(value, Mapping):
        return value
    found = {key: change(key, item) for key, item in value.items()}
    return {key: _changed(value[key], change) if item is None else item for key, item in found.items()}


def _slower(key: str, value: Any) -> Any:  # noqa: ANN401
    """Return a link, policer or queue with a share of its rate and size."""
    if not isinstance(value, Mapping):
        return None
    if key == "link":
        return _changed(value, lambda own, item: _times(item, _SHARE) if own == "rate" else None)
    if key == "policer":
        return {own: _times(item, _SHARE) for own, item in value.items()}
    if key == "queue":
        return {own: _times(item, _SHARE) if own == "limit" else item for own, item in value.items()}
    return None


def _sooner(key: str, value: Any, share: float) -> Any:  # noqa: ANN401
    """Return a duration, a start or the time of a change."""
    return _times(value, share) if key in ("duration", "start", "at") else None


def _times(value: Any, share: float) -> Any:  # noqa: ANN401
    """Return an amount, or a distribution of amounts, times a share."""
    if isinstance(value, Mapping):
        return {key: item if key == "distribution" else _times(item, share) for key, item in value.items()}
    number, unit = value.split()
    amount = float(number) * share
    return f"{max(1, math.floor(amount + 0.5)) if unit == 'packets' else f'{amount:.6g}'} {unit}"


def _seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"s": 1.0, "ms": 1e-3}[unit]


def _rewritten(text: str, unit: str, share: float) -> str:
    """Return a text with its amounts in this unit times a share."""
    return re.sub(
        rf"\b(\d+(?:\.\d+)?) {unit}(?!\w)", lambda match: f"{float(match[1]) * share:g} {unit}", text
    )
