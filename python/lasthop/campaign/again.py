"""Repeating the runs of finished results. Results contain no events; a repeated run has the same events."""

from collections.abc import Sequence
from pathlib import Path

from lasthop.campaign.limits import Limits
from lasthop.campaign.plan import INPUTS, ChosenRun, Plan
from lasthop.campaign.results.manifest import SCENARIO_FILE, finished
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import counted
from lasthop.engines.registry import ENGINES
from lasthop.scenario.points import KEY as SPACE
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import all_levels, select_cells


def runs_of(
    folder: Path, only: Sequence[str], replication: int, set_number: int, limits: Limits | None = None
) -> list[ChosenRun]:
    """Return one run of each cell in the folder's results, or of each cell that `only` chooses.

    Raise `InputError` if the runs cannot be repeated, as the scenario file or lasthop has changed.
    """
    manifest = finished(folder)
    identity = manifest["identity"]
    file = Path(manifest.get(SCENARIO_FILE, identity["scenario"]))
    if not file.is_file():
        raise InputError(
            f"{folder} contains no events, and its runs cannot be repeated because the scenario {file} does "
            "not exist. Give the scenario file or the study instead of the folder."
        )
    engine = ENGINES.get(identity["engine"])
    if engine is None:
        raise InputError(
            f"{folder} contains results of the unknown engine '{identity['engine']}'. "
            f"Engines: {', '.join(ENGINES)}."
        )
    if not engine.repeatable:
        raise InputError(
            f"{folder} contains results of the {engine.name} engine, whose runs cannot be repeated."
        )
    space = manifest.get(SPACE)
    study = read_study(file, None if space is None else space["points"])
    cells = [
        cell for cell in select_cells(study.cells, all_levels(study), only) if cell.key in identity["cells"]
    ]
    if study.digest != identity["scenario_digest"]:
        raise InputError(
            f"{file} has changed since the results in {folder}: run it again, or give the file itself."
        )
    if not cells:
        raise InputError(
            f"{folder} has no results of these cells. Its cells: {'; '.join(identity['cells'])}."
        )
    if set_number > identity["sets"]:
        raise InputError(f"--set {set_number}: {folder} has {counted(identity['sets'], 'set')}.")
    plan = Plan(
        study=study,
        cells=cells,
        seed=identity["seed"],
        replications=identity["replications"],
        sets=identity["sets"],
        engine=engine.on_worker(identity),
        until=identity.get("until", ()),
        file=file,
        limits=limits or Limits(),
    )
    if not plan.repeatable:
        raise InputError(f"The programs in {folder} ran with cpu_cost, so their runs cannot be repeated.")
    if any(identity.get(key) != value for key, value in plan.version().items()):
        raise InputError(
            f"{folder} contains results of another version of lasthop: run {file} again, or give the file "
            "itself."
        )
    before = identity.get(INPUTS, {})
    if changed := [path for path, digest in plan.input_digests.items() if before.get(path) != digest]:
        raise InputError(
            f"{changed[0]} has changed since the results in {folder}: run {file} again, or give that file "
            "itself."
        )
    return [ChosenRun(plan, cell, set_number, replication) for cell in cells]
