"""The code that runs on a worker.

A pickled `Simulator` is sent once to each worker; tasks refer to its cells by number. Only workers unpickle
it: the scheduler sees bytes and numbers, and does not need lasthop.
"""

import json
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from distributed import get_worker

from lasthop import _core
from lasthop.campaign.results.store import Batch, BatchBuilder
from lasthop.common.errors import InputError
from lasthop.engines.engine import Engine, Request
from lasthop.engines.registry import ENGINES

Piece = tuple[int, str, int, int, str | None]
"""Index of a cell, source, first replication, count, and the hosts' memory in a chain."""
EngineKey = tuple[str, dict[str, str]]
"""Name and identity of an engine."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Results of a task: its worker, the duration of each piece, and a batch for the store."""

    worker: str
    seconds: Sequence[float]
    batch: Batch


class Simulator:
    """The cells of a plan and their engine. Other versions of lasthop refuse to unpickle it."""

    def __init__(self, cells: Sequence[_core.Cell], seed: int, engine: EngineKey) -> None:
        self._cells = cells
        self._seed = seed
        self._engine_key = engine
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def _own_engine(self) -> Engine:
        """Return the engine on this machine. The first task creates it, as only tasks know their worker."""
        with self._lock:
            if self._engine is None:
                self._engine = _find_engine(self._engine_key).for_threads(get_worker().state.nthreads)
            return self._engine

    def __reduce__(self) -> tuple[object, ...]:
        # Most cells are similar: compressed together they need a few dozen bytes each.
        cells = json.dumps([(list(cell.levels.items()), cell.scenario) for cell in self._cells])
        return _unpickle, (version(), self._seed, self._engine_key, zlib.compress(cells.encode()))

    def __call__(self, pieces: Sequence[Piece]) -> Answer:
        builder, seconds, engine = BatchBuilder(), [], self._own_engine()
        for number, source, first, count, memory in pieces:
            started = time.perf_counter()
            outcome = engine.run(self._cells[number], Request(self._seed, first, count, memory=memory))
            builder.add(source, first, count, outcome.facts, outcome.results)
            if outcome.memory is not None:
                builder.remember(source, first + count, outcome.memory)
            seconds.append(time.perf_counter() - started)
        return Answer(get_worker().address, seconds, builder.build())


def _unpickle(sender: tuple[str, str], seed: int, engine: EngineKey, cells: bytes) -> Simulator:
    if sender != version():
        raise InputError(
            f"{get_worker().address} has {version_text(version())}, but this is {version_text(sender)}."
        )
    parsed = json.loads(zlib.decompress(cells))
    cells_again = [_core.Cell([tuple(level) for level in levels], scenario) for levels, scenario in parsed]
    return Simulator(cells_again, seed, engine)


def engine_key(engine: Engine) -> EngineKey:
    return engine.name, dict(engine.identity)


def _find_engine(engine: EngineKey) -> Engine:
    name, identity = engine
    return ENGINES[name].on_worker(identity)


def version() -> tuple[str, str]:
    """Return the version and rules, which must be the same on every worker."""
    return _core.VERSION, _core.RULES


def version_text(version: tuple[str, str]) -> str:
    return f"lasthop {version[0]} (rules {version[1][:8]})"


def introduce(engine: EngineKey) -> tuple[tuple[str, str], str | None]:
    """Return this worker's version, and an error message if it does not have this engine."""
    try:
        _find_engine(engine)
    except InputError as error:
        return version(), str(error)
    return version(), None
