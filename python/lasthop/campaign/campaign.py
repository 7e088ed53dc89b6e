"""Running the cells of a scenario: what is done, what is left, and its record.

Results are kept in the folder's store (`lasthop.results.store`) and found by their content, so a plan runs
only what is missing. The records of a plan are merged from the store in a fixed order: set, cell,
replication. Their bytes depend neither on the number of threads nor on interruptions. The manifest is written
last. A folder without a manifest, or with the manifest of another plan, is not finished.
"""

from __future__ import annotations

import functools
import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol, cast
from urllib.parse import quote

import polars as pl

from lasthop import _core
from lasthop.campaign.finished import Finished
from lasthop.campaign.limits import RUNS_MAX
from lasthop.campaign.plan import FORMAT, INPUTS, ChosenRun, Plan, Unit
from lasthop.campaign.provenance import host_facts
from lasthop.campaign.runner import Assignment, Ledger, Place, Work
from lasthop.engines.engine import WHOLE, CaptureTarget, Observation, Outcome, Request, Stop, Trace
from lasthop.errors import InputError, InterruptedCampaignError, PlaceLostError
from lasthop.processes import sigterm_as_ctrl_c
from lasthop.results.atomic import replace_atomically
from lasthop.results.folder import (
    MANIFEST,
    MERGING,
    TRACES,
    check_folder,
    digest,
    forget_tables,
    read_manifest,
    tables_are_whole,
)
from lasthop.results.manifest import NOTES, SCENARIO_FILE, UNTIL
from lasthop.results.merge import BATCH, CELL, DamagedBatchesError, Runs, merge_tables, read_runs
from lasthop.results.shapes import Manifest, Notes, StoreFacts, UntilFacts
from lasthop.results.store import PIECE, STORE, TABLES, Memories, Piece, Store, was_left_open
from lasthop.results.tables import factor_column
from lasthop.scenario.assumptions import for_manifest
from lasthop.scenario.points import factors_of, level_column
from lasthop.scenario.points import for_manifest as space_for_manifest

PICTURED_FLOWS = 20
"""A report draws a run packet by packet if it has at most this many flows."""
Missing = tuple[bool, bool]
"""Whether a replication lacks its records, and its captures."""
_NOWHERE = -1
"""Stands for the index of a stored piece where there is none."""


class Simulated(NamedTuple):
    """The number of simulated runs, and how long the engine was busy (wall time, any number of threads)."""

    runs: int
    wall_s: float


class Outlook(NamedTuple):
    """The state of a plan before it runs, in numbers of runs.

    `again` are there and run again, because missing ones depend on them; `others` are in the store but not
    asked for.
    """

    there: int
    missing: int
    again: int
    others: int


class Stopping(Protocol):
    """Decides, while a campaign of one set runs, how many replications each cell gets."""

    @property
    def undecided(self) -> Sequence[int]:
        """The cells that may yet get more replications than `counts`."""

    @property
    def counts(self) -> Sequence[int]:
        """The number of replications of each cell, as far as it is known."""

    def judge(
        self, cells: Sequence[int], read: Callable[[Sequence[range]], Mapping[str, pl.DataFrame]]
    ) -> None:
        """Decide on `cells`, which have all their `counts`; `read` returns chosen records, from 0 on."""

    @property
    def record(self) -> UntilFacts:
        """The record of the decisions, for the manifest."""

    def restore(self, record: UntilFacts) -> None:
        """Take over the record of a manifest."""


class OtherKernelError(InputError):
    """The results in a folder are those of another kernel."""


class Campaign:
    """A plan together with its output folder."""

    def __init__(
        self, plan: Plan, out: Path, snap_length: int | None = None, stopping: Stopping | None = None
    ) -> None:
        """Prepare the campaign; nothing is run before `run`.

        `stopping` decides how many replications the cells get. Without it, each cell gets the plan's number.

        With `snap_length` every run is captured too, with this many bytes of each packet. Captures are no
        part of the records: a folder may do without them, or get them later from the same runs made once
        more.
        """
        if plan.runs > RUNS_MAX:
            raise InputError(
                f"{len(plan.cells)} cells, {plan.sets} sets and {plan.replications} replications are "
                f"{plan.runs} runs; ask for {RUNS_MAX} at most."
            )
        self.plan = plan
        self.out = out
        self.snap_length = snap_length
        self.stopping = stopping
        self._overview: Trace | None = None
        self.damaged = 0
        """Number of runs in the store that were found damaged, and were run again."""
        self.assigned = 0
        """Number of runs that this session was asked for, with those that run again."""
        self.units = [Unit(s, c) for s in range(1, plan.sets + 1) for c in range(len(plan.cells))]
        self._planned = [plan.replications] * len(self.units)
        digests = [plan.digest(cell) for cell in plan.cells]
        sets_matter = [plan.engine.chained(cell) or plan.engine.stretch(cell) > 1 for cell in plan.cells]
        self._sources = [
            plan.source(digests[unit.cell], plan.first(unit.set_number) if sets_matter[unit.cell] else None)
            for unit in self.units
        ]
        check_folder(out)
        self._manifest = read_manifest(out) if out.exists() else None
        self._whole = self._manifest is not None and tables_are_whole(out, self._manifest)
        self.existed = (out / STORE).is_file()
        self.lacks_store = self._manifest is not None and not self.existed
        """Whether tables are there whose runs cannot be used again."""
        self._found: StoreFacts = {}
        self._holdings: list[Piece] = []
        self._captures: dict[str, tuple[str, int]] = {}
        self._memories: Memories = {}
        if stopping is not None and self._manifest is not None and self.complete:
            stopping.restore(self._manifest[UNTIL])
        if self.existed:
            # If a kill left the store open, it is repaired, which takes a writer.
            with Store(out, read_only=not was_left_open(out)) as store:
                self._look(store)
                with suppress(DamagedBatchesError):  # damaged batches are run again
                    self._settled(store)
        self._check_found()
        self._check_captures()

    def _look(self, store: Store) -> None:
        """Look up what the store holds."""
        self._found = store.facts()
        self._holdings, self._captures = store.pieces(), store.captures()
        self._memories = store.memories()

    def _check_found(self) -> None:
        """Refuse to continue from results that do not fit this plan."""
        found = self._found.get("identity")
        if found is None and self._manifest is not None:
            found = self._manifest["identity"]
        if found is None:
            return
        wanted = self.plan.identity()
        remedy = "Start afresh in this folder with --overwrite, or choose another place with --out DIR."
        if any(found.get(key) != value for key, value in self.plan.version().items()):
            raise InputError(
                f"{self.out} holds results of {_version_text(found)}, and this is {_version_text(wanted)}; "
                f"nothing was changed. Results of different versions are never mixed. {remedy}"
            )
        for key in ("scenario", "engine", *self.plan.engine.identity):
            if found.get(key) != wanted.get(key):
                raise (OtherKernelError if key in self.plan.engine.identity else InputError)(
                    f"{self.out} holds results of the {key} {found.get(key)}, not of {wanted.get(key)}; "
                    f"nothing was changed. {remedy}"
                )
        if not self.existed and not self.complete:
            raise InputError(
                f"{self.out} has lost its {STORE}. Without it lasthop can neither extend the results nor "
                f"make damaged tables again. {remedy}"
            )

    def _check_captures(self) -> None:
        """Refuse to leave captures of other runs beside the results of these."""
        traces = self.out / TRACES
        if not traces.exists():
            return
        kept = self._found.get("snap_length")
        if self.snap_length not in (None, kept):
            raise InputError(
                f"{traces} holds captures of {kept} bytes of each packet, not of {self.snap_length}; nothing "
                f"was changed. Ask for --snaplen {kept}, or remove that folder."
            )
        if self.snap_length is None and any(
            self._captures.get(folder, wanted) != wanted and (traces / folder).is_dir()
            for unit, source in zip(self.units, self._sources, strict=True)
            for folder, wanted in self._capture_folders(unit, source)
        ):
            raise InputError(
                f"{traces} holds captures of runs that this command does not ask for; nothing was changed. "
                "Give --pcap to replace them by captures of its runs, or remove that folder."
            )

    def changed_inputs(self) -> list[str]:
        """Return the files that programs name and that differ from those of the present results."""
        digests = self.plan.input_digests
        identity = self._found.get("identity")
        before = {} if identity is None else identity.get(INPUTS, {})
        return [path for path, known in before.items() if digests.get(path, known) != known]

    @property
    def counts(self) -> Sequence[int]:
        """The number of replications of each unit, as far as it is known."""
        return self._planned if self.stopping is None else self.stopping.counts

    @property
    def runs(self) -> int:
        """Number of runs, as far as it is known."""
        return sum(self.counts)

    @property
    def runs_text(self) -> str:
        """Number of runs in words, with how far it is known."""
        return f"{self.runs} runs" if self.stopping is None else f"{self.runs} runs up to the next look"

    @property
    def complete(self) -> bool:
        """Whether the merged records are there, unchanged since they were written."""
        manifest = self._manifest
        if manifest is None or not self._whole:
            return False
        told = self.stopping is None or UNTIL in manifest
        return told and manifest["identity"] == self.plan.identity()

    def _capture_folders(self, unit: Unit, source: str) -> Iterator[tuple[str, tuple[str, int]]]:
        """Yield the folder of each replication's captures, below `traces`, and what they should capture."""
        # The name of a level may hold any character; the name of a file may not.
        cell = quote(self.plan.cells[unit.cell].key, safe="=,+ ") or "cell"
        first = self.plan.first(unit.set_number)
        for replication in range(1, self.counts[self._row(unit)] + 1):
            yield f"{cell}/set-{unit.set_number}/replication-{replication}", (source, first + replication - 1)

    def _row(self, unit: Unit) -> int:
        return (unit.set_number - 1) * len(self.plan.cells) + unit.cell

    def _owners(self) -> list[list[int]]:
        """Return per replication of each unit the index of the stored piece that holds it, or `_NOWHERE`."""
        by_source: dict[str, list[tuple[int, Piece]]] = {}
        for index, piece in enumerate(self._holdings):
            by_source.setdefault(piece.source, []).append((index, piece))
        owners = []
        for unit, source, count in zip(self.units, self._sources, self.counts, strict=True):
            row = [_NOWHERE] * count
            for index, piece in by_source.get(source, ()):
                start = piece.first - self.plan.first(unit.set_number)
                held = range(count)[max(0, start) : max(0, start + piece.count)]
                row[held.start : held.stop] = [index] * len(held)
            owners.append(row)
        return owners

    def _stored_counts(self) -> list[int]:
        """Return how many of the replications asked of each unit are stored."""
        return [len(row) - row.count(_NOWHERE) for row in self._owners()]

    def _missing_captures(self, unit: Unit, source: str) -> list[bool]:
        """Return for each replication of a unit whether its captures are still to be made."""
        if self.snap_length is None:
            return [False] * self.counts[self._row(unit)]
        return [
            self._captures.get(folder) != wanted or not (self.out / TRACES / folder).is_dir()
            for folder, wanted in self._capture_folders(unit, source)
        ]

    def pending(self) -> list[Work]:
        """Return the runs that are still to be made, in order."""
        if self.complete and self.snap_length is None:
            return []
        complete = self.complete
        work: list[Work] = []
        asked: set[tuple[str, int]] = set()  # two equal cells are run once
        for unit, source, owners in zip(self.units, self._sources, self._owners(), strict=True):
            first = self.plan.first(unit.set_number)
            if self.snap_length is None and (source, first) in asked:
                continue
            asked.add((source, first))
            cell, engine = self.plan.cells[unit.cell], self.plan.engine
            unrecorded = [not complete and owner == _NOWHERE for owner in owners]
            missing = list(zip(unrecorded, self._missing_captures(unit, source), strict=True))
            if engine.chained(cell):
                work += self._rest_of_chain(unit, source, missing)
            elif (stretch := engine.stretch(cell)) > 1:
                work += _stretches(unit, source, first, missing, stretch)
            else:
                work += _alike(unit, source, first, missing, engine.served_together(cell))
        return work

    def _rest_of_chain(self, unit: Unit, source: str, missing: Sequence[Missing]) -> Iterator[Work]:
        """Yield what is left of a chain, from where the memory is known to the last that is missing."""
        first = self.plan.first(unit.set_number)
        lacking = [number for number, lacks in enumerate(missing, first) if any(lacks)]
        if not lacking:
            return
        following, memory = self._memories.get(source, (first, None))
        if following > lacking[0]:
            following, memory = first, None
        record, capture = (any(lacks) for lacks in zip(*missing, strict=True))
        count = lacking[-1] + 1 - following
        yield Work(unit, source, following, count, record, capture, chained=True, memory=memory)

    def outlook(self) -> Outlook:
        """Return what is there and what is missing."""
        owners = self._owners()
        there = self.counts if self.complete else [len(row) - row.count(_NOWHERE) for row in owners]
        again = 0
        for work in self.pending():
            start = work.first - self.plan.first(work.unit.set_number)
            row = owners[self._row(work.unit)][start : start + work.count]
            again += len(row) - row.count(_NOWHERE) if work.record else 0
        asked = {
            (source, self.plan.first(unit.set_number)): own
            for unit, source, own in zip(self.units, self._sources, there, strict=True)
        }
        others = max(0, _distinct(self._holdings) - sum(asked.values()))
        return Outlook(sum(there), self.runs - sum(there), again, others)

    @property
    def simulated(self) -> Simulated:
        """How much was simulated for this folder so far, over all sessions."""
        data = self._found.get("simulation") or (self._manifest and self._manifest.get("simulation"))
        return Simulated(data["runs"], float(data["wall_s"])) if data else Simulated(0, 0.0)

    @property
    def manifest(self) -> Manifest:
        """The manifest of the merged records, or the manifest that they would have without a run."""
        if self._manifest is not None and self.complete:
            return self._manifest
        host = host_facts()
        if (guest := self.plan.engine.guest) is not None:
            host["guest"] = guest
        assumed = for_manifest(self.plan.study, self.plan.cells)
        space = space_for_manifest(self.plan.study, self.plan.cells, factor_column)
        file = {} if self.plan.file is None else {SCENARIO_FILE: str(self.plan.file.resolve())}
        manifest = {
            "identity": self.plan.identity(),
            **file,
            "repeatable": self.plan.repeatable,
            "assumed": assumed,
            **space,
            "host": host,
        }
        return cast("Manifest", manifest)

    def run(self, place: Place, advance: Callable[[int], None]) -> Simulated:
        """Run what is pending at `place`, merge, and return what this session simulated.

        `advance` is called from the calling thread with the number of runs that just finished, and now and
        then with 0. A Ctrl-C or SIGTERM raises `InterruptedCampaignError` within a second.
        """
        if self.complete and not self.pending():
            return Simulated(0, 0.0)
        self.out.mkdir(parents=True, exist_ok=True)
        with sigterm_as_ctrl_c(), Store(self.out) as store:
            self._look(store)
            total = Simulated(0, 0.0)
            try:
                while not self.complete or self.pending():
                    done = self._run_pending(store, place, advance)
                    total = Simulated(total.runs + done.runs, total.wall_s + done.wall_s)
                    if not self.complete:
                        self._conclude(store)
            except KeyboardInterrupt:
                raise InterruptedCampaignError(f"Stopped: {self._kept_text(store)}") from None
            return total

    def _conclude(self, store: Store) -> None:
        """Merge what is there, unless cells need more. Batches that cannot be read are forgotten."""
        try:
            if self._settled(store):
                self._merge(store)
        except DamagedBatchesError as error:
            self.damaged += sum(piece.count for piece in self._holdings if piece.batch in error.numbers)
            store.drop(error.numbers)
            self._look(store)

    def _settled(self, store: Store) -> bool:
        """Judge cells by what is there; return whether no cell needs more."""
        if self.stopping is None:
            return True
        while undecided := self.stopping.undecided:
            stored, counts = self._stored_counts(), self.counts
            ready = [cell for cell in undecided if stored[cell] == counts[cell]]
            if not ready:
                return False
            self.stopping.judge(ready, functools.partial(self._records, store))
        return self._stored_counts() == self.counts

    def _run_pending(self, store: Store, place: Place, advance: Callable[[int], None]) -> Simulated:
        work = self.pending()
        places = zip(self.units, self._sources, strict=True)
        asked = [[source, self.plan.first(unit.set_number)] for unit, source in places]
        store.note(identity=self.plan.identity(), asked=asked, counts=self.counts)
        if self.snap_length is not None:
            store.note(snap_length=self.snap_length)
        before = self.simulated
        assignment = Assignment(self.plan, work, functools.partial(self._run_work, store))
        ledger = Ledger(store, before.runs, before.wall_s)
        self.assigned += assignment.runs

        def go_on(count: int) -> None:
            store.check_place()
            advance(count)

        try:
            place.run(assignment, ledger, go_on)
        except PlaceLostError as lost:
            raise InputError(f"{lost} {self._kept_text(store)}") from lost
        finally:
            self._look(store)
        return Simulated(assignment.runs, ledger.watch.total_s)

    def _kept_text(self, store: Store) -> str:
        self._look(store)
        return (
            f"{self.outlook().there} of {self.runs_text} are kept in {self.out}. Repeat the command to "
            "continue."
        )

    def _run_work(self, store: Store, work: Work, stop: Stop) -> Outcome:
        cell = self.plan.cells[work.unit.cell]
        alone = self.stopping is None and self.runs == 1 and not work.capture
        request = Request(self.plan.seed, work.first, work.count, memory=work.memory)
        if alone and self.plan.engine.repeats(cell) and 0 < cell.flows <= PICTURED_FLOWS:
            picture = {work.first: Observation(overview=WHOLE)}
            outcome = self.plan.engine.run(cell, replace(request, observations=picture), stop=stop)
            self._overview = outcome.trace
            return outcome
        with self._capturing(store, work) as captures:
            wanted = {number: Observation(capture=target) for number, target in captures.items()}
            return self.plan.engine.run(cell, replace(request, observations=wanted), stop=stop)

    @property
    def finished(self) -> Finished:
        """The results, once they are complete."""
        return Finished(self.out, self.plan.cells, self.manifest)

    def overview(self, run: ChosenRun) -> Trace:
        """Return what pictures of a run show.

        The only run of a campaign was watched; other runs are made once more.
        """
        return run.overview() if self._overview is None else self._overview

    @contextmanager
    def _capturing(self, store: Store, work: Work) -> Iterator[dict[int, CaptureTarget]]:
        """Yield the place of each replication's captures; a replication is captured whole or not at all."""
        if not work.capture:
            yield {}
            return
        numbers = range(work.first, work.first + work.count)
        targets = {}
        folders = [
            (f, number)
            for f, (_, number) in self._capture_folders(work.unit, work.source)
            if number in numbers
        ]
        try:
            for folder, number in folders:
                temporary = self.out / TRACES / f"{folder}.tmp"
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir(parents=True)
                replication = number - self.plan.first(work.unit.set_number) + 1
                run = ChosenRun(self.plan, self.plan.cells[work.unit.cell], work.unit.set_number, replication)
                targets[number] = CaptureTarget(
                    temporary, run.provenance(), self.snap_length or _core.SNAP_LENGTH
                )
            yield targets
            for folder, number in folders:
                final = self.out / TRACES / folder
                shutil.rmtree(final, ignore_errors=True)
                targets[number].folder.rename(final)
                store.add_capture(folder, work.source, number)
        except BaseException:
            for target in targets.values():
                shutil.rmtree(target.folder, ignore_errors=True)
            raise

    def _merge(self, store: Store) -> None:
        """Make the records of the plan from the store."""
        meanings = {table: self.plan.meanings(table) for table in TABLES}
        merging = self.out / MERGING
        shutil.rmtree(merging, ignore_errors=True)
        merging.mkdir()
        try:
            files = merge_tables(
                store,
                self._stored([range(count) for count in self.counts]),
                merging,
                self.plan.facts(),
                meanings,
            )
            tables = {name: digest(merging / name) for name in files}
            manifest = self._new_manifest(self._owners())
            manifest["tables"] = tables
            # From here on the folder is not finished until its new manifest is written.
            forget_tables(self.out)
            for name in files:
                (merging / name).rename(self.out / name)
        finally:
            shutil.rmtree(merging, ignore_errors=True)
        text = json.dumps(manifest, indent=2) + "\n"
        replace_atomically(self.out / MANIFEST, lambda path: path.write_text(text, encoding="utf-8"))
        self._manifest, self._whole = manifest, True

    def _records(self, store: Store, chosen: Sequence[range]) -> dict[str, pl.DataFrame]:
        """Return the records of stored runs; raise `DamagedBatchesError` if some cannot be read."""
        return read_runs(store, self._stored(chosen))

    def _stored(self, chosen: Sequence[range]) -> Runs:
        """Return where the chosen replications of each unit are stored; they count from 0."""
        wanted: dict[str, list[int]] = {BATCH: [], PIECE: [], "replication": [], "set": [], CELL: []}
        for unit, owners, own in zip(self.units, self._owners(), chosen, strict=True):
            pieces = [self._holdings[owner] for owner in owners[own.start : own.stop]]
            wanted[BATCH] += [piece.batch for piece in pieces]
            wanted[PIECE] += [piece.position for piece in pieces]
            first = (unit.set_number - 1) * self.plan.replications + 1
            wanted["replication"] += range(first + own.start, first + own.stop)
            wanted["set"] += [unit.set_number] * len(own)
            wanted[CELL] += [unit.cell] * len(own)
        return Runs(pl.DataFrame(wanted, schema=dict.fromkeys(wanted, pl.Int64)), self._levels())

    def _levels(self) -> pl.DataFrame:
        """Return a row per cell with the level of each factor."""
        columns = [
            level_column(factor_column(factor), factor, self.plan.cells)
            for factor in factors_of(self.plan.cells)
        ]
        return pl.DataFrame(columns)

    def _new_manifest(self, owners: Sequence[Sequence[int]]) -> Manifest:
        simulated = self.simulated
        manifest: Manifest = {
            **self.manifest,
            "simulation": {"runs": simulated.runs, "wall_s": simulated.wall_s},
        }
        if self.snap_length is not None:
            manifest["snap_length"] = self.snap_length
        if self.stopping is not None:
            manifest[UNTIL] = self.stopping.record
        notes: Notes | None = None
        for unit, row in zip(self.units, owners, strict=True):
            if (facts := self._holdings[row[0]].facts) is not None:
                found = json.loads(facts)
                notes = notes or {"priority": found["priority"], "differences": {}}
                notes["differences"][self.plan.cells[unit.cell].key] = found["differences"]
        if notes is not None:
            manifest[NOTES] = notes
        return manifest


def _distinct(holdings: Sequence[Piece]) -> int:
    """Return the number of distinct replications in pieces that may overlap."""
    total = 0
    source, end = "", 0
    for piece in sorted(holdings, key=lambda piece: (piece.source, piece.first)):
        if piece.source != source:
            source, end = piece.source, 0
        stop = piece.first + piece.count
        total += max(0, stop - max(end, piece.first))
        end = max(end, stop)
    return total


def _version_text(identity: Mapping[str, object]) -> str:
    rules = str(identity.get("lasthop_rules"))[:8]
    form = "" if identity.get("format") == FORMAT else f", format {identity.get('format')} of the folder"
    return (
        f"lasthop {identity.get('lasthop_version')} (commit {identity.get('lasthop_commit')}, rules "
        f"{rules}{form})"
    )


def _stretches(
    unit: Unit, source: str, first: int, missing: Sequence[Missing], length: int
) -> Iterator[Work]:
    """Yield the stretches of a unit that lack something, each up to the last replication that does."""
    for start in range(0, len(missing), length):
        own = missing[start : start + length]
        if lacking := [number for number, lacks in enumerate(own) if any(lacks)]:
            record, capture = (any(lacks) for lacks in zip(*own, strict=True))
            yield Work(unit, source, first + start, lacking[-1] + 1, record, capture, length)


def _alike(unit: Unit, source: str, first: int, missing: Sequence[Missing], together: int) -> Iterator[Work]:
    """Yield the parts of a unit that lack the same things; what shares servers is in one part."""
    servers = [
        (number - 1) // together if together > 1 else 0 for number in range(first, first + len(missing))
    ]
    for ((record, capture), _), alike in itertools.groupby(zip(missing, servers, strict=True)):
        count = len(list(alike))
        if record or capture:
            yield Work(unit, source, first, count, record, capture, together)
        first += count
