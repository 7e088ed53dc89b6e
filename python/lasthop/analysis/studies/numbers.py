"""The numbers of a study's tables (`[[rows]]` of `report.toml`), from a cell's records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop.analysis.studies.lines import Line
from lasthop.common.metrics.units import unit_of
from lasthop.common.statistics.estimates import mean_intervals, quantiles_over_sets
from lasthop.common.statistics.quantiles import CONFIDENCE, FIVE_NUMBERS, PercentileMethod, shared
from lasthop.common.statistics.resampling import Jackknife, Resampled
from lasthop.studies.presentation.spec import EACH, NOT_STATED, NumberSpec, Presentation, RowSpec, TableSpec

_FIRST, _LAST = "-first", "-last"


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of a metric, set by set."""

    values: NDArray[np.float64]
    sets: NDArray[np.int64]
    confidence: float

    @classmethod
    def of(cls, rows: pl.DataFrame, columns: Sequence[str], confidence: float) -> Sample:
        """Return the sum of `columns` of `rows`; null becomes NaN."""
        # Not a Polars expression: a study has thousands of samples, and planning a query takes a millisecond.
        values = sum(rows[column].cast(pl.Float64).to_numpy() for column in columns)
        return cls(np.asarray(values), rows["set"].to_numpy(), confidence)

    @property
    def count(self) -> int:
        """Number of values that are not NaN."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    def statistics(self, names: Sequence[str], method: PercentileMethod) -> dict[str, NDArray[np.float64]]:
        """Return estimate, low and high of each statistic; NaN without values.

        A percentile is the mean of the sets' percentiles; the mean is over all values.
        """
        present = ~np.isnan(self.values)
        values = self.values[present]
        wanted = [name for name in names if name in FIVE_NUMBERS]
        percents = [FIVE_NUMBERS[name] for name in wanted]
        statistics = {}
        if wanted:
            numbers = quantiles_over_sets(values, self.sets[present], percents, method, self.confidence)
            statistics = dict(zip(wanted, numbers.T, strict=True))
        if "mean" in names:
            statistics["mean"] = (
                mean_intervals(values, self.confidence) if values.size else np.full(3, np.nan)
            )
        return statistics


@dataclass(frozen=True, slots=True)
class Cell:
    """The records of a cell of a table. Changes are relative to the page loads in `reference`.

    Intervals hold over this many `looks`.
    """

    levels: Mapping[str, str]
    flows: pl.DataFrame
    pages: pl.DataFrame | None
    reference: pl.DataFrame | None
    table: TableSpec
    study: Presentation
    looks: int = 1
    hops: pl.DataFrame | None = None

    def lines(self) -> Iterator[Line]:
        rows = self.study.rows[self.table.kind]
        missing = {name for name, table in {"pages": self.pages, "hops": self.hops}.items() if table is None}
        if any(row.of in missing for row in rows):
            return
        for row in rows:
            if all(self.levels.get(factor) == level for factor, level in row.cells.items()):
                yield from self._row(row)

    def _row(self, row: RowSpec) -> Iterator[Line]:
        records = self._records(row)
        if row.flow == EACH:
            for role, part in _by_role(records):
                yield from self._numbers(row, self.table.roles.get(role, role), part)
        elif row.over == "all":
            yield from self._numbers(row, row.flow, records)
        else:
            of_roles = [list(self._numbers(row, row.flow, part)) for _, part in _by_role(records)]
            combine = _worst if row.over == "worst role" else _sum
            yield from (combine(lines) for lines in zip(*of_roles, strict=True))

    def _records(self, row: RowSpec) -> pl.DataFrame:
        if row.of == "hops" and self.hops is not None:
            return self.hops.filter(pl.concat_str("hop", "direction", separator=" ") == row.role)
        if row.of == "pages" and self.pages is not None:
            return self.pages
        return self._flows(row)

    def _flows(self, row: RowSpec) -> pl.DataFrame:
        wanted = [] if row.aborted else [pl.col("outcome") != "aborted"]
        if row.protocol is not None:
            wanted.append(pl.col("protocol") == row.protocol)
        records = self.flows.filter(wanted) if wanted else self.flows
        if row.role is not None:
            records = records.filter(role=_role(row.role, records["role"]))
        return records

    def _numbers(self, row: RowSpec, flow: str, records: pl.DataFrame) -> Iterator[Line]:
        for number in row.numbers:
            if number.protocol is None or records["protocol"][0] == number.protocol:
                for line in self._statistics(row, number, records):
                    yield replace(line, flow=flow)
                    if number.change is None or self.reference is None:
                        continue
                    if not records.equals(self.reference):
                        yield replace(self._change(row, number, line, records), flow=flow)

    def _statistics(self, row: RowSpec, number: NumberSpec, records: pl.DataFrame) -> Iterator[Line]:
        """Yield a line for each statistic, with its interval."""
        names = number.called or {name: name for name in number.statistics or row.statistics}
        meant = {word: self.study.not_stated if name == NOT_STATED else name for word, name in names.items()}
        sample = Sample.of(records, number.summed, shared(CONFIDENCE, self.looks))
        statistics = sample.statistics(list(meant.values()), self.table.percentiles or self.study.percentiles)
        count = sample.count
        if row.replications == "runs":
            count = int(self.flows.select(pl.struct("set", "replication").n_unique()).item())
        unit = unit_of(number.metric) if number.unit is None else number.unit
        for word, name in meant.items():
            value, low, high = map(float, statistics[name])
            yield Line(
                "", number.direction, number.metric, word, value, count, unit, ci_low=low, ci_high=high
            )

    def _change(self, row: RowSpec, number: NumberSpec, line: Line, records: pl.DataFrame) -> Line:
        """Return the change of a line relative to the reference, in per cent."""
        assert self.reference is not None
        assert number.change is not None
        (reference,) = self._statistics(row, number, self.reference)
        change = 100 * (line.value / reference.value - 1)
        low = high = math.nan
        # The jackknife applies to a mean.
        if self.study.not_stated == "mean" and (
            jackknife := _jackknife_of_change(records, self.reference, number.summed)
        ):
            interval = jackknife.interval(shared(CONFIDENCE, self.looks))
            low, high = interval.low, interval.high
        return replace(line, metric=number.change, value=change, unit="percent", ci_low=low, ci_high=high)


def _by_role(flows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the flows of each role, in the order of the roles' names."""
    parts = flows.partition_by("role", as_dict=True)
    for (role,), part in sorted(parts.items(), key=lambda item: str(item[0])):
        yield str(role), part


def _role(wanted: str, roles: pl.Series) -> str:
    """Return the role; the suffixes `-first` and `-last` mean the first and last of numbered roles."""
    if not wanted.endswith((_FIRST, _LAST)):
        return wanted
    series = wanted.rpartition("-")[0] + "-"
    numbered = sorted(
        (role for role in roles.unique() if role.startswith(series)), key=lambda r: int(r[len(series) :])
    )
    if not numbered:
        return wanted
    return str(numbered[0] if wanted.endswith(_FIRST) else numbered[-1])


def _worst(lines: Sequence[Line]) -> Line:
    return max(lines, key=lambda line: -math.inf if math.isnan(line.value) else line.value)


def _sum(lines: Sequence[Line]) -> Line:
    return replace(lines[0], value=sum(line.value for line in lines), ci_low=math.nan, ci_high=math.nan)


def _jackknife_of_change(
    records: pl.DataFrame, reference: pl.DataFrame, columns: Sequence[str]
) -> Resampled | None:
    """Return the jackknife of the change of a mean, in per cent, paired by replication."""
    keys = ["set", "replication"]
    own, base = (
        rows.select(*keys, pl.sum_horizontal(*columns, ignore_nulls=False).alias(name))
        for rows, name in ((records, "own"), (reference, "base"))
    )
    values = own.join(base, on=keys).select("own", "base").drop_nulls().to_numpy()
    if len(values) < 2:
        return None
    without = (values.sum(axis=0) - values) / (len(values) - 1)
    means = np.vstack([values.mean(axis=0), without])
    return Jackknife(len(values)).of(100 * (means[:, 0] / means[:, 1] - 1))
