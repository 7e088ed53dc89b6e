"""Running replications in a guest kernel, whose clock stands still during computation."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.common.processes import process_of, seconds
from lasthop.engines.engine import CaptureTarget, Observation, Request, SeriesTarget
from lasthop.engines.hosts import Answer, HostEngine, HostResults, combine, message_of, results_of
from lasthop.engines.kernel.boot import (
    NEEDED_TOOLS,
    claimed_cores,
    command_of,
    environment_of,
    guest_program,
    memory_file,
    with_console,
)
from lasthop.engines.kernel.store import Kernel, kernels
from lasthop.engines.kernel.wanted import kernel_for
from lasthop.engines.programs import program_of

if TYPE_CHECKING:
    from lasthop.engines.kernel.guest_programs import GuestAnswer

# Enough for the socket limits of a common machine; untouched memory is not used.
_MEMORY = "1G"
# A guest that has used no processor for this long waits in vain.
_IDLE_LIMIT_S = 30.0
# A replication that computes for longer than this hangs.
_REPLICATION_LIMIT_S = 300.0
_LOOK_EVERY_MS = 1000
# A guest needs 2 or 3 s for so many packets, by an estimate that is mostly high; it boots in 1 % of that.
_BOOT_PACKETS = 100_000
_BOOT_REPLICATIONS = 100
# The name of a time series in the guest's answer.
_SERIES = "series.csv"


class _GuestFailureError(Exception):
    """A guest ended without an answer; the text has the reason and the end of its console."""


@dataclass(frozen=True)
class KernelEngine(HostEngine):
    """A guest kernel, with at most one guest on each of `cores`, by default all that this process may use."""

    name: ClassVar[str] = "kernel"
    linux_router: ClassVar[bool] = True
    repeatable: ClassVar[bool] = True

    kernel: Kernel
    cores: Iterable[int] = field(default_factory=lambda: sorted(os.sched_getaffinity(0)))
    _free: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        for core in self.cores:
            self._free.put(core)

    @classmethod
    def choose(cls, kernel: str | None) -> Self:
        """Return the engine with the kernel of this name or source tree, by default with the newest."""
        return cls(kernel_for(kernel))

    @classmethod
    def on_worker(cls, identity: Mapping[str, object]) -> Self:
        """Return the engine with the kernel of this digest."""
        guest_program()
        digest, own = str(identity["kernel"]), kernels()
        for kernel in own:
            if kernel.digest == digest:
                return cls(kernel)
        names = ", ".join(f"{kernel.name} ({kernel.digest[:8]})" for kernel in own) or "none"
        raise InputError(f"it needs the guest kernel with digest {digest[:8]}, but its kernels are: {names}")

    def for_threads(self, threads: int) -> Self:
        """Return the engine with its own core for each thread."""
        return replace(self, cores=claimed_cores(threads), _free=queue.SimpleQueue())

    @property
    def title(self) -> str:
        return f"kernel (Linux {self.kernel.info.version}, virtual time; SHA-256 {self.kernel.digest[:16]})"

    @property
    def identity(self) -> Mapping[str, str]:
        return {"kernel": self.kernel.digest}

    @property
    def options(self) -> Sequence[str]:
        """Name the kernel unless it is the default."""
        is_default = self.kernel in kernels()[-1:]
        return (*super().options, *(() if is_default else ("--kernel", self.kernel.name)))

    def identity_of(self, cell: _core.Cell) -> Sequence[str]:
        """Return the digest of the cell's own kernel, if it has one."""
        return () if cell.kernel is None else (self._kernel(cell).digest,)

    def _kernel(self, cell: _core.Cell) -> Kernel:
        return self.kernel if cell.kernel is None else kernel_for(cell.kernel)

    @property
    def guest(self) -> str:
        return f"Linux {self.kernel.info.version} (User-Mode Linux)"

    @property
    def remedy(self) -> str:
        return f"Copy {self.kernel.folder} to the same place there."

    def repeats(self, cell: _core.Cell) -> bool:
        """Whether computation takes no virtual time, as processor time varies between runs."""
        program = program_of(cell)
        return program is None or not program.get("cpu_cost")

    def stretch(self, cell: _core.Cell) -> int:
        """Return the number of replications per boot, a few seconds' work.

        Each depends on the previous ones through the guest's random numbers.
        """
        if cell.sequential or program_of(cell) is not None:
            return super().stretch(cell)
        packets, _ = cell.estimate
        return int(min(max(1.0, _BOOT_PACKETS / max(packets, 1.0)), _BOOT_REPLICATIONS))

    def served_together(self, cell: _core.Cell) -> int:
        """Return the number of replications that share the servers of a guest."""
        program = program_of(cell)
        return 1 if program is None else program.get("keep_servers") or 1

    def run_cell(self, cell: _core.Cell, request: Request) -> HostResults:
        """Run each stretch of replications in its own boot."""
        if program_of(cell) is not None:
            return results_of(self._run_program_in_guest(cell, request))
        length, boots = self.stretch(cell), []
        for before in range(0, request.count, length):
            part = request.part(request.first + before, min(length, request.count - before))
            boots.append(self._run_boot(cell, part))
        return combine(boots) if len(boots) > 1 else boots[0]

    def _run_boot(self, cell: _core.Cell, request: Request) -> HostResults:
        """Run replications in one boot.

        The guest's random numbers follow from `seed` and `first`, so equal boots give equal bytes.
        """
        captures, series = request.captures, request.series
        wanted = message_of(cell, _inside(request, lambda number: Path("/captures") / str(number)))
        spec = json.dumps({"run": {**wanted, "spin_us": 0}})
        with _message_file(series) as messages:
            try:
                self._boot(self._kernel(cell), spec, request, messages)
            except _GuestFailureError:
                # A failure of the machine (memory, a signal) may not recur, but one of the kernel will.
                try:
                    self._boot(self._kernel(cell), spec, request, messages)
                except _GuestFailureError as failure:
                    raise InputError(
                        f"The guest kernel failed twice for {cell.key or 'the scenario'}: {failure}"
                    ) from failure
            answer = _unpack(messages, captures, series)
        if (reason := answer.get("error")) is not None:
            raise InputError(f"The kernel engine cannot run {cell.key or 'the scenario'}: {reason}")
        return results_of(answer)

    def _run_program_in_guest(self, cell: _core.Cell, request: Request) -> Answer:
        """Run replications of a program of this machine in a guest."""
        program = program_of(cell)
        assert program is not None
        from lasthop.engines.kernel.guest_programs import FILES, MEMORY, GuestRequest, start_guest

        captures, series = request.captures, request.series
        message = message_of(cell, _inside(request, lambda number: FILES / str(number)))
        guest_request = GuestRequest(
            cell=cell,
            seed=_guest_seed(request),
            command=[],
            write=_folders(message["scenario"]["flow"][0].get("write", ())),
            cpu_cost=program.get("cpu_cost", 0.0),
            run={**message, "spin_us": 0},
        )
        core = self._free.get()
        try:
            with (
                Path(os.devnull).open("r+b", buffering=0) as nothing,
                start_guest(
                    self._kernel(cell),
                    guest_request,
                    core=core,
                    streams=(nothing.fileno(),) * 3,
                    captured=captures,
                ) as guest,
            ):
                answer = guest.answer()
                killed = guest.out_of_memory()
                for number, capture in captures.items():
                    guest.write_captures(capture.folder, number)
                if series is not None:
                    guest.write_series(series.file)
        finally:
            self._free.put(core)
        name = cell.key or "the scenario"
        if answer["overlay_full"]:
            raise InputError(f"The programs of {name} wrote more data than the guest can store.")
        if killed:
            raise InputError(
                f"The programs of {name} need more memory than the guest has ({MEMORY}), which killed "
                f"{', '.join(killed)}."
            )
        return answer

    def _boot(self, kernel: Kernel, spec: str, request: Request, messages: BinaryIO) -> None:
        """Boot, run and power off a guest; write its messages to `messages`."""
        messages.seek(0)
        messages.truncate()
        guest = _core.initial_file_system(guest_program(), spec)
        core = self._free.get()
        try:
            with memory_file("initrd", guest) as initrd, memory_file("console") as console:
                files = initrd, messages.fileno(), console
                process = self._start(kernel, core, files, _guest_seed(request))
                try:
                    code = _watch(process, _REPLICATION_LIMIT_S * request.count)
                finally:
                    _kill(process)
                if code != 0 or not os.fstat(messages.fileno()).st_size:
                    reason = "it hung" if code is None else f"it ended with code {code}"
                    raise _GuestFailureError(with_console(reason, console))
        finally:
            self._free.put(core)

    def _start(
        self, kernel: Kernel, core: int, files: tuple[int, int, int], seed: int
    ) -> subprocess.Popen[bytes]:
        initrd, answer, console = files
        command = command_of(kernel, core, memory=_MEMORY, initrd=0, console=2, line="ssl0=null,fd:1")
        try:
            return subprocess.Popen(
                command,
                stdin=initrd,
                stdout=answer,
                stderr=console,
                env=environment_of(seed, _MEMORY),
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise InputError(NEEDED_TOOLS) from error


def _guest_seed(request: Request) -> int:
    return request.seed ^ request.first << 32


def _inside(request: Request, place: Callable[[int], Path]) -> Request:
    """Return a request with the guest's file names; `place` gives the folder of a replication's captures."""

    def move(number: int, wanted: Observation) -> Observation:
        capture = wanted.capture and wanted.capture._replace(folder=place(number))
        series = wanted.series and wanted.series._replace(file=Path(_SERIES))
        return wanted._replace(capture=capture, series=series)

    return replace(request, observations={n: move(n, wanted) for n, wanted in request.observations.items()})


def _folders(names: Iterable[str]) -> list[Path]:
    """Return the folders that programs may write to; raise `InputError` if one does not exist."""
    folders = [Path(name) for name in names]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"The folder {folder}, to which programs may write, does not exist.")
    return folders


def _watch(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Wait for the end of a guest; return its exit code, or `None` if it hangs."""
    deadline = time.monotonic() + limit_s
    used, since = -1.0, time.monotonic()
    end = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        while not poll.poll(_LOOK_EVERY_MS):
            now = time.monotonic()
            if (using := _processor_s(process.pid)) != used:
                used, since = using, now
            if now > deadline or now - since > _IDLE_LIMIT_S:
                return None
    finally:
        os.close(end)
    return process.wait()


def _processor_s(session: int) -> float:
    """Return the processor time of all processes of a session so far."""
    processes = (process_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return seconds(sum(own.ticks for own in processes if own is not None and own.session == session))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a guest; those of older kernels outlive their first process."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _message_file(series: SeriesTarget | None) -> BinaryIO:
    """Return an unnamed file for a guest's messages, in memory, or on disk if they grow with the run."""
    if series is None:
        return os.fdopen(os.memfd_create("answer", 0), "w+b")
    return tempfile.TemporaryFile(dir=series.file.parent)


def _unpack(
    messages: BinaryIO, captures: Mapping[int, CaptureTarget], series: SeriesTarget | None
) -> GuestAnswer:
    """Write the files in a guest's messages to their targets; return its answer."""
    import tarfile

    answer: GuestAnswer | None = None
    messages.seek(0)
    with tarfile.open(fileobj=messages, mode="r|") as archive, ExitStack() as stack:
        rows = None if series is None else stack.enter_context(series.file.open("wb"))
        for member in archive:
            file = archive.extractfile(member)
            if file is None:
                continue
            if member.name == "answer.json":
                answer = json.load(file)
            elif member.name == _SERIES:
                assert rows is not None
                rows.write(file.read())
            else:
                _, number, name = member.name.split("/")
                (captures[int(number)].folder / name).write_bytes(file.read())
    assert answer is not None
    return answer
