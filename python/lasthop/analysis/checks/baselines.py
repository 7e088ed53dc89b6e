"""Baselines: records of an earlier version, in small folders for a repository or a cache."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lasthop.campaign.results.folder import MANIFEST, RECORDS
from lasthop.campaign.results.manifest import finished
from lasthop.common.errors import InputError, nearest

FOLDER = Path("baselines")
_FILES = (*RECORDS, MANIFEST)
"""Records and manifest. The manifest is copied last, because it marks the folder as complete."""


@dataclass(frozen=True)
class Baseline:
    folder: Path
    engine: str
    cells: int
    replications: int
    version: str
    bytes: int


def save(name: str, results: Path, folder: Path, *, overwrite: bool) -> Path:
    """Copy the records of finished results into the folder `name` within `folder`; return its path."""
    finished(results)
    place = folder / _plain(name)
    if place.exists() and not overwrite:
        raise InputError(f"{place} already exists: give --overwrite to replace it, or use another name.")
    if place.exists():
        remove(name, folder)
    place.mkdir(parents=True)
    for file in _FILES:
        if (results / file).is_file():
            shutil.copyfile(results / file, place / file)
    return place


def saved(folder: Path) -> Iterator[Baseline]:
    """Yield the baselines in a folder, sorted by name."""
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
    """Remove a baseline, and its folder if it contains no other files."""
    place = folder / _plain(name)
    names = [baseline.folder.name for baseline in saved(folder)]
    if name not in names:
        hint = f"; did you mean '{nearest(name, names)}'?" if names else "."
        raise InputError(f"There is no baseline '{name}' in {folder}{hint}")
    # The manifest is removed last, so that an interrupted removal can be repeated.
    for file in _FILES:
        (place / file).unlink(missing_ok=True)
    if not any(place.iterdir()):
        place.rmdir()


def find(wanted: Path | None, scenario: str) -> Path | None:
    """Return the folder of a scenario's baseline, by default the one with the scenario's name in `FOLDER`.

    `wanted` is a folder with records, a folder with the baselines of several scenarios, or a name.
    """
    if wanted is None:
        place = FOLDER / scenario
        return place if (place / MANIFEST).is_file() else None
    for place in (wanted, wanted / scenario, FOLDER / wanted):
        if (place / MANIFEST).is_file():
            return place
    raise InputError(
        f"--baseline {wanted}: neither it nor {wanted / scenario} nor {FOLDER / wanted} contains records. "
        f"'lasthop check baseline save {scenario}' saves those in {Path('results') / scenario}."
    )


def _plain(name: str) -> str:
    if name in ("", ".", "..") or "/" in name:
        raise InputError(f"'{name}' cannot name a baseline: use a valid folder name.")
    return name
