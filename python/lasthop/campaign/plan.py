"""What to run, and one run of it."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from lasthop import _core
from lasthop.engines.kernel.engine import KERNEL, KernelEngine
from lasthop.engines.kernel.store import Kernel
from lasthop.engines.live.engine import CaptureTarget, LiveResults, LiveTrace, run_cell
from lasthop.errors import InputError

FORMAT = 3
MODEL = "model"
Trace: TypeAlias = _core.Trace | LiveTrace
"""Every event of a run, on whichever engine."""


@dataclass(frozen=True)
class Plan:
    """What to run: cells of one scenario, `sets` independent sets of `replications` each."""

    study: _core.Study
    cells: Sequence[_core.Cell]
    seed: int
    replications: int
    sets: int = 1
    engine: str = MODEL
    kernel: Kernel | None = None
    """What the kernel engine runs on."""
    until: Sequence[str] = ()
    """Conditions that end a cell; then `replications` is the most that it gets."""

    @functools.cached_property
    def run_cell(self) -> Callable[..., LiveResults]:
        """What runs replications with a real TCP, called as `lasthop.live.engine.run_cell`."""
        return run_cell if self.kernel is None else KernelEngine(self.kernel).run_cell

    @property
    def runs(self) -> int:
        """Number of runs in the whole plan."""
        return len(self.cells) * self.sets * self.replications

    def first(self, set_number: int) -> int:
        """Return the first replication number of a set; sets count from 1."""
        return (set_number - 1) * self.replications + 1

    def chained(self, cell: _core.Cell) -> bool:
        """Whether a replication depends on those before it: cached metrics, or what a guest kernel has drawn."""
        return cell.sequential or self.engine == KERNEL

    def version(self) -> dict[str, Any]:
        """Return what the rules are known by; results of different rules are never mixed."""
        return {"format": FORMAT, "lasthop_version": _core.VERSION, "lasthop_rules": _core.RULES}

    def source(self, digest: str, start: int | None) -> str:
        """Return what decides the results of a cell's replications, in short; `start` is where their chain starts."""
        kernel = None if self.kernel is None else self.kernel.digest
        parts = [*self.version().values(), self.engine, kernel, digest, self.seed, start]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def identity(self) -> dict[str, Any]:
        """Return everything that decides the results. Two campaigns with equal identity have equal records.

        On the live engine the machine and chance decide, too.
        """
        return {
            **self.version(),
            "lasthop_commit": _core.COMMIT,
            "scenario": self.study.name,
            "scenario_digest": self.study.digest,
            "engine": self.engine,
            **({} if self.kernel is None else {"kernel": self.kernel.digest}),
            "seed": self.seed,
            "replications": self.replications,
            "sets": self.sets,
            **({} if not self.until else {"until": list(self.until)}),
            "cells": [cell.key for cell in self.cells],
        }


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """One run of a plan: `replication` counts from 1 within `set_number`."""

    plan: Plan
    cell: _core.Cell
    set_number: int
    replication: int

    def __post_init__(self) -> None:
        """Refuse what a set does not have."""
        if self.replication > self.plan.replications:
            raise InputError(
                f"--replication {self.replication}: a set of '{self.plan.study.name}' has {self.plan.replications} "
                "replications; choose another set with --set, or give the --replications it was run with."
            )

    @property
    def first(self) -> int:
        """Number of the first replication of the set, where a chain of cached metrics starts."""
        return self.plan.first(self.set_number)

    @property
    def number(self) -> int:
        """Number of the replication over all sets."""
        return self.first + self.replication - 1

    @property
    def title(self) -> str:
        """Scenario, cell, replication and set, in words."""
        cell = self.cell.key or "its only cell"
        return f"{self.plan.study.name}, {cell}, replication {self.replication} of set {self.set_number}"

    def trace(self) -> Trace:
        """Run it and record every event."""
        if self.plan.engine == MODEL:
            return self.cell.trace(self.plan.seed, self.first, self.number)
        first, count = self._chain()
        trace = self.plan.run_cell(self.cell, self.plan.seed, first, count, record=self.number).trace
        assert trace is not None
        return trace

    def overview(self, start_s: float | None = None, stop_s: float | None = None) -> Trace:
        """Run it and keep what pictures show, in bounded memory; the most detail lies between two times, if given."""
        span = (round((start_s or 0.0) * 1e9), 2**64 - 1 if stop_s is None else round(stop_s * 1e9))
        if self.plan.engine == MODEL:
            return self.cell.overview(self.plan.seed, self.first, self.number, *span)
        first, count = self._chain()
        results = self.plan.run_cell(self.cell, self.plan.seed, first, count, record=self.number, overview=span)
        assert results.trace is not None
        return results.trace

    def capture(self, folder: Path, snap_length: int) -> None:
        """Run it and write its packets into `folder`, which exists."""
        if self.plan.engine == MODEL:
            target = (str(folder), self.provenance())
            return self.cell.capture(self.plan.seed, self.first, self.number, target, snap_length)
        first, count = self._chain()
        captures = {self.number: CaptureTarget(folder, self.provenance(), snap_length)}
        self.plan.run_cell(self.cell, self.plan.seed, first, count, captures=captures)
        return None

    def _chain(self) -> tuple[int, int]:
        """Return the first replication that has to be run for this one, and how many in all."""
        first = self.first if self.plan.chained(self.cell) else self.number
        return first, self.number - first + 1

    def provenance(self) -> str:
        """Say in a capture what made it."""
        return (
            f"lasthop {_core.VERSION} (commit {_core.COMMIT}), engine {self.plan.engine}, "
            f"scenario {self.plan.study.name}, digest {self.cell.digest}, cell {self.cell.key}, seed {self.plan.seed}, "
            f"set {self.set_number}, replication {self.replication} (number {self.number}); time 0 of the run is "
            "2000-01-01T00:00:00Z"
        )


@dataclass(frozen=True, order=True, slots=True)
class Unit:
    """One cell (by its index in the plan) within one set."""

    set_number: int
    cell: int
