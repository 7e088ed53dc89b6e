"""The files of a results folder: checking, reading, locking and removing them."""

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
from lasthop.campaign.results.store import NEW_STORE, STORE, Store, was_left_open
from lasthop.common.errors import InputError, InUseError
from lasthop.common.files import check_name
from lasthop.common.locks import try_lock

MANIFEST = "manifest.json"
FLOWS = "flows.parquet"
RUNS = "runs.parquet"
PAGES = "pages.parquet"
SHORTS = "shorts.parquet"
HOPS = "hops.parquet"
STATIONS = "stations.parquet"
RECORDS = (FLOWS, RUNS, PAGES, SHORTS, HOPS, STATIONS)
"""The tables of records. The last four are optional."""
TRACES = "traces"
STACKS = "stacks"
"""The logs of transfers' stacks: a folder for each cell, replication, flow and end."""
LOCK = ".lock"
MERGING = ".merging"
"""Temporary folder for new tables; it remains if the process is killed."""
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
"""Other files of a results folder; see `lasthop.analysis.findings.files`."""
_OWN = (MANIFEST, STORE, f"{STORE}-wal", f"{STORE}-shm", *RECORDS, TRACES, STACKS, MERGING, _PARTS, *_OTHERS)


def check_folder(folder: Path) -> None:
    """Raise `InputError` unless a folder is new, empty or contains results of lasthop."""
    check_name(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder: choose another one with --out DIR.")
    if is_results(folder):
        return
    if any(entry.name not in (LOCK, NEW_STORE) for entry in folder.iterdir()):
        raise InputError(
            f"{folder} contains files that are not results of lasthop; nothing was changed. Choose another "
            "folder with --out DIR."
        )


def is_results(folder: Path) -> bool:
    """Whether a folder contains results of lasthop, finished or not."""
    return (folder / STORE).is_file() or (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a folder; `None` if it has none, or an invalid one along with a store."""
    file = folder / MANIFEST
    try:
        return shapes.manifest(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        if (folder / STORE).is_file():
            return None  # it can be restored from the store
        reason = f"{file} is not a valid manifest of lasthop ({error}); nothing was changed."
        raise InputError(reason) from error


def empty(folder: Path) -> None:
    """Remove lasthop's results, and nothing else, from a folder; leave an empty store in it."""
    check_folder(folder)
    if not is_results(folder):
        return
    if (folder / MANIFEST).is_file():
        read_manifest(folder)
    # The files that identify a results folder go last, so that an interrupted removal can be repeated.
    for name in reversed(_OWN):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with Store(folder):
        pass


def scan_rows(file: Path) -> pl.LazyFrame:
    """Open a table of a results folder to read parts of it; raise `InputError` if it was changed."""
    check_name(file)
    check_table(file)
    with _translated_errors(file):
        rows = pl.scan_parquet(file, glob=False)
        rows.collect_schema()
        return rows


def read_rows(file: Path) -> pl.DataFrame:
    """Read a table of a results folder; raise `InputError` if it was changed."""
    with _translated_errors(file):
        return scan_rows(file).collect()


def check_table(file: Path) -> None:
    """Raise `InputError` if a table does not match the manifest in its folder."""
    manifest = read_manifest(file.parent)
    with _translated_errors(file):
        if manifest is not None and manifest["tables"].get(file.name) != digest(file):
            raise _damaged(file, "its SHA-256 differs from that in the manifest")


@contextmanager
def _translated_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror or error}.") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _damaged(file, str(error).splitlines()[0]) from error


def _damaged(file: Path, reason: str) -> InputError:
    return InputError(
        f"{file} is damaged ({reason}). Repeat the command that wrote it: runs in {STORE} are not run again."
    )


def digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def tables_are_whole(folder: Path, manifest: Manifest) -> bool:
    """Whether all tables that a manifest names exist and were not changed."""
    files = {folder / name: manifest["tables"].get(name) for name in RECORDS}
    return all(file.is_file() and digest(file) == own for file, own in files.items() if own is not None)


def forget_tables(folder: Path) -> None:
    """Remove the merged records and everything derived from them, but not the store."""
    for name in (MANIFEST, *RECORDS, *_OTHERS):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def opened_to_read(folder: Path) -> Iterator[Store]:
    """Open the store of a results folder for reading, even if its writer is running or was killed."""
    if was_left_open(folder):
        _repair(folder)
    with Store(folder, read_only=True) as store:
        yield store


def _repair(folder: Path) -> None:
    """Repair a store whose writer was killed, by opening it for writing, unless it has a writer."""
    try:
        with suppress(InUseError), locked(folder), Store(folder):
            pass
    except OSError as error:
        raise InputError(
            f"The process that wrote {folder / STORE} was killed. lasthop must repair this file before "
            f"reading it, but cannot write to {folder}: {error.strerror}. Nothing is lost: copy the folder "
            "to a place with write permission, and read the copy."
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a folder if necessary and lock it; raise `InUseError` if another process has locked it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / LOCK
    descriptor = _lock(file)
    try:
        yield
    finally:
        if sys.platform == "win32":
            # An open file cannot be removed there, so another process may lock it first.
            os.close(descriptor)
            with suppress(OSError):
                file.unlink(missing_ok=True)
        else:
            file.unlink(missing_ok=True)
            os.close(descriptor)
        with suppress(OSError):  # usually the folder is not empty
            folder.rmdir()


def _lock(file: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not try_lock(descriptor):
                holder = os.read(descriptor, 1000).decode(errors="replace").strip() or "another process"
                raise InUseError(
                    f"{file.parent} is in use by {holder}. Wait until it has finished, or choose another "
                    "folder with --out DIR."
                )
            # The previous holder may have removed the file meanwhile; then the lock is void.
            if file.exists() and os.fstat(descriptor).st_ino == file.stat().st_ino:
                os.truncate(descriptor, 0)
                os.write(descriptor, _holder().encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _holder() -> str:
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return f"process {os.getpid()} on {socket.gethostname()} ({command})\n"
