"""Adapters: how to install and run an implementation of a transport protocol, each in a TOML file."""

import difflib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lasthop.common.cache import cache_folder
from lasthop.common.errors import InputError

BUILT_IN = ("quinn", "tcp")
"""The stacks without an adapter: lasthop's QUIC, and the TCP of the engine."""
_FOLDER = Path(__file__).parent / "catalogue"
_KEYS = {
    "title": str,
    "language": str,
    "protocol": str,
    "version": str,
    "control": str,
    "license": str,
    "install": list,
    "client": str,
    "server": str,
    "testcases": list,
    "env": dict,
    "note": str,
    "verify": bool,
}
_REQUIRED = ("title", "client", "server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An implementation.

    Its command lines may use $STACK, the folder where it is installed, and $ADAPTER, the path of its file
    without `.toml`, for files next to it.
    """

    name: str
    file: Path
    title: str
    client: str
    server: str
    language: str = ""
    protocol: str = "QUIC"
    version: str = ""
    control: str = ""
    """The congestion control of its server."""
    license: str = ""
    note: str = ""
    install: list[str] = field(default_factory=list)
    """Shell command lines that install it below $STACK."""
    testcases: list[str] = field(default_factory=lambda: ["transfer"])
    env: dict[str, str] = field(default_factory=dict)
    verify: bool = True
    """Whether the client stores the files that it receives."""

    @property
    def files(self) -> list[Path]:
        """The adapter, and the files that come with it."""
        return sorted(self.file.parent.glob(f"{self.name}.*"))

    @property
    def place(self) -> Path:
        """The folder where it is installed."""
        return cache_folder("stacks") / self.name

    @property
    def is_installed(self) -> bool:
        return not self.install or (self.place / ".installed").exists()

    @property
    def environment(self) -> dict[str, str]:
        return {"STACK": str(self.place), "ADAPTER": str(self.file.with_suffix("")), **self.env}


def names() -> list[str]:
    """Return the names in the catalogue."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def adapter_of(name: str) -> Adapter:
    """Return the adapter with a name in the catalogue, or in a file of the user; `InputError` if none."""
    if name.endswith(".toml"):
        return _read(Path(name).resolve())
    if name in names():
        return _read(_FOLDER / f"{name}.toml")
    known = [*names(), *BUILT_IN]
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]}?" if close else "."
    raise InputError(
        f"There is no stack {name!r}{hint} Add [stack.{name}] with `client` and `server` to the scenario, "
        f"name a .toml file, or use one of: {', '.join(known)}."
    )


def check_installed(adapter: Adapter, name: str) -> None:
    """Raise `InputError` if the adapter of this name is not installed."""
    if not adapter.is_installed:
        raise InputError(
            f"The stack {adapter.name} is not installed. Run 'lasthop stack try {name} --install'."
        )


def _read(file: Path) -> Adapter:
    try:
        keys: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"Cannot read the adapter {file}: {error}") from error
    known = ", ".join(_KEYS)
    for key, value in keys.items():
        if (kind := _KEYS.get(key)) is None:
            close = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"; did you mean `{close[0]}`?" if close else f" (accepted: {known})"
            raise InputError(f"{file}: unknown key `{key}`{hint}")
        if not isinstance(value, kind):
            raise InputError(f"{file}: `{key}` must be of type {kind.__name__}")
    for key in _REQUIRED:
        if not keys.get(key):
            raise InputError(f"{file}: `{key}` is missing")
    return Adapter(name=file.stem, file=file, **keys)
