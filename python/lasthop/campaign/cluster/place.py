"""A Dask cluster as the place where a campaign runs.

Dask schedules the tasks, transfers the results and repeats the tasks of a dead worker. A few tasks per thread
are in flight, each of about a second. Results are stored here: workers do not need the results folder.
"""

import importlib.metadata
import math
import operator
import pickle
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import FrameType

from distributed import Client, Future, KilledWorker

from lasthop.campaign.cluster.worker import Answer, Simulator, engine_key, introduce, version, version_text
from lasthop.campaign.plan import Plan
from lasthop.campaign.runner import Agenda, Assignment, Ledger, Work
from lasthop.common.errors import InputError, PlaceLostError
from lasthop.common.metrics.units import counted

TASK_S = 1.0
"""Duration of a task: much more than the milliseconds that a scheduler needs for it."""
TASKS_PER_S = 200
"""Most tasks per second that a scheduler gets, half of its capacity: with many threads, tasks are longer."""
LEAST_TASK_S = 0.1
IN_FLIGHT = 3
"""Tasks per thread: running, waiting at the worker, and waiting at the scheduler."""
_LOOK_EVERY_S = 1.0
_HEARTBEAT_S = 0.5
_LINGER_S = 0.05  # to receive results and send tasks in groups
_GATHERED = 500
_LINES = 8

Tasks = Sequence[Work]


@dataclass(slots=True)
class Share:
    """The work that a worker has done so far."""

    threads: int
    since: float = field(default_factory=time.monotonic)
    runs: int = 0
    busy_s: float = 0.0

    def line(self, address: str) -> str:
        """Format the worker's throughput, and the share of its time that it was busy."""
        elapsed_s = max(time.monotonic() - self.since, 1e-3)
        busy = min(1.0, self.busy_s / elapsed_s / self.threads)
        runs, threads = counted(self.runs, "run"), counted(self.threads, "thread")
        return f"{address}: {threads}, {runs}, {self.runs / elapsed_s:.1f} runs/s, {busy:.0%} busy"


class DaskPlace:
    """The workers of a scheduler. It can run one assignment after the other."""

    def __init__(self, client: Client, address: str, renew: Callable[[], None] | None = None) -> None:
        """Use a connected client; messages show `address`, and periodic calls of `renew` replace workers."""
        self._client = client
        self._address = address
        self._renew = renew
        self._present: Mapping[str, int] = {}
        self._shares: dict[str, Share] = {}
        self._introduced: set[str] = set()
        self._looked = -math.inf
        self._lost: set[str] = set()

    @property
    def threads(self) -> int:
        return sum(self._present.values())

    @property
    def lost(self) -> int:
        return len(self._lost)

    def mourn(self, address: str) -> None:
        """Count a worker that died. If it started and died between two looks, only its lost task shows it."""
        self._lost.add(address)

    def detail(self) -> list[str]:
        present = dict(self._present)
        if not present:
            return [f"Waiting for workers: {self._address} has none."]
        lost = f", {self.lost} lost" if self.lost else ""
        lines = [f"{counted(len(present), 'worker')}, {counted(sum(present.values()), 'thread')}{lost}"]
        if len(present) <= _LINES:
            lines += [f"  {self._shares[address].line(address)}" for address in sorted(present)]
        return lines

    def summary(self) -> list[str]:
        done = {address: share for address, share in sorted(self._shares.items()) if share.runs}
        lines = [share.line(address) for address, share in list(done.items())[:_LINES]]
        if len(done) > _LINES:
            lines.append(f"and {counted(len(done) - _LINES, 'more worker')}")
        if self.lost:
            lines.append(f"Lost {counted(self.lost, 'worker')}; their tasks were repeated by others.")
        return lines

    def run(self, assignment: Assignment, ledger: Ledger, advance: Callable[[int], None]) -> None:
        """Run everything; raise `PlaceLostError` if the scheduler disappears."""
        self._looked = -math.inf
        self.look(assignment.plan)
        flight = _Flight(self, self._client, assignment, ledger)
        try:
            with ledger.watch, _ctrl_c() as stopped:
                while flight.is_unfinished():
                    if stopped.is_set():
                        raise KeyboardInterrupt
                    self.look(assignment.plan)
                    flight.fill(self.threads)
                    advance(flight.land())
            with suppress(PlaceLostError), self.using_scheduler():  # the rest does not need the scheduler
                self._update(self._client.nthreads())  # counts workers that died since the last look
        finally:
            flight.cancel()

    @contextmanager
    def using_scheduler(self) -> Iterator[None]:
        """Raise `PlaceLostError` for an error that is due to a lost scheduler."""
        try:
            yield
        except Exception as error:
            # A Dask client that has lost its scheduler raises all kinds of errors.
            if self._client.status == "running" and not isinstance(error, OSError | CancelledError):
                raise
            raise self.gone() from error

    def gone(self) -> PlaceLostError:
        """Return the error for a lost scheduler."""
        return PlaceLostError(f"The scheduler at {self._address} has disappeared.")

    def look(self, plan: Plan, *, at_once: bool = False) -> None:
        """Update the list of workers periodically; raise `InputError` for workers that cannot be used."""
        if not at_once and time.monotonic() - self._looked < _LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        if self._renew is not None:
            self._renew()
        with self.using_scheduler():
            present = self._client.nthreads()
            self._check(plan, [address for address in present if address not in self._introduced])
        self._update(present)

    def _update(self, present: Mapping[str, int]) -> None:
        self._lost |= self._present.keys() - present.keys()
        for address, threads in present.items():
            self._shares.setdefault(address, Share(threads)).threads = threads
        self._present = present

    def _check(self, plan: Plan, newcomers: Sequence[str]) -> None:
        if not newcomers:
            return
        key = engine_key(plan.engine)
        answers = self._client.run(introduce, key, workers=list(newcomers), on_error="return")
        reasons = []
        for address, answer in answers.items():
            if isinstance(answer, OSError):
                continue  # the worker has disappeared
            reason = self._reason(plan, address, answer)
            if reason is None:
                self._introduced.add(address)
            else:
                reasons.append(f"Worker {address} cannot be used: {reason}")
        if reasons:
            if len(reasons) > _LINES:
                reasons[_LINES:] = [f"{counted(len(reasons) - _LINES, 'more worker')} cannot be used."]
            raise InputError("\n".join(reasons))

    def _reason(self, plan: Plan, address: str, answer: object) -> str | None:
        """Return the reason why the worker with this answer cannot be used."""
        remedy = f"but this is {version_text(version())}. Install the same version there."
        if isinstance(answer, ImportError):
            packages = self._client.run(
                importlib.metadata.version, "lasthop", workers=[address], on_error="return"
            )
            installed = packages.get(address)
            return (
                f"it has lasthop {installed} without the extra 'cluster', {remedy}"
                if isinstance(installed, str)
                else (f"it has no lasthop ({answer}), {remedy}")
            )
        if not isinstance(answer, tuple):
            return f"{type(answer).__name__}: {answer}"
        theirs, problem = answer
        if theirs != version():
            return f"it has {version_text(theirs)}, {remedy}"
        return None if problem is None else f"{problem}. {plan.engine.remedy}"

    def record(self, answer: Answer, runs: int) -> None:
        share = self._shares.setdefault(answer.worker, Share(1))
        share.runs += runs
        share.busy_s += sum(answer.seconds)


@contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets; a second Ctrl-C raises at once.

    The first must not raise: in a destructor of Dask's, Python would ignore the exception and print it.
    """
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            signal.default_int_handler(number, frame)
        stopped.set()

    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


class _Flight:
    """The tasks of an assignment that are under way."""

    def __init__(self, place: DaskPlace, client: Client, assignment: Assignment, ledger: Ledger) -> None:
        plan = assignment.plan
        self._place, self._client, self._plan, self._ledger = place, client, plan, ledger
        self._agenda = Agenda(assignment.work)
        self._flying: dict[Future[Answer], Tasks] = {}
        self._suspects: deque[Work] = deque()  # from tasks that Dask gave up because their workers died
        self._alone = False  # whether a suspect is under way, and nothing else
        self._news: SimpleQueue[Future[Answer]] = SimpleQueue()
        self._name = f"lasthop-{uuid.uuid4().hex[:12]}"
        self._number = 0
        # The scheduler needs no lasthop, as it sees only functions of Python's own.
        simulator = pickle.dumps(Simulator(plan.cells, plan.seed, engine_key(plan.engine)))
        with place.using_scheduler():
            self._simulator = client.submit(pickle.loads, simulator, key=f"{self._name}-plan")

    def is_unfinished(self) -> bool:
        if self._client.status != "running":
            raise self._place.gone()
        return bool(self._flying or self._suspects or self._agenda.left())

    def fill(self, threads: int) -> None:
        """Send tasks, so that every thread has enough to do. Towards the end they get shorter.

        Dask blames a worker's death on all tasks that the worker had, even if they only waited there. So each
        suspect is sent with nothing else under way, so that a death has a single cause.
        """
        if self._suspects or self._alone:
            if not self._flying:
                self._send([[self._suspects.popleft()]])
                self._alone = True
            return
        wanted = IN_FLIGHT * threads - len(self._flying)
        sent: list[list[Work]] = []
        share_s = self._agenda.left_s() / max(1, IN_FLIGHT * threads)
        task_s = max(LEAST_TASK_S, min(share_s, max(TASK_S, threads / TASKS_PER_S)))
        while len(sent) < wanted and (task := self._agenda.bundle(task_s)):
            sent.append(task)
        if sent:
            self._send(sent)

    def _send(self, sent: Sequence[Tasks]) -> None:
        keys = [(self._name, self._number + index) for index in range(len(sent))]
        self._number += len(sent)
        pieces = [
            [(work.unit.cell, work.source, work.first, work.count, work.memory) for work in task]
            for task in sent
        ]
        with self._place.using_scheduler():
            futures = self._client.map(operator.call, [self._simulator] * len(sent), pieces, key=keys)
        for future, task in zip(futures, sent, strict=True):
            self._flying[future] = task
            future.add_done_callback(self._news.put)

    def land(self) -> int:
        """Wait a little for results, store them, and return their number of runs."""
        landed = []
        with suppress(Empty):
            landed.append(self._news.get(timeout=_HEARTBEAT_S))
            time.sleep(_LINGER_S)
            while len(landed) < _GATHERED:
                landed.append(self._news.get_nowait())
        runs = 0
        finished = [future for future in landed if future.status == "finished"]
        with self._place.using_scheduler():
            answers: list[Answer] = self._client.gather(finished)
        for future, answer in zip(finished, answers, strict=True):
            runs += self._keep(self._flying.pop(future), answer)
            self._alone = False
        for future in landed:
            if future.status == "error":
                self._suspect(future)
            if future.status == "cancelled":
                raise self._place.gone()
            if future in self._flying:  # its worker died with the result, and another worker repeats the task
                future.add_done_callback(self._news.put)
        return runs

    def _keep(self, task: Tasks, answer: Answer) -> int:
        self._ledger.commit(answer.batch)
        for work, seconds in zip(task, answer.seconds, strict=True):
            _, memory = answer.batch.memories.get(work.source, (None, None))
            self._agenda.complete(work, seconds, memory)
        self._place.record(answer, answer.batch.runs)
        return answer.batch.runs

    def _suspect(self, future: Future[Answer]) -> None:
        """Schedule the parts of a task whose workers died, to run alone; raise any other error."""
        error = future.exception()
        if self._alone or not isinstance(error, KilledWorker) or error.task == self._simulator.key:
            raise self._failure(future)
        self._place.mourn(error.last_worker.address)
        self._suspects += self._flying.pop(future)

    def _failure(self, future: Future[Answer]) -> Exception:
        """Return the error of a task for the user."""
        error = future.exception()
        runs = self._runs_text(self._flying[future])
        if isinstance(error, KilledWorker):
            activity = "loading the cells" if error.task == self._simulator.key else f"running only {runs}"
            return InputError(
                f"{counted(error.allowed_failures + 1, 'worker')} died while {activity}; the last was "
                f"{error.last_worker.address}. Its log shows the reason, which is often a lack of memory."
            )
        self._place.look(self._plan, at_once=True)  # the worker may be new and have another version
        if isinstance(error, InputError):
            return error
        return InputError(f"A worker could not run {runs}: {type(error).__name__}: {error}")

    def _runs_text(self, task: Tasks) -> str:
        names = []
        for work in task[:_LINES]:
            cell = self._plan.cells[work.unit.cell].key or "the scenario"
            names.append(f"{cell}, replications {work.first} to {work.first + work.count - 1}")
        return "; ".join(names) + (f"; and {len(task) - _LINES} more cells" if len(task) > _LINES else "")

    def cancel(self) -> None:
        """Cancel the tasks that are under way."""
        with suppress(OSError, CancelledError, RuntimeError):
            if self._client.status == "running":
                self._client.cancel([*self._flying, self._simulator], force=True)
