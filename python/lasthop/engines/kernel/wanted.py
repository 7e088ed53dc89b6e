"""The kernel that a user names: a built one, or a source tree, which is built once for each content."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lasthop.engines.kernel.store import Kernel, find_kernel, kernels, recipe
from lasthop.errors import BuildError, InputError


def kernel_called(name: str | None) -> Kernel:
    """Return the kernel of this name, of the source tree at this path, or by default the newest.

    A tree is built once for each content, and called after it. Raises `InputError` if there is no such kernel
    and `BuildError` if a tree cannot be built.
    """
    if name is None or ("/" not in name and name not in (".", "..")):
        return find_kernel(name)
    return _of_tree(Path(name).expanduser().resolve())


@functools.cache
def _of_tree(tree: Path) -> Kernel:
    if not (tree / "arch" / "um").is_dir():
        raise InputError(f"There is no source tree of a kernel at {tree}.")
    called = f"tree-{_content(tree)[:12]}"
    built = {kernel.name: kernel for kernel in kernels() if kernel.info.recipe == recipe()}
    return built.get(called) or _build(tree, called)


def _build(tree: Path, called: str) -> Kernel:
    from lasthop.engines.kernel.build import Wanted, build

    print(f"Building the kernel of {tree} as {called}; this takes some minutes.", file=sys.stderr)  # noqa: T201
    try:
        return build(Wanted(str(tree), name=called), os.cpu_count() or 1, lambda _stage, _files: None)
    except InputError as error:
        raise BuildError(str(error)) from error


def _content(tree: Path) -> str:
    """Return the digest of a tree's files, of a Git repository's without those that Git ignores."""
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
