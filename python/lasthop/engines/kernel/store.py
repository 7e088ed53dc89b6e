"""Guest kernels, with a folder for each: those of installed packages, and the store of those built here."""

import functools
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path

from lasthop.common.cache import cache_folder
from lasthop.common.errors import InputError, nearest

_PROGRAM = "linux"
_INFO = "info.json"
_OPTIONS = "config"
# A namespace package: each wheel made by scripts/kernel-wheel adds a folder to it.
_INSTALLED = "lasthop_kernels"
MODULE, TREE = "+", "tree-"
"""Markers in the names of kernels with own code: before a module, and before the digest of a tree."""
HZ = 250
"""Timer ticks per second of Debian's kernels, and by default of guests; results depend on them."""
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
RECIPE = (CONFIG, CHANGES, RANDOM, CALLS, LOOKS, FILES, PROGRAMS, REGISTERS, STUB, VECTORS, HEADERS)
"""The files on which a kernel's program depends."""


@dataclass(frozen=True, slots=True)
class Info:
    """The origin of a kernel and its properties."""

    version: str
    """The version as in the source, such as 6.12.117."""
    source: str
    """The package with its version, or the path."""
    source_sha256: str | None
    """SHA-256 of the source's archive; `None` for an unpacked tree."""
    recipe: str
    """The digest of lasthop's configuration and changes to the source."""
    compiler: str
    build_s: float
    seccomp: bool
    """Whether the kernel can control its processes by seccomp, which makes system calls cheaper."""
    choice: str = "not recorded"
    """The reason for choosing this source; older versions did not record it."""
    hz: int = HZ
    """Timer ticks per second."""


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
    def options(self) -> Path:
        """The complete configuration (`.config`); kernels of older versions of lasthop lack it."""
        return self.folder / _OPTIONS

    @property
    def is_installed(self) -> bool:
        """Whether the kernel belongs to an installed package and not to the store."""
        return self.folder.parent != store()

    @property
    def has_own_code(self) -> bool:
        """Whether it has modules or was built from a user's tree, so that it is never the default."""
        return MODULE in self.name or self.name.startswith(TREE)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the program: equal kernels give equal results."""
        return hashlib.sha256(self.program.read_bytes()).hexdigest()


def store() -> Path:
    """Return the folder of the kernels, which may not exist."""
    return cache_folder("kernels")


def recipe() -> str:
    """Return the digest of the recipe for a kernel."""
    return hashlib.sha256(b"".join(part.read_bytes() for part in RECIPE)).hexdigest()


def kernels() -> list[Kernel]:
    """Return the kernels: first those with own code, then the others, oldest release first.

    A kernel of the store replaces an installed one of the same name, unless it is out of date.
    """
    # Another version of lasthop may have stored more facts about a kernel.
    names = {field.name for field in fields(Info)}
    current = recipe()
    found: dict[str, Kernel] = {}
    for folder in _folders():
        info = json.loads((folder / _INFO).read_text(encoding="utf-8"))
        own = Info(**{key: value for key, value in info.items() if key in names})
        if folder.name not in found or own.recipe == current:
            found[folder.name] = Kernel(folder.name, folder, own)

    def order(kernel: Kernel) -> tuple[bool, list[int], str]:
        version = [int(part) for part in re.findall(r"\d+", kernel.info.version)]
        return not kernel.has_own_code, version, kernel.name

    return sorted(found.values(), key=order)


def _folders() -> Iterator[Path]:
    """Yield the folders of kernels, first the installed ones."""
    package = find_spec(_INSTALLED)
    installed = (package and package.submodule_search_locations) or []
    for place in (*map(Path, installed), store()):
        for folder in place.iterdir() if place.is_dir() else ():
            if (folder / _INFO).is_file() and (folder / _PROGRAM).is_file():
                yield folder


def name_of(release: str, hz: int) -> str:
    """Return the name of a kernel of a release with this many ticks per second."""
    return release if hz == HZ else f"{release}-{hz}hz"


def find_kernel(name: str | None, hz: int = HZ) -> Kernel:
    """Return the kernel `name`, or the newest with this many ticks per second.

    Raise `InputError` if it does not exist, or if it is out of date.
    """
    stored = {kernel.name: kernel for kernel in kernels()}
    if not stored:
        raise InputError(
            "The kernel engine needs a guest kernel. Install one with pip install 'lasthop[kernel]', or "
            "build one with 'lasthop kernel build', which is needed only once and takes a few minutes."
        )
    if name is not None and name not in stored:
        raise InputError(
            f"There is no kernel '{name}'; did you mean '{nearest(name, stored)}'? Kernels: "
            f"{', '.join(stored)}. To build another: lasthop kernel build --source {name}."
        )
    # Kernels for another version of lasthop are refused below, so they come last.
    wanted = recipe()
    with_hz = [kernel for kernel in stored.values() if kernel.info.hz == hz]
    usable = [kernel for kernel in with_hz if kernel.info.recipe == wanted]
    if name is None and not with_hz:
        raise InputError(
            f"There is no kernel with {hz} ticks per second. Kernels: {', '.join(stored)}. "
            f"To build one: lasthop kernel build{_ticks(hz)}."
        )
    kernel = stored[name] if name is not None else (usable or with_hz)[-1]
    if kernel.info.recipe != wanted and kernel.is_installed:
        raise InputError(
            f"The installed kernel '{kernel.name}' was built for another version of lasthop. Install the one "
            "for this version: pip install --upgrade 'lasthop[kernel]'."
        )
    if kernel.info.recipe != wanted:
        release = kernel.name.removesuffix(name_of("", kernel.info.hz))
        raise InputError(
            f"The kernel '{kernel.name}' was built for another version of lasthop. Build it again: "
            f"lasthop kernel build --source {release}{_ticks(kernel.info.hz)}."
        )
    return kernel


def _ticks(hz: int) -> str:
    return "" if hz == HZ else f" --hz {hz}"


def save(name: str, program: Path, options: Path, info: Info) -> Kernel:
    """Store a kernel with its configuration; it replaces one of the same name."""
    target = store() / name
    temporary = target.with_name(f"{name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    shutil.copy2(program, temporary / _PROGRAM)
    shutil.copyfile(options, temporary / _OPTIONS)
    (temporary / _INFO).write_text(json.dumps(asdict(info), indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    temporary.rename(target)
    return Kernel(name, target, info)


def remove(kernel: Kernel) -> None:
    """Remove a kernel from the store. Raise `InputError` if it belongs to an installed package."""
    if kernel.is_installed:
        raise InputError(
            f"The kernel '{kernel.name}' belongs to an installed package. Remove it with pip uninstall."
        )
    shutil.rmtree(kernel.folder)
