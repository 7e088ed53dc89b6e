"""A results folder as a place: its owner, the process that works in it, and how to empty it."""

import fcntl
import hashlib
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from lasthop.campaign.results import shapes
from lasthop.campaign.results.shapes import Manifest
from lasthop.campaign.results.store import STORE, UNBORN, Store, was_left_open
from lasthop.common.errors import InputError, InUseError
from lasthop.common.files import check_name

MANIFEST = "manifest.json"
FLOWS = "flows.parquet"
RUNS = "runs.parquet"
PAGES = "pages.parquet"
SHORTS = "shorts.parquet"
HOPS = "hops.parquet"
STATIONS = "stations.parquet"
RECORDS = (FLOWS, RUNS, PAGES, SHORTS, HOPS, STATIONS)
"""The tables of records that a campaign leaves. Some have none of the last four."""
TRACES = "traces"
LOCK = ".lock"
MERGING = ".merging"
"""Folder in which tables are made; a kill may leave it behind."""
_PARTS = "parts"  # in folders of versions without a store
_OTHERS = (
    "summary.csv",
    "comparison.csv",
    "engines.csv",
    "precision.csv",
    "claims.csv",
    "claims_cells.csv",
    "statements.csv",
    "report.html",
)
"""Files that a campaign leaves besides its records; see `lasthop.analysis.findings.files`."""
_OWN = (MANIFEST, STORE, f"{STORE}-wal", f"{STORE}-shm", *RECORDS, TRACES, MERGING, _PARTS, *_OTHERS)


def check_folder(folder: Path) -> None:
    """Refuse a place that is no folder, or that holds something other than results of lasthop."""
    check_name(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder; choose another place with --out DIR.")
    if is_results(folder):
        return
    if any(entry.name not in (LOCK, UNBORN) for entry in folder.iterdir()):
        raise InputError(
            f"{folder} exists and holds something other than results of lasthop; nothing was changed. "
            "Choose another place with --out DIR."
        )


def is_results(folder: Path) -> bool:
    """Whether lasthop has left results in a folder, finished or not."""
    return (folder / STORE).is_file() or (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder's merged tables; `None` if there is no readable one beside a store."""
    file = folder / MANIFEST
    try:
        return shapes.manifest(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        if (folder / STORE).is_file():
            return None  # everything in it can be made again
        raise InputError(
            f"{file} cannot be read as a manifest of lasthop ({error}); nothing was changed."
        ) from error


def empty(folder: Path) -> None:
    """Remove the results of lasthop from a folder, and nothing else; leave an empty store in it."""
    check_folder(folder)
    if not is_results(folder):
        return
    if (folder / MANIFEST).is_file():
        read_manifest(folder)
    # The files that mark a results folder go last: if a removal is cut short, it can be repeated.
    for name in reversed(_OWN):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with Store(folder):
        pass


def scan_rows(file: Path) -> pl.LazyFrame:
    """Return a table of a results folder, to read parts of it; raise `InputError` if it has changed since."""
    check_name(file)
    check_table(file)
    with _failures_told(file):
        rows = pl.scan_parquet(file, glob=False)
        rows.collect_schema()
        return rows


def read_rows(file: Path) -> pl.DataFrame:
    """Read a table of a results folder; raise `InputError` if it has changed since it was written."""
    with _failures_told(file):
        return scan_rows(file).collect()


def check_table(file: Path) -> None:
    """Raise `InputError` if a table differs from the manifest beside it."""
    manifest = read_manifest(file.parent)
    with _failures_told(file):
        if manifest is not None and manifest["tables"].get(file.name) != digest(file):
            raise _damaged(file, "its SHA-256 is not that in the manifest")


@contextmanager
def _failures_told(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror or error}.") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _damaged(file, str(error).splitlines()[0]) from error


def _damaged(file: Path, reason: str) -> InputError:
    return InputError(
        f"{file} is damaged ({reason}). Repeat the command that made it: what is in {STORE} is not run again."
    )


def digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def tables_are_whole(folder: Path, manifest: Manifest) -> bool:
    """Whether all tables that a manifest names are there, unchanged since they were written."""
    files = {folder / name: manifest["tables"].get(name) for name in RECORDS}
    return all(file.is_file() and digest(file) == known for file, known in files.items() if known is not None)


def forget_tables(folder: Path) -> None:
    """Remove the merged records and everything made of them; the contents of the store stay."""
    for name in (MANIFEST, *RECORDS, *_OTHERS):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def opened_to_read(folder: Path) -> Iterator[Store]:
    """Open the store of a results folder to read it, even if someone writes it or was killed at that."""
    if was_left_open(folder):
        _mend(folder)
    with Store(folder, read_only=True) as store:
        yield store


def _mend(folder: Path) -> None:
    """Repair a store that a kill left open, which takes a writer; leave it alone while there is one."""
    try:
        with suppress(InUseError), locked(folder), Store(folder):
            pass
    except OSError as error:
        raise InputError(
            f"The process that wrote {folder / STORE} was killed. lasthop must repair this file before it "
            f"can read it, and cannot write to {folder}: {error.strerror}. Copy the folder to a place where "
            "you may write, and read the copy. Nothing is lost."
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder if need be and keep other processes out; raise `InUseError` if one is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / LOCK
    descriptor = _lock(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)
        with suppress(OSError):  # the folder holds something, as it should
            folder.rmdir()


def _lock(file: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The former holder may have removed the file meanwhile; then the lock is on no file.
            if file.exists() and os.fstat(descriptor).st_ino == file.stat().st_ino:
                os.truncate(descriptor, 0)
                os.write(descriptor, _holder().encode())
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 1000).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise InUseError(
                f"{file.parent} is in use by {holder}. Wait until it has finished, or choose another place "
                "with --out DIR."
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _holder() -> str:
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return f"process {os.getpid()} on {socket.gethostname()} ({command})\n"
