"""What an engine is: it runs the hosts of a scenario and returns what happened.

To add one, make a folder beside this file with a class that has everything of `Engine`, and add it to
`registry.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from lasthop import _core
from lasthop.errors import InputError
from lasthop.results.store import Results


@dataclass(frozen=True, slots=True)
class Recording:
    """What was kept of a run with real hosts: columns by name, as those of `_core.Trace`."""

    packets: dict[str, list[Any]]
    tcp: dict[str, list[Any]]
    objects: dict[str, list[Any]]
    flows: dict[str, list[Any]]
    link_states: dict[str, list[Any]]
    left_out: dict[str, int]
    series: dict[str, list[Any]]
    delays: dict[str, list[Any]]


Trace: TypeAlias = _core.Trace | Recording
"""What was kept of a run, on whichever engine."""

Stop: TypeAlias = Callable[[], bool]
"""Whether nobody waits for a run any more."""


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """An existing folder for the captures of a replication, what their files say of themselves, and bytes kept."""

    folder: Path
    comment: str
    snap_length: int


@dataclass(frozen=True, slots=True)
class SeriesTarget:
    """A new CSV file for the time series of a replication, and the length of a step in nanoseconds."""

    file: Path
    step_ns: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What is wanted of a replication besides its records: `Observation` of crates/lasthop-trace."""

    trace: bool = False
    """Every event."""
    overview: tuple[int, int] | None = None
    """What pictures show, in bounded memory; most details lie between two times in nanoseconds."""
    capture: CaptureTarget | None = None
    series: SeriesTarget | None = None

    def message(self) -> dict[str, Any]:
        """Return it as Rust reads it."""
        capture, series = self.capture, self.series
        return {
            "trace": self.trace,
            "overview": self.overview and {"start_ns": self.overview[0], "stop_ns": self.overview[1]},
            "capture": capture
            and {"folder": str(capture.folder), "comment": capture.comment, "snap_length": capture.snap_length},
            "series": series and {"file": str(series.file), "step_ns": series.step_ns},
        }


WHOLE = (0, 2**64 - 1)
"""All the time that a run may have, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """Replications `first` .. `first + count - 1` of a cell, and what is wanted of some of them, by their numbers.

    They are a chain where replications are `chained`: `first` is then the first of its set. Without `records`, the
    observations are all that is wanted.
    """

    seed: int
    first: int
    count: int
    observations: Mapping[int, Observation] = field(default_factory=dict)
    records: bool = True

    @classmethod
    def of_one(cls, seed: int, first: int, number: int, observation: Observation) -> Self:
        """Return a request that wants to see replication `number` of the chain from `first` on."""
        return cls(seed, first, number - first + 1, {number: observation}, records=False)

    @property
    def series(self) -> SeriesTarget | None:
        """Where the time series goes that is wanted; of one replication at most."""
        return next((wanted.series for wanted in self.observations.values() if wanted.series), None)

    @property
    def captures(self) -> dict[int, CaptureTarget]:
        """Where captures go, by the numbers of their replications."""
        return {number: wanted.capture for number, wanted in self.observations.items() if wanted.capture}

    def messages(self) -> dict[int, Any]:
        """Return the observations as Rust reads them."""
        return {number: wanted.message() for number, wanted in self.observations.items()}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request leaves: records, what the engine says of them as JSON, and what was kept of a replication."""

    results: Results
    facts: str | None
    trace: Trace | None


class Engine(Protocol):
    """What runs replications of a cell, called by their numbers from 1 on, on any thread.

    It limits by itself how many run at once, if it must.
    """

    name: ClassVar[str]
    """As `--engine`, manifests and the keys of the store have it."""
    real_tcp: ClassVar[bool]
    """Whether an operating system's TCP runs, which may do otherwise than a scenario asks."""
    linux_router: ClassVar[bool]
    """Whether Linux' own router can stand between the hosts."""
    repeatable: ClassVar[bool]
    """Whether the same seed gives the same bytes, unless a cell's programs rule that out (`repeats`).

    If not, the timing of the machine decides, too. Runs may be too late to be valid, none can be run again to look at
    it, and none may share its machine with others on a cluster.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """What ran the hosts, for a report."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What decides the results besides lasthop itself, such as the digest of a guest kernel.

        It is part of the manifest and of the keys of the store.
        """
        return {}

    @property
    def guest(self) -> str | None:
        """The system of the hosts, if it is not that of this machine."""
        return None

    @classmethod
    def choose(cls, kernel: str | None) -> Self:
        """Return the engine that runs on `--kernel`; raise `InputError` if it cannot, or if there is none."""
        if kernel is not None:
            raise InputError(
                "--kernel names the guest kernel for the kernel engine: give '--engine kernel' too, or leave it out."
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
        """Whether a replication depends on those before it in its set."""
        return cell.sequential

    @abstractmethod
    def run(self, cell: _core.Cell, request: Request, *, stop: Stop | None = None) -> Outcome:
        """Run replications of a cell.

        An engine that runs them in this process asks `stop` now and then. Once it is true, `KeyboardInterrupt` ends the
        call. Processes of their own hear of Ctrl-C themselves.
        """

    @classmethod
    def on_worker(cls, identity: Mapping[str, str]) -> Self:
        """Return the engine of this identity on the machine of a worker; raise `InputError` if it is not there."""
        del identity
        return cls()

    def for_threads(self, threads: int) -> Self:
        """Return it for a worker with so many threads, which may share its machine with other workers."""
        del threads
        return self

    @property
    def remedy(self) -> str:
        """What to do about a worker that does not have it."""
        return ""
