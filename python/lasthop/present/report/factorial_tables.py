"""Tables of a full-factorial study: metrics of runs by cell, allocation of variation, and effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import polars as pl

from lasthop.analysis.studies.lines import EFFECT, SHARE, SQUARES, STANDARD_ERROR, VALUE
from lasthop.present.report.table_views import CellView, Row, TableView, number
from lasthop.studies.presentation.spec import FactorialSpec

Record = Mapping[str, object]
Field = Callable[[Record], CellView]
_NONE = CellView("–")
_EMPTY = CellView("")


class _Numbers:
    """A table's numbers by the columns `keys`; `field` combines a number with the published number."""

    def __init__(self, part: pl.DataFrame, keys: list[str], field: Field) -> None:
        # The unit `percent` is for changes, which have a sign.
        rows = part.with_columns(pl.col("unit").replace("percent", "%"))
        self._records = {tuple(record[key] for key in keys): record for record in rows.iter_rows(named=True)}
        self._field = field
        self.replicated = bool((part["statistic"] == "min").any())

    def view(self, *key: str, none: CellView = _NONE) -> CellView:
        return self._field(self._records[key]) if key in self._records else none

    def text(self, *key: str) -> str:
        """Return a number without the published number."""
        record = self._records[key]
        return number(float(str(record["value"])), str(record["unit"]))

    def with_spread(self, *key: str) -> CellView:
        """Return the mean, with half its interval if there are several replications."""
        view = self.view(*key, VALUE)
        if (*key, "min") not in self._records:
            return view
        low, high = (float(str(self._records[*key, bound]["value"])) for bound in ("ci_low", "ci_high"))
        runs = self._records[*key, VALUE]["replications"]
        range_text = f"{runs} runs: {self.text(*key, 'min')} to {self.text(*key, 'max')}"
        spread = f"{range_text}, standard deviation {self.text(*key, 'standard_deviation')}"
        return replace(view, measured=f"{view.measured} ± {(high - low) / 2:.3f}", spread=spread)


def factorial_view(kind: str, title: str, part: pl.DataFrame, spec: FactorialSpec, field: Field) -> TableView:
    """Return a table of one of the `FACTORIAL_KINDS`; `field` combines a number with the published number."""
    lay_out = {"run-metrics": _by_cell, "variation": _variation, "effects": _effects}[kind]
    return lay_out(title, part, spec, field)


def _by_cell(title: str, part: pl.DataFrame, spec: FactorialSpec, field: Field) -> TableView:
    """Return a table with the second factor's levels as columns, and the others' combinations as rows."""
    across = list(spec.factors)[1]
    down = [factor for factor in spec.factors if factor != across]
    columns = spec.factors[across].levels
    numbers = _Numbers(part, [*down, across, "metric", "statistic"], field)
    rows: list[Row] = []
    ranks = [{level: rank for rank, level in enumerate(spec.factors[factor].levels)} for factor in down]
    combinations = part.select(down).unique(maintain_order=True).rows()
    for levels in sorted(
        combinations, key=lambda row: [rank.get(level, 0) for rank, level in zip(ranks, row, strict=True)]
    ):
        labels = [
            spec.factors[factor].levels.get(level, level) for factor, level in zip(down, levels, strict=True)
        ]
        fields = [
            numbers.with_spread(*levels, level, metric)
            for metric in spec.metrics.values()
            for level in columns
        ]
        rows.append((labels, fields))
    suffix = ", mean ± half its 90 % interval" if numbers.replicated else ""
    over = [(f"{metric}{suffix}", len(columns)) for metric in spec.metrics.values()]
    head = [*(spec.factors[factor].name for factor in down), *list(columns.values()) * len(over)]
    return TableView(title, head, len(down), rows, over)


def _variation(title: str, part: pl.DataFrame, spec: FactorialSpec, field: Field) -> TableView:
    """Return a table with a row per source of variation, and a row for the standard error."""
    numbers = _Numbers(part, ["flow", "metric", "statistic"], field)
    words = ["sum of squares", "%", *(["% in single replications"] if numbers.replicated else [])]
    rows: list[Row] = []
    for flow in part["flow"].unique(maintain_order=True):
        fields = []
        for metric in spec.metrics.values():
            share = f"{SHARE}_{metric}"
            first = STANDARD_ERROR if flow == STANDARD_ERROR else SQUARES
            fields += [
                numbers.view(flow, f"{first}_{metric}", VALUE),
                numbers.view(flow, share, VALUE, none=_EMPTY),
            ]
            if numbers.replicated:
                has_spread = numbers.view(flow, share, "min", none=_EMPTY) is not _EMPTY
                ends = [numbers.text(flow, share, end) for end in ("min", "max")] if has_spread else []
                fields.append(CellView(" … ".join(ends)))
        rows.append(([flow.replace("_", " ")], fields))
    over = [(metric, len(words)) for metric in spec.metrics.values()]
    return TableView(title, ["source", *words * len(over)], 1, rows, over)


def _effects(title: str, part: pl.DataFrame, spec: FactorialSpec, field: Field) -> TableView:
    """Return a table with a row per level of each factor."""
    numbers = _Numbers(part, ["flow", "metric", "statistic"], field)
    words = {VALUE: "effect", "ci_low": "from", "ci_high": "to"}
    rows: list[Row] = [
        (
            [flow],
            [
                numbers.view(flow, f"{EFFECT}_{metric}", what)
                for metric in spec.metrics.values()
                for what in words
            ],
        )
        for flow in part["flow"].unique(maintain_order=True)
    ]
    over = [(metric, len(words)) for metric in spec.metrics.values()]
    return TableView(title, ["level", *list(words.values()) * len(over)], 1, rows, over)
