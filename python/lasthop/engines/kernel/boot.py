"""What every guest needs to boot: a core, its program, its command line, and private files."""

import functools
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lasthop.common.errors import InputError
from lasthop.engines.kernel.store import Kernel

NEEDED_TOOLS = "The kernel engine needs setpriv, taskset and setarch (package util-linux)."
# This many lines of the console are shown if a guest fails.
_CONSOLE_LINES = 40
# Any time will do, as long as it is the same in every boot.
_START_NS = 1_000_000_000
_GUEST = Path(__file__).with_name("guest")
_UNITS = {"M": 1 << 20, "G": 1 << 30}


def claimed_cores(count: int) -> dict[int, socket.socket]:
    """Return cores of this machine that no other worker of lasthop has claimed.

    Each is free when its socket closes.

    A guest runs on one core, and worker processes side by side must not all choose the same core.
    """
    claims: dict[int, socket.socket] = {}
    cores = sorted(os.sched_getaffinity(0))
    for core in cores:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0lasthop-core-{core}")
        except OSError:
            claim.close()
        else:
            claims[core] = claim
        if len(claims) == count:
            break
    return claims or {core: socket.socket() for core in cores[:count]}  # more workers than cores


def guest_program() -> bytes:
    """Return the path of the program that the guest starts."""
    try:
        return _GUEST.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"The program that runs in the guest is missing: {_GUEST}. Build it with 'make kernel'."
        ) from error


def command_of(kernel: Kernel, core: int, *, memory: str, initrd: int, console: int, line: str) -> list[str]:
    """Return the command that starts a guest on a core.

    `initrd` and `console` are its files, `line` is a serial line. The guest's random numbers follow from its
    arguments, too (random_init_early), so the arguments must not differ from boot to boot: the guest's files
    have fixed numbers, whatever else this process has open.
    """
    return [
        # The guest dies with the thread that started it: nothing is left behind, however this process ends.
        *("setpriv", "--pdeathsig", "KILL"),
        # If this process ended before that, the guest has another parent.
        *("sh", "-c", f'[ "$PPID" -eq {os.getpid()} ] && exec "$@"', "sh"),
        *("taskset", "--cpu-list", str(core)),
        *_fixed_addresses(),
        str(kernel.program),
        f"mem={memory}",
        f"initrd=/proc/self/fd/{initrd}",
        "rdinit=/init",
        "time-travel=inf-cpu",
        f"time-travel-start={_START_NS}",
        "con=null",
        f"con0=null,fd:{console}",
        line,
        # Otherwise it would put a socket there for a debugger; nothing can be made in this folder.
        "uml_dir=/proc/",
        "quiet",
        *(["seccomp=on"] if kernel.info.seccomp else []),
    ]


@functools.cache
def _fixed_addresses() -> Sequence[str]:
    """Return the command that fixes addresses, so that the guest's memory has the same size in every boot.

    Some containers forbid that; then only programs that look at the size see a difference.
    """
    command = ("setarch", "--addr-no-randomize")
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError as error:
        raise InputError(NEEDED_TOOLS) from error
    return command if allowed else ()


def memory_bytes(size: str) -> int:
    """Return how many bytes a size such as 512M or 2G is."""
    return int(size[:-1]) * _UNITS[size[-1]]


def environment_of(seed: int, memory: str) -> dict[str, str]:
    """Return the environment of a guest with this much memory."""
    return {
        "PATH": os.defpath,
        "TMPDIR": _memory_folder(memory_bytes(memory)),
        # The host's C library would register an area that a guest's processes must not inherit.
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
        "LASTHOP_SEED": str(seed % 2**64),
    }


def with_console(what: str, console: int) -> str:
    """Say how a guest ended, and quote the end of its console."""
    lines = read_file(console).decode(errors="replace").strip().splitlines()[-_CONSOLE_LINES:]
    return "\n  ".join([f"{what}. The end of its console:", *lines])


def _memory_folder(size: int) -> str:
    """Return a file for the guest's memory, unlinked at once: in memory, if there is room."""
    shared = "/dev/shm"
    try:
        state = os.statvfs(shared)
    except OSError:
        return tempfile.gettempdir()
    roomy = state.f_bavail * state.f_frsize > size and not state.f_flag & os.ST_NOEXEC
    return shared if roomy and os.access(shared, os.W_OK) else tempfile.gettempdir()


@contextmanager
def memory_file(name: str, content: bytes = b"") -> Iterator[int]:
    """Yield a file without a name in any file system, which a guest inherits."""
    descriptor = os.memfd_create(name)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield descriptor
    finally:
        os.close(descriptor)


def read_file(descriptor: int) -> bytes:
    """Return the contents of a file, from its start."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()
