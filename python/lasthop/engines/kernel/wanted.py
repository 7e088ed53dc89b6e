"""The kernel that a user names: a built one, or a source tree, which is built once per content."""

import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lasthop.common.errors import BuildError, InputError
from lasthop.engines.kernel.modules import names_of
from lasthop.engines.kernel.store import TREE, Kernel, find_kernel, kernels, recipe


def kernel_for(name: str | None) -> Kernel:
    """Return the kernel of this name, of the source tree at this path, or by default the newest.

    A tree is built once per content, which determines the kernel's name. Raises `InputError` if the kernel
    does not exist, and `BuildError` if a tree cannot be built.
    """
    return find_kernel(name) if name is None or not _is_path(name) else _find_or_build(_tree_at(name))


def kernel_with(module: Path, name: str | None) -> Kernel:
    """Return the kernel of `kernel_for` with a C file built in, which is built once per content."""
    source = _tree_at(name) if name is not None and _is_path(name) else find_kernel(name).name
    return _find_or_build(source, module.expanduser().resolve())


def _is_path(name: str) -> bool:
    return "/" in name or name in (".", "..")


def _tree_at(path: str) -> Path:
    tree = Path(path).expanduser().resolve()
    if not (tree / "arch" / "um").is_dir():
        raise InputError(f"{tree} is not a source tree of a kernel: it has no folder arch/um.")
    return tree


@functools.cache
def _find_or_build(source: Path | str, *modules: Path) -> Kernel:
    """Return the kernel of a tree or of a release; build it if necessary."""
    base = source if isinstance(source, str) else f"{TREE}{_content_digest(source)[:12]}"
    name = base + names_of(modules)
    by_name = {kernel.name: kernel for kernel in kernels() if kernel.info.recipe == recipe()}
    return by_name.get(name) or _build(str(source), modules, name)


def _build(source: str, modules: Sequence[Path], name: str) -> Kernel:
    from lasthop.engines.kernel.build import Wanted, build

    print(f"Building the kernel {name} from {source}, which takes some minutes.", file=sys.stderr)  # noqa: T201
    wanted = Wanted(source, modules=modules, name=name)
    try:
        return build(wanted, os.cpu_count() or 1, lambda _stage, _files: None)
    except InputError as error:
        raise BuildError(str(error)) from error


def _content_digest(tree: Path) -> str:
    """Return the digest of a tree's files, except those that Git ignores in a repository."""
    digest = hashlib.sha256()
    for file in _files(tree):
        place = tree / file
        if place.is_symlink():
            digest.update(f"{file}\0{place.readlink()}\0".encode())
        elif place.is_file():
            digest.update(f"{file}\0{place.stat().st_size}\0".encode())
            digest.update(place.read_bytes())
    return digest.hexdigest()


def _files(tree: Path) -> Iterator[str]:
    if (tree / ".git").exists():
        listing = ["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(listing, capture_output=True, check=False)
        if done.returncode == 0:
            yield from sorted(set(done.stdout.decode(errors="surrogateescape").split("\0")) - {""})
            return
    yield from sorted(str(file.relative_to(tree)) for file in tree.rglob("*") if not file.is_dir())
