"""The tables of a study in its own layout, with the published number below each measured number."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import polars as pl

from lasthop.analysis.findings.findings import Findings, informative
from lasthop.analysis.statistics.summary import generic_summary
from lasthop.analysis.studies.comparison import MIDDLES, RATIO, RULES, Agreement, judge
from lasthop.analysis.studies.summary import extra_columns, key_columns, table_levels
from lasthop.campaign.results.tables import factor_column, is_empty, outside_pages, whole_flows
from lasthop.common.metrics import units
from lasthop.common.statistics.quantiles import FIVE_NUMBERS
from lasthop.present.report.factorial_tables import factorial_view
from lasthop.present.report.table_views import (
    HEADLINE,
    CellView,
    Row,
    TableGroup,
    TableView,
    generic_table,
    metric_label,
    number,
)
from lasthop.studies.catalogue import Assets
from lasthop.studies.presentation.spec import FACTORIAL_KINDS, NOT_STATED, FactorialSpec, TableSpec

Record = Mapping[str, object]
Column = TypeVar("Column", bound=Hashable)


class _Published:
    """The published numbers by their key columns."""

    def __init__(self, assets: Assets) -> None:
        self._keys = key_columns(assets)
        self._misprints = assets.presentation.misprints
        self._not_stated = assets.presentation.not_stated
        rows = assets.published.select(*self._keys, "value", "note").iter_rows()
        self._values: dict[tuple[object, ...], tuple[float, str]] = {
            row[:-2]: (row[-2], row[-1] or "") for row in rows
        }

    @property
    def cells(self) -> list[str]:
        """The key columns of a number's cell."""
        return self._keys[self._keys.index("table") + 1 : self._keys.index("flow")]

    def word(self, statistic: str) -> str:
        return self._not_stated if statistic == NOT_STATED else statistic.replace("_", " ")

    def field(self, record: Record) -> CellView:
        """Return a measured number with the published number, if any."""
        value, unit = record["value"], str(record["unit"])
        measured = value if isinstance(value, float) else None
        entry = self._values.get(tuple(record[key] for key in self._keys))
        if entry is None:
            return CellView(number(measured, unit))
        published, note = entry
        misprint = any(phrase in note for phrase in self._misprints)
        within = None if misprint else judge(str(record["metric"]), published, measured)[0]
        return CellView(number(measured, unit), number(published, unit), within, note, misprint)


def table_groups(findings: Findings, assets: Assets) -> list[TableGroup]:
    """Return a study's tables, and other cells; with levels new to the study, a table of these levels."""
    extra = extra_columns(list(findings.factors), assets)
    if extra and findings.comparison is not None:
        return [levels_table(findings.comparison, extra)]
    other = [] if findings.presentation.of_runs else _without_published(findings, assets)
    return [*study_tables(findings.summary, assets), *other]


def study_tables(summary: pl.DataFrame, assets: Assets) -> list[TableGroup]:
    """Return all tables of a study whose cells were run."""
    published, factorial = _Published(assets), assets.presentation.factorial
    by_table = summary.partition_by("table", as_dict=True, maintain_order=True)
    return [
        TableGroup(spec.title, views)
        for spec in assets.presentation.tables
        if (
            views := [
                _view(spec, t, by_table[t,], published, factorial) for t in spec.ids if (t,) in by_table
            ]
        )
    ]


def _view(
    spec: TableSpec, table: str, part: pl.DataFrame, published: _Published, factorial: FactorialSpec | None
) -> TableView:
    cells = published.cells
    fixed = [part[column].unique().to_list() for column in cells]
    title = " · ".join([table, *(str(levels[0]) for levels in fixed if len(levels) == 1 and levels[0])])
    if spec.kind in FACTORIAL_KINDS and factorial is not None:
        return factorial_view(spec.kind, title, part, factorial, published.field)
    labels = informative(part, cells) or list(cells[-1:])
    if spec.kind == "per-flow":
        return _by_metric(title, part, published)
    if spec.kind == "page-change":
        return _by_level(title, part, labels, next(iter(spec.reference), cells[-1]), published)
    if spec.kind == "mixture":
        labels.append("flow")
    return _by_statistic(title, part, labels, published)


def _by_metric(title: str, part: pl.DataFrame, published: _Published) -> TableView:
    """Return a table with a row per flow, direction and metric."""
    labels = [column for column in ("flow", "direction", "metric") if column in part.columns]
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for record in part.iter_rows(named=True):
        words = [str(record[column] or "") for column in labels[:-1]]
        key = (*words, metric_label(record["metric"], record["unit"]))
        rows.setdefault(key, {})[record["statistic"]] = published.field(record)
    statistics = list(FIVE_NUMBERS)
    return TableView(title, [*labels, *statistics], len(labels), _filled(rows, statistics))


def _by_statistic(title: str, part: pl.DataFrame, labels: Sequence[str], published: _Published) -> TableView:
    """Return a table with a row per cell, and the statistics of each metric as columns."""
    order = {metric: place for place, metric in enumerate(part["metric"].unique(maintain_order=True))}
    columns = list(dict.fromkeys(part.select("metric", "statistic", "unit").iter_rows()))
    columns.sort(key=lambda column: order[column[0]])
    rows: dict[tuple[str, ...], dict[tuple[str, ...], CellView]] = {}
    for record in part.iter_rows(named=True):
        key = tuple(str(record[column] or "") for column in labels)
        column = (record["metric"], record["statistic"], record["unit"])
        rows.setdefault(key, {})[column] = published.field(record)
    words = [published.word(statistic) for _, statistic, _ in columns]
    over = [
        (metric_label(metric, unit), len(list(group)))
        for (metric, unit), group in itertools.groupby(columns, key=lambda column: (column[0], column[2]))
    ]
    if len(over) == 1:
        words, over = [f"{word} ({columns[0][2]})" for word in words], []
    return TableView(title, [*labels, *words], len(labels), _filled(rows, columns), over)


def _by_level(
    title: str, part: pl.DataFrame, labels: Sequence[str], factor: str, published: _Published
) -> TableView:
    """Return a table with a row per cell, and the levels of a factor as columns."""
    labels = [label for label in labels if label != factor]
    levels: list[str] = []
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for record in part.iter_rows(named=True):
        key = tuple(str(record[column] or "") for column in labels)
        level = f"{record[factor]} ({'%' if record['unit'] == 'percent' else record['unit']})"
        rows.setdefault(key, {})[level] = published.field(record)
        levels.append(level)
    levels = sorted(set(levels), key=lambda level: (level.endswith("(%)"), levels.index(level)))
    return TableView(title, [*labels, *levels], len(labels), _filled(rows, levels))


def _filled(
    rows: Mapping[tuple[str, ...], Mapping[Column, CellView]], columns: Sequence[Column]
) -> list[Row]:
    return [
        (labels, [cells.get(column, CellView("–")) for column in columns]) for labels, cells in rows.items()
    ]


def levels_table(comparison: pl.DataFrame, extra: Sequence[str]) -> TableGroup:
    """Return the median times or the metrics of runs, with a column per combination of levels in `extra`."""
    timed = pl.col("metric").is_in(["elapsed_s", "response_time_s"]) & pl.col("statistic").is_in(MIDDLES)
    of_runs = pl.col("metric").is_in([metric for metric, rule in RULES.items() if rule is RATIO])
    medians = comparison.filter(timed | of_runs)
    unit, title = ("ratio", "Metrics of runs") if medians.select(of_runs.any()).item() else ("s", "Times (s)")
    levels = [" ".join(row) for row in medians.select(extra).unique(maintain_order=True).iter_rows()]
    last = "flow" if unit == "s" else "metric"
    keys = comparison.columns[comparison.columns.index("table") : comparison.columns.index(last) + 1]
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for record in medians.iter_rows(named=True):
        labels = tuple(str(record[key] or "") for key in keys)
        level = " ".join(record[column] for column in extra)
        value, published = number(record["measured"], unit), number(record["published"], unit)
        rows.setdefault(labels, {"published": CellView(published)})[level] = CellView(
            value, "", record["within"]
        )
    heads = ["published", *levels]
    fields = [(labels, [cells.get(head, CellView("")) for head in heads]) for labels, cells in rows.items()]
    return TableGroup(title, [TableView("", [*keys, *heads], len(keys), fields)])


def _without_published(findings: Findings, assets: Assets) -> list[TableGroup]:
    """Return the medians of the cells that no table of the study contains."""
    factors = list(findings.factors)
    flows, pages = whole_flows(findings.tables.flows), findings.tables.pages
    if pages is not None:
        flows = outside_pages(flows, pages)
    kinds = {table: spec for spec in assets.presentation.tables for table in spec.ids}
    tables_levels = [
        kinds[row["table"]].own_levels(table_levels(row, factors)).items()
        for row in assets.tables.iter_rows(named=True)
        if row["table"] in kinds
    ]
    cells = findings.campaign.plan.cells
    other = [
        cell.levels for cell in cells if not any(levels <= cell.levels.items() for levels in tables_levels)
    ]
    if not other:
        return []
    own = pl.LazyFrame({factor_column(factor): [levels[factor] for levels in other] for factor in factors})
    columns = own.collect_schema().names()
    flows = flows.join(own, on=columns, how="semi", maintain_order="left")
    if pages is not None:
        pages = pages.join(own, on=columns, how="semi", maintain_order="left")
    if is_empty(flows) and (pages is None or is_empty(pages)):
        return []
    method, looks = findings.presentation.percentiles, findings.tables.looks
    summary = generic_summary(flows, pages, factors, method, HEADLINE, looks=looks)
    return [generic_table(summary, factors, "Cells without published numbers")]


def rules(comparison: pl.DataFrame) -> list[tuple[str, str]]:
    """Return the rules of comparison, each with its metrics."""
    metrics: dict[str, list[str]] = {}
    for metric in comparison["metric"].unique(maintain_order=True):
        if metric in RULES:
            metrics.setdefault(RULES[metric].text, []).append(units.label(metric))
    return [(text, ", ".join(names)) for text, names in metrics.items()]


def agreement_tables(agreement: Sequence[Agreement]) -> list[tuple[str, list[tuple[str, list[Agreement]]]]]:
    """Group by the kind of number: times and rates with a line per scope, counts with a line per metric.

    Tolerances are columns. With several levels, there is a table per kind of number, with a line per level.
    """
    levels = len({row.level for row in agreement}) > 1
    tables: dict[str, dict[str, list[Agreement]]] = {}
    for row in agreement:
        what = row.what.removeprefix("median ")
        if levels:
            title, line = what + ("" if row.scope == "all" else f", link {row.scope}"), row.level
        elif row.tolerance.isdigit():
            title, line = "Counts, all links", what
        else:
            title, line = (
                what[:1].upper() + what[1:],
                "all links" if row.scope == "all" else f"link {row.scope}",
            )
        tables.setdefault(title, {}).setdefault(line, []).append(row)
    return [(title, list(lines.items())) for title, lines in tables.items()]
