"""Packet captures of one replication."""

from __future__ import annotations

import shutil
from pathlib import Path

from lasthop import _core
from lasthop.campaign import ChosenRun
from lasthop.errors import InputError

POINTS = ("server", "client", "router-in", "router-out")
DROPS = "drops.csv"


def _comment(run: ChosenRun) -> str:
    return (
        f"lasthop {_core.VERSION} (commit {_core.COMMIT}), scenario {run.plan.study.name}, "
        f"digest {run.cell.digest}, cell {run.cell.key}, seed {run.plan.seed}, set {run.set_number}, "
        f"replication {run.replication} (number {run.number}); time 0 of the run is 2000-01-01T00:00:00Z"
    )


def write_captures(run: ChosenRun, out: Path) -> list[Path]:
    """Run it and write its captures into the new folder `out`; return the files. Nothing is left of a failure."""
    try:
        out.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{out} exists, and nothing is overwritten: name a folder that does not.") from error
    except OSError as error:
        raise InputError(f"Cannot make the folder {out}: {error}.") from error
    try:
        run.cell.capture(run.plan.seed, run.first, run.number, str(out), _comment(run))
    except BaseException as error:
        shutil.rmtree(out)
        if isinstance(error, OSError):
            raise InputError(f"Cannot write the captures to {out}: {error}.") from error
        raise
    return [out / f"{point}.pcapng" for point in POINTS] + [out / DROPS]
