"""The files that a scenario names."""

import tomllib
from collections.abc import Iterator, Mapping

_KEYS = ("extends", "trace", "course", "file")


def named_files(text: str) -> list[str]:
    """Return the files and presets that a text names, without duplicates; raise `TOMLDecodeError`."""
    return list(dict.fromkeys(_names(tomllib.loads(text))))


def _names(node: object) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in _KEYS and isinstance(value, str):
                yield value
            yield from _names(value)
    elif isinstance(node, list):
        for item in node:
            yield from _names(item)
