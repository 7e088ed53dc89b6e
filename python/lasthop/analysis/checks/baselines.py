"""Baselines: records of an earlier version, in small folders that a repository or a cache can keep."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lasthop.campaign.results.folder import MANIFEST, RECORDS
from lasthop.campaign.results.manifest import finished
from lasthop.common.errors import InputError, nearest

FOLDER = Path("baselines")
_FILES = (*RECORDS, MANIFEST)
"""The records and what made them. The manifest is copied last: it makes the folder a whole one."""


@dataclass(frozen=True)
class Baseline:
    folder: Path
    engine: str
    cells: int
    replications: int
    version: str
    bytes: int


def save(name: str, results: Path, folder: Path, *, overwrite: bool) -> Path:
    """Copy the records of finished results into a folder called `name` within `folder`; return its path."""
    finished(results)
    place = folder / _plain(name)
    if place.exists() and not overwrite:
        raise InputError(f"{place} exists: give --overwrite to replace it, or another name.")
    if place.exists():
        remove(name, folder)
    place.mkdir(parents=True)
    for file in _FILES:
        if (results / file).is_file():
            shutil.copyfile(results / file, place / file)
    return place


def saved(folder: Path) -> Iterator[Baseline]:
    """Yield the baselines in a folder, by name."""
    for place in sorted(folder.glob(f"*/{MANIFEST}")):
        identity = finished(place.parent)["identity"]
        yield Baseline(
            folder=place.parent,
            engine=identity["engine"],
            cells=len(identity["cells"]),
            replications=identity["replications"] * identity["sets"],
            version=f"{identity['lasthop_version']} ({identity['lasthop_commit'][:8]})",
            bytes=sum(file.stat().st_size for file in place.parent.iterdir()),
        )


def remove(name: str, folder: Path) -> None:
    """Remove a baseline; files of others stay, and then so does its folder."""
    place = folder / _plain(name)
    known = [one.folder.name for one in saved(folder)]
    if name not in known:
        hint = f"; did you mean '{nearest(name, known)}'?" if known else "."
        raise InputError(f"There is no baseline '{name}' in {folder}{hint}")
    # The manifest goes last: if a removal is cut short, it can be repeated.
    for file in _FILES:
        (place / file).unlink(missing_ok=True)
    if not any(place.iterdir()):
        place.rmdir()


def find(wanted: Path | None, scenario: str) -> Path | None:
    """Return the folder of the baseline of a scenario: the one named, or the one saved under its name.

    `wanted` is a folder with records, a folder with the baselines of several scenarios, or a name.
    """
    if wanted is None:
        place = FOLDER / scenario
        return place if (place / MANIFEST).is_file() else None
    for place in (wanted, wanted / scenario, FOLDER / wanted):
        if (place / MANIFEST).is_file():
            return place
    raise InputError(
        f"--baseline {wanted}: there are no records in it, nor in {wanted / scenario} or {FOLDER / wanted}. "
        f"'lasthop check baseline save {scenario}' keeps those of {Path('results') / scenario}."
    )


def _plain(name: str) -> str:
    if name in ("", ".", "..") or "/" in name:
        raise InputError(f"'{name}' cannot name a baseline: use a name that a folder may have.")
    return name
