"""The contents of `report.toml`. Field names are the keys; `docs/reference/report.md` describes them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from lasthop.common.statistics.quantiles import PercentileMethod

NOT_STATED = "not stated"
"""Statistic of a published number whose study does not state one over the replications."""
FACTORIAL_KINDS = ("run-metrics", "variation", "effects")
"""Kinds of tables of a full-factorial study: metrics of runs, and the parts of their analysis of variance."""
EACH = "each"
"""The value of a row's `flow` for a row per role."""
Statistic: TypeAlias = Literal["min", "p25", "median", "p75", "max", "mean", "not stated"]
_STRICT = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSpec:
    """Numbers of a row of a table: statistics of the sum of `columns`, by default of the column `metric`.

    `protocol` restricts them to flows of that protocol. `statistics` default to the row's; `called` names
    them (study's name: own name). `change`, if any, adds the change against the table's reference in per
    cent, under this name.
    """

    __pydantic_config__: ClassVar = _STRICT
    metric: str
    columns: tuple[str, ...] = ()
    direction: Literal["data", "ack"] = "data"
    unit: str | None = None
    protocol: Literal["tcp", "udp"] | None = None
    statistics: tuple[Statistic, ...] = ()
    called: Mapping[str, Statistic] = field(default_factory=dict)
    change: str | None = None

    @property
    def summed(self) -> tuple[str, ...]:
        return self.columns or (self.metric,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpec:
    """A row of a table: its numbers, and the records that they are computed from.

    `flow` is the table's name of the row, or `each` for a row per role under the role's own name. `role`
    restricts the records to a role, or to a hop and direction as in `cable up`; `inline-first` and
    `inline-last` are the first and last of roles named `inline-1`, `inline-2` and so on. `cells` restricts
    the row to cells with these levels; `aborted = false` excludes aborted flows. `over` combines the roles:
    all records together, the numbers of the worst role, or the sum over the roles. `replications` counts
    values or runs.
    """

    __pydantic_config__: ClassVar = _STRICT
    flow: str
    numbers: tuple[NumberSpec, ...]
    of: Literal["flows", "pages", "hops"] = "flows"
    role: str | None = None
    protocol: Literal["tcp", "udp"] | None = None
    cells: Mapping[str, str] = field(default_factory=dict)
    aborted: bool = True
    over: Literal["all", "worst role", "sum of roles"] = "all"
    statistics: tuple[Statistic, ...] = ("median",)
    replications: Literal["values", "runs"] = "values"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The contents of some of a study's tables.

    `ids` are table numbers as in `tables.csv`, such as `T7 T26-T72`. `kind` names rows in `[[rows.KIND]]`, or
    is one of the `FACTORIAL_KINDS`. `roles` are the tables' names of roles, `levels` their names of a
    factor's levels (their name: own name). `reference` is the reference cell of changes, by the factor's
    level in `tables.csv`. `percentiles` overrides the study's.
    """

    __pydantic_config__: ClassVar = _STRICT
    kind: str
    ids: tuple[str, ...]
    title: str
    percentiles: PercentileMethod | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reference: Mapping[str, str] = field(default_factory=dict)

    def own_levels(self, levels: Mapping[str, str]) -> dict[str, str]:
        """Return levels by the scenario's names."""
        return {factor: self.levels.get(factor, {}).get(level, level) for factor, level in levels.items()}


@dataclass(frozen=True, slots=True)
class FactorSpec:
    """The study's names of a factor and of its levels (own name: study's name)."""

    __pydantic_config__: ClassVar = _STRICT
    name: str
    levels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FactorialSpec:
    """A full-factorial study of metrics of runs.

    `metrics` are columns of `runs.parquet` (own name: study's name). `factors` are the factors of the
    analysis of variance. A figure has a line per level of the first factor, over the levels of the second, in
    a panel per level of the third.
    """

    __pydantic_config__: ClassVar = _STRICT
    metrics: Mapping[str, str]
    factors: Mapping[str, FactorSpec]

    @property
    def cells(self) -> int:
        return math.prod(len(factor.levels) for factor in self.factors.values())


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """An illustrated replication."""

    __pydantic_config__: ClassVar = _STRICT
    cell: str
    title: str
    replication: int = 1
    caption: str = ""


@dataclass(frozen=True, slots=True)
class CurvesSpec:
    """Metrics of short flows over the levels of factor `x`, as small multiples.

    A figure has a row of panels per metric, which is a column of `shorts.parquet` or a rate of its events,
    with the title that it maps to, without the unit. The row has a panel per level of factor `panels`, or a
    panel per pair of levels in `quotients` that shows the metric's quotient; without `panels`, there is a
    panel per metric. `lines` maps each line to its levels and, as `flow`, to the name of its hosts. `where`
    restricts the cells. There is a figure for each combination of levels of the other factors.
    """

    __pydantic_config__: ClassVar = _STRICT
    title: str
    x: str
    x_title: str
    metrics: Mapping[str, str]
    lines: Mapping[str, Mapping[str, str]]
    panels: str | None = None
    quotients: Mapping[str, Sequence[str]] = field(default_factory=dict)
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    connected: bool = True

    @property
    def factors(self) -> list[str]:
        of_lines = {factor for levels in self.lines.values() for factor in levels} - {"flow"}
        return [self.x, *([self.panels] if self.panels else []), *of_lines]


@dataclass(frozen=True, slots=True)
class HeatmapSpec:
    """A metric over the levels of two factors, `rows` and `columns`: a number and a colour in each cell.

    `metric` is a column of `flows.parquet`, or computed from such columns, of the flow with role `flow`.
    Without `flow` it is a column of `runs.parquet`. A cell has the mean over the replications. `where`
    restricts the cells. There is a map for each combination of levels of the other factors.
    """

    __pydantic_config__: ClassVar = _STRICT
    title: str
    rows: str
    columns: str
    metric: str
    flow: str | None = None
    caption: str = ""
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def factors(self) -> list[str]:
        return [self.rows, self.columns]


@dataclass(frozen=True, slots=True)
class CompareSpec:
    """The factor whose levels are compared in pairs, and the reference levels in order of preference."""

    __pydantic_config__: ClassVar = _STRICT
    factor: str | None = None
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Presentation:
    """How the results of a study are summarised and shown.

    `not_stated` is the statistic to compare if the study does not state one. `misprints` lists phrases;
    published numbers whose note contains any of them are excluded from the agreement.
    """

    __pydantic_config__: ClassVar = _STRICT
    percentiles: PercentileMethod = "linear"
    not_stated: Literal["median", "mean"] = "median"
    misprints: tuple[str, ...] = ()
    compare: CompareSpec = field(default_factory=CompareSpec)
    tables: tuple[TableSpec, ...] = ()
    rows: Mapping[str, tuple[RowSpec, ...]] = field(default_factory=dict)
    figure: tuple[FigureSpec, ...] = ()
    factorial: FactorialSpec | None = None
    curves: tuple[CurvesSpec, ...] = ()
    heatmap: tuple[HeatmapSpec, ...] = ()

    @property
    def of_runs(self) -> bool:
        """Whether all tables are about whole runs, not single flows."""
        return bool(self.tables) and all(spec.kind in FACTORIAL_KINDS for spec in self.tables)
