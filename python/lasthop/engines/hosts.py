"""The common part of engines with real hosts: requests to crates/lasthop-host, and answers."""

import itertools
import json
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NotRequired, TypedDict, cast

from lasthop import _core
from lasthop.engines.engine import Engine, Outcome, Recording, Request, Stop
from lasthop.engines.programs import ProgramFacts, columns_of, program_of, stack
from lasthop.engines.records import TABLES, Columns
from lasthop.engines.resolved import Flow
from lasthop.engines.stack_views import add_logs, add_series, captured, of_flows, views_in, with_metrics
from lasthop.stacks import transfers

_LATENESS = ("p50_us", "p99_us", "p999_us", "max_us")


class EmulatorFacts(TypedDict):
    priority: object
    differences: object
    programs: list[ProgramFacts]
    runs: list[dict[str, dict[str, object]]]


class Answer(TypedDict):
    """An answer of crates/lasthop-host, which contains all tables of results."""

    runs: dict[str, list[object]]
    facts: EmulatorFacts
    trace: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class HostResults:
    """Tables like those of the model engine, the emulator's `facts`, and the `trace` of a replication.

    `runs` has further columns: the lateness of the run's packets, and whether it is within the bound.
    """

    flows: Columns
    pages: Columns
    shorts: Columns
    hops: Columns
    stations: Columns
    runs: dict[str, list[object]]
    facts: EmulatorFacts
    trace: Recording | None


class HostEngine(Engine):
    """An engine whose hosts have the TCP of Linux."""

    real_tcp: ClassVar[bool] = True

    def chained(self, cell: _core.Cell) -> bool:
        """Return false: Linux exports the metrics that it has cached but cannot import them."""
        del cell
        return False

    def stretch(self, cell: _core.Cell) -> int:
        """Return more than any set has if replications share hosts with cached metrics."""
        return sys.maxsize if cell.sequential and program_of(cell) is None else 1

    @abstractmethod
    def run_cell(self, cell: _core.Cell, request: Request) -> HostResults:
        """Run replications of a cell, with records in any case."""

    def run(self, cell: _core.Cell, request: Request, *, stop: Stop | None = None) -> Outcome:
        """Run replications, and report where Linux differs from the scenario's settings."""
        del stop
        if (program := program_of(cell)) is None:
            results = self.run_cell(cell, request)
        else:
            shared = self.served_together(cell)
            stretches = _stretches(range(request.first, request.first + request.count), shared)
            results = combine(
                [self._run_program(program, cell, request, wanted, before) for wanted, before in stretches]
            )
        facts = json.dumps({name: results.facts[name] for name in ("priority", "differences")})
        return Outcome(results, facts, results.trace)

    def _run_program(
        self, program: Flow, cell: _core.Cell, request: Request, wanted: range, before: int
    ) -> HostResults:
        """Run replications of a program that share servers with `before` others, which are discarded."""
        count = before + len(wanted)
        start = time.monotonic()
        # Without a folder for logs, a temporary one: the same files make the same run.
        with tempfile.TemporaryDirectory() as folder:
            request = request if request.logs else replace(request, logs=Path(folder))
            results = self._run_captured(program, cell, request.part(wanted.start - before, count))
        each_s = (time.monotonic() - start) / count
        programs = [columns_of(program, facts, each_s) for facts in results.facts["programs"]]
        results.runs.update(stack(programs))
        return results if not before else _from(results, wanted.start)

    def _run_captured(self, program: Flow, cell: _core.Cell, request: Request) -> HostResults:
        """Run replications; of transfers, a single one, whose packets are compared with the stacks' logs."""
        if not (own := program.get("transfers")):
            return self.run_cell(cell, request)
        with captured(request) as watched:
            results = self.run_cell(cell, watched)
            views = views_in(own, watched)
        if request.captures:
            add_logs(request)
        seen = of_flows(results.flows, views)
        if request.series is not None:
            add_series(request.series, seen)
        trace = results.trace and results.trace._replace(views=seen)
        return replace(results, flows=with_metrics(results.flows, views), trace=trace)


def _stretches(numbers: range, together: int) -> Iterator[tuple[range, int]]:
    """Yield the parts of replications that share servers, and how many previous ones the servers have."""
    start = numbers.start
    while start < numbers.stop:
        before = (start - 1) % together
        stop = min(numbers.stop, start - before + together)
        yield range(start, stop), before
        start = stop


def _from(results: HostResults, first: int) -> HostResults:
    def selected(table: Columns) -> Columns:
        mask = [cast("int", number) >= first for number in table["replication"]] if table else []
        return {name: list(itertools.compress(cells, mask)) for name, cells in table.items()}

    tables: dict[str, Any] = {name: selected(getattr(results, name)) for name in TABLES}
    return replace(results, **tables)


def combine(runs: Sequence[HostResults]) -> HostResults:
    """Stack the results of consecutive replications."""
    tables = {name: stack([getattr(run, name) for run in runs]) for name in TABLES}
    trace = next((run.trace for run in reversed(runs) if run.trace), None)
    return HostResults(**tables, facts=runs[0].facts, trace=trace)


class Wanted(TypedDict):
    """Replications of a cell, and their observations."""

    seed: int
    first: int
    count: int
    observations: dict[int, dict[str, object]]


class RunSpec(TypedDict):
    """A request to an engine with real hosts."""

    scenario: dict[str, Any]
    wanted: Wanted
    spin_us: NotRequired[int]


def message_of(cell: _core.Cell, request: Request) -> RunSpec:
    """Return the request as `RunSpec` of crates/lasthop-host."""
    wanted: Wanted = {
        "seed": request.seed,
        "first": request.first,
        "count": request.count,
        "observations": request.messages(),
    }
    scenario = json.loads(cell.scenario)
    if (program := scenario["flow"][0]).get("transfers"):
        logs = request.logs and transfers.new_folder(request.logs / f"replication-{request.first}")
        plan = cell.transfers(request.seed, request.first)
        scenario["flow"] = [transfers.expanded(program, request.seed, plan, logs)]
    return {"scenario": scenario, "wanted": wanted}


def results_of(answer: Answer) -> HostResults:
    lateness = [run["lateness"] for run in answer["facts"]["runs"]]
    for column in _LATENESS:
        answer["runs"][f"lateness_{column}"] = [summary[column] for summary in lateness]
    answer["runs"]["valid"] = [summary["valid"] for summary in lateness]
    trace = None if answer["trace"] is None else Recording(**answer["trace"])
    tables = {name: cast("dict[str, Any]", answer)[name] for name in TABLES}
    return HostResults(**tables, facts=answer["facts"], trace=trace)
