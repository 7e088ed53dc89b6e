"""The files of transfers: contents and certificates, which follow from a seed."""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lasthop.common.cache import cache_folder
from lasthop.stacks.certificate import identity


class Material(NamedTuple):
    """What both ends of a transfer find in their folders."""

    www: Path
    certs: Path
    files: dict[str, tuple[int, str]]
    """Size and SHA-256 of each file in `www`, in the order of requests."""


def material_of(name: str, sizes: Sequence[int], seed: int, *, hollow: bool = False) -> Material:
    """Return the files of the server `name`, from the user's cache; `hollow`: zeros that take no space."""
    kind = 2 if hollow else 1
    key = hashlib.sha256(json.dumps([kind, name, sizes, seed]).encode()).hexdigest()[:24]
    folder = cache_folder("transfers") / key
    index = folder / "files.json"
    if not index.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            whole = Path(made) / "whole"
            _write(whole, name, sizes, seed, hollow=hollow)
            try:
                whole.rename(folder)
            except OSError:  # another process was faster
                if not index.exists():
                    raise
    files = {own: (size, digest) for own, (size, digest) in json.loads(index.read_text("utf-8")).items()}
    return Material(folder / "www", folder / "certs", files)


def _write(folder: Path, name: str, sizes: Sequence[int], seed: int, *, hollow: bool) -> None:
    www, certs = folder / "www", folder / "certs"
    for each in (www, certs):
        each.mkdir(parents=True)
    files = {}
    for number, size in enumerate(sizes, 1):
        if hollow:
            with (www / f"file{number}").open("wb") as whole:
                whole.truncate(size)
            files[f"file{number}"] = (size, "")
            continue
        content = hashlib.shake_256(f"{seed}/{name}/{number}".encode()).digest(size)
        (www / f"file{number}").write_bytes(content)
        files[f"file{number}"] = (size, hashlib.sha256(content).hexdigest())
    own = identity(seed, [name])
    # The names of the runner, and one that clients may look for.
    for file, text in (("cert.pem", own.chain), ("priv.key", own.key), ("ca.pem", own.authority)):
        (certs / file).write_bytes(text)
        os.chmod(certs / file, 0o644)  # noqa: PTH101  servers may give up their rights
    (folder / "files.json").write_text(json.dumps(files), encoding="utf-8")
