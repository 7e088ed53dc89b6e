"""The tested control: a value of `tcp.congestion_control`, or a class in a Python file."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from lasthop import _core
from lasthop.common.algorithms import PREFIX
from lasthop.common.errors import InputError, nearest

_NEED_ECN = ("dctcp", "prague")


@dataclass(frozen=True)
class Control:
    """A congestion control: its name in the dossier, and its key in scenarios.

    `file` is the file of its class, if the user gave one.
    """

    name: str
    key: str
    file: Path | None = None

    @property
    def level(self) -> dict[str, object]:
        """Its level of the factor `control`."""
        return {"tcp": self.tcp}

    @property
    def tcp(self) -> dict[str, object]:
        """The keys of `[tcp]` that select the control."""
        return {"congestion_control": self.key, **({"ecn": True} if needs_ecn(self.key) else {})}


def needs_ecn(control: str) -> bool:
    return control in _NEED_ECN


def read_control(text: str) -> Control:
    """Parse `bbr`, `FILE.py:CLASS` or `python:MODULE.CLASS`. Raises `InputError` if it does not exist."""
    if text.startswith(PREFIX):
        return Control(text.rpartition(".")[2], text)
    path, colon, kind = text.rpartition(":")
    if colon:
        return _in_file(text, Path(path), kind)
    if text.endswith(".py"):
        raise InputError(f"{text}: add the name of the class in the file, as in '{text}:Mine'.")
    return Control(built_in(text), text)


def built_in(name: str) -> str:
    """Return the name of a built-in control. Raises `InputError` if it does not exist."""
    names = _names()
    if name not in names:
        raise InputError(
            f"Unknown congestion control '{name}'; did you mean '{nearest(name, names)}'? "
            f"Built-in: {', '.join(names)}. For a custom class, give FILE.py:CLASS."
        )
    return name


def _names() -> list[str]:
    choices = json.loads(_core.schema())["$defs"]["CongestionControl"]["anyOf"]
    return [choice["const"] for choice in choices if "const" in choice]


def _in_file(text: str, file: Path, kind: str) -> Control:
    if file.suffix != ".py" or not file.is_file():
        raise InputError(f"{text}: {file} is not a Python file; the form is FILE.py:CLASS.")
    module = file.stem
    if not (module.isidentifier() and kind.isidentifier()):
        raise InputError(
            f"{text}: the names of file and class must be valid Python identifiers, as in my_control.py:Mine."
        )
    if module in sys.stdlib_module_names:
        raise InputError(f"{text}: '{module}' is a module of the standard library; rename the file.")
    return Control(kind, f"{PREFIX}{module}.{kind}", file.resolve())
