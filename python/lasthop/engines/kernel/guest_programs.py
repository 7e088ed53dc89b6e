"""Programs of this machine behind the last hop, in a guest kernel's virtual time."""

import fcntl
import json
import os
import re
import select
import signal
import termios
import time
import tty
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.common.processes import process_of
from lasthop.engines.hosts import Answer, RunSpec
from lasthop.engines.kernel.boot import (
    NEEDED_TOOLS,
    command_of,
    environment_of,
    guest_program,
    memory_file,
    read_file,
    with_console,
)
from lasthop.engines.kernel.store import Kernel
from lasthop.engines.programs import ShellRequest

START = datetime(2026, 1, 1, tzinfo=UTC)
"""The guest's default date at the start of the command."""
FILES = Path("/dev/lasthop")
"""The folder of the host's files in a guest."""
MEMORY = "2G"
"""The default memory of a guest; untouched memory is not used."""
# Descriptors of the guest's files; captures come last.
_INITRD, _NOTHING, _CONSOLE, _STDIN, _STDOUT, _STDERR, _ANSWER, _SIGNALS, _SERIES, _CAPTURE = range(10)
# The maximum of devices of a driver of the guest (register_chrdev).
_FILES_MAX = 256
# A process of a guest that is dead at this many checks, at this interval, was killed from outside.
_LOOK_S, _LOOKS = 1.0, 3
# Chromium has 20 processes, a busy web server fewer. A fork bomb creates some hundred per second.
_MOST_PROCESSES = 1000
# Exit code of a guest whose program computes endlessly (programs.h).
_SPUN = 77
_FOREVER = "going to sleep forever"
# The kernel's message on a program that it killed for lack of memory.
_KILLED = re.compile(r"Killed process \d+ \((.*?)\) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestRequest(ShellRequest):
    """Programs to run behind a last hop, and the properties of their guest."""

    write: Sequence[Path] = ()
    """Folders that programs may write to; anything else that they write is discarded with the guest."""
    start: datetime = START
    cpu_cost: float = 0.0
    """Virtual time per processor time; if above 0, runs are not repeatable."""
    memory: str = MEMORY
    """A size for Linux' `mem=`, such as 512M. Half of it is for files that programs write."""
    terminal: Mapping[str, object] | None = None
    """Settings of the command's terminal (`terminal_settings`), if it does not use the streams."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path = field(default_factory=Path.cwd)
    run: RunSpec | None = None
    """Replications of the cell's program, instead of `command`, as `RunSpec` of crates/lasthop-host."""


@dataclass(frozen=True, slots=True)
class Command:
    """A root command in a guest, and its working folder."""

    arguments: Sequence[str]
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The work of a guest, and its resources."""

    what: Mapping[str, object]
    """`What` of crates/lasthop-guest."""
    user: Mapping[str, object]
    seed: int
    memory: str = MEMORY
    start: datetime = START
    write: Sequence[Path] = ()
    cpu_cost: float = 0.0
    terminal: Mapping[str, object] | None = None
    captures: Mapping[str, int] = field(default_factory=dict)
    series: bool = False


class GuestAnswer(Answer, total=False):
    """The report of a guest; it contains an answer if it ran replications."""

    error: str
    code: int
    elapsed_ns: int
    overlay_full: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    """The exit code of the command, or 128 plus the signal that ended it."""
    virtual_s: float
    """Virtual time of the command."""
    wall_s: float
    """Wall time of the guest."""
    overlay_full: bool
    """Whether the space for files that programs write was exhausted."""
    out_of_memory: Sequence[str]
    """The names of the programs that the guest killed for lack of memory."""


class Guest:
    """A guest that runs a command and its servers; see `start_guest`."""

    def __init__(self, pid: int, files: Mapping[int, int], captures: Mapping[str, int], signals: int) -> None:
        """Take over a running process, with its files by their descriptors in the guest."""
        self._pid, self._files, self._captures, self._signals = pid, files, captures, signals
        self._start = time.monotonic()
        self._code: int | None = None

    def signal(self, number: int) -> None:
        """Forward a signal to the command; the second one ends everything."""
        with suppress(OSError):
            os.write(self._signals, bytes([number]))

    def answer(self) -> GuestAnswer:
        """Wait for the guest and return its report; raise `InputError` if the command could not run."""
        self._watch()
        _, status = os.waitpid(self._pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        lines = self.lines()
        if self._code != 0 or not lines:
            raise InputError(_failure(self._code, self._files[_CONSOLE]))
        report: GuestAnswer = json.loads(lines[-1])
        if (reason := report.get("error")) is not None:
            raise InputError(f"The guest kernel cannot run this: {reason}")
        return report

    def lines(self) -> list[bytes]:
        """Return the guest's messages so far; the last one of a successful guest is its report."""
        return read_file(self._files[_ANSWER]).splitlines()

    def _watch(self) -> None:
        """Wait for the end of the guest; raise `InputError` if it hangs.

        If a process of the guest is killed from outside, the guest does not notice until it schedules that
        process again, perhaps never. If programs start others endlessly, no virtual time passes.
        """
        end = os.pidfd_open(self._pid)
        try:
            looks: Counter[int] = Counter()
            while not select.select([end], [], [], _LOOK_S)[0]:
                children = _children(self._pid)
                if len(children) > _MOST_PROCESSES:
                    raise InputError(
                        f"The programs started more than {_MOST_PROCESSES} processes, perhaps a fork bomb, "
                        "and were killed."
                    )
                dead = filter(_is_dead, children)
                looks = Counter({child: looks[child] + 1 for child in dead})
                # The guest reaps processes that it ends itself, but on a busy machine not at once.
                if any(count > _LOOKS for count in looks.values()):
                    raise InputError("A process of the guest was killed from outside.")
        finally:
            os.close(end)

    def wait(self) -> Outcome:
        """Wait for the end of a command; raise `InputError` if the guest could not run it."""
        report = self.answer()
        return Outcome(
            code=report["code"],
            virtual_s=report["elapsed_ns"] / 1e9,
            wall_s=time.monotonic() - self._start,
            overlay_full=report["overlay_full"],
            out_of_memory=self.out_of_memory(),
        )

    def out_of_memory(self) -> list[str]:
        """Return the names of the programs that the guest killed for lack of memory, after its end."""
        return _KILLED.findall(read_file(self._files[_CONSOLE]).decode(errors="replace"))

    def write_captures(self, folder: Path, replication: int) -> None:
        """Write the captures of a replication into an existing folder, after the guest's end."""
        for name, number in self._captures.items():
            of, _, file = name.partition("/")
            if of == str(replication):
                (folder / file).write_bytes(read_file(self._files[number]))

    def write_series(self, file: Path) -> None:
        """Write the requested time series into a new file, after the guest's end."""
        with file.open("xb") as out:
            out.write(read_file(self._files[_SERIES]))

    def end(self) -> None:
        """Kill all processes of the guest; those of older kernels outlive their first process."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        if self._code is None:
            os.waitpid(self._pid, 0)
            self._code = -signal.SIGKILL


def _children(pid: int) -> list[int]:
    """Return the children of a process, which for a guest are its programs' processes."""
    with suppress(OSError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))
    return []


def _is_dead(pid: int) -> bool:
    """Whether a process is a zombie."""
    process = process_of(pid)
    return process is not None and process.state == "Z"


def _failure(code: int, console: int) -> str:
    text = read_file(console).decode(errors="replace")
    if code == _SPUN and (spun := re.search(r"lasthop: (.*)", text)):
        return (
            f"{spun[1]}, so virtual time stands still. If it uses busy waiting, or needs time to pass while "
            "it computes, run it with --cpu-cost 1 (in a scenario: cpu_cost = 1)."
        )
    if _FOREVER in text:
        return "All programs wait for events that never happen."
    return with_console(f"The guest kernel ended with code {code}", console)


@contextmanager
def start_guest(
    kernel: Kernel,
    request: GuestRequest,
    *,
    core: int,
    streams: tuple[int, int, int] = (0, 1, 2),
    captured: Collection[int] = (),
) -> Iterator[Guest]:
    """Boot a guest on a core of this machine and run a command in it; kill it at the end of the context.

    `streams` are the command's standard input, output and error. Packets of the `captured` replications are
    captured; a command is replication 1. Equal requests and kernels give equal packets and output.
    """
    names = [f"{number}/{name}" for number in captured for name in request.cell.capture_files]
    if _CAPTURE + len(names) > _FILES_MAX:
        raise InputError(
            f"A guest can write {_FILES_MAX - _CAPTURE} captures, not {len(names)}: choose a smaller "
            "keep_servers."
        )
    captures = {name: number for number, name in enumerate(names, _CAPTURE)}
    shell = request.specification(spin_us=0, captures=FILES / "1" if captures else None)
    run = request.run
    work = _Work(
        what={"shell": shell} if run is None else {"run": run},
        user={
            "user": os.geteuid(),
            "group": os.getegid(),
            "groups": os.getgroups(),
            "environment": [pair for pair in request.environment.items() if _is_text(pair)],
            "folder": str(request.folder),
        },
        seed=request.seed,
        memory=request.memory,
        start=request.start,
        write=request.write,
        cpu_cost=request.cpu_cost,
        terminal=request.terminal,
        captures=captures,
        series=run is not None and any("series" in own for own in run["wanted"]["observations"].values()),
    )
    with _boot(kernel, work, core, streams) as guest:
        yield guest


@contextmanager
def start_commands(
    kernel: Kernel,
    commands: Sequence[Command],
    *,
    core: int,
    seed: int,
    environment: Mapping[str, str],
    write: Sequence[Path] = (),
) -> Iterator[Guest]:
    """Boot a guest that runs commands as root, one after the other, each in its own network.

    They may write to the folders in `write`; anything else that they write is discarded with the guest.
    `Guest.lines` has a line for each command that has ended, an `Ended` of crates/lasthop-guest.
    """
    work = _Work(
        what={"commands": [{"command": own.arguments, "folder": str(own.folder)} for own in commands]},
        user={"user": 0, "group": 0, "groups": [], "environment": [*environment.items()], "folder": "/"},
        seed=seed,
        write=write,
    )
    with (
        Path(os.devnull).open("r+b", buffering=0) as nothing,
        _boot(kernel, work, core, (nothing.fileno(),) * 3) as guest,
    ):
        yield guest


@contextmanager
def _boot(kernel: Kernel, work: _Work, core: int, streams: tuple[int, int, int]) -> Iterator[Guest]:
    with ExitStack() as stack:
        initrd = _core.initial_file_system(guest_program(), json.dumps({"programs": _specification(work)}))
        signals, forwarding = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, forwarding)
        stack.callback(os.close, signals)
        own = {number: stack.enter_context(memory_file("answer")) for number in (_CONSOLE, _ANSWER)}
        own |= {number: stack.enter_context(memory_file("capture")) for number in work.captures.values()}
        if work.series:
            own[_SERIES] = stack.enter_context(memory_file("series"))
        own[_INITRD] = stack.enter_context(memory_file("initrd", initrd))
        own[_NOTHING] = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, own[_NOTHING])
        files = {**own, _SIGNALS: signals, **dict(zip((_STDIN, _STDOUT, _STDERR), streams, strict=True))}
        guest = Guest(_spawn(kernel, work, core, files), own, work.captures, forwarding)
        stack.callback(guest.end)
        yield guest


def _specification(work: _Work) -> dict[str, object]:
    """Return the work as `ProgramsSpec` of crates/lasthop-guest."""
    files = {"stdin": _STDIN, "stdout": _STDOUT, "stderr": _STDERR, "answer": _ANSWER, **work.captures}
    if work.series:
        files["series"] = _SERIES
    return {
        "what": work.what,
        "user": work.user,
        "date_s": int(work.start.timestamp()),
        "write": [str(folder.resolve()) for folder in work.write],
        "terminal": work.terminal,
        "files": list(files.items()),
    }


def _is_text(pair: tuple[str, str]) -> bool:
    """Whether a variable can be encoded in JSON."""
    with suppress(UnicodeEncodeError):
        "".join(pair).encode()
        return True
    return False


def _spawn(kernel: Kernel, work: _Work, core: int, files: Mapping[int, int]) -> int:
    """Start the guest with these files under these descriptors; return the process."""
    line = f"ssl1=fd:{_SIGNALS},null"
    command = command_of(kernel, core, memory=work.memory, initrd=_INITRD, console=_CONSOLE, line=line)
    environment = environment_of(work.seed, work.memory) | {"LASTHOP_PROGRAMS": "1"}
    if work.cpu_cost > 0:
        environment["LASTHOP_CPU_COST"] = str(round(work.cpu_cost * 1000))
    elsewhere = max(files) + 1
    moved = {number: fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, elsewhere) for number, file in files.items()}
    try:
        actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in moved.items()]
        return os.posix_spawnp(command[0], command, environment, file_actions=actions, setsid=True)
    except FileNotFoundError as error:
        raise InputError(NEEDED_TOOLS) from error
    finally:
        for file in moved.values():
            os.close(file)


def terminal_settings(terminal: int) -> dict[str, object]:
    """Return the settings of an open terminal, as `Settings` of crates/lasthop-host."""
    *modes, _, _, characters = termios.tcgetattr(terminal)
    numbers = [character if isinstance(character, int) else ord(character) for character in characters]
    return {**dict(zip(("input", "output", "control", "local"), modes, strict=True)), "characters": numbers}


@contextmanager
def untreated(terminal: int) -> Iterator[None]:
    """Set an open terminal to raw mode within the context."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
