"""Running replications with the TCP of the Rust crates."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lasthop import _core
from lasthop.engines.engine import Engine, Outcome, Request, Stop


@dataclass(frozen=True, slots=True)
class ModelEngine(Engine):
    """Hosts and network in an event loop of this process."""

    name: ClassVar[str] = "model"
    real_tcp: ClassVar[bool] = False
    linux_router: ClassVar[bool] = False
    repeatable: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return "model (virtual time)"

    @property
    def options(self) -> Sequence[str]:
        return ()

    def run(self, cell: _core.Cell, request: Request, *, stop: Stop | None = None) -> Outcome:
        """Run replications, as a part of a chain if the cell is sequential."""
        results = cell.run(
            request.seed,
            request.first,
            request.count,
            json.dumps(request.messages()),
            records=request.records,
            memory=request.memory,
            stop=stop,
        )
        return Outcome(results, None, results.trace, results.memory)
