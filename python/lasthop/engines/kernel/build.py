"""Building a guest kernel: unpacking, changing, configuring and compiling its source."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lasthop.common.errors import InputError
from lasthop.common.extras import tools_missing
from lasthop.engines.kernel.changes import change
from lasthop.engines.kernel.modules import add_modules, names_of
from lasthop.engines.kernel.source import Source, find_source
from lasthop.engines.kernel.store import CONFIG, HZ, Info, Kernel, name_of, recipe, save, store

# Debian packages by their programs.
_TOOLS = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz": "xz-utils",
    "tar": "tar",
    "perl": "perl",
}
# About the number of lines that make prints, one per file; used only for the progress bar.
STEPS = 950
# Two thirds of the source's files, for other machines and devices, except Makefiles and Kconfig files.
_EXCLUDED = [
    f"--exclude=*/{pattern}"
    for pattern in (
        "Documentation/*/*",
        "arch/[!ux]*/*.[chS]",
        "arch/*.dts*",
        "drivers/[!bnct]*/*.[ch]",
        "sound/*.[ch]",
        "tools/perf/*",
        "tools/testing/*",
    )
]
_TIMEOUT_S = 1800


@dataclass(frozen=True)
class Wanted:
    source: str | None
    """A release or a path; by default the newest available release."""
    hz: int = HZ
    """Timer ticks per second."""
    modules: Sequence[Path] = ()
    """C files to build in."""
    name: str | None = None
    """The kernel's name, by default its release with its ticks and modules."""


def build(wanted: Wanted, jobs: int, advance: Callable[[str, int], None]) -> Kernel:
    """Build a kernel and store it.

    `advance` gets the stage and the number of `STEPS` that were completed. Raises `InputError` on failure,
    which leaves only the compiler's messages behind.
    """
    _check_tools()
    start = time.monotonic()
    # Determined now, as developers may change these files while a kernel compiles.
    own_recipe = recipe()
    store().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=store().parent) as folder:
        advance("fetching the source", 0)
        source = find_source(wanted.source, Path(folder))
        advance(f"{source.origin}, {source.choice}", 0)
        advance("unpacking", 0)
        tree = _unpack(source, Path(folder))
        version = _make_output(tree, "kernelversion")
        change(tree, wanted.hz)
        add_modules(tree, wanted.modules)
        advance("configuring", 0)
        _configure(tree)
        _compile(tree, jobs, lambda: advance("compiling", 1))
        program = tree / "linux"
        info = Info(
            version=version,
            source=source.origin,
            source_sha256=source.sha256,
            recipe=own_recipe,
            compiler=_output(["gcc", "--version"]).splitlines()[0],
            build_s=round(time.monotonic() - start, 1),
            seccomp="seccomp=" in _output([str(program), "--help"]),
            choice=source.choice,
            hz=wanted.hz,
        )
        default_name = name_of(source.release or version, wanted.hz) + names_of(wanted.modules)
        return save(wanted.name or default_name, program, tree / ".config", info)


def _check_tools() -> None:
    missing = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    if "gcc" not in missing and not _links_statically():
        missing.append("libc6-dev")
    if missing:
        raise tools_missing("building a kernel", missing)


def _links_statically() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        command = ["gcc", "-static", "-x", "c", "-", "-o", f"{folder}/program"]
        return (
            subprocess.run(
                command, input=b"int main(void) { return 0; }", capture_output=True, check=False
            ).returncode
            == 0
        )


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.strip()


def _unpack(source: Source, folder: Path) -> Path:
    """Return a copy of the source tree, as the user's must not be changed."""
    tree = folder / "tree"
    if source.path.is_dir():
        shutil.copytree(source.path, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        return tree
    tree.mkdir()
    done = subprocess.run(
        ["tar", "--extract", "--file", source.path, "--directory", tree, "--strip-components=1", *_EXCLUDED],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not (tree / "arch" / "um").is_dir():
        raise InputError(f"{source.path} is not an archive of a kernel's source. {done.stderr.strip()}")
    return tree


def _make(tree: Path, *targets: str) -> list[str]:
    # The build's own programs run once and need no optimization.
    return ["make", "-C", str(tree), "ARCH=um", "HOSTCFLAGS=-O0", *targets]


def _environment() -> dict[str, str]:
    # The program must not depend on the machine or the time.
    fixed = {
        "KBUILD_BUILD_TIMESTAMP": "2000-01-01",
        "KBUILD_BUILD_USER": "lasthop",
        "KBUILD_BUILD_HOST": "lasthop",
    }
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    return {**inherited, **fixed, "LC_ALL": "C"}


def _make_output(tree: Path, target: str, *variables: str) -> str:
    command = _make(tree, "-s", target, *variables)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode != 0:
        raise InputError(f"make {target} failed in the kernel's source: {done.stderr.strip()}")
    return done.stdout.strip()


def _configure(tree: Path) -> None:
    wanted = CONFIG.read_text(encoding="utf-8")
    tiny = (tree / "kernel" / "configs" / name for name in ("tiny-base.config", "tiny.config"))
    chosen = tree / "chosen.config"
    chosen.write_text(
        "\n".join([*(part.read_text(encoding="utf-8") for part in tiny), wanted]), encoding="utf-8"
    )
    # In one step: kconfig runs the compiler some hundred times, and sets new options to their defaults.
    _make_output(tree, "allnoconfig", f"KCONFIG_ALLCONFIG={chosen.resolve()}")
    actual = set((tree / ".config").read_text(encoding="utf-8").splitlines())
    needed, separator, of_some_releases = wanted.partition("\n# Only some releases have these.\n")
    assert separator
    names = _options(tree)
    options = needed.splitlines() + [line for line in of_some_releases.splitlines() if _name(line) in names]
    missing = [line for line in options if line.startswith("CONFIG_") and line not in actual]
    if missing:
        raise InputError(f"This kernel cannot be configured as a guest: it lacks {', '.join(missing)}.")


def _options(tree: Path) -> set[str]:
    """Return the names of the options that a release has."""
    option = re.compile(r"(?m)^(?:menu)?config (\w+)$")
    files = (file for file in tree.rglob("Kconfig*") if file.is_file())
    return {name for file in files for name in option.findall(file.read_text(encoding="utf-8"))}


def _name(line: str) -> str:
    """Return the name of the option in a line of a configuration."""
    return line.partition("=")[0].removeprefix("CONFIG_")


def _compile(tree: Path, jobs: int, step: Callable[[], None]) -> None:
    log = []
    with subprocess.Popen(
        _make(tree, f"-j{jobs}", "linux"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(),
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.append(line)
                if len(log) <= STEPS:
                    step()
            code = process.wait(_TIMEOUT_S)
        except BaseException:
            process.terminate()
            raise
    if code != 0 or not (tree / "linux").is_file():
        log_file = store().parent / "build.log"
        log_file.write_text("".join(log), encoding="utf-8")
        errors = [line.strip() for line in log if "error" in line.lower()]
        raise InputError(
            f"The kernel's compilation failed: {(errors or log or ['no message'])[0].strip()} (all messages: "
            f"{log_file})"
        )
