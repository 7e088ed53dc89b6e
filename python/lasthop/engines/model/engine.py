"""Running replications with the TCP of the Rust crates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lasthop import _core
from lasthop.engines.engine import CaptureTarget, Engine, Outcome, SeriesTarget, Stop


@dataclass(frozen=True, slots=True)
class ModelEngine(Engine):
    """Hosts and last hop in one event loop of this process."""

    name: ClassVar[str] = "model"
    real_tcp: ClassVar[bool] = False
    repeatable: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """What ran the hosts."""
        return "model (virtual time)"

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
        """Run replications, as one chain if the cell is sequential."""
        if not captures:
            return Outcome(cell.run(seed, first, count, stop=stop), None)
        targets = [captures[number] for number in range(first, first + count)]
        places = [(str(target.folder), target.comment) for target in targets]
        return Outcome(cell.run(seed, first, count, places, targets[0].snap_length, stop=stop), None)

    def trace(self, cell: _core.Cell, seed: int, first: int, replication: int) -> _core.Trace:
        """Run the chain and record every event of a replication."""
        return cell.trace(seed, first, replication)

    def overview(
        self, cell: _core.Cell, seed: int, first: int, replication: int, span_ns: tuple[int, int]
    ) -> _core.Trace:
        """Run the chain and keep what pictures of a replication show."""
        return cell.overview(seed, first, replication, *span_ns)

    def watch(self, cell: _core.Cell, seed: int, number: int, stop: Stop | None = None) -> tuple[Outcome, _core.Trace]:
        """Run a replication and keep its overview."""
        results, trace = cell.watch(seed, number, stop)
        return Outcome(results, None), trace

    def capture(self, cell: _core.Cell, seed: int, first: int, replication: int, target: CaptureTarget) -> None:
        """Run the chain and write the packets of a replication."""
        cell.capture(seed, first, replication, (str(target.folder), target.comment), target.snap_length)

    def series(self, cell: _core.Cell, seed: int, first: int, replication: int, target: SeriesTarget) -> None:
        """Run the chain and write the time series of a replication."""
        cell.series(seed, first, replication, (str(target.file), target.step_ns))
