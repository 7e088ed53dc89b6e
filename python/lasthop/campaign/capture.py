"""Packet captures of one replication, or of all that a campaign runs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lasthop import _core
from lasthop.campaign.inventory import Inventory
from lasthop.campaign.plan import ChosenRun
from lasthop.campaign.results.folder import TRACES
from lasthop.campaign.results.store import Store
from lasthop.campaign.runner import Work
from lasthop.common.errors import InputError
from lasthop.engines.engine import CaptureTarget


def write_captures(run: ChosenRun, out: Path, snap_length: int = _core.SNAP_LENGTH) -> list[Path]:
    """Run one replication and write its captures into the new folder `out`; return the files.

    A capture has the first `snap_length` bytes of each packet. A failure leaves nothing behind.
    """
    try:
        out.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{out} already exists and is not overwritten: give a new folder.") from error
    except OSError as error:
        raise InputError(f"Cannot create the folder {out}: {error}.") from error
    try:
        run.capture(out, snap_length)
    except BaseException as error:
        shutil.rmtree(out)
        if isinstance(error, OSError):
            raise InputError(f"Cannot write the captures to {out}: {error}.") from error
        raise
    points = sorted(out.glob("*.pcapng"), key=_rank)
    return [*points, *sorted(out.glob("*.csv")), *sorted(out.glob("*qlog"))]


def _rank(file: Path) -> tuple[int, str]:
    """Order the hosts and the router of a single hop as packets pass them."""
    order = _core.CAPTURE_FILES
    return order.index(file.name) if file.name in order else len(order), file.name


@contextmanager
def capturing(store: Store, inventory: Inventory, work: Work) -> Iterator[dict[int, CaptureTarget]]:
    """Yield the target of each replication's captures, which are written completely or not at all."""
    targets: dict[int, CaptureTarget] = {}
    if not work.capture:
        yield targets
        return
    plan, traces = inventory.plan, inventory.out / TRACES
    first = plan.first(work.unit.set_number)
    numbers = range(work.first, work.first + work.count)
    folders = [(f, number) for f, (_, number) in inventory.capture_folders(work.unit) if number in numbers]
    try:
        for folder, number in folders:
            temporary = traces / f"{folder}.tmp"
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            run = ChosenRun(plan, plan.cells[work.unit.cell], work.unit.set_number, number - first + 1)
            length = inventory.snap_length or _core.SNAP_LENGTH
            targets[number] = CaptureTarget(temporary, run.provenance(), length)
        yield targets
        for folder, number in folders:
            final = traces / folder
            shutil.rmtree(final, ignore_errors=True)
            targets[number].folder.rename(final)
            store.add_capture(folder, work.source, number)
    except BaseException:
        for target in targets.values():
            shutil.rmtree(target.folder, ignore_errors=True)
        raise
