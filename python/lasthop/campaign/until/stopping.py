"""The number of replications of each cell: as many as its own results need, whatever other cells do.

After the replications of a look, a cell is done if every flow that a condition covers meets it. Otherwise it
goes on to the next look. At the cap it is done in any case. The number follows from the cell's results alone.
So it is the same whatever was in the store before, and after any interruption.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop import _core
from lasthop.campaign.results.folder import HOPS, PAGES, SHORTS, STATIONS
from lasthop.campaign.results.sections import COMPLETED, WHO, Section, by_replication, metrics_of, sections
from lasthop.campaign.results.shapes import UntilFacts
from lasthop.campaign.results.tables import Tables, with_derived
from lasthop.campaign.until.looks import LOOKS, Condition, looks_up_to
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.scenario.points import factors_of, level_column

CAP = 1000
"""The largest number of replications of a cell, unless another number is given."""
_READ_AT_ONCE = 20_000
_ELAPSED = "elapsed_s"

Levels = tuple[str | float | None, ...]
Read = Callable[[Sequence[range]], Mapping[str, pl.DataFrame]]
"""Returns the records of some replications of each cell, which count from 0."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a condition's metric for one flow of a cell, one per replication; NaN if one is missing.

    `levels` are the cell's, in the order of the records' columns. `unfinished`: whether a flow did not do all
    its work.
    """

    levels: Levels
    who: tuple[str, str]
    values: NDArray[np.float64]
    unfinished: bool


def _sections(condition: Condition, tables: Tables) -> list[Section]:
    """Return the sections that have the condition's metric; a part of a flow counts only if it is named."""
    if condition.metric not in metrics_of(tables):
        return []
    return sections(tables, [condition.metric], parts=condition.flow is not None)


def values_of(condition: Condition, tables: Tables) -> Iterator[Values]:
    for section in _sections(condition, tables):
        rows = section.rows
        if condition.flow is not None:
            rows = rows.filter(pl.col(WHO) == condition.flow)
        elif condition.metric == _ELAPSED and "protocol" in rows.columns:
            # A stream lasts as long as its sender was told.
            rows = rows.filter(pl.col("protocol").is_in(TRANSFER_PROTOCOLS))
        yield from _by_flow(section, rows, condition.metric)


def _by_levels(cells: Sequence[_core.Cell]) -> dict[Levels, list[int]]:
    """Return the levels of each cell, as the records have them. Samples may be equal."""
    factors = factors_of(cells)
    rows = (
        pl.DataFrame([level_column(factor, factor, cells) for factor in factors]).rows() if factors else [()]
    )
    found: dict[Levels, list[int]] = {}
    for number, levels in enumerate(rows):
        found.setdefault(levels, []).append(number)
    return found


def _tables(records: Mapping[str, pl.DataFrame]) -> Tables:
    pages, shorts, hops, stations = (
        None if (frame := records[Path(name).stem]).is_empty() else with_derived(name, frame.lazy())
        for name in (PAGES, SHORTS, HOPS, STATIONS)
    )
    return Tables(records["flows"].lazy(), records["runs"].lazy(), pages, shorts, hops, stations)


def _by_flow(section: Section, rows: pl.DataFrame, metric: str) -> Iterator[Values]:
    factors = list(section.factors)
    keys = [*factors, WHO]
    done = pl.col("outcome") == COMPLETED if "outcome" in rows.columns else pl.lit(value=True)
    cut = {row[:-1] for row in rows.group_by(keys).agg((~done).any().alias("_cut")).iter_rows() if row[-1]}
    single = by_replication(Section(section.title, rows, section.factors, [metric]), factors)
    flows = single.group_by(keys, maintain_order=True).agg(pl.col(metric).fill_null(float("nan")))
    for *levels, who, values in flows.iter_rows():
        yield Values(tuple(levels), (section.title, who), np.array(values), (*levels, who) in cut)


class Stopping:
    """Decides, cell by cell, how many replications a campaign runs."""

    def __init__(self, conditions: Sequence[Condition], cells: Sequence[_core.Cell], cap: int) -> None:
        """Begin with the first look; raise `InputError` for a cap that allows none."""
        if not LOOKS[0] <= cap <= LOOKS[-1]:
            raise InputError(
                f"--replications {cap}: with --until this is the most that a cell gets; give {LOOKS[0]} to "
                f"{LOOKS[-1]}."
            )
        self.conditions = conditions
        self.looks = looks_up_to(cap)
        self._cells = _by_levels(cells)
        self.counts = [self.looks[0]] * len(cells)
        """The number of replications of each cell, as far as it is known."""
        self.undecided = list(range(len(cells)))
        """The cells that may yet get more replications."""
        self._read = [0] * len(cells)
        self._short: list[int] = []
        self._values: list[dict[tuple[int, tuple[str, str]], list[Values]]] = [{} for _ in cells]
        self._answered = np.zeros(len(conditions), dtype=bool)
        self._flows: list[dict[str, None]] = [{} for _ in conditions]

    def judge(self, cells: Sequence[int], read: Read) -> None:
        """Look at `cells`, which have the replications of their look, and decide on each."""
        fresh = itertools.accumulate([self.counts[cell] - self._read[cell] for cell in cells])
        for _, block in itertools.groupby(
            zip(cells, fresh, strict=True), lambda one: one[1] // _READ_AT_ONCE
        ):
            self._take([cell for cell, _ in block], read)
        self._check_conditions()
        done = set()
        for cell in cells:
            met = self._met(cell)
            if not met and self.counts[cell] < self.looks[-1]:
                self.counts[cell] = self.looks[self.looks.index(self.counts[cell]) + 1]
                continue
            done.add(cell)
            self._values[cell].clear()
            if not met:
                self._short.append(cell)
        self.undecided = [cell for cell in self.undecided if cell not in done]

    def _take(self, block: Sequence[int], read: Read) -> None:
        """Read the new replications of some cells."""
        wanted = [range(0)] * len(self.counts)
        for cell in block:
            wanted[cell] = range(self._read[cell], self.counts[cell])
        tables = _tables(read(wanted))
        for number, condition in enumerate(self.conditions):
            for found in values_of(condition, tables):
                for cell in self._cells[found.levels]:
                    self._values[cell].setdefault((number, found.who), []).append(found)
                self._answered[number] |= found.unfinished or not np.isnan(found.values).all()
            for section in _sections(condition, tables):
                self._flows[number] |= dict.fromkeys(section.rows[WHO].unique(maintain_order=True))
        for cell in block:
            self._read[cell] = self.counts[cell]

    def _met(self, cell: int) -> bool:
        """Tell whether a cell meets all conditions."""
        for (number, _), parts in self._values[cell].items():
            condition = self.conditions[number]
            values = np.concatenate([part.values for part in parts])
            values = values[~np.isnan(values)]
            if not values.size and not any(part.unfinished for part in parts):
                continue  # this flow has no such metric
            if not values.size or not condition.met(values):
                return False
        return True

    def _check_conditions(self) -> None:
        """Raise `InputError` for a condition that no run can answer, once all cells have been looked at."""
        if not all(self._read):
            return
        for condition, flows, answered in zip(self.conditions, self._flows, self._answered, strict=True):
            start = f'--until "{condition.text}": no run has'
            if condition.flow is not None and condition.flow not in flows:
                raise InputError(
                    f"{start} a flow '{condition.flow}' with {condition.metric}; did you mean "
                    f"'{nearest(condition.flow, flows)}'? Flows: {', '.join(flows)}."
                )
            if not answered:
                raise InputError(f"{start} a value of {condition.metric}.")

    @property
    def record(self) -> UntilFacts:
        """The manifest's record: the rule, each cell's replications, and the cells that the cap stopped."""
        return {
            "conditions": [condition.text for condition in self.conditions],
            "looks": list(self.looks),
            "shares": len(LOOKS),
            "replications": list(self.counts),
            "short": sorted(self._short),
        }

    def restore(self, record: UntilFacts) -> None:
        """Take over the record of a manifest."""
        self.counts, self.undecided, self._short = list(record["replications"]), [], list(record["short"])
