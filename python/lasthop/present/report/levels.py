"""The meaning of the levels of a scenario's factors, derived from the resolved scenarios of its cells.

The meaning of a level, such as `iw4`, is the set of keys in which its cell differs from the cell with the
factor's first level and equal levels of all other factors.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lasthop._core import Cell
from lasthop.scenario.changes import Changes, changes_between, pair_of
from lasthop.scenario.recordings import Recorded, recorded

_MOST_KEYS = 3
_MOST_PARTS = 4
_MOST_LETTERS = 80


@dataclass(frozen=True, slots=True)
class LevelView:
    """A level and its meaning, which is empty if no keys differ; "only with ..." if it cannot be compared."""

    name: str
    meaning: str
    recordings: Sequence[Recorded] = field(default=(), compare=False)
    """Recordings that the level sets, to be drawn."""


def level_views(
    cells: Sequence[Cell], factors: Mapping[str, Sequence[str]], recordings: Sequence[Recorded] = ()
) -> dict[str, list[LevelView]]:
    """Explain the levels of every factor that were run; `recordings` have names."""
    run = {
        factor: [name for name in levels if any(cell.levels.get(factor) == name for cell in cells)]
        for factor, levels in factors.items()
    }
    return {factor: _views(cells, factor, levels, recordings) for factor, levels in run.items() if levels}


def short(value: object, recordings: Sequence[Recorded]) -> object:
    """Return a value of a resolved scenario with recordings in place of their long texts."""
    if isinstance(value, dict):
        return {key: short(item, recordings) for key, item in value.items()}
    if isinstance(value, list):
        return [short(item, recordings) for item in value]
    recording = recorded(value)
    return value if recording is None else next((own for own in recordings if own == recording), recording)


def recordings_in(value: object) -> Iterator[Recorded]:
    """Yield the recordings in a value as `short` returns it."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, Recorded):
        yield value
    for item in items:
        yield from recordings_in(item)


def _views(
    cells: Sequence[Cell], factor: str, levels: Sequence[str], recordings: Sequence[Recorded]
) -> list[LevelView]:
    changes_of: dict[str, tuple[str, Changes]] = {}
    for place, name in enumerate(levels[1:], start=1):
        # A level may have no cell that otherwise equals a cell of the first level.
        for base in levels[:place]:
            if (pair := pair_of(cells, factor, base, name)) is not None:
                changed = changes_between(*pair)
                changes_of[name] = (
                    base,
                    {key: (short(a, recordings), short(b, recordings)) for key, (a, b) in changed.items()},
                )
                break
    first = {
        key: before
        for base, changes in changes_of.values()
        if base == levels[0]
        for key, (before, _) in changes.items()
    }
    afters = [{key: after for key, (_, after) in changes.items()} for _, changes in changes_of.values()]
    distinguishing = _distinguishing(afters)
    has_pair = any(base == levels[0] for base, _ in changes_of.values())
    text = _text(first, distinguishing) if has_pair else _company(cells, factor, levels[0])
    views = [LevelView(levels[0], text, list(recordings_in(first)))]
    for name in levels[1:]:
        if name not in changes_of:
            views.append(LevelView(name, _company(cells, factor, name)))
            continue
        base, changes = changes_of[name]
        own = {key: after for key, (_, after) in changes.items()}
        text = _text(own, distinguishing)
        meaning = text if base == levels[0] or not text else f"as {base}, but {text}"
        views.append(LevelView(name, meaning, list(recordings_in(own))))
    return views


def _company(cells: Sequence[Cell], factor: str, name: str) -> str:
    """Return the factor of which a level meets the fewest levels, and these; empty if it meets all levels."""
    own = [cell for cell in cells if cell.levels.get(factor) == name]
    met = [
        (other, levels)
        for other in own[0].levels
        if other != factor and (levels := _levels(own, other)) != _levels(cells, other)
    ]
    other, levels = min(met, key=lambda pair: len(pair[1]), default=("", []))
    return f"only with {other} {', '.join(levels)}" if other else ""


def _levels(cells: Sequence[Cell], factor: str) -> list[str]:
    return list(dict.fromkeys(cell.levels[factor] for cell in cells if factor in cell.levels))


def _distinguishing(levels: Sequence[Mapping[str, object]]) -> frozenset[str]:
    """Return the keys within tables that distinguish levels with such a table."""
    values: dict[str, set[str]] = {}
    for changes in levels:
        for key, table in changes.items():
            for name, value in table.items() if isinstance(table, dict) else ():
                values.setdefault(f"{key}.{name}", set()).add(str(value))
    return frozenset(key for key, texts in values.items() if len(texts) > 1)


def _text(values: Mapping[str, object], distinguishing: frozenset[str]) -> str:
    texts = [_entry(key, value, distinguishing) for key, value in values.items()]
    more = len(texts) - _MOST_KEYS
    return "; ".join(texts[:_MOST_KEYS]) + (f"; {more} more" if more > 0 else "")


def _entry(key: str, value: object, distinguishing: frozenset[str]) -> str:
    if value is None or value == []:
        return f"no {key}"
    if not isinstance(value, dict):
        return f"{key} = {_plain(value)}"
    stated = sorted(
        (name for name in value if _stated(value[name])),
        key=lambda name: f"{key}.{name}" not in distinguishing,
    )
    parts = [f"{name} = {_plain(value[name])}" for name in stated[:_MOST_PARTS]]
    return f"{key} with {', '.join(parts)}{', …' if len(stated) > len(parts) else ''}" if parts else key


def _stated(value: object) -> bool:
    """Return whether a value is present and short enough to be written out."""
    return value is not None and not (isinstance(value, list) and (not value or isinstance(value[0], dict)))


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return (
            f"{len(value)} entries" if any(isinstance(item, (dict, list)) for item in value) else str(value)
        )
    return textwrap.shorten(value, _MOST_LETTERS) if isinstance(value, str) else str(value)
