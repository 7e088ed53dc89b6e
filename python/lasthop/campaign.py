"""Running the cells of a scenario: what is done, what is left, and the record of it.

A unit of work is one cell within one set of replications. Its rows are written whole (temporary file, then rename), so
a campaign that is killed loses at most the units in flight, and the files present say what is done. When all units are
there they are merged in one fixed order; the merged bytes depend neither on the number of threads nor on interruptions.
"""

from __future__ import annotations

import functools
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import polars as pl

from lasthop import _core
from lasthop.atomic import replace_atomically
from lasthop.errors import InputError, InterruptedCampaignError
from lasthop.kernel.engine import KERNEL, KernelEngine
from lasthop.kernel.store import Kernel
from lasthop.live.engine import CaptureTarget, LiveResults, LiveTrace, run_cell
from lasthop.provenance import host_facts
from lasthop.roles import assign_roles

MANIFEST = "manifest.json"
FLOWS = "flows.parquet"
RUNS = "runs.parquet"
PAGES = "pages.parquet"
SHORTS = "shorts.parquet"
_TABLES = {"flows": FLOWS, "pages": PAGES, "shorts": SHORTS, "runs": RUNS}
# Left out if no run has a row.
_OPTIONAL = ("pages", "shorts")
TRACES = "traces"
_PARTS = "parts"
_FORMAT = 1
MODEL = "model"
_NOTES = "live"
Trace: TypeAlias = _core.Trace | LiveTrace
"""Every event of a run, on whichever engine."""
_OWN_COLUMNS = frozenset({"set", "replication", "flow", "application", "page", "role", "protocol", "outcome"})


def factor_column(factor: str) -> str:
    """Return the column that holds a factor's level; a factor named like a measured column gets a prefix."""
    return f"factor_{factor}" if factor in _OWN_COLUMNS else factor


@dataclass(frozen=True)
class Plan:
    """What to run: cells of one scenario, `sets` independent sets of `replications` each."""

    study: _core.Study
    cells: Sequence[_core.Cell]
    seed: int
    replications: int
    sets: int = 1
    engine: str = MODEL
    kernel: Kernel | None = None
    """What the kernel engine runs on."""

    @functools.cached_property
    def run_cell(self) -> Callable[..., LiveResults]:
        """What runs replications with a real TCP, called as `lasthop.live.engine.run_cell`."""
        return run_cell if self.kernel is None else KernelEngine(self.kernel).run_cell

    @property
    def runs(self) -> int:
        """Number of runs in the whole plan."""
        return len(self.cells) * self.sets * self.replications

    def first(self, set_number: int) -> int:
        """Return the first replication number of a set; sets count from 1."""
        return (set_number - 1) * self.replications + 1

    def identity(self) -> dict[str, Any]:
        """Return everything that decides the results. Two campaigns with equal identity have equal records.

        On the live engine the machine and chance decide, too.
        """
        return {
            "format": _FORMAT,
            "scenario": self.study.name,
            "scenario_digest": self.study.digest,
            "lasthop_version": _core.VERSION,
            "lasthop_commit": _core.COMMIT,
            "engine": self.engine,
            **({} if self.kernel is None else {"kernel": self.kernel.digest}),
            "seed": self.seed,
            "replications": self.replications,
            "sets": self.sets,
            "cells": [cell.key for cell in self.cells],
        }


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """One run of a plan: `replication` counts from 1 within `set_number`."""

    plan: Plan
    cell: _core.Cell
    set_number: int
    replication: int

    def __post_init__(self) -> None:
        """Refuse what a set does not have."""
        if self.replication > self.plan.replications:
            raise InputError(
                f"--replication {self.replication}: a set of '{self.plan.study.name}' has {self.plan.replications} "
                "replications; choose a further set with --set, or give the --replications it was run with."
            )

    @property
    def first(self) -> int:
        """Number of the first replication of the set, where a chain of cached metrics starts."""
        return self.plan.first(self.set_number)

    @property
    def number(self) -> int:
        """Number of the replication over all sets."""
        return self.first + self.replication - 1

    @property
    def title(self) -> str:
        """Scenario, cell, replication and set, in words."""
        cell = self.cell.key or "its only cell"
        return f"{self.plan.study.name}, {cell}, replication {self.replication} of set {self.set_number}"

    def trace(self) -> Trace:
        """Run it and record every event."""
        if self.plan.engine == MODEL:
            return self.cell.trace(self.plan.seed, self.first, self.number)
        first, count = self._chain()
        trace = self.plan.run_cell(self.cell, self.plan.seed, first, count, record=self.number).trace
        assert trace is not None
        return trace

    def capture(self, folder: Path, snap_length: int) -> None:
        """Run it and write its packets into `folder`, which exists."""
        if self.plan.engine == MODEL:
            target = (str(folder), self.provenance())
            return self.cell.capture(self.plan.seed, self.first, self.number, target, snap_length)
        first, count = self._chain()
        captures = {self.number: CaptureTarget(folder, self.provenance(), snap_length)}
        self.plan.run_cell(self.cell, self.plan.seed, first, count, captures=captures)
        return None

    def _chain(self) -> tuple[int, int]:
        """Return the first replication that has to be run for this one, and how many in all."""
        # What a guest draws depends on all that it has run.
        chained = self.cell.sequential or self.plan.engine == KERNEL
        first = self.first if chained else self.number
        return first, self.number - first + 1

    def provenance(self) -> str:
        """Say in a capture what made it."""
        return (
            f"lasthop {_core.VERSION} (commit {_core.COMMIT}), engine {self.plan.engine}, "
            f"scenario {self.plan.study.name}, digest {self.cell.digest}, cell {self.cell.key}, seed {self.plan.seed}, "
            f"set {self.set_number}, replication {self.replication} (number {self.number}); time 0 of the run is "
            "2000-01-01T00:00:00Z"
        )


@dataclass(frozen=True, order=True, slots=True)
class Unit:
    """One cell (by its index in the plan) within one set."""

    set_number: int
    cell: int

    def file(self, folder: Path, table: str) -> Path:
        """Return where the unit's rows of `table` (`flows`, `pages`, `shorts` or `runs`) are kept."""
        return folder / f"{self.set_number:03d}-{self.cell:04d}.{table}.parquet"

    def is_done(self, folder: Path) -> bool:
        """Whether all tables of the unit are there."""
        return all(self.file(folder, table).is_file() for table in _TABLES)


@dataclass
class _Stopwatch:
    """Wall time during which at least one thread was inside the engine."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _active: int = 0
    _since: float = 0.0
    total_s: float = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._active == 0:
                self._since = time.perf_counter()
            self._active += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._active -= 1
            if self._active == 0:
                self.total_s += time.perf_counter() - self._since


def _frame(columns: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    frame = pl.DataFrame(dict(columns), strict=False, infer_schema_length=None)
    empty = [name for name, dtype in frame.schema.items() if dtype == pl.Null]
    return frame.with_columns(pl.col(empty).cast(pl.Float64)) if empty else frame


def _label(frame: pl.DataFrame, levels: Mapping[str, str], set_number: int) -> pl.DataFrame:
    labels = [pl.lit(level).alias(factor_column(factor)) for factor, level in levels.items()]
    labels.append(pl.lit(set_number, dtype=pl.Int64).alias("set"))
    names = [factor_column(factor) for factor in levels] + ["set", "replication"]
    return frame.with_columns(labels).select(*names, pl.exclude(*names))


@dataclass(frozen=True, slots=True)
class Difference:
    """What Linux does otherwise than a scenario asks of TCP, the likely effect, and the cells that it is true of."""

    what: str
    effect: str
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class Simulated:
    """How much was simulated, and how long the engine was busy (wall time, any number of threads)."""

    runs: int
    wall_s: float


class Campaign:
    """A plan together with its output folder."""

    def __init__(self, plan: Plan, out: Path, snap_length: int | None = None) -> None:
        """Prepare the campaign; nothing is written before `run`.

        With `snap_length` every run is captured too, that many bytes of each packet. Captures are no part of the
        records: a folder may get them later, from the same runs made once more, or do without.
        """
        self.plan = plan
        self.out = out
        self.snap_length = snap_length
        self._parts = out / _PARTS
        self._notes_lock = threading.Lock()
        self._manifest = self._read_manifest()
        self.existed = self._manifest is not None
        self.units = [Unit(s, c) for s in range(1, plan.sets + 1) for c in range(len(plan.cells))]

    def _read_manifest(self) -> dict[str, Any] | None:
        if not self.out.exists():
            return None
        if not self.out.is_dir():
            raise InputError(f"{self.out} is a file, not a folder; choose another place with --out DIR.")
        file = self.out / MANIFEST
        if not file.is_file():
            if any(self.out.iterdir()):
                raise InputError(
                    f"{self.out} exists and holds something other than results of lasthop; nothing was changed. "
                    "Choose another place with --out DIR."
                )
            return None
        try:
            manifest = json.loads(file.read_text(encoding="utf-8"))
            found = manifest["identity"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file} cannot be read as a manifest of lasthop; nothing was changed.") from error
        wanted = self.plan.identity()
        differing = [key for key in wanted if found.get(key) != wanted[key]]
        if differing:
            raise InputError(
                f"{self.out} holds results of another run; nothing was changed. "
                f"Different: {'; '.join(_difference(key, found.get(key), wanted[key]) for key in differing)}. "
                "Choose another place with --out DIR, or remove that folder."
            )
        kept = manifest.get("snap_length")
        traces = self.out / TRACES
        if self.snap_length not in (None, kept) and traces.exists():
            raise InputError(
                f"{traces} holds captures of {kept} bytes of each packet, not of {self.snap_length}; nothing was "
                f"changed. Ask for --snaplen {kept}, or remove that folder."
            )
        return dict(manifest)

    @property
    def complete(self) -> bool:
        """Whether the merged records are there."""
        return self.existed and (self.out / FLOWS).is_file() and (self.out / RUNS).is_file()

    def pending(self) -> list[Unit]:
        """Return the units still to be run, in order."""
        return [unit for unit in self.units if not (self._is_recorded(unit) and self._is_captured(unit))]

    def _is_recorded(self, unit: Unit) -> bool:
        return self.complete or unit.is_done(self._parts)

    def _is_captured(self, unit: Unit) -> bool:
        return self.snap_length is None or self._traces(unit).is_dir()

    def _traces(self, unit: Unit) -> Path:
        """Return the folder of a unit's captures, one folder in it for each replication."""
        # A level may be called anything; a file may not.
        cell = quote(self.plan.cells[unit.cell].key, safe="=,+ ") or "cell"
        return self.out / TRACES / cell / f"set-{unit.set_number}"

    @property
    def simulated(self) -> Simulated:
        """What the manifest says about the simulation so far, over all sessions."""
        data = (self._manifest or {}).get("simulation", {})
        return Simulated(int(data.get("runs", 0)), float(data.get("wall_s", 0.0)))

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as it stands."""
        if self._manifest is not None:
            return self._manifest
        host = host_facts()
        if (kernel := self.plan.kernel) is not None:
            host["guest"] = f"Linux {kernel.info.version} (User-Mode Linux)"
        return {"identity": self.plan.identity(), "host": host}

    def run(self, jobs: int, advance: Callable[[int], None]) -> Simulated:
        """Run what is pending on `jobs` threads, merge, and return what this session simulated.

        `advance` is called from the calling thread with the number of runs just finished. A Ctrl-C lets the units in
        flight finish and raises `InterruptedCampaignError`.
        """
        recorded, pending = self.complete, self.pending()
        if recorded and not pending:
            shutil.rmtree(self._parts, ignore_errors=True)
            return Simulated(0, 0.0)
        self._parts.mkdir(parents=True, exist_ok=True)
        self._manifest = self.manifest
        if self.snap_length is not None:
            self._manifest["snap_length"] = self.snap_length
        self._write_manifest()
        watch = _Stopwatch()
        done = 0

        def finished(units: int) -> None:
            nonlocal done
            done += units * self.plan.replications
            advance(units * self.plan.replications)

        try:
            self._run_units(pending, jobs, watch, finished)
        finally:
            if not recorded:
                before = self.simulated
                self._manifest["simulation"] = {
                    "runs": before.runs + done,
                    "wall_s": round(before.wall_s + watch.total_s, 3),
                }
            self._write_manifest()
        if recorded:
            shutil.rmtree(self._parts)
        else:
            self._merge()
        return Simulated(done, watch.total_s)

    def _run_units(self, pending: list[Unit], jobs: int, watch: _Stopwatch, finished: Callable[[int], None]) -> None:
        waiting: Iterator[Unit] = iter(pending)
        flight: set[Future[None]] = set()
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            try:
                while True:
                    # Two per thread: none runs dry, and a Ctrl-C has little to wait for.
                    while len(flight) < 2 * jobs and (unit := next(waiting, None)) is not None:
                        flight.add(pool.submit(self._run_unit, unit, watch))
                    if not flight:
                        return
                    done, flight = wait(flight, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    finished(len(done))
            except KeyboardInterrupt:
                stopped = {future for future in flight if future.cancel()}
                finished(len(wait(flight - stopped).done))
                raise InterruptedCampaignError(self._interrupted_text()) from None

    def _interrupted_text(self) -> str:
        done = len(self.units) - len(self.pending())
        return (
            f"Stopped: {done * self.plan.replications} of {self.plan.runs} runs are kept in {self.out}. "
            "The same command goes on from there."
        )

    def _run_unit(self, unit: Unit, watch: _Stopwatch) -> None:
        with watch:
            results = self._run_replications(unit)
        if self._is_recorded(unit):
            return
        cell = self.plan.cells[unit.cell]
        flows = dict(results.flows)
        flows["role"] = assign_roles(flows, cell.roles)
        for table in _TABLES:
            columns = flows if table == "flows" else getattr(results, table)
            frame = _label(_frame(columns), cell.levels, unit.set_number)
            if table == "flows":
                first = frame.columns[: frame.columns.index("flow") + 1]
                frame = frame.select(*first, "role", pl.exclude(*first, "role"))
            replace_atomically(unit.file(self._parts, table), frame.write_parquet)

    def _run_real(self, unit: Unit, captures: Mapping[int, CaptureTarget]) -> LiveResults:
        cell, seed, first = self.plan.cells[unit.cell], self.plan.seed, self.plan.first(unit.set_number)
        results = self.plan.run_cell(cell, seed, first, self.plan.replications, captures=captures)
        with self._notes_lock:
            notes = self.manifest.setdefault(_NOTES, {"priority": results.facts["priority"], "differences": {}})
            notes["differences"][cell.key] = results.facts["differences"]
            self._write_manifest()
        return results

    def live_differences(self) -> list[Difference]:
        """Return what the scenario asks of TCP and Linux did otherwise; nothing for the model."""
        return differences_of(self.manifest)

    def late_runs(self) -> int:
        """Return how many runs of the live engine were too late to be valid."""
        return self.run_rows().filter(~pl.col("valid")).height

    def _run_replications(self, unit: Unit) -> _core.Results | LiveResults:
        """Run a unit; its captures are there whole or not at all."""
        if self._is_captured(unit):
            return self._run_engine(unit, {})
        target = self._traces(unit)
        temporary = target.with_name(target.name + ".tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        captures = {}
        try:
            for replication in range(1, self.plan.replications + 1):
                folder = temporary / f"replication-{replication}"
                folder.mkdir(parents=True)
                run = ChosenRun(self.plan, self.plan.cells[unit.cell], unit.set_number, replication)
                captures[run.number] = CaptureTarget(folder, run.provenance(), self.snap_length or _core.SNAP_LENGTH)
            results = self._run_engine(unit, captures)
            temporary.rename(target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return results

    def _run_engine(self, unit: Unit, captures: Mapping[int, CaptureTarget]) -> _core.Results | LiveResults:
        """Run a unit, and capture the replications with a number in `captures`: all of it or none."""
        if self.plan.engine != MODEL:
            return self._run_real(unit, captures)
        cell, seed, first = self.plan.cells[unit.cell], self.plan.seed, self.plan.first(unit.set_number)
        if not captures:
            return cell.run(seed, first, self.plan.replications)
        targets = [(str(target.folder), target.comment) for target in captures.values()]
        return cell.run(seed, first, self.plan.replications, targets, self.snap_length or _core.SNAP_LENGTH)

    def _write_manifest(self) -> None:
        text = json.dumps(self._manifest, indent=2) + "\n"
        replace_atomically(self.out / MANIFEST, lambda path: path.write_text(text, encoding="utf-8"))

    def _merge(self) -> None:
        facts = {f"lasthop.{key}": str(value) for key, value in self.plan.identity().items() if key != "cells"}
        for table, name in _TABLES.items():
            parts = [pl.read_parquet(unit.file(self._parts, table)) for unit in self.units]
            rows = [part for part in parts if part.height]
            if not rows and table in _OPTIONAL:
                continue
            merged = pl.concat(rows or parts, how="diagonal_relaxed").rechunk()
            replace_atomically(self.out / name, functools.partial(merged.write_parquet, metadata=facts))
        shutil.rmtree(self._parts)

    def flows(self) -> pl.DataFrame:
        """Return one row per flow and replication."""
        return pl.read_parquet(self.out / FLOWS)

    def pages(self) -> pl.DataFrame | None:
        """Return one row per page load and replication; `None` if the scenario loads no pages."""
        file = self.out / PAGES
        return pl.read_parquet(file) if file.is_file() else None

    def shorts(self) -> pl.DataFrame | None:
        """Return one row per kind of short flows and replication; `None` if the scenario has none."""
        file = self.out / SHORTS
        return pl.read_parquet(file) if file.is_file() else None

    def traces_bytes(self) -> int:
        """Return the size of all captures."""
        return sum(file.stat().st_size for file in (self.out / TRACES).rglob("*") if file.is_file())

    def silent(self) -> str | None:
        """Say in which runs no packet was sent; `None` if there is no such run."""
        rows = self.run_rows()
        sent = pl.col("packets_sent") if "packets_sent" in rows.columns else pl.lit(1)
        silent = rows.filter(sent == 0)
        if silent.is_empty():
            return None
        count = f"any of the {rows.height} runs" if silent.height == rows.height else f"{silent.height} runs"
        return f"No packet was sent in {count}. Do the flows start before time_limit?"

    def run_rows(self) -> pl.DataFrame:
        """Return one row per replication."""
        return pl.read_parquet(self.out / RUNS)


def finished(folder: Path) -> dict[str, Any]:
    """Return the manifest of finished results; raise `InputError` if `folder` holds none."""
    absent = [name for name in (MANIFEST, RUNS, FLOWS) if not (folder / name).is_file()]
    if absent:
        raise InputError(
            f"{folder} holds no {' and no '.join(absent)}: give the folder that 'lasthop study run' has left. A run "
            "that was stopped is finished by the same command."
        )
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if {"scenario", "scenario_digest", "engine", "cells"} <= manifest["identity"].keys():
            return manifest
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(f"{folder / MANIFEST} cannot be read as a manifest of lasthop.")


def differences_of(manifest: Mapping[str, Any]) -> list[Difference]:
    """Return what a manifest says that Linux did otherwise than the scenario asks of TCP."""
    cells: dict[tuple[str, str], list[str]] = {}
    for cell, found in manifest.get(_NOTES, {}).get("differences", {}).items():
        for difference in found:
            cells.setdefault((difference["what"], difference["effect"]), []).append(cell)
    return [Difference(what, effect, named) for (what, effect), named in cells.items()]


def _difference(key: str, found: object, wanted: object) -> str:
    name = key.replace("_", " ")
    if isinstance(found, list) and isinstance(wanted, list):
        return f"{name} ({len(found)} there, {len(wanted)} asked for)"
    return f"{name} ({found} there, {wanted} asked for)"
