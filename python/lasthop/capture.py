"""Packet captures of one replication."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lasthop import _core
from lasthop.campaign import Plan
from lasthop.errors import InputError

POINTS = ("server", "client", "router-in", "router-out")
DROPS = "drops.csv"


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """Which run: `replication` counts from 1 within `set_number`; without `seed`, the scenario's own.

    `replications` is the size of a set, as the scenario says if not given.
    """

    study: _core.Study
    cell: _core.Cell
    replication: int
    set_number: int = 1
    seed: int | None = None
    replications: int | None = None


def write_captures(request: CaptureRequest, out: Path) -> list[Path]:
    """Run it and write its captures into the new folder `out`; return the files. Nothing is left of a failure."""
    study = request.study
    plan = Plan(
        study,
        [request.cell],
        study.seed if request.seed is None else request.seed,
        request.replications or study.replications,
    )
    if request.replication > plan.replications:
        raise InputError(
            f"--replication {request.replication}: a set of '{study.name}' has {plan.replications} replications; "
            "choose a further set with --set, or give the --replications it was run with."
        )
    first = plan.first(request.set_number)
    number = first + request.replication - 1
    comment = (
        f"lasthop {_core.VERSION} (commit {_core.COMMIT}), scenario {study.name}, digest {request.cell.digest}, "
        f"cell {request.cell.key}, seed {plan.seed}, set {request.set_number}, replication {request.replication} "
        f"(number {number}); time 0 of the run is 2000-01-01T00:00:00Z"
    )
    try:
        out.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{out} exists, and nothing is overwritten: name a folder that does not.") from error
    except OSError as error:
        raise InputError(f"Cannot make the folder {out}: {error}.") from error
    try:
        request.cell.capture(plan.seed, first, number, str(out), comment)
    except BaseException as error:
        shutil.rmtree(out)
        if isinstance(error, OSError):
            raise InputError(f"Cannot write the captures to {out}: {error}.") from error
        raise
    return [out / f"{point}.pcapng" for point in POINTS] + [out / DROPS]
