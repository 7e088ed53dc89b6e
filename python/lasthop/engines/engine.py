"""What an engine is: it runs the hosts of a scenario and returns what happened.

To add one, make a folder beside this file with a class that has everything of `Engine`, and add it to
`registry.py`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, Self, TypeAlias

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.engines.records import Columns, Results


class Recording(NamedTuple):
    """What was kept of a run with real hosts: columns by name, like those of `_core.Trace`."""

    packets: Columns
    transport: Columns
    objects: Columns
    flows: Columns
    bad_periods: Columns
    left_out: dict[str, int]
    series: Columns
    delays: Columns


Trace: TypeAlias = _core.Trace | Recording
"""What was kept of a run, on any engine."""

Stop: TypeAlias = Callable[[], bool]
"""Returns whether nobody waits for a run any more."""


class CaptureTarget(NamedTuple):
    """An existing folder for a replication's captures, what their files say of themselves, and bytes kept."""

    folder: Path
    comment: str
    snap_length: int
    point: str | None = None
    """The only point that is captured; all if none is named."""


class SeriesTarget(NamedTuple):
    """A new CSV file for the time series of a replication, and the length of a step in nanoseconds."""

    file: Path
    step_ns: int


class Span(NamedTuple):
    """A part of a run, between two times in nanoseconds."""

    start_ns: int
    stop_ns: int


WHOLE = Span(0, 2**64 - 1)
"""The longest time that a run may have."""


class Observation(NamedTuple):
    """What a replication records besides its results: `Observation` of crates/lasthop-trace."""

    trace: bool = False
    """Every event."""
    overview: Span | None = None
    """What pictures show, in bounded memory; most detail lies within this time."""
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

    If replications are `chained`, they form a chain. It goes on with the hosts' `memory`; without it, `first`
    is the first of its set. Without `records`, only the observations are wanted.
    """

    seed: int
    first: int
    count: int
    observations: Mapping[int, Observation] = field(default_factory=dict)
    records: bool = True
    memory: str | None = None

    @classmethod
    def of_one(cls, seed: int, first: int, number: int, observation: Observation) -> Self:
        """Return a request to observe replication `number` of the chain that starts at `first`."""
        return cls(seed, first, number - first + 1, {number: observation}, records=False)

    def part(self, first: int, count: int) -> Self:
        """Return the request for some of the replications, with the observations of these."""
        numbers = range(first, first + count)
        observations = {n: one for n, one in self.observations.items() if n in numbers}
        return replace(self, first=first, count=count, observations=observations)

    @property
    def series(self) -> SeriesTarget | None:
        """The target of the time series; one replication at most has one."""
        return next((wanted.series for wanted in self.observations.values() if wanted.series), None)

    @property
    def captures(self) -> dict[int, CaptureTarget]:
        return {number: wanted.capture for number, wanted in self.observations.items() if wanted.capture}

    def messages(self) -> dict[int, dict[str, object]]:
        return {number: wanted.message() for number, wanted in self.observations.items()}


class Outcome(NamedTuple):
    """Records, the engine's remarks on them as JSON, and what was kept of a replication.

    `memory` is what hosts of chained replications remember after the last one.
    """

    results: Results
    facts: str | None
    trace: Trace | None
    memory: str | None = None


class Engine(Protocol):
    """Runs replications of a cell, numbered from 1, on any thread.

    If it must, it limits by itself how many run at once.
    """

    name: ClassVar[str]
    """Its name in `--engine`, manifests and the keys of the store."""
    real_tcp: ClassVar[bool]
    """Whether an operating system's TCP runs, which may differ from the scenario's settings."""
    linux_router: ClassVar[bool]
    """Whether Linux' own router can stand between the hosts."""
    repeatable: ClassVar[bool]
    """Whether the same seed gives the same bytes, unless a cell's programs rule that out (`repeats`).

    If not, the timing of the machine decides, too: runs may be too late to be valid, no run can be made again
    for a closer look, and no run may share its machine with others on a cluster.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """What ran the hosts, in words for a report."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What decides the results besides lasthop itself, such as the digest of a guest kernel.

        It is part of the manifest and of the keys of the store.
        """
        return {}

    @property
    def options(self) -> Sequence[str]:
        """The options with which a command chooses it."""
        return ("--engine", self.name)

    def identity_of(self, cell: _core.Cell) -> Sequence[str]:
        """Return what else decides the results of this cell, such as a kernel that only it has."""
        del cell
        return ()

    @property
    def guest(self) -> str | None:
        """The operating system of the hosts, if it is not this machine's."""
        return None

    @classmethod
    def choose(cls, kernel: str | None) -> Self:
        """Return the engine for `--kernel`; raise `InputError` if it takes no kernel, or if there is none."""
        if kernel is not None:
            raise InputError(
                "--kernel names the guest kernel for the kernel engine: give '--engine kernel' too, or leave "
                "it out."
            )
        return cls()

    @classmethod
    def check(cls, study: _core.Study, cells: Iterable[_core.Cell]) -> None:
        """Raise `ScenarioError` if its hosts cannot run these cells of a study."""
        keys = [cell.key for cell in cells]
        study.check_hosts(keys, real_hosts=cls.real_tcp, linux_router=cls.linux_router)

    def repeats(self, cell: _core.Cell) -> bool:
        """Whether the same seed gives the same bytes of this cell."""
        del cell
        return self.repeatable

    def chained(self, cell: _core.Cell) -> bool:
        """Whether a replication depends on what the hosts remember of earlier ones of its set."""
        return cell.sequential

    def stretch(self, cell: _core.Cell) -> int:
        """Return how many replications of a set, counted from its first, must be run in one go.

        Each of them depends on those before it. A request begins with the first of such a stretch.
        """
        del cell
        return 1

    def served_together(self, cell: _core.Cell) -> int:
        """Return how many replications in a row share servers: 1 to N, N + 1 to 2 N, and so on.

        They are best run at once: to run some of them, the engine runs those before them, too.
        """
        del cell
        return 1

    @abstractmethod
    def run(self, cell: _core.Cell, request: Request, *, stop: Stop | None = None) -> Outcome:
        """Run replications of a cell.

        An engine that runs in this process asks `stop` now and then. Once `stop` is true, `KeyboardInterrupt`
        ends the call. Processes of its own get Ctrl-C by themselves.
        """

    @classmethod
    def on_worker(cls, identity: Mapping[str, object]) -> Self:
        """Return the engine of this identity on a worker's machine; raise `InputError` if it is not there."""
        del identity
        return cls()

    def for_threads(self, threads: int) -> Self:
        """Return the engine for a worker with this many threads; other workers may share its machine."""
        del threads
        return self

    @property
    def remedy(self) -> str:
        """Say what to do about a worker that lacks the engine."""
        return ""
