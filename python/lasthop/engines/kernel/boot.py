"""The requirements of every guest: a core, its program, its command line, and private files."""

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
# The number of lines of the console in the error message for a failed guest.
_CONSOLE_LINES = 40
_PTRACE = (
    "A guest needs ptrace for its own processes. In a container, its seccomp profile must allow it; "
    "elsewhere the sysctl kernel.yama.ptrace_scope must be 0 or 1."
)
# Arbitrary, but the same in every boot.
_START_NS = 1_000_000_000
_GUEST = Path(__file__).with_name("guest")
_UNITS = {"M": 1 << 20, "G": 1 << 30}


def claimed_cores(count: int) -> dict[int, socket.socket]:
    """Claim cores of this machine, so that guests of several processes use different ones.

    A core is released when its socket is closed.
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
    """Return the program that the guest starts."""
    try:
        return _GUEST.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"The program that runs in the guest is missing: {_GUEST}. Build it with 'make kernel'."
        ) from error


def command_of(kernel: Kernel, core: int, *, memory: str, initrd: int, console: int, line: str) -> list[str]:
    """Return the command that starts a guest on a core.

    `initrd` and `console` are its file descriptors, `line` is a serial line. The guest's random numbers
    depend on its arguments (random_init_early), so these are equal in every boot, with fixed descriptors.
    """
    return [
        # Kill the guest when the thread that started it ends.
        *("setpriv", "--pdeathsig", "KILL"),
        # The guest has another parent if this process ended earlier.
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
        # A folder where the guest cannot create the socket for a debugger.
        "uml_dir=/proc/",
        "quiet",
        *(["seccomp=on"] if kernel.info.seccomp else []),
    ]


@functools.cache
def _fixed_addresses() -> Sequence[str]:
    """Return the command that fixes addresses, so that the guest's memory has the same size in every boot.

    In containers that forbid it, only programs that examine the size are affected.
    """
    command = ("setarch", "--addr-no-randomize")
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError as error:
        raise InputError(NEEDED_TOOLS) from error
    return command if allowed else ()


def memory_bytes(size: str) -> int:
    """Return a size such as 512M or 2G in bytes."""
    return int(size[:-1]) * _UNITS[size[-1]]


def environment_of(seed: int, memory: str) -> dict[str, str]:
    """Return the environment of a guest with this much memory."""
    return {
        "PATH": os.defpath,
        "TMPDIR": _memory_folder(memory_bytes(memory)),
        # Do not register rseq areas, which a guest's processes must not inherit.
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
        "LASTHOP_SEED": str(seed % 2**64),
    }


def with_console(reason: str, console: int) -> str:
    """Return the reason for a guest's end, followed by the end of its console."""
    lines = read_file(console).decode(errors="replace").strip().splitlines()[-_CONSOLE_LINES:]
    advice = [_PTRACE] if any("ptrace" in line for line in lines) else []
    return "\n  ".join([f"{reason}. The end of its console:", *lines, *advice])


def _memory_folder(size: int) -> str:
    """Return the folder for the guest's memory, an unlinked file: in memory if there is space."""
    shared = "/dev/shm"
    try:
        state = os.statvfs(shared)
    except OSError:
        return tempfile.gettempdir()
    is_usable = state.f_bavail * state.f_frsize > size and not state.f_flag & os.ST_NOEXEC
    return shared if is_usable and os.access(shared, os.W_OK) else tempfile.gettempdir()


@contextmanager
def memory_file(name: str, content: bytes = b"") -> Iterator[int]:
    """Yield an unnamed file in memory, which a guest inherits."""
    descriptor = os.memfd_create(name)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield descriptor
    finally:
        os.close(descriptor)


def read_file(descriptor: int) -> bytes:
    """Return the whole contents of a file."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()
