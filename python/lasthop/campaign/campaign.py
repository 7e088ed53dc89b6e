"""Running the cells of a scenario in a results folder.

Results are in the folder's store (`lasthop.campaign.results.store`), addressed by content, so a plan runs
only what is missing. Records are merged from the store in a fixed order (set, cell, replication), so their
bytes depend neither on the number of threads nor on interruptions. The manifest is written last: a folder
without a manifest, or with that of another plan, is unfinished.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from lasthop.campaign.capture import capturing
from lasthop.campaign.finished import Finished
from lasthop.campaign.inventory import Inventory, Outlook, Stopping, cell_folder
from lasthop.campaign.limits import RUNS_MAX
from lasthop.campaign.merged import manifest_of, merge
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.campaign.results.folder import STACKS, check_folder, read_manifest, tables_are_whole
from lasthop.campaign.results.manifest import UNTIL
from lasthop.campaign.results.merge import DamagedBatchesError, read_runs
from lasthop.campaign.results.shapes import Manifest
from lasthop.campaign.results.store import STORE, Store, was_left_open
from lasthop.campaign.runner import Assignment, Ledger, Place, Work
from lasthop.common.errors import InputError, InterruptedCampaignError, PlaceLostError
from lasthop.common.processes import sigterm_as_ctrl_c
from lasthop.engines.engine import WHOLE, Observation, Outcome, Request, Stop, Trace
from lasthop.engines.programs import has_transfers

PICTURED_FLOWS = 20
"""A report draws the packets of a run with at most this many flows."""


class Simulated(NamedTuple):
    """The number of simulated runs, and the wall time during which any thread ran the engine."""

    runs: int
    wall_s: float


class Campaign:
    def __init__(
        self, plan: Plan, out: Path, snap_length: int | None = None, stopping: Stopping | None = None
    ) -> None:
        """Prepare the campaign; nothing is run before `run`.

        `stopping` decides how many replications the cells get; by default it is the plan's number.

        With `snap_length` every run is captured too, with this many bytes of each packet. Captures are not
        part of the records: they can be added later by repeating the runs.
        """
        if plan.runs > RUNS_MAX:
            raise InputError(
                f"{len(plan.cells)} cells, {plan.sets} sets and {plan.replications} replications are "
                f"{plan.runs} runs, more than the limit of {RUNS_MAX}."
            )
        self.plan = plan
        self.out = out
        self.snap_length = snap_length
        self.stopping = stopping
        self._overview: Trace | None = None
        self.damaged = 0
        """Number of damaged runs in the store, which were run again."""
        self.assigned = 0
        """Number of runs that this session started, including repeated ones."""
        self.inventory = inventory = Inventory(plan, out, snap_length, stopping)
        check_folder(out)
        self._manifest = read_manifest(out) if out.exists() else None
        self._whole = self._manifest is not None and tables_are_whole(out, self._manifest)
        self.existed = (out / STORE).is_file()
        self.lacks_store = self._manifest is not None and not self.existed
        """Whether there are tables but no store to extend."""
        if stopping is not None and self._manifest is not None and self.complete:
            stopping.restore(self._manifest[UNTIL])
        if self.existed:
            # A store that a killed process left open needs a writer to repair it.
            with Store(out, read_only=not was_left_open(out)) as store:
                inventory.look(store)
                with suppress(DamagedBatchesError):  # damaged batches are run again
                    self._settled(store)
        identity = inventory.facts.get("identity") or (self._manifest and self._manifest["identity"])
        if identity is not None:
            inventory.check_results(identity, extendable=self.existed or self.complete)
        inventory.check_captures()

    @property
    def counts(self) -> Sequence[int]:
        """The number of replications of each unit, with a stopping rule up to the next look."""
        return self.inventory.counts

    @property
    def runs(self) -> int:
        return sum(self.counts)

    @property
    def runs_text(self) -> str:
        return f"{self.runs} runs" if self.stopping is None else f"{self.runs} runs up to the next look"

    @property
    def complete(self) -> bool:
        """Whether the merged records exist, unchanged since they were written."""
        manifest = self._manifest
        if manifest is None or not self._whole:
            return False
        return (self.stopping is None or UNTIL in manifest) and manifest["identity"] == self.plan.identity()

    def pending(self) -> list[Work]:
        """Return the runs that are missing, in order."""
        return self.inventory.pending(merged=self.complete)

    def outlook(self) -> Outlook:
        return self.inventory.outlook(merged=self.complete)

    @property
    def simulated(self) -> Simulated:
        """The simulation for this folder so far, over all sessions."""
        data = self.inventory.facts.get("simulation") or (self._manifest and self._manifest.get("simulation"))
        return Simulated(data["runs"], float(data["wall_s"])) if data else Simulated(0, 0.0)

    @property
    def manifest(self) -> Manifest:
        """The manifest of the merged records, or of the plan before its first run."""
        if self._manifest is not None and self.complete:
            return self._manifest
        return manifest_of(self.plan)

    def run(self, place: Place, advance: Callable[[int], None]) -> Simulated:
        """Run what is pending at `place`, merge, and return what this session simulated.

        `advance` is called from the calling thread with the number of runs that just finished, and
        periodically with 0. Ctrl-C or SIGTERM raises `InterruptedCampaignError` within a second.
        """
        if self.complete and not self.pending():
            return Simulated(0, 0.0)
        self.out.mkdir(parents=True, exist_ok=True)
        with sigterm_as_ctrl_c(), Store(self.out) as store:
            self.inventory.look(store)
            total = Simulated(0, 0.0)
            try:
                while not self.complete or self.pending():
                    done = self._run_pending(store, place, advance)
                    total = Simulated(total.runs + done.runs, total.wall_s + done.wall_s)
                    if not self.complete:
                        self._conclude(store)
            except KeyboardInterrupt:
                raise InterruptedCampaignError(f"Stopped: {self._progress_text(store)}") from None
            return total

    def _conclude(self, store: Store) -> None:
        """Merge the stored results, unless cells need more runs. Batches that cannot be read are dropped."""
        try:
            if self._settled(store):
                self._manifest, self._whole = merge(store, self.inventory), True
        except DamagedBatchesError as error:
            pieces = self.inventory.pieces
            self.damaged += sum(piece.count for piece in pieces if piece.batch in error.numbers)
            store.drop(error.numbers)
            self.inventory.look(store)

    def _settled(self, store: Store) -> bool:
        """Apply the stopping rule to the stored results; return whether no cell needs more runs."""
        if self.stopping is None:
            return True

        def read(chosen: Sequence[range]) -> dict[str, pl.DataFrame]:
            return read_runs(store, self.inventory.locate(chosen))

        while undecided := self.stopping.undecided:
            stored, counts = self.inventory.stored(), self.counts
            ready = [cell for cell in undecided if stored[cell] == counts[cell]]
            if not ready:
                return False
            self.stopping.judge(ready, read)
        return self.inventory.stored() == self.counts

    def _run_pending(self, store: Store, place: Place, advance: Callable[[int], None]) -> Simulated:
        work, demands = self.pending(), self.inventory.demands
        sources = [[demand.source, demand.first] for demand in demands]
        store.note(identity=self.plan.identity(), asked=sources, counts=self.counts)
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
            raise InputError(f"{lost} {self._progress_text(store)}") from lost
        finally:
            self.inventory.look(store)
        return Simulated(assignment.runs, ledger.watch.total_s)

    def _progress_text(self, store: Store) -> str:
        self.inventory.look(store)
        return (
            f"{self.outlook().stored} of {self.runs_text} are stored in {self.out}. Repeat the command to "
            "continue."
        )

    def _run_work(self, store: Store, work: Work, stop: Stop) -> Outcome:
        cell = self.plan.cells[work.unit.cell]
        alone = self.stopping is None and self.runs == 1 and not work.capture
        logs = self.out / STACKS / cell_folder(cell) if has_transfers(cell) else None
        request = Request(self.plan.seed, work.first, work.count, memory=work.memory, logs=logs)
        if alone and self.plan.engine.repeats(cell) and 0 < cell.flows <= PICTURED_FLOWS:
            picture = {work.first: Observation(overview=WHOLE)}
            outcome = self.plan.engine.run(cell, replace(request, observations=picture), stop=stop)
            self._overview = outcome.trace
            return outcome
        with capturing(store, self.inventory, work) as captures:
            wanted = {number: Observation(capture=target) for number, target in captures.items()}
            return self.plan.engine.run(cell, replace(request, observations=wanted), stop=stop)

    @property
    def finished(self) -> Finished:
        """The results, once they are complete."""
        return Finished(self.out, self.plan.cells, self.manifest)

    def overview(self, run: ChosenRun) -> Trace:
        """Return the trace for pictures of a run, which is repeated unless it is the campaign's only run."""
        return run.overview() if self._overview is None else self._overview
