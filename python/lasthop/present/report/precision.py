"""The precision of the cells of a campaign with `--until`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.analysis.findings.findings import Findings
from lasthop.campaign.results.sections import WHO
from lasthop.campaign.until.looks import Condition
from lasthop.common.metrics.units import axis_title, scale_of
from lasthop.present.answer.precision import interval_text, precision_text, verdict
from lasthop.present.report.table_views import CellView, TableView


@dataclass(frozen=True, slots=True)
class PrecisionView:
    """A table per condition, and a summary."""

    verdict: str
    looks: str
    tables: Sequence[TableView]


def precision_view(findings: Findings, precision: pl.DataFrame) -> PrecisionView:
    until = findings.campaign.manifest["until"]
    *first, last = map(str, until["looks"])
    return PrecisionView(
        " ".join(verdict(findings.campaign.manifest)),
        f"{', '.join(first)} and {last}" if first else last,
        [
            _table(condition, precision.filter(pl.col("condition") == condition.text))
            for condition in findings.conditions
        ],
    )


def _table(condition: Condition, rows: pl.DataFrame) -> TableView:
    labels = rows.columns[: rows.columns.index("condition")]
    scale = scale_of(condition.metric, rows["value"])
    fields = [
        (
            [str(row[name]) for name in labels],
            [
                CellView(str(row["replications"])),
                CellView(interval_text(scale, row["value"], row["ci_low"], row["ci_high"])),
                CellView(precision_text(condition, row["precision"]), within=row["met"]),
            ],
        )
        for row in rows.iter_rows(named=True)
    ]
    value = f"{condition.statistic} of {axis_title(condition.metric, scale)}"
    names = [name.removeprefix("factor_") if name != WHO else WHO for name in labels]
    return TableView(condition.text, [*names, "replications", value, "within"], len(labels), fields)
