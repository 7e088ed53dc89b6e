"""What runs on a worker.

A `Simulator` reaches each worker once, pickled; tasks name its cells by number. Only workers unpickle it: the
scheduler sees bytes and numbers, and need not have lasthop.
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
Called = tuple[str, dict[str, str]]
"""Name and identity of an engine."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Results of a task: a batch for the store, and how long each piece took on which worker."""

    worker: str
    seconds: Sequence[float]
    batch: Batch


class Simulator:
    """The cells of a plan with the engine that runs them.

    Another version of lasthop refuses to unpickle it.
    """

    def __init__(self, cells: Sequence[_core.Cell], seed: int, engine: Called) -> None:
        self._cells = cells
        self._seed = seed
        self._called = engine
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def _own_engine(self) -> Engine:
        """Find the engine on this machine. Only a task knows its worker, so this waits for the first task."""
        with self._lock:
            if self._engine is None:
                self._engine = _found(self._called).for_threads(get_worker().state.nthreads)
            return self._engine

    def __reduce__(self) -> tuple[object, ...]:
        # Many cells differ little: compressed together they take a few dozen bytes each.
        cells = json.dumps([(list(cell.levels.items()), cell.scenario) for cell in self._cells])
        return _unpickle, (version(), self._seed, self._called, zlib.compress(cells.encode()))

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


def _unpickle(made_by: tuple[str, str], seed: int, engine: Called, cells: bytes) -> Simulator:
    if made_by != version():
        raise InputError(
            f"{get_worker().address} has {version_text(version())}, and this is {version_text(made_by)}."
        )
    parsed = json.loads(zlib.decompress(cells))
    cells_again = [_core.Cell([tuple(level) for level in levels], scenario) for levels, scenario in parsed]
    return Simulator(cells_again, seed, engine)


def called(engine: Engine) -> Called:
    """Return the name and identity by which a worker finds an engine."""
    return engine.name, dict(engine.identity)


def _found(engine: Called) -> Engine:
    name, identity = engine
    return ENGINES[name].on_worker(identity)


def version() -> tuple[str, str]:
    """Return the properties that must be the same on every worker: version and rules."""
    return _core.VERSION, _core.RULES


def version_text(found: tuple[str, str]) -> str:
    """Word a version in short."""
    return f"lasthop {found[0]} (rules {found[1][:8]})"


def introduce(engine: Called) -> tuple[tuple[str, str], str | None]:
    """Return this worker's version, and the reason if it does not have this engine."""
    try:
        _found(engine)
    except InputError as error:
        return version(), str(error)
    return version(), None
