"""The interface of engines, which run the hosts of a scenario.

To add an engine, create a folder next to this file with a class that implements `Engine`, and add it to
`registry.py`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self, TypeAlias

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.engines.records import Columns, Results

if TYPE_CHECKING:
    from lasthop.stacks.view import View


class Recording(NamedTuple):
    """The trace of a run with real hosts: columns by name, like those of `_core.Trace`."""

    packets: Columns
    transport: Columns
    objects: Columns
    flows: Columns
    bad_periods: Columns
    left_out: dict[str, int]
    series: Columns
    delays: Columns
    views: Mapping[str, "View"] = {}
    """The views of stacks that wrote logs, by the names of their flows."""


Trace: TypeAlias = _core.Trace | Recording
"""The trace of a run, on any engine."""


def views_of(trace: Trace) -> Mapping[str, "View"]:
    """Return the views of a trace's flows by stacks that wrote logs; the model needs none."""
    return trace.views if isinstance(trace, Recording) else {}


Stop: TypeAlias = Callable[[], bool]
"""Returns whether a run should be abandoned."""


class CaptureTarget(NamedTuple):
    """An existing folder for a replication's captures, their comment, and the bytes captured per packet."""

    folder: Path
    comment: str
    snap_length: int
    point: str | None = None
    """The only point to capture; `None` means all."""


class SeriesTarget(NamedTuple):
    """A new CSV file for the time series of a replication, and the length of a step."""

    file: Path
    step_ns: int


class Span(NamedTuple):
    """A part of a run, between two times in nanoseconds."""

    start_ns: int
    stop_ns: int


WHOLE = Span(0, 2**64 - 1)
"""The longest possible run."""


class Observation(NamedTuple):
    """The data that a replication records besides its results: `Observation` of crates/lasthop-trace."""

    trace: bool = False
    """Every event."""
    overview: Span | None = None
    """The data for pictures, in bounded memory and with most detail in this span."""
    capture: CaptureTarget | None = None
    series: SeriesTarget | None = None

    def message(self) -> dict[str, object]:
        message: dict[str, object] = {"trace": self.trace}
        for name in ("overview", "capture", "series"):
            if (target := getattr(self, name)) is not None:
                fields = target._asdict().items()
                message[name] = {key: str(own) if isinstance(own, Path) else own for key, own in fields}
        return message


@dataclass(frozen=True, slots=True)
class Request:
    """Replications `first` .. `first + count - 1` of a cell, and the observations of some of them, by number.

    A chain continues with the hosts' `memory`; without it, `first` is the first of its set. Without
    `records`, only the observations are needed.
    """

    seed: int
    first: int
    count: int
    observations: Mapping[int, Observation] = field(default_factory=dict)
    records: bool = True
    memory: str | None = None
    logs: Path | None = None
    """The folder for the logs of transfers' stacks, with a folder for each replication, by its number."""

    @classmethod
    def of_one(cls, seed: int, first: int, number: int, observation: Observation) -> Self:
        """Return a request to observe replication `number` of the chain that starts at `first`."""
        return cls(seed, first, number - first + 1, {number: observation}, records=False)

    def part(self, first: int, count: int) -> Self:
        """Return the request for some of the replications, with their observations."""
        numbers = range(first, first + count)
        observations = {n: own for n, own in self.observations.items() if n in numbers}
        return replace(self, first=first, count=count, observations=observations)

    @property
    def series(self) -> SeriesTarget | None:
        """The target of the time series, which at most one replication has."""
        return next((wanted.series for wanted in self.observations.values() if wanted.series), None)

    @property
    def captures(self) -> dict[int, CaptureTarget]:
        return {number: wanted.capture for number, wanted in self.observations.items() if wanted.capture}

    def messages(self) -> dict[int, dict[str, object]]:
        return {number: wanted.message() for number, wanted in self.observations.items()}


class Outcome(NamedTuple):
    """Records, the engine's facts about them as JSON, and the trace of a replication.

    `memory` is that of the hosts of a chain after its last replication.
    """

    results: Results
    facts: str | None
    trace: Trace | None
    memory: str | None = None


class Engine(Protocol):
    """Runs replications of a cell, numbered from 1, on any thread; it may limit how many run at once."""

    name: ClassVar[str]
    """The name in `--engine`, manifests and the keys of the store."""
    real_tcp: ClassVar[bool]
    """Whether it uses an operating system's TCP, which may differ from the scenario's settings."""
    linux_router: ClassVar[bool]
    """Whether it supports Linux' own router."""
    repeatable: ClassVar[bool]
    """Whether equal seeds give equal bytes, unless a cell's programs prevent that (`repeats`).

    Otherwise results depend on the timing of the machine: runs may be invalid, cannot be repeated for more
    detail, and cannot run on the shared machines of a cluster.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """A description of the engine for reports."""

    @property
    def identity(self) -> Mapping[str, str]:
        """The properties besides lasthop's version on which results depend, such as the digest of a kernel.

        They are part of the manifest and of the keys of the store.
        """
        return {}

    @property
    def options(self) -> Sequence[str]:
        """The command-line options that select it."""
        return ("--engine", self.name)

    def identity_of(self, cell: _core.Cell) -> Sequence[str]:
        """Return the additional identity of this cell, such as that of its own kernel."""
        del cell
        return ()

    @property
    def guest(self) -> str | None:
        """The operating system of the hosts, if it is not this machine's."""
        return None

    @classmethod
    def choose(cls, kernel: str | None) -> Self:
        """Return the engine for `--kernel`; raise `InputError` if it uses no kernel, or if none exists."""
        if kernel is not None:
            raise InputError(
                "--kernel selects the guest kernel of the kernel engine: add '--engine kernel', or omit it."
            )
        return cls()

    @classmethod
    def check(cls, study: _core.Study, cells: Iterable[_core.Cell]) -> None:
        """Raise `ScenarioError` if its hosts cannot run these cells of a study."""
        keys = [cell.key for cell in cells]
        study.check_hosts(keys, real_hosts=cls.real_tcp, linux_router=cls.linux_router)

    def repeats(self, cell: _core.Cell) -> bool:
        """Whether equal seeds give equal bytes for this cell."""
        del cell
        return self.repeatable

    def chained(self, cell: _core.Cell) -> bool:
        """Whether a replication depends on the hosts' memory of earlier ones in its set."""
        return cell.sequential

    def stretch(self, cell: _core.Cell) -> int:
        """Return how many replications, counted from the first of a set, depend on each other.

        Each depends on the previous ones in its stretch. A request begins with the first of a stretch.
        """
        del cell
        return 1

    def served_together(self, cell: _core.Cell) -> int:
        """Return how many consecutive replications share servers: 1 to N, N + 1 to 2 N, and so on.

        They are best run together: to run some of them, the engine also runs the previous ones.
        """
        del cell
        return 1

    @abstractmethod
    def run(self, cell: _core.Cell, request: Request, *, stop: Stop | None = None) -> Outcome:
        """Run replications of a cell.

        An engine in this process calls `stop` periodically and raises `KeyboardInterrupt` once it returns
        true. Child processes receive Ctrl-C themselves.
        """

    @classmethod
    def on_worker(cls, identity: Mapping[str, object]) -> Self:
        """Return the engine of this identity on a worker's machine; raise `InputError` if it is missing."""
        del identity
        return cls()

    def for_threads(self, threads: int) -> Self:
        """Return the engine for a worker with this many threads; other workers may share its machine."""
        del threads
        return self

    @property
    def remedy(self) -> str:
        """Advice for workers that lack the engine."""
        return ""
