"""What runs on a worker.

A `Simulator` reaches each worker once, pickled; tasks name its cells by number. Only workers unpickle it: the scheduler
sees bytes and numbers, and need not have lasthop.
"""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import get_worker

from lasthop import _core
from lasthop.campaign.outcome import outcome_of
from lasthop.engines.kernel.engine import KernelEngine, guest_program
from lasthop.engines.kernel.store import Kernel, kernels
from lasthop.errors import InputError
from lasthop.results.store import Batch, BatchBuilder

Piece = tuple[int, str, int, int]
"""Index of a cell, source, first replication, count."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Results of a task: what the store takes, and how long each piece took on which worker."""

    worker: str
    seconds: Sequence[float]
    batch: Batch


class Simulator:
    """The cells of a plan with the engine that runs them. Another version of lasthop refuses to unpickle it."""

    def __init__(self, cells: Sequence[_core.Cell], seed: int, kernel: Kernel | None) -> None:
        """Prepare the model engine, or the kernel engine with `kernel`; `claim_cores` is to follow on a worker."""
        self._cells = cells
        self._seed = seed
        self._kernel = kernel
        self._claims: Mapping[int, socket.socket] = {}
        self._engine: KernelEngine | None = None

    def claim_cores(self) -> None:
        """Take a core of this worker's machine for each of its threads. They are free again when this object goes."""
        if self._kernel is not None:
            self._claims = _claimed_cores(get_worker().state.nthreads)
            self._engine = KernelEngine(self._kernel, self._claims.keys())

    def __reduce__(self) -> tuple[Any, ...]:
        # Many cells differ little: compressed together they take some tens of bytes each.
        cells = json.dumps([(list(cell.levels.items()), cell.scenario) for cell in self._cells])
        kernel = None if self._kernel is None else self._kernel.digest
        return _unpickle, (version(), self._seed, kernel, zlib.compress(cells.encode()))

    def __call__(self, pieces: Sequence[Piece]) -> Answer:
        """Run the pieces in order."""
        builder, seconds = BatchBuilder(), []
        for number, source, first, count in pieces:
            cell, started = self._cells[number], time.perf_counter()
            if self._engine is None:
                outcome = outcome_of(cell.run(self._seed, first, count))
            else:
                outcome = outcome_of(self._engine.run_cell(cell, self._seed, first, count))
            builder.add(source, first, count, outcome.facts, outcome.results)
            seconds.append(time.perf_counter() - started)
        return Answer(get_worker().address, seconds, builder.build())


def _unpickle(made_by: tuple[str, str], seed: int, kernel: str | None, cells: bytes) -> Simulator:
    if made_by != version():
        raise InputError(f"{get_worker().address} has {version_text(version())}, and this is {version_text(made_by)}.")
    parsed = json.loads(zlib.decompress(cells))
    simulator = Simulator(
        [_core.Cell([tuple(level) for level in levels], scenario) for levels, scenario in parsed],
        seed,
        None if kernel is None else _kernel_of(kernel),
    )
    simulator.claim_cores()
    return simulator


def _claimed_cores(count: int) -> dict[int, socket.socket]:
    """Return cores of this machine that no other worker of lasthop has claimed; each is free when its socket closes.

    A guest runs on one core, and worker processes side by side must not all choose the same.
    """
    claims: dict[int, socket.socket] = {}
    cores = sorted(os.sched_getaffinity(0))
    for core in cores:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0lasthop-core-{core}")
        except OSError:
            claim.close()
        else:
            claims[core] = claim
        if len(claims) == count:
            break
    return claims or {core: socket.socket() for core in cores[:count]}  # more workers than cores


def version() -> tuple[str, str]:
    """Return what must be the same on every worker: version and rules."""
    return _core.VERSION, _core.RULES


def version_text(found: tuple[str, str]) -> str:
    """Say it in a few words."""
    return f"lasthop {found[0]} (rules {found[1][:8]})"


def introduce(kernel: str | None) -> tuple[tuple[str, str], str | None]:
    """Return this worker's version, and why it cannot run a guest kernel of this digest, if it cannot."""
    if kernel is not None:
        try:
            _kernel_of(kernel)
        except InputError as error:
            return version(), str(error)
    return version(), None


def _kernel_of(digest: str) -> Kernel:
    """Find the guest kernel of a digest on this machine."""
    guest_program()
    found = kernels()
    for kernel in found:
        if kernel.digest == digest:
            return kernel
    has = ", ".join(f"{kernel.name} ({kernel.digest[:8]})" for kernel in found) or "none"
    raise InputError(f"it needs the guest kernel with digest {digest[:8]} and has {has}")
