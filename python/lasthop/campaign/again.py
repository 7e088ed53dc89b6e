"""Makes the runs of finished results once more. Results hold no events; a repeated run has the same ones."""

from collections.abc import Sequence
from pathlib import Path

from lasthop.campaign.limits import Limits
from lasthop.campaign.plan import INPUTS, ChosenRun, Plan
from lasthop.campaign.results.manifest import SCENARIO_FILE, finished
from lasthop.common.errors import InputError
from lasthop.engines.registry import ENGINES
from lasthop.scenario.points import KEY as SPACE
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import all_levels, select_cells


def runs_of(
    folder: Path, only: Sequence[str], replication: int, set_number: int, limits: Limits | None = None
) -> list[ChosenRun]:
    """Return one run of each cell in the folder's results, or of each cell that `only` chooses.

    Raise `InputError` if the runs cannot be made again: the scenario file is gone or has changed, or lasthop
    has changed.
    """
    manifest = finished(folder)
    identity = manifest["identity"]
    file = Path(manifest.get(SCENARIO_FILE, identity["scenario"]))
    if not file.is_file():
        raise InputError(
            f"{folder} holds no events, and the scenario to make them again, {file}, is not there: give the "
            "scenario file or the study that was run."
        )
    engine = ENGINES.get(identity["engine"])
    if engine is None:
        raise InputError(
            f"{folder} was made by the engine {identity['engine']}, and lasthop has {', '.join(ENGINES)}."
        )
    if not engine.repeatable:
        raise InputError(f"{folder} was made by the {engine.name} engine, whose runs cannot be made again.")
    space = manifest.get(SPACE)
    study = read_study(file, None if space is None else space["points"])
    cells = [
        cell for cell in select_cells(study.cells, all_levels(study), only) if cell.key in identity["cells"]
    ]
    if study.digest != identity["scenario_digest"]:
        raise InputError(f"{file} has changed since it made {folder}: run it again, or give the file itself.")
    if not cells:
        raise InputError(f"{folder} has no results of these cells: it has {'; '.join(identity['cells'])}.")
    if set_number > identity["sets"]:
        raise InputError(f"--set {set_number}: the number of sets in {folder} is {identity['sets']}.")
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
        raise InputError(f"The programs of {folder} ran with cpu_cost, so their runs cannot be made again.")
    if any(identity.get(key) != value for key, value in plan.version().items()):
        raise InputError(
            f"{folder} was made by another version of lasthop: run {file} again, or give the file itself."
        )
    known = identity.get(INPUTS, {})
    if changed := [path for path, digest in plan.input_digests.items() if known.get(path) != digest]:
        raise InputError(
            f"{changed[0]} has changed since it made {folder}: repeat its command, or give {file} itself."
        )
    return [ChosenRun(plan, cell, set_number, replication) for cell in cells]
