"""The contents of the manifest of finished results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lasthop.campaign.results import shapes
from lasthop.campaign.results.folder import FLOWS, MANIFEST, RUNS
from lasthop.campaign.results.shapes import Manifest
from lasthop.campaign.results.store import STORE
from lasthop.common.errors import InputError

NOTES: Final = "live"
"""The key of the engine's facts about its runs."""
UNTIL: Final = "until"
"""The key of the conditions that ended the cells, if their number of replications was not fixed."""
TASK: Final = "task"
"""The key of the factors that define the task (`lasthop.scenario.changes.task_factors`)."""
MEASURE: Final = "measure"
"""The key of the window of time that metrics are of, in words, if it is not the whole run."""
SCENARIO_FILE: Final = "scenario_file"
"""The key of the scenario file's path at the time of the run."""


class Difference(NamedTuple):
    """A difference of Linux from a scenario's TCP settings, its likely effect, and the affected cells."""

    what: str
    effect: str
    cells: Sequence[str]


def finished(folder: Path) -> Manifest:
    """Return the manifest of finished results; raise `InputError` if `folder` contains none."""
    absent = [name for name in (MANIFEST, RUNS, FLOWS) if not (folder / name).is_file()]
    if absent:
        raise InputError(
            f"{folder} contains no {' and no '.join(absent)}. Give a results folder of 'lasthop run' or "
            "'lasthop study run'. To finish a run that was stopped, repeat its command."
        )
    file = folder / MANIFEST
    try:
        return shapes.manifest(file)
    except ValueError as error:
        raise InputError(
            f"{file} is not a valid manifest of lasthop ({error}). Repeat the command that wrote it: runs in "
            f"{STORE} are not run again."
        ) from error


def looks_of(manifest: Manifest | None) -> int:
    """Return how many looks share the error of a campaign's intervals: 1 without a stopping rule."""
    until = None if manifest is None else manifest.get(UNTIL)
    return 1 if until is None else until["shares"]


def window_of(manifest: Manifest | None) -> str:
    """Return the window of time that metrics are of, in words; empty for whole runs."""
    return "" if manifest is None else manifest.get(MEASURE, "")


def task_of(manifest: Manifest | None) -> list[str]:
    """Return the factors that define the task; none in results of earlier versions."""
    return [] if manifest is None else manifest.get(TASK, [])


def differences_of(manifest: Manifest) -> list[Difference]:
    """Return the differences of Linux from the scenario's TCP settings, as a manifest lists them."""
    cells: dict[tuple[str, str], list[str]] = {}
    notes = manifest.get(NOTES)
    for cell, own in notes["differences"].items() if notes is not None else ():
        for difference in own:
            cells.setdefault((difference["what"], difference["effect"]), []).append(cell)
    return [Difference(what, effect, named) for (what, effect), named in cells.items()]
