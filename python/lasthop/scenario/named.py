"""The files that the text of a scenario names."""

import tomllib
from collections.abc import Iterator, Mapping

_KEYS = ("extends", "trace", "course", "file")


def named_files(text: str) -> list[str]:
    """Return the files that a text names, each once, presets too.

    Raise `TOMLDecodeError` if it is no TOML.
    """
    return list(dict.fromkeys(_named(tomllib.loads(text))))


def _named(node: object) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in _KEYS and isinstance(value, str):
                yield value
            yield from _named(value)
    elif isinstance(node, list):
        for item in node:
            yield from _named(item)
