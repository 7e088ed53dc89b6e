"""What an engine is: it runs the hosts of a scenario and returns what happened.

To add one, make a folder beside this file with a class that has everything of `Engine`, and add it to
`registry.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from lasthop import _core
from lasthop.errors import InputError
from lasthop.results.store import Results


@dataclass(frozen=True, slots=True)
class Recording:
    """Every event of a run with real hosts: columns by name, as those of `_core.Trace`."""

    packets: dict[str, list[Any]]
    tcp: dict[str, list[Any]]
    objects: dict[str, list[Any]]
    flows: dict[str, list[Any]]
    link_states: dict[str, list[Any]]
    left_out: dict[str, int]
    series: dict[str, list[Any]]
    delays: dict[str, list[Any]]


Trace: TypeAlias = _core.Trace | Recording
"""Every event of a run, on whichever engine."""

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
class Outcome:
    """The results of some replications, and what the engine says of them, as JSON."""

    results: Results
    facts: str | None


class Engine(Protocol):
    """What runs replications of a cell, on any thread. It limits by itself how many run at once, if it must.

    Replications are called by their numbers, from 1 on. Where they are `chained`, `first` is the first of their set.
    """

    name: ClassVar[str]
    """As `--engine`, manifests and the keys of the store have it."""
    real_tcp: ClassVar[bool]
    """Whether an operating system's TCP runs, which may do otherwise than a scenario asks."""
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

    def repeats(self, cell: _core.Cell) -> bool:
        """Whether the same seed gives the same bytes of this cell."""
        del cell
        return self.repeatable

    def chained(self, cell: _core.Cell) -> bool:
        """Whether a replication depends on those before it in its set."""
        return cell.sequential

    @abstractmethod
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
        """Run replications `first` .. `first + count - 1`; capture none of them, or all, by their numbers.

        An engine that runs them in this process asks `stop` now and then. Once it is true, `KeyboardInterrupt` ends the
        call. Processes of their own hear of Ctrl-C themselves.
        """

    @abstractmethod
    def trace(self, cell: _core.Cell, seed: int, first: int, replication: int) -> Trace:
        """Run the replications from `first` on and record every event of `replication`."""

    @abstractmethod
    def overview(self, cell: _core.Cell, seed: int, first: int, replication: int, span_ns: tuple[int, int]) -> Trace:
        """Run them and keep what pictures of `replication` show, in bounded memory; most details within a span."""

    def watch(self, cell: _core.Cell, seed: int, number: int, stop: Stop | None = None) -> tuple[Outcome, Trace] | None:
        """Run replication `number` alone and keep its overview, in one go; `None` from an engine that cannot."""
        del cell, seed, number, stop
        return None

    @abstractmethod
    def capture(self, cell: _core.Cell, seed: int, first: int, replication: int, target: CaptureTarget) -> None:
        """Run them and write the packets of `replication`."""

    @abstractmethod
    def series(self, cell: _core.Cell, seed: int, first: int, replication: int, target: SeriesTarget) -> None:
        """Run them and write the time series of `replication`, a row per step and flow, in bounded memory."""

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
