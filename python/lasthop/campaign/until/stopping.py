"""The number of replications of each cell: as many as its own results need, independent of other cells.

At a look, a cell is done if every flow that a condition covers meets it. Otherwise it continues to the next
look. At the cap it is done in any case. The number follows from the cell's results alone, so it depends
neither on earlier contents of the store nor on interruptions.
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
"""The default maximum of replications of a cell."""
_READ_AT_ONCE = 20_000
_ELAPSED = "elapsed_s"

Levels = tuple[str | float | None, ...]
Read = Callable[[Sequence[range]], Mapping[str, pl.DataFrame]]
"""Returns the records of some replications of each cell, which count from 0."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a condition's metric for one flow of a cell, one per replication; NaN if missing.

    `levels` are the cell's, in the order of the records' columns. `unfinished` is true if the flow did not
    complete in some replication.
    """

    levels: Levels
    who: tuple[str, str]
    values: NDArray[np.float64]
    unfinished: bool


def _sections(condition: Condition, tables: Tables) -> list[Section]:
    """Return the sections that have the condition's metric, with parts of flows only if it names a flow."""
    if condition.metric not in metrics_of(tables):
        return []
    return sections(tables, [condition.metric], parts=condition.flow is not None)


def values_of(condition: Condition, tables: Tables) -> Iterator[Values]:
    for section in _sections(condition, tables):
        rows = section.rows
        if condition.flow is not None:
            rows = rows.filter(pl.col(WHO) == condition.flow)
        elif condition.metric == _ELAPSED and "protocol" in rows.columns:
            # The duration of a stream is configured, not measured.
            rows = rows.filter(pl.col("protocol").is_in(TRANSFER_PROTOCOLS))
        yield from _by_flow(section, rows, condition.metric)


def _by_levels(cells: Sequence[_core.Cell]) -> dict[Levels, list[int]]:
    """Return the cells with each combination of levels, as in the records. Samples may be equal."""
    factors = factors_of(cells)
    rows = (
        pl.DataFrame([level_column(factor, factor, cells) for factor in factors]).rows() if factors else [()]
    )
    by_levels: dict[Levels, list[int]] = {}
    for number, levels in enumerate(rows):
        by_levels.setdefault(levels, []).append(number)
    return by_levels


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
                f"--replications {cap}: with --until this is the maximum for a cell. Give {LOOKS[0]} to "
                f"{LOOKS[-1]}."
            )
        self.conditions = conditions
        self.looks = looks_up_to(cap)
        self._cells = _by_levels(cells)
        self.counts = [self.looks[0]] * len(cells)
        """The number of replications of each cell up to its next look."""
        self.undecided = list(range(len(cells)))
        """The cells that may need more replications."""
        self._read = [0] * len(cells)
        self._short: list[int] = []
        self._values: list[dict[tuple[int, tuple[str, str]], list[Values]]] = [{} for _ in cells]
        self._answered = np.zeros(len(conditions), dtype=bool)
        self._flows: list[dict[str, None]] = [{} for _ in conditions]

    def judge(self, cells: Sequence[int], read: Read) -> None:
        """Decide on each of `cells`, which have the replications of their look."""
        unread = itertools.accumulate([self.counts[cell] - self._read[cell] for cell in cells])
        for _, block in itertools.groupby(
            zip(cells, unread, strict=True), lambda entry: entry[1] // _READ_AT_ONCE
        ):
            self._read_block([cell for cell, _ in block], read)
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

    def _read_block(self, block: Sequence[int], read: Read) -> None:
        """Read the new replications of some cells."""
        wanted = [range(0)] * len(self.counts)
        for cell in block:
            wanted[cell] = range(self._read[cell], self.counts[cell])
        tables = _tables(read(wanted))
        for number, condition in enumerate(self.conditions):
            for values in values_of(condition, tables):
                for cell in self._cells[values.levels]:
                    self._values[cell].setdefault((number, values.who), []).append(values)
                self._answered[number] |= values.unfinished or not np.isnan(values.values).all()
            for section in _sections(condition, tables):
                self._flows[number] |= dict.fromkeys(section.rows[WHO].unique(maintain_order=True))
        for cell in block:
            self._read[cell] = self.counts[cell]

    def _met(self, cell: int) -> bool:
        """Whether a cell meets all conditions."""
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
        """Raise `InputError` for a condition without values, once all cells have had a look."""
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
        """Restore the decisions recorded in a manifest."""
        self.counts, self.undecided, self._short = list(record["replications"]), [], list(record["short"])
