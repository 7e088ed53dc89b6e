"""The engines, by name."""

from __future__ import annotations

from collections.abc import Mapping

from lasthop.engines.engine import Engine
from lasthop.engines.kernel.engine import KernelEngine
from lasthop.engines.live.engine import LiveEngine
from lasthop.engines.model.engine import ModelEngine

_ALL: tuple[type[Engine], ...] = (ModelEngine, LiveEngine, KernelEngine)
ENGINES: Mapping[str, type[Engine]] = {engine.name: engine for engine in _ALL}
