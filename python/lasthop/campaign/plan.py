"""A plan of runs, and one run of it."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from lasthop import _core
from lasthop.campaign.limits import Limits
from lasthop.campaign.results.shapes import Identity
from lasthop.campaign.results.tables import factor_column
from lasthop.common.errors import InputError
from lasthop.common.metrics.dictionary import dictionary
from lasthop.common.version import commit, version
from lasthop.engines.engine import (
    WHOLE,
    CaptureTarget,
    Engine,
    Observation,
    Outcome,
    Request,
    SeriesTarget,
    Span,
    Trace,
)
from lasthop.engines.model_engine import ModelEngine
from lasthop.engines.programs import program_of
from lasthop.scenario.points import factors_of

if TYPE_CHECKING:
    from lasthop.campaign.inputs import Inputs

FORMAT = 5
INPUTS: Final = "inputs"
"""The key of the files that real programs name."""


@dataclass(frozen=True)
class Plan:
    """Cells of one scenario to run in `sets` independent sets of `replications` each."""

    study: _core.Study
    cells: Sequence[_core.Cell]
    seed: int
    replications: int
    sets: int = 1
    engine: Engine = field(default_factory=ModelEngine)
    until: Sequence[str] = ()
    """Conditions that end a cell; `replications` is then its maximum."""
    file: Path | None = None
    """The scenario file, from which runs can be repeated."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Raise `InputError` if a run may exceed the limits."""
        self.limits.check(self.study.name, self.cells)

    @property
    def runs(self) -> int:
        return len(self.cells) * self.sets * self.replications

    @property
    def repeatable(self) -> bool:
        """Whether equal seeds give equal bytes."""
        return all(self.engine.repeats(cell) for cell in self.cells)

    def first(self, set_number: int) -> int:
        """Return the first replication number of a set; sets are numbered from 1."""
        return (set_number - 1) * self.replications + 1

    def version(self) -> dict[str, object]:
        """Return the version of lasthop and of its rules; results of different rules are never mixed."""
        return {"format": FORMAT, "lasthop_version": _core.VERSION, "lasthop_rules": _core.RULES}

    @cached_property
    def code(self) -> dict[str, str]:
        """The digests of the user's algorithms, by name."""
        if not self.study.code:
            return {}
        from lasthop.common.algorithms import check_all, code_digest

        check_all(dict.fromkeys(each for cell in self.cells for each in cell.code), self.study.name)
        return {
            name: code_digest(name)
            for name in dict.fromkeys(name for cell in self.cells for _, name in cell.code)
        }

    @cached_property
    def inputs(self) -> Mapping[str, Inputs]:
        """The files that the real programs of cells use, by the cells' keys."""
        if not self.engine.real_tcp:
            return {}
        programs = {cell.key: program for cell in self.cells if (program := program_of(cell)) is not None}
        if not programs:
            return {}
        from lasthop.campaign.inputs import inputs_of

        read = functools.cache(lambda text: inputs_of(json.loads(text)))
        return {key: read(json.dumps(program)) for key, program in programs.items()}

    @property
    def input_digests(self) -> dict[str, str]:
        """The SHA-256 digests of the files that programs name, by path."""
        return {path: digest for inputs in self.inputs.values() for path, digest in inputs.digests.items()}

    def digest(self, cell: _core.Cell) -> str:
        """Return the digest of a cell, which covers the code and the files that it names."""
        named = [self.code[name] for _, name in cell.code] if self.code else []
        named += self.engine.identity_of(cell)
        if (inputs := self.inputs.get(cell.key)) is not None:
            named += inputs.digests.values()
        return hashlib.sha256("".join([cell.digest, *named]).encode()).hexdigest() if named else cell.digest

    def source(self, digest: str, start: int | None) -> str:
        """Return the digest of everything that determines a cell's results; its chains begin at `start`."""
        own = self.engine.identity.values() or [None]
        parts = [*self.version().values(), self.engine.name, *own, digest, self.seed, start]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def identity(self) -> Identity:
        """Return everything that determines the results: repeatable campaigns of equal identity are equal."""
        identity = {
            **self.version(),
            "lasthop_commit": commit(),
            "scenario": self.study.name,
            "scenario_digest": self.study.digest,
            "engine": self.engine.name,
            **self.engine.identity,
            "seed": self.seed,
            "replications": self.replications,
            "sets": self.sets,
            **({} if not self.until else {"until": list(self.until)}),
            **({} if not self.code else {"code": self.code}),
            **({} if not self.inputs else {INPUTS: self.input_digests}),
            "cells": [cell.key for cell in self.cells],
        }
        return cast("Identity", identity)

    def facts(self) -> dict[str, str]:
        """Return the metadata of tables of this plan."""
        return {f"lasthop.{key}": str(value) for key, value in self.identity().items() if key != "cells"}

    def meanings(self, table: str) -> dict[str, dict[str, str]]:
        """Return unit and description of the columns of a table, levels first."""
        ranges = self.study.space["ranges"] if self.study.space else {}
        units = {name: {"unit": facts["unit"]} for name, facts in ranges.items()}
        levels = {
            factor_column(factor): {**units.get(factor, {}), "description": f"Level of the factor {factor}."}
            for factor in factors_of(self.cells)
        }
        measured = {
            metric.name: {"unit": metric.unit, "description": metric.definition}
            for metric in dictionary()[table].values()
        }
        return levels | measured


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """A run of a plan: `replication` counts from 1 within `set_number`."""

    plan: Plan
    cell: _core.Cell
    set_number: int
    replication: int

    def __post_init__(self) -> None:
        """Raise `InputError` if there is no such replication, or if it may exceed the limits."""
        if self.replication > self.plan.replications:
            raise InputError(
                f"--replication {self.replication}: a set of '{self.plan.study.name}' has "
                f"{self.plan.replications} replications. Choose another set with --set, or give the "
                "--replications that it was run with."
            )
        self.plan.limits.check(self.plan.study.name, [self.cell], runs=self.number - self._start + 1)

    @property
    def first(self) -> int:
        """Number of the first replication of the set, over all sets."""
        return self.plan.first(self.set_number)

    @property
    def number(self) -> int:
        """Number of the replication, over all sets."""
        return self.first + self.replication - 1

    @property
    def title(self) -> str:
        cell = self.cell.key or "its only cell"
        return f"{self.plan.study.name}, {cell}, replication {self.replication} of set {self.set_number}"

    def trace(self) -> Trace:
        """Repeat the run and record every event."""
        self.plan.limits.check(self.plan.study.name, [self.cell], recorded=True)
        return self._see(Observation(trace=True))

    def overview(self, start_s: float | None = None, stop_s: float | None = None) -> Trace:
        """Repeat the run and record what pictures show, in bounded memory and in detail between two times."""
        start_ns, stop_ns = (
            end if at is None else _nanoseconds(at) for at, end in zip((start_s, stop_s), WHOLE, strict=True)
        )
        return self._see(Observation(overview=Span(start_ns, stop_ns)))

    def capture(self, folder: Path, snap_length: int) -> None:
        """Repeat the run and write its packets into the existing `folder`."""
        target = CaptureTarget(folder, self.provenance(), snap_length)
        self._observe(Observation(capture=target))

    def series(self, file: Path, step_ns: int) -> None:
        """Repeat the run and write its time series into the new CSV file `file`."""
        self._observe(Observation(series=SeriesTarget(file, step_ns)))

    def _see(self, observation: Observation) -> Trace:
        trace = self._observe(observation).trace
        assert trace is not None
        return trace

    def _observe(self, observation: Observation) -> Outcome:
        request = Request.of_one(self.plan.seed, self._start, self.number, observation)
        return self.plan.engine.run(self.cell, request)

    @property
    def _start(self) -> int:
        """The first replication that has to run before this one."""
        if self.plan.engine.chained(self.cell):
            return self.first
        return self.number - (self.replication - 1) % self.plan.engine.stretch(self.cell)

    def provenance(self) -> str:
        """Return the comment on the origin of a capture."""
        return (
            f"lasthop {version()}, engine {self.plan.engine.name}, "
            f"scenario {self.plan.study.name}, digest {self.cell.digest}, cell {self.cell.key}, seed "
            f"{self.plan.seed}, set {self.set_number}, replication {self.replication} (number "
            f"{self.number}); time 0 of the run is 2000-01-01T00:00:00Z"
        )


def _nanoseconds(seconds: float) -> int:
    if not 0 <= seconds * 1e9 <= WHOLE.stop_ns:
        raise InputError(f"{seconds:g} s is not a time within a run: give 0 to {WHOLE.stop_ns / 1e9:.3g} s.")
    return round(seconds * 1e9)


class Unit(NamedTuple):
    """A cell (by its index in the plan) within a set."""

    set_number: int
    cell: int
