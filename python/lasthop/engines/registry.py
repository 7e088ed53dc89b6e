"""The engines by name, which are loaded when they are used."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from lasthop.engines.engine import Engine

# For each engine its class, and the description of its TCP for `--help`.
_PLACES = {
    "model": ("model_engine:ModelEngine", "lasthop's own TCP."),
    "live": (
        "live.live_engine:LiveEngine",
        "this machine's TCP, in real time; runs are mostly idle, so --jobs may exceed the number of cores.",
    ),
    "kernel": ("kernel.kernel_engine:KernelEngine", "a guest kernel's TCP, in virtual time."),
}
ABOUT = {name: about for name, (_, about) in _PLACES.items()}
"""Descriptions of the engines' TCP."""


class _Engines(Mapping[str, type[Engine]]):
    def __getitem__(self, name: str) -> type[Engine]:
        module, engine = _PLACES[name][0].split(":")
        return cast("type[Engine]", getattr(import_module(f"lasthop.engines.{module}"), engine))

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


ENGINES = _Engines()
