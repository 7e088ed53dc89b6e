"""Observes single replications: replication `number` of a chain that begins at `first`."""

from __future__ import annotations

from pathlib import Path

from lasthop import _core
from lasthop.engines.engine import WHOLE, Engine, Observation, Request, Span, Trace
from lasthop.engines.model_engine import ModelEngine


def observe(
    cell: _core.Cell, seed: int, first: int, number: int, wanted: Observation, *, engine: Engine | None = None
) -> Trace | None:
    """Return what was kept, by the model or another given engine."""
    return (engine or ModelEngine()).run(cell, Request.of_one(seed, first, number, wanted)).trace


def traced(cell: _core.Cell, seed: int, first: int, number: int, *, engine: Engine | None = None) -> Trace:
    trace = observe(cell, seed, first, number, Observation(trace=True), engine=engine)
    assert trace is not None
    return trace


def overviewed(
    cell: _core.Cell, seed: int, first: int, number: int, span_ns: tuple[int, int] = WHOLE
) -> Trace:
    trace = observe(cell, seed, first, number, Observation(overview=Span(*span_ns)))
    assert trace is not None
    return trace


def first_bad_periods(
    file: Path, *, link: str, workload: str, replication: int
) -> list[list[tuple[float, float]]]:
    """Return start and end of the first two bad periods of each cell with this link and this workload."""
    study = _core.load(str(file))
    cells = [
        cell for cell in study.cells if (cell.levels["link"], cell.levels["workload"]) == (link, workload)
    ]
    states = [traced(cell, study.seed, replication, replication).bad_periods for cell in cells]
    return [list(zip(state["start_s"], state["end_s"], strict=True))[:2] for state in states]
