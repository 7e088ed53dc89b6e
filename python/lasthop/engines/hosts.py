"""The common part of engines with real hosts: requests to crates/lasthop-host, and its answers."""

from __future__ import annotations

import functools
import json
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from lasthop import _core
from lasthop.engines.engine import Engine, Outcome, Recording, Request, Stop
from lasthop.engines.programs import columns_of, joined, program_of
from lasthop.results.store import TABLES, Columns


@dataclass(frozen=True, slots=True)
class HostResults:
    """Columns by name, like those of the model engine; `facts` come from the emulator (see `_core.live_run`).

    `runs` has further columns: the lateness of the run's packets, and whether it is within the bound. `trace`
    holds what was kept of a replication.
    """

    flows: Columns
    pages: Columns
    shorts: Columns
    hops: Columns
    stations: Columns
    runs: dict[str, list[object]]
    facts: Mapping[str, Any]
    trace: Recording | None


class HostEngine(Engine):
    """An engine whose hosts have the TCP of Linux."""

    real_tcp: ClassVar[bool] = True

    @abstractmethod
    def run_cell(self, cell: _core.Cell, request: Request) -> HostResults:
        """Run replications of a cell; their records are there even if they are not wanted."""

    def run(self, cell: _core.Cell, request: Request, *, stop: Stop | None = None) -> Outcome:
        """Run replications, and say where Linux differs from the scenario's settings."""
        del stop
        if (program := program_of(cell)) is None:
            results = self.run_cell(cell, request)
        else:
            single = functools.partial(self._run_program, program, cell, request)
            results = _together(
                [single(number) for number in range(request.first, request.first + request.count)]
            )
        facts = json.dumps({key: results.facts[key] for key in ("priority", "differences")})
        return Outcome(results, facts, results.trace)

    def _run_program(
        self, program: Mapping[str, object], cell: _core.Cell, request: Request, number: int
    ) -> HostResults:
        """Run a replication of a program, on hosts of its own."""
        wanted = {number: request.observations[number]} if number in request.observations else {}
        start = time.monotonic()
        results = self.run_cell(cell, replace(request, first=number, count=1, observations=wanted))
        results.runs.update(columns_of(program, results.facts["programs"][0], time.monotonic() - start))
        return results


def _together(runs: Sequence[HostResults]) -> HostResults:
    tables = {name: joined([getattr(run, name) for run in runs]) for name in TABLES}
    trace = next((run.trace for run in reversed(runs) if run.trace), None)
    return HostResults(**tables, facts=runs[0].facts, trace=trace)


def message_of(cell: _core.Cell, request: Request) -> dict[str, object]:
    """Return the work as `RunSpec` of crates/lasthop-host."""
    wanted = {
        "seed": request.seed,
        "first": request.first,
        "count": request.count,
        "observations": request.messages(),
    }
    return {"scenario": json.loads(cell.scenario), "wanted": wanted}


def results_of(answer: dict[str, Any]) -> HostResults:
    """Return the results in an answer of crates/lasthop-host."""
    lateness = [run["lateness"] for run in answer["facts"]["runs"]]
    for column in ("p50_us", "p99_us", "p999_us", "max_us"):
        answer["runs"][f"lateness_{column}"] = [summary[column] for summary in lateness]
    answer["runs"]["valid"] = [summary["valid"] for summary in lateness]
    if (trace := answer["trace"]) is not None:
        answer["trace"] = Recording(**trace)
    return HostResults(**answer)
