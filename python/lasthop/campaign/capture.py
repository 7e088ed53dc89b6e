"""Packet captures of one replication."""

from __future__ import annotations

import shutil
from pathlib import Path

from lasthop import _core
from lasthop.campaign.plan import ChosenRun
from lasthop.errors import InputError


def write_captures(run: ChosenRun, out: Path, snap_length: int = _core.SNAP_LENGTH) -> list[Path]:
    """Run one replication and write its captures into the new folder `out`; return the files.

    The first `snap_length` bytes of each packet are kept. A failure leaves nothing behind.
    """
    try:
        out.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{out} exists, and nothing is overwritten: name a folder that does not.") from error
    except OSError as error:
        raise InputError(f"Cannot make the folder {out}: {error}.") from error
    try:
        run.capture(out, snap_length)
    except BaseException as error:
        shutil.rmtree(out)
        if isinstance(error, OSError):
            raise InputError(f"Cannot write the captures to {out}: {error}.") from error
        raise
    points = sorted(out.glob("*.pcapng"), key=_rank)
    return [*points, *sorted(out.glob("*.csv")), *sorted(out.glob("*.sqlog"))]


def _rank(file: Path) -> tuple[int, str]:
    """Order the hosts and the router of a single hop as packets pass them."""
    known = _core.CAPTURE_FILES
    return known.index(file.name) if file.name in known else len(known), file.name
