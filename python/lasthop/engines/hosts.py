"""What the engines with real hosts share: requests to crates/lasthop-host, and its answers."""

from __future__ import annotations

import functools
import itertools
import json
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lasthop import _core
from lasthop.engines.engine import CaptureTarget, Engine, Outcome, Recording, SeriesTarget, Stop
from lasthop.engines.programs import columns_of, joined, program_of
from lasthop.results.store import TABLES


@dataclass(frozen=True, slots=True)
class HostResults:
    """Columns by name, as those of the model engine; `facts` are the emulator's own (see `_core.live_run`).

    `runs` has further columns: the lateness of the run's packets, and whether it is within the bound. `trace` is the
    replication that was to be recorded.
    """

    flows: dict[str, list[Any]]
    pages: dict[str, list[Any]]
    shorts: dict[str, list[Any]]
    runs: dict[str, list[Any]]
    facts: Mapping[str, Any]
    trace: Recording | None


class HostEngine(Engine):
    """An engine whose hosts have the TCP of Linux."""

    real_tcp: ClassVar[bool] = True

    @abstractmethod
    def run_cell(
        self,
        cell: _core.Cell,
        seed: int,
        first: int,
        count: int,
        *,
        captures: Mapping[int, CaptureTarget] | None = None,
        record: int | None = None,
        overview: tuple[int, int] | None = None,
        series: SeriesTarget | None = None,
    ) -> HostResults:
        """Run replications `first` .. `first + count - 1` of a cell.

        Those with a number in `captures` are captured; the one called `record` is recorded: whole, as an overview with
        all details between two times in nanoseconds, or as a time series.
        """

    def run(
        self,
        cell: _core.Cell,
        seed: int,
        first: int,
        count: int,
        captures: Mapping[int, CaptureTarget],
        *,
        stop: Stop | None = None,
    ) -> Outcome:
        """Run replications, and say what Linux did otherwise than the scenario asks."""
        del stop
        if (program := program_of(cell)) is None:
            results = self.run_cell(cell, seed, first, count, captures=captures)
        else:
            single = functools.partial(self._run_program, program, cell, seed)
            results = _together([single(number, captures.get(number)) for number in range(first, first + count)])
        return Outcome(results, json.dumps({key: results.facts[key] for key in ("priority", "differences")}))

    def _run_program(
        self, program: Mapping[str, Any], cell: _core.Cell, seed: int, number: int, capture: CaptureTarget | None
    ) -> HostResults:
        """Run a replication of a program, on hosts of its own."""
        start = time.monotonic()
        results = self.run_cell(cell, seed, number, 1, captures={} if capture is None else {number: capture})
        results.runs.update(columns_of(program, results.facts["programs"][0], time.monotonic() - start))
        return results

    def trace(self, cell: _core.Cell, seed: int, first: int, replication: int) -> Recording:
        """Run up to a replication and record every event of that."""
        return _recorded(self.run_cell(cell, seed, first, replication - first + 1, record=replication))

    def overview(
        self, cell: _core.Cell, seed: int, first: int, replication: int, span_ns: tuple[int, int]
    ) -> Recording:
        """Run up to a replication and keep what pictures of that show."""
        count = replication - first + 1
        return _recorded(self.run_cell(cell, seed, first, count, record=replication, overview=span_ns))

    def capture(self, cell: _core.Cell, seed: int, first: int, replication: int, target: CaptureTarget) -> None:
        """Run up to a replication and write the packets of that."""
        self.run_cell(cell, seed, first, replication - first + 1, captures={replication: target})

    def series(self, cell: _core.Cell, seed: int, first: int, replication: int, target: SeriesTarget) -> None:
        """Run up to a replication and write the time series of that."""
        self.run_cell(cell, seed, first, replication - first + 1, record=replication, series=target)


def _together(runs: Sequence[HostResults]) -> HostResults:
    tables = {name: joined([getattr(run, name) for run in runs]) for name in TABLES}
    return HostResults(**tables, facts=runs[0].facts, trace=None)


def _recorded(results: HostResults) -> Recording:
    assert results.trace is not None
    return results.trace


def request_of(
    cell: _core.Cell,
    captures: Mapping[int, CaptureTarget],
    *,
    seed: int,
    first: int,
    count: int,
    record: int | None,
    overview: tuple[int, int] | None,
    series: SeriesTarget | None,
) -> dict[str, Any]:
    """Return what is to be run, for `RunSpec` of crates/lasthop-host."""
    return {
        "scenario": json.loads(cell.scenario),
        "seed": seed,
        "first": first,
        "count": count,
        "captures": {
            number: {"folder": str(target.folder), "comment": target.comment, "snap_length": target.snap_length}
            for number, target in captures.items()
        },
        "record": record,
        "overview": overview and {"start_ns": overview[0], "stop_ns": overview[1]},
        "series": series and {"file": str(series.file), "step_ns": series.step_ns},
    }


def results_of(answer: dict[str, Any], record: int | None) -> HostResults:
    """Return the results in an answer of crates/lasthop-host."""
    lateness = [run["lateness"] for run in answer["facts"]["runs"]]
    for column in ("p50_us", "p99_us", "p999_us", "max_us"):
        answer["runs"][f"lateness_{column}"] = [summary[column] for summary in lateness]
    answer["runs"]["valid"] = [summary["valid"] for summary in lateness]
    if (trace := answer["trace"]) is not None:
        if "flows" not in trace:  # of a recording; an overview brings its own
            own = [number == record for number in answer["flows"]["replication"]]
            trace["flows"] = {name: list(itertools.compress(cells, own)) for name, cells in answer["flows"].items()}
        answer["trace"] = Recording(**trace)
    return HostResults(**answer)
