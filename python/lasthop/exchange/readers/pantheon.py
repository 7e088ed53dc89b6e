"""Pantheon: the emulated links of its tests, from metadata, configuration or command line of test.py.

Each has traces for mm-link, further shells of Mahimahi and options of mm-link. `uplink` leads from sender to
receiver.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from lasthop.exchange.line import Line
from lasthop.exchange.place import Place, shown
from lasthop.exchange.readers.mahimahi import Shells
from lasthop.exchange.readers.shell import Command, path_of

KEYS = ("uplink_trace", "downlink_trace", "prepend_mm_cmds", "append_mm_cmds", "extra_mm_link_args")
_YAML = re.compile(r"(?P<key>[\w-]+):\s*(?P<value>.*?)\s*")
_TRACE = "12mbps.trace"
"""The default trace of test.py, next to it."""

Values = Mapping[str, tuple[str, Place]]


def is_yaml(text: str) -> bool:
    return any(
        re.match(r"(?:test-name|extra_mm_link_args|prepend_mm_cmds|uplink_trace):", line)
        for line in text.splitlines()[:200]
    )


def is_json(text: str) -> bool:
    return text.lstrip().startswith("{") and any(f'"{key}"' in text for key in (*KEYS, "cc_schemes"))


def is_command(command: Command) -> bool:
    names = [Path(word).name for word in command.words[:4]]
    return "test.py" in names and "local" in command.words


def read_json(line: Line, text: str, file: Path) -> None:
    """Read pantheon_metadata.json."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise Place(file, error.lineno).fault(f"invalid JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise Place(file).fault(f"unusable JSON: {error}") from error
    values = {}
    for key in KEYS:
        if (found := value.get(key)) is not None:
            place = Place(file, _line_of(text, f'"{key}"'))
            if not isinstance(found, str):
                raise place.fault(f"{key} is not a string")
            values[key] = (found, place)
    if value.get("mode", "local") != "local":
        raise Place(file, _line_of(text, '"mode"')).fault(
            "the test ran over a real network, not an emulated link; give the metadata of a local test"
        )
    _read(line, values, Place(file))


def read_yaml(line: Line, text: str, file: Path) -> None:
    """Read a configuration file of test.py: its top-level keys, which are plain text."""
    values = {}
    for number, row in enumerate(text.splitlines(), 1):
        if (match := _YAML.fullmatch(row)) is None:
            continue
        key, value = match["key"].replace("-", "_"), match["value"]
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        if key in KEYS and value not in ("", "null", "~"):
            values[key] = (value, Place(file, number))
    _read(line, values, Place(file))


def read_command(line: Line, command: Command) -> None:
    """Read a command line of test.py."""
    values = {}
    words = iter(command.words)
    for word in words:
        option, equals, value = word.partition("=")
        key = option.removeprefix("--").replace("-", "_")
        if option.startswith("--") and key in KEYS:
            if not equals:
                value = next(words, "")
            if not value:
                raise command.place.fault(f"the option {option} has no value")
            values[key] = (value, command.place)
    _read(line, values, command.place)


def _read(line: Line, values: Values, place: Place) -> None:
    line.data = "up"
    for key in ("prepend_mm_cmds", "append_mm_cmds"):
        if key in values:
            text, at = values[key]
            _shells(line, _words(text, at), at)
    traces = []
    for key in ("uplink_trace", "downlink_trace"):
        name, at = values.get(key, (_TRACE, place))
        if key not in values and not place.other(name).is_file():
            raise place.fault(
                f"{key} is missing, and the default, {_TRACE}, is not next to the file; add one of them"
            )
        traces.append(path_of(name))
        place = at if key in values else place
    text, at = values.get("extra_mm_link_args", ("", place))
    _shells(line, ["mm-link", *traces, *_words(text, at)], at if text else place)


def _shells(line: Line, words: list[str], place: Place) -> None:
    shells = Shells(line, Command(words, place))
    shells.read()
    if shells.at < len(words):
        raise place.fault(f"{shown(words[shells.at])} is not a shell of Mahimahi, or an option of one")


def _words(text: str, place: Place) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise place.fault("a quotation is not closed") from None


def _line_of(text: str, word: str) -> int:
    return text.count("\n", 0, max(text.find(word), 0)) + 1
