"""Comparing a plan with the store of its folder: what is stored, and what is left to run."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote

import polars as pl

from lasthop import _core
from lasthop.campaign.plan import FORMAT, INPUTS, Plan, Unit
from lasthop.campaign.results.folder import TRACES
from lasthop.campaign.results.merge import BATCH, CELL, Runs
from lasthop.campaign.results.shapes import Identity, StoreFacts, UntilFacts
from lasthop.campaign.results.store import PIECE, STORE, Memories, Piece, Store
from lasthop.campaign.results.tables import factor_column
from lasthop.campaign.runner import Work
from lasthop.common.errors import InputError
from lasthop.scenario.points import factors_of, level_column

Missing = tuple[bool, bool]
"""Whether a replication lacks its records, and its captures."""
_REMEDY = "Discard these results with --overwrite, or choose another folder with --out DIR."
_NOWHERE = -1
"""The index of a stored piece where there is none."""


def cell_folder(cell: _core.Cell) -> str:
    """Return a folder name for a cell: names of levels may contain characters that file names may not."""
    return quote(cell.key, safe="=,+ ") or "cell"


class OtherKernelError(InputError):
    """The results in a folder are from another kernel."""


class Stopping(Protocol):
    """Decides, while a campaign of one set runs, how many replications each cell gets."""

    @property
    def undecided(self) -> Sequence[int]:
        """The cells that may need more replications than `counts`."""

    @property
    def counts(self) -> Sequence[int]:
        """The number of replications of each cell up to its next look."""

    def judge(
        self, cells: Sequence[int], read: Callable[[Sequence[range]], Mapping[str, pl.DataFrame]]
    ) -> None:
        """Decide on `cells`, which have all their `counts`; `read` returns records by number, from 0 on."""

    @property
    def record(self) -> UntilFacts:
        """The decisions, for the manifest."""

    def restore(self, record: UntilFacts) -> None:
        """Restore the decisions recorded in a manifest."""


class Outlook(NamedTuple):
    """The state of a plan before it runs, in numbers of runs.

    `again` are stored but must be repeated, because missing runs depend on them; `others` are stored but not
    part of the plan.
    """

    stored: int
    missing: int
    again: int
    others: int


class Demand(NamedTuple):
    """The replications that a plan needs of a unit: those of a source, from number `first` on."""

    unit: Unit
    source: str
    first: int


class Inventory:
    """The contents of a folder's store, compared with a plan."""

    def __init__(self, plan: Plan, out: Path, snap_length: int | None, stopping: Stopping | None) -> None:
        self.plan = plan
        self.out = out
        self.snap_length = snap_length
        self.stopping = stopping
        digests = [plan.digest(cell) for cell in plan.cells]
        sets_matter = [plan.engine.chained(cell) or plan.engine.stretch(cell) > 1 for cell in plan.cells]
        self.demands: list[Demand] = []
        """One per unit."""
        for set_number, cell in itertools.product(range(1, plan.sets + 1), range(len(plan.cells))):
            first = plan.first(set_number)
            source = plan.source(digests[cell], first if sets_matter[cell] else None)
            self.demands.append(Demand(Unit(set_number, cell), source, first))
        self._planned = [plan.replications] * len(self.demands)
        self.facts: StoreFacts = {}
        self.pieces: Sequence[Piece] = []
        self.captures: Mapping[str, tuple[str, int]] = {}
        self._memories: Memories = {}

    def look(self, store: Store) -> None:
        self.facts, self.pieces = store.facts(), store.pieces()
        self.captures, self._memories = store.captures(), store.memories()

    @property
    def counts(self) -> Sequence[int]:
        """The number of replications of each unit, with a stopping rule up to the next look."""
        return self._planned if self.stopping is None else self.stopping.counts

    def check_results(self, stored: Identity, *, extendable: bool) -> None:
        """Raise `InputError` for results of another scenario, engine or version, or without a store."""
        out, plan = self.out, self.plan
        own = plan.identity()
        if any(stored.get(key) != value for key, value in plan.version().items()):
            raise InputError(
                f"{out} contains results of {_version_text(stored)}, but this is {_version_text(own)}; "
                f"nothing was changed. Results of different versions are never mixed. {_REMEDY}"
            )
        for key in ("scenario", "engine", *plan.engine.identity):
            if stored.get(key) != own.get(key):
                raise (OtherKernelError if key in plan.engine.identity else InputError)(
                    f"{out} contains results of the {key} {stored.get(key)}, not of {own.get(key)}; nothing "
                    f"was changed. {_REMEDY}"
                )
        if not extendable:
            raise InputError(
                f"{out} has lost its {STORE}. Without it lasthop can neither extend the results nor restore "
                f"damaged tables. {_REMEDY}"
            )

    def check_captures(self) -> None:
        """Raise `InputError` for captures of other runs, which would not match the results."""
        traces, snap_length = self.out / TRACES, self.snap_length
        if not traces.exists():
            return
        stored = self.facts.get("snap_length")
        if snap_length not in (None, stored):
            raise InputError(
                f"{traces} contains captures of {stored} bytes of each packet, not of {snap_length}; nothing "
                f"was changed. Use --snaplen {stored}, or remove that folder."
            )
        if snap_length is None and any(
            self.captures.get(folder, wanted) != wanted and (traces / folder).is_dir()
            for demand in self.demands
            for folder, wanted in self.capture_folders(demand.unit)
        ):
            raise InputError(
                f"{traces} contains captures of runs that are not part of this command; nothing was changed. "
                "Replace them by captures of its runs with --pcap, or remove that folder."
            )

    def changed_inputs(self) -> list[str]:
        """Return the files named by programs that have changed since the stored results."""
        digests = self.plan.input_digests
        identity = self.facts.get("identity")
        before = {} if identity is None else identity.get(INPUTS, {})
        return [path for path, digest in before.items() if digests.get(path, digest) != digest]

    def capture_folders(self, unit: Unit) -> Iterator[tuple[str, tuple[str, int]]]:
        """Yield the folder of each replication's captures, below `traces`, with its source and number."""
        place = (unit.set_number - 1) * len(self.plan.cells) + unit.cell
        _, source, first = self.demands[place]
        cell = cell_folder(self.plan.cells[unit.cell])
        for number in range(self.counts[place]):
            yield f"{cell}/set-{unit.set_number}/replication-{number + 1}", (source, first + number)

    def _owners(self) -> Iterator[tuple[Demand, list[int]]]:
        """Yield, per replication of each unit, the index of the stored piece that has it, or `_NOWHERE`."""
        by_source: dict[str, list[tuple[int, Piece]]] = {}
        for index, piece in enumerate(self.pieces):
            by_source.setdefault(piece.source, []).append((index, piece))
        for demand, count in zip(self.demands, self.counts, strict=True):
            row = [_NOWHERE] * count
            for index, piece in by_source.get(demand.source, ()):
                start = piece.first - demand.first
                own = range(count)[max(0, start) : max(0, start + piece.count)]
                row[own.start : own.stop] = [index] * len(own)
            yield demand, row

    def stored(self) -> list[int]:
        """Return how many of the plan's replications of each unit are stored."""
        return [len(row) - row.count(_NOWHERE) for _, row in self._owners()]

    def _missing_captures(self, unit: Unit) -> list[bool]:
        """Return for each replication of a unit whether its captures are missing."""
        return [
            self.captures.get(folder) != wanted or not (self.out / TRACES / folder).is_dir()
            for folder, wanted in self.capture_folders(unit)
        ]

    def pending(self, *, merged: bool) -> list[Work]:
        """Return the runs that are missing, in order; `merged` records need none."""
        if merged and self.snap_length is None:
            return []
        work: list[Work] = []
        visited: set[tuple[str, int]] = set()  # equal cells are run once
        for demand, owners in self._owners():
            key = demand.source, demand.first
            if self.snap_length is None and key in visited:
                continue
            visited.add(key)
            cell, engine = self.plan.cells[demand.unit.cell], self.plan.engine
            unrecorded = [not merged and owner == _NOWHERE for owner in owners]
            uncaptured = [False] * len(owners)
            if self.snap_length is not None:
                uncaptured = self._missing_captures(demand.unit)
            missing = list(zip(unrecorded, uncaptured, strict=True))
            if engine.chained(cell):
                work += self._rest_of_chain(demand, missing)
            elif (stretch := engine.stretch(cell)) > 1:
                work += _stretches(demand, missing, stretch)
            else:
                work += _alike(demand, missing, engine.served_together(cell))
        return work

    def _rest_of_chain(self, demand: Demand, missing: Sequence[Missing]) -> Iterator[Work]:
        """Yield the rest of a chain, from the last stored memory to the last missing replication."""
        unit, source, first = demand
        lacking = [number for number, lacks in enumerate(missing, first) if any(lacks)]
        if not lacking:
            return
        following, memory = self._memories.get(source, (first, None))
        if following > lacking[0]:
            following, memory = first, None
        record, capture = (any(lacks) for lacks in zip(*missing, strict=True))
        count = lacking[-1] + 1 - following
        yield Work(unit, source, following, count, record, capture, chained=True, memory=memory)

    def outlook(self, *, merged: bool) -> Outlook:
        """Return the state of the plan; `merged` records count as stored, whatever the store contains."""
        owners = {demand.unit: (demand, row) for demand, row in self._owners()}
        stored = self.counts if merged else self.stored()
        again = 0
        for work in self.pending(merged=merged):
            demand, row = owners[work.unit]
            start = work.first - demand.first
            row = row[start : start + work.count]
            again += len(row) - row.count(_NOWHERE) if work.record else 0
        planned = {(d.source, d.first): own for d, own in zip(self.demands, stored, strict=True)}
        others = max(0, _distinct(self.pieces) - sum(planned.values()))
        return Outlook(sum(stored), sum(self.counts) - sum(stored), again, others)

    def first_pieces(self) -> Iterator[tuple[str, Piece]]:
        """Yield the key of each unit's cell, and the piece that has the unit's first replication."""
        for demand, row in self._owners():
            yield self.plan.cells[demand.unit.cell].key, self.pieces[row[0]]

    def locate(self, chosen: Sequence[range] | None = None) -> Runs:
        """Return where the chosen replications of each unit are stored, by default all; they count from 0."""
        wanted: dict[str, list[int]] = {BATCH: [], PIECE: [], "replication": [], "set": [], CELL: []}
        for place, (demand, owners) in enumerate(self._owners()):
            own = range(len(owners)) if chosen is None else chosen[place]
            pieces = [self.pieces[owner] for owner in owners[own.start : own.stop]]
            wanted[BATCH] += [piece.batch for piece in pieces]
            wanted[PIECE] += [piece.position for piece in pieces]
            wanted["replication"] += range(demand.first + own.start, demand.first + own.stop)
            wanted["set"] += [demand.unit.set_number] * len(own)
            wanted[CELL] += [demand.unit.cell] * len(own)
        cells = self.plan.cells
        levels = [level_column(factor_column(factor), factor, cells) for factor in factors_of(cells)]
        places = pl.DataFrame(wanted, schema=dict.fromkeys(wanted, pl.Int64))
        return Runs(places, pl.DataFrame(levels))


def _distinct(pieces: Sequence[Piece]) -> int:
    """Return the number of distinct replications in pieces that may overlap."""
    total = 0
    source, end = "", 0
    for piece in sorted(pieces, key=lambda piece: (piece.source, piece.first)):
        if piece.source != source:
            source, end = piece.source, 0
        stop = piece.first + piece.count
        total += max(0, stop - max(end, piece.first))
        end = max(end, stop)
    return total


def _stretches(demand: Demand, missing: Sequence[Missing], length: int) -> Iterator[Work]:
    """Yield the incomplete stretches of a unit, each up to its last incomplete replication."""
    for start in range(0, len(missing), length):
        own = missing[start : start + length]
        if lacking := [number for number, lacks in enumerate(own) if any(lacks)]:
            record, capture = (any(lacks) for lacks in zip(*own, strict=True))
            first, count = demand.first + start, lacking[-1] + 1
            yield Work(demand.unit, demand.source, first, count, record, capture, length)


def _alike(demand: Demand, missing: Sequence[Missing], together: int) -> Iterator[Work]:
    """Yield the parts of a unit that lack the same data; replications that share servers stay together."""
    unit, source, first = demand
    servers = [
        (number - 1) // together if together > 1 else 0 for number in range(first, first + len(missing))
    ]
    for ((record, capture), _), alike in itertools.groupby(zip(missing, servers, strict=True)):
        count = len(list(alike))
        if record or capture:
            yield Work(unit, source, first, count, record, capture, together)
        first += count


def _version_text(identity: Mapping[str, object]) -> str:
    rules = str(identity.get("lasthop_rules"))[:8]
    form = "" if identity.get("format") == FORMAT else f", format {identity.get('format')} of the folder"
    return (
        f"lasthop {identity.get('lasthop_version')} (commit {identity.get('lasthop_commit')}, rules "
        f"{rules}{form})"
    )
