"""The control that is tested: a name of `tcp.congestion_control`, or a class in a Python file."""

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
    """A congestion control: how the dossier calls it, and how scenarios do.

    `file` is the file of its class, if the user named that.
    """

    name: str
    key: str
    file: Path | None = None

    @property
    def tcp(self) -> dict[str, object]:
        """The keys of `[tcp]` with which a sender uses it."""
        return {"congestion_control": self.key, **({"ecn": True} if self.key in _NEED_ECN else {})}


def read_control(text: str) -> Control:
    """Read `bbr`, `FILE.py:CLASS` or `python:MODULE.CLASS`; raise `InputError` if there is none."""
    if text.startswith(PREFIX):
        return Control(text.rpartition(".")[2], text)
    path, colon, kind = text.rpartition(":")
    if colon:
        return _in_file(text, Path(path), kind)
    if text.endswith(".py"):
        raise InputError(f"{text}: name the class in the file, too, as in '{text}:Mine'.")
    return Control(built_in(text), text)


def built_in(name: str) -> str:
    """Return the name of a control that comes with lasthop; raise `InputError` if there is none."""
    known = _known()
    if name not in known:
        raise InputError(
            f"There is no congestion control '{name}'; did you mean '{nearest(name, known)}'? "
            f"Known: {', '.join(known)}. A class of your own is FILE.py:CLASS."
        )
    return name


def _known() -> list[str]:
    choices = json.loads(_core.schema())["$defs"]["CongestionControl"]["anyOf"]
    return [choice["const"] for choice in choices if "const" in choice]


def _in_file(text: str, file: Path, kind: str) -> Control:
    if file.suffix != ".py" or not file.is_file():
        raise InputError(f"{text}: there is no Python file {file}; write FILE.py:CLASS.")
    module = file.stem
    if not (module.isidentifier() and kind.isidentifier()):
        raise InputError(
            f"{text}: file and class need names that Python can import, as in my_control.py:Mine."
        )
    if module in sys.stdlib_module_names:
        raise InputError(f"{text}: Python itself has a module '{module}'; give the file another name.")
    return Control(kind, f"{PREFIX}{module}.{kind}", file.resolve())
