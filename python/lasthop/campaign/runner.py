"""Running pending work and storing its results. `Threads` run it here; a `Place` may run it elsewhere.

A thread takes a slice of replications at a time and commits results to the store every quarter of a second,
so a killed process loses at most its threads' work in that time. Ctrl-C stops the threads after a short wait
and discards unfinished slices. The slices of a chain run in sequence: each needs the hosts' memory after the
previous one, which is stored with the results.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lasthop.campaign.results.store import Batch, BatchBuilder, Store
from lasthop.common.errors import InputError
from lasthop.engines.engine import Outcome, Stop

if TYPE_CHECKING:
    from lasthop.campaign.plan import Plan, Unit

_SLICE_S = 0.1
_LEAST_S = 1e-6  # no replication takes less
_UNKNOWN_CELLS = 50  # in a bundle, so that it does not take far too long
_COMMIT_EVERY_S = 0.25
_HEARTBEAT_S = 0.5
_GRACE_S = 0.4


@dataclass(frozen=True, slots=True)
class Work:
    """Replications of a unit, from `first` on, that are to be recorded, or captured, or both.

    The length of a slice is a multiple of `step`. If `chained`, each slice starts with the hosts' `memory`
    after the previous one.
    """

    unit: Unit
    source: str
    first: int
    count: int
    record: bool
    capture: bool
    step: int = 1
    chained: bool = False
    memory: str | None = None


class Agenda:
    """The pending work, handed out in slices of about equal duration."""

    def __init__(self, work: Iterable[Work]) -> None:
        self._left = deque(work)
        self._parked: dict[Work, Work] = {}  # the rest of a chain, by the slice that it waits for
        self._cost_s: dict[int, float] = {}  # of a replication, by cell
        self._costs_s = 0.0  # the sum over these cells
        self._runs = sum(work.count for work in self._left)
        self._lock = threading.RLock()

    def take(self, seconds: float = _SLICE_S) -> Work | None:
        """Return a slice of about this duration, or one replication if its cost is unknown.

        `None` if nothing is left, except chains that wait for a slice in progress.
        """
        with self._lock:
            if not self._left:
                return None
            cost_s = self._cost_s.get(self._left[0].unit.cell)
            return self._cut(1 if cost_s is None else int(seconds / max(cost_s, _LEAST_S)))

    def bundle(self, seconds: float) -> list[Work]:
        """Return slices, perhaps of many cells, that together take about this long; empty if no work is left.

        A cell of unknown cost contributes one replication, which is assumed to have the average cost.
        """
        with self._lock:
            average_s = self._costs_s / len(self._cost_s) if self._cost_s else seconds
            bundle: list[Work] = []
            later: list[Work] = []
            unknown = 0
            while self._left and seconds > 0 and unknown < _UNKNOWN_CELLS:
                cost_s = self._cost_s.get(self._left[0].unit.cell)
                unknown += cost_s is None
                each_s = max(average_s if cost_s is None else cost_s, _LEAST_S)
                if bundle and each_s > seconds:
                    break
                work = self._cut(1 if cost_s is None else int(seconds / each_s))
                seconds -= work.count * each_s
                bundle.append(work)
                if cost_s is None and self._left and self._left[0].source == work.source:
                    later.append(self._left.popleft())
            self._left.extendleft(reversed(later))
            return bundle

    def _cut(self, count: int) -> Work:
        """Remove up to `count` replications, at least a step, from the front."""
        work = self._left.popleft()
        count = min(work.count, max(1, count // work.step) * work.step)
        self._runs -= count
        piece = replace(work, count=count)
        if count < work.count:
            rest = replace(work, first=work.first + count, count=work.count - count)
            if work.chained:
                self._parked[piece] = rest
            else:
                self._left.appendleft(rest)
        return piece

    def left(self) -> bool:
        """Whether there is work that can start now."""
        return bool(self._left)

    def left_s(self) -> float:
        """Estimate the duration of the rest; infinity until the first cost is known."""
        with self._lock:
            return self._runs * self._costs_s / len(self._cost_s) if self._cost_s else math.inf

    def complete(self, work: Work, seconds: float, memory: str | None) -> None:
        """Record the duration of a slice and release the rest of its chain, with the hosts' memory."""
        with self._lock:
            cost_s = seconds / work.count
            self._costs_s += cost_s - self._cost_s.get(work.unit.cell, 0.0)
            self._cost_s[work.unit.cell] = cost_s
            if (rest := self._parked.pop(work, None)) is not None:
                self._left.appendleft(replace(rest, memory=memory))

    def take_after(self, work: Work, seconds: float, memory: str | None) -> Work | None:
        """Complete a slice and take another. A chain stays with its thread and is thus stored in order."""
        with self._lock:
            self.complete(work, seconds, memory)
            return self.take()


@dataclass
class Stopwatch:
    """Wall time during which at least one thread was running the engine."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _active: int = 0
    _since: float = 0.0
    _total_s: float = 0.0

    @property
    def total_s(self) -> float:
        with self._lock:
            running = time.perf_counter() - self._since if self._active else 0.0
            return self._total_s + running

    def __enter__(self) -> None:
        with self._lock:
            if self._active == 0:
                self._since = time.perf_counter()
            self._active += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._active -= 1
            if self._active == 0:
                self._total_s += time.perf_counter() - self._since


class Ledger:
    """Puts results into the store, with the total of runs and wall time. Any thread may call it."""

    def __init__(self, store: Store, runs: int, wall_s: float) -> None:
        """`runs` and `wall_s` are the totals of earlier sessions."""
        self.watch = Stopwatch()
        self.runs = 0
        """Number of runs stored in this session."""
        self._store = store
        self._before = (runs, wall_s)
        self._lock = threading.Lock()

    def commit(self, batch: Batch) -> None:
        with self._lock:
            self.runs += batch.runs
            runs, wall_s = self._before
            simulation = {"runs": runs + self.runs, "wall_s": round(wall_s + self.watch.total_s, 3)}
            self._store.add(batch, simulation=simulation)


class Assignment(NamedTuple):
    """The runs that a place is to execute, in order.

    `run_here` executes some of them in the calling thread, until its second argument returns true.
    """

    plan: Plan
    work: Sequence[Work]
    run_here: Callable[[Work, Stop], Outcome]

    @property
    def runs(self) -> int:
        return sum(work.count for work in self.work)


class Place(Protocol):
    """Where replications are run."""

    def run(self, assignment: Assignment, ledger: Ledger, advance: Callable[[int], None]) -> None:
        """Run everything and commit the results.

        `advance` is called from this thread with the number of runs that just finished, and periodically with
        0. Errors and Ctrl-C end it; earlier results are kept.
        """

    def detail(self) -> Sequence[str]:
        """Return lines on each worker for the progress display. Any thread may call it."""

    def summary(self) -> Sequence[str]:
        """Return lines on the work that each worker did."""


@dataclass(frozen=True, slots=True)
class Threads:
    """At most `jobs` threads of this process."""

    jobs: int

    def run(self, assignment: Assignment, ledger: Ledger, advance: Callable[[int], None]) -> None:
        """Run everything; an error in one thread stops all."""
        _Runner(assignment, ledger).run(min(self.jobs, assignment.runs), advance)

    def detail(self) -> Sequence[str]:
        return ()

    def summary(self) -> Sequence[str]:
        return ()


class _Runner:
    """Threads that work off an agenda."""

    def __init__(self, assignment: Assignment, ledger: Ledger) -> None:
        self.agenda = Agenda(assignment.work)
        self.run_work = assignment.run_here
        self.ledger = ledger
        self.stop = threading.Event()
        self.news: SimpleQueue[int | BaseException | None] = SimpleQueue()

    def run(self, jobs: int, advance: Callable[[int], None]) -> None:
        threads: list[_Thread] = []
        try:
            while len(threads) < jobs:
                threads.append(_Thread(self))
                threads[-1].start()
            working = jobs
            while working:
                try:
                    news = self.news.get(timeout=_HEARTBEAT_S)
                except Empty:
                    news = 0
                if isinstance(news, BaseException):
                    raise news
                if news is None:
                    working -= 1
                else:
                    advance(news)
        finally:
            self.stop.set()
            self._leave(threads)

    def _leave(self, threads: Iterable[_Thread]) -> None:
        """Wait a little for the threads, and store the results that they finished."""
        deadline = time.monotonic() + _GRACE_S
        failure: InputError | None = None
        for thread in threads:
            if thread.ident is not None:  # a Ctrl-C may come before it starts
                thread.join(max(0.0, deadline - time.monotonic()))
            try:
                thread.leave()
            except InputError as error:
                failure = error
        if failure is not None:
            raise failure


class _Thread(threading.Thread):
    def __init__(self, runner: _Runner) -> None:
        super().__init__(daemon=True)
        self._runner = runner
        self._lock = threading.Lock()
        self._builder = BatchBuilder()
        self._committed = time.monotonic()
        self._left = False

    def run(self) -> None:
        runner = self._runner
        try:
            work = runner.agenda.take()
            while work is not None and not runner.stop.is_set():
                started = time.perf_counter()
                with runner.ledger.watch:
                    outcome = runner.run_work(work, runner.stop.is_set)
                seconds = time.perf_counter() - started
                self._keep(work, outcome)
                runner.news.put(work.count)
                work = runner.agenda.take_after(work, seconds, outcome.memory)
            self._commit()
            runner.news.put(None)
        except BaseException as error:  # the thread that waits for this one raises it
            runner.news.put(error)

    def _keep(self, work: Work, outcome: Outcome) -> None:
        with self._lock:
            if work.record and not self._left:
                self._builder.add(work.source, work.first, work.count, outcome.facts, outcome.results)
            if outcome.memory is not None and not self._left:
                self._builder.remember(work.source, work.first + work.count, outcome.memory)
        if time.monotonic() - self._committed >= _COMMIT_EVERY_S:
            self._commit()

    def _commit(self) -> None:
        with self._lock:
            builder, self._builder = self._builder, BatchBuilder()
            self._committed = time.monotonic()
            if builder.pieces or builder.memories:
                self._runner.ledger.commit(builder.build())

    def leave(self) -> None:
        """Commit finished results; later results of the thread are discarded."""
        self._commit()
        with self._lock:
            self._left = True
