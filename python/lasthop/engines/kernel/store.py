"""The guest kernels that users have built: one folder each, outside the project."""

import functools
import hashlib
import json
import re
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lasthop.common.cache import cache_folder
from lasthop.common.errors import InputError, nearest

_PROGRAM = "linux"
_INFO = "info.json"
MODULE, TREE = "+", "tree-"
"""Marks in the names of kernels with code of one's own: before a module, before the digest of a tree."""
HZ = 250
"""Timer ticks in a second of Debian's kernels, and of guests by default: they set results."""
CONFIG = Path(__file__).with_name("guest.config")
CHANGES = Path(__file__).with_name("changes.py")
RANDOM = Path(__file__).with_name("seeded_random.h")
CALLS = Path(__file__).with_name("batched_calls.h")
LOOKS = Path(__file__).with_name("looks.h")
FILES = Path(__file__).with_name("host_files.c")
PROGRAMS = Path(__file__).with_name("programs.h")
REGISTERS = Path(__file__).with_name("wide_registers.h")
STUB = Path(__file__).with_name("watched_stub.h")
VECTORS = Path(__file__).with_name("kept_vectors.h")
HEADERS = Path(__file__).with_name("precompiled.h")


@dataclass(frozen=True, slots=True)
class Info:
    """What a kernel was made from, and what it can do."""

    version: str
    """The source's own name of its version, such as 6.12.117."""
    source: str
    """The package with its version, or the given path."""
    source_sha256: str | None
    """SHA-256 of the source's archive; `None` for an unpacked tree."""
    recipe: str
    """Digest of the configuration and the changes to the source that this version of lasthop asks for."""
    compiler: str
    build_s: float
    seccomp: bool
    """Whether the kernel can follow its processes by seccomp, which makes its system calls cheaper."""
    choice: str = "not recorded"
    """Why this source was taken; builds of older versions do not say."""
    hz: int = HZ
    """Timer ticks in a second."""


@dataclass(frozen=True)
class Kernel:
    name: str
    folder: Path
    info: Info

    @property
    def program(self) -> Path:
        """The kernel itself, a program of this machine."""
        return self.folder / _PROGRAM

    @property
    def has_own_code(self) -> bool:
        """Whether it has modules or comes from a tree that a user named: such a kernel is no default."""
        return MODULE in self.name or self.name.startswith(TREE)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the program: equal kernels give equal results."""
        return hashlib.sha256(self.program.read_bytes()).hexdigest()


def store() -> Path:
    """Return the folder that holds the kernels, which need not exist."""
    return cache_folder("kernels")


def recipe() -> str:
    """Return the digest of the recipe for a kernel."""
    parts = (CONFIG, CHANGES, RANDOM, CALLS, LOOKS, FILES, PROGRAMS, REGISTERS, STUB, VECTORS, HEADERS)
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


def kernels() -> list[Kernel]:
    """Return the usable kernels, oldest release first, but before all those with code of a user's own."""
    # Another version of lasthop may have kept a kernel here, with more facts about it.
    known = {field.name for field in fields(Info)}
    found = []
    for folder in store().iterdir() if store().is_dir() else []:
        if (folder / _INFO).is_file() and (folder / _PROGRAM).is_file():
            info = json.loads((folder / _INFO).read_text(encoding="utf-8"))
            own = {key: value for key, value in info.items() if key in known}
            found.append(Kernel(folder.name, folder, Info(**own)))
    return sorted(
        found,
        key=lambda one: (
            not one.has_own_code,
            [int(part) for part in re.findall(r"\d+", one.info.version)],
            one.name,
        ),
    )


def name_of(release: str, hz: int) -> str:
    """Return the name of a kernel of a release with this many ticks in a second."""
    return release if hz == HZ else f"{release}-{hz}hz"


def find_kernel(name: str | None, hz: int = HZ) -> Kernel:
    """Return the kernel called `name`, or the newest with this many ticks in a second.

    Raise `InputError` if there is none, or if it is out of date.
    """
    found = {kernel.name: kernel for kernel in kernels()}
    if not found:
        raise InputError(
            "The kernel engine needs a guest kernel. Build one with 'lasthop kernel build'; you need this "
            "only once, and it takes a few minutes."
        )
    if name is not None and name not in found:
        raise InputError(
            f"No kernel called '{name}' has been built; did you mean '{nearest(name, found)}'? Built: "
            f"{', '.join(found)}. 'lasthop kernel build --source {name}' builds another."
        )
    # A kernel built for another version of lasthop is refused below, so it counts only if there is no other.
    wanted = recipe()
    ticking = [kernel for kernel in found.values() if kernel.info.hz == hz]
    usable = [kernel for kernel in ticking if kernel.info.recipe == wanted]
    if name is None and not ticking:
        raise InputError(
            f"No kernel with {hz} ticks in a second has been built. Built: {', '.join(found)}. "
            f"'lasthop kernel build{_ticks(hz)}' builds one."
        )
    kernel = found[name] if name is not None else (usable or ticking)[-1]
    if kernel.info.recipe != wanted:
        release = kernel.name.removesuffix(name_of("", kernel.info.hz))
        raise InputError(
            f"The kernel '{kernel.name}' was built for another version of lasthop. Build it again with "
            f"'lasthop kernel build --source {release}{_ticks(kernel.info.hz)}'."
        )
    return kernel


def _ticks(hz: int) -> str:
    return "" if hz == HZ else f" --hz {hz}"


def keep(name: str, program: Path, info: Info) -> Kernel:
    """Put a built program into the store, in place of one of the same name."""
    target = store() / name
    temporary = target.with_name(f"{name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    shutil.copy2(program, temporary / _PROGRAM)
    (temporary / _INFO).write_text(json.dumps(asdict(info), indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    temporary.rename(target)
    return Kernel(name, target, info)


def remove(kernel: Kernel) -> None:
    shutil.rmtree(kernel.folder)
