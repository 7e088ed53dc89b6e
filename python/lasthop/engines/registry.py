"""The engines, by name. Each is loaded when it is used."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from lasthop.engines.engine import Engine

# For each engine its place in this folder, and for `--help` the TCP of its hosts.
_KNOWN = {
    "model": ("model_engine:ModelEngine", "lasthop's own TCP."),
    "live": (
        "live.live_engine:LiveEngine",
        "this machine's TCP, in real time; runs mostly wait, so --jobs may exceed the number of cores.",
    ),
    "kernel": ("kernel.kernel_engine:KernelEngine", "a guest kernel's TCP, in virtual time."),
}
ABOUT = {name: about for name, (_, about) in _KNOWN.items()}
"""The TCP of the hosts, by engine."""


class _Engines(Mapping[str, type[Engine]]):
    def __getitem__(self, name: str) -> type[Engine]:
        module, engine = _KNOWN[name][0].split(":")
        return cast("type[Engine]", getattr(import_module(f"lasthop.engines.{module}"), engine))

    def __iter__(self) -> Iterator[str]:
        return iter(_KNOWN)

    def __len__(self) -> int:
        return len(_KNOWN)


ENGINES = _Engines()
