"""Tables of the report as plain data for the template."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.campaign.results.sections import COMPLETED, OF_KINDS
from lasthop.campaign.results.tables import factor_column
from lasthop.common.metrics import units

HEADLINE = [
    "program_s",
    "response_time_s",
    "elapsed_s",
    "fct_mean_s",
    "throughput_Bps",
    "throughput_mean_Bps",
    *itertools.chain(*OF_KINDS),
    "lost_per_packet",
    "retransmitted_per_packet",
    "timeouts_per_flow",
    "fast_retransmits_per_flow",
    "retransmitted_packets",
    "timeouts",
    "spurious_timeouts",
    "data_drops_queue",
    "data_drops_red",
    "data_drops_error",
]
"""Metrics whose medians are listed for cells without a published table."""


@dataclass(frozen=True, slots=True)
class CellView:
    """A field: the measured number and, if any, the published number with its note.

    `within` is whether they agree; a misprint is not compared. `spread` describes the spread of the
    measurements.
    """

    measured: str
    published: str = ""
    within: bool | None = None
    note: str = ""
    misprint: bool = False
    spread: str = ""

    @property
    def css(self) -> str:
        return "misprint" if self.misprint else {True: "met", False: "missed", None: ""}[self.within]


Row = tuple[Sequence[str], Sequence[CellView]]


@dataclass(frozen=True, slots=True)
class TableView:
    """A table with `labels` leading text columns; `title` is its heading, empty for none.

    `over` is a line above the heads of the other columns: texts, and the number of columns below each.
    """

    title: str
    head: Sequence[str]
    labels: int
    rows: Sequence[Row]
    over: Sequence[tuple[str, int]] = ()

    @property
    def notes(self) -> list[str]:
        """The distinct notes on published numbers."""
        return list(dict.fromkeys(cell.note for _, cells in self.rows for cell in cells if cell.note))

    @property
    def compared(self) -> int:
        """Number of fields with a tolerance and a published number."""
        return sum(cell.within is not None for _, cells in self.rows for cell in cells)

    @property
    def met(self) -> int:
        """Number of these fields within the tolerance."""
        return sum(cell.within is True for _, cells in self.rows for cell in cells)


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables with the same layout for different cells."""

    title: str
    tables: Sequence[TableView]
    note: str = ""


def number(value: float | None, unit: str) -> str:
    """Format a value for reading; full precision is in the CSV files."""
    if value is None:
        return "–"
    if unit == "percent":
        text = f"{value:+.1f}".replace("-", "−")
        return "0.0" if text[1:] == "0.0" else text
    if unit == "%":
        return f"{value:.2f}"
    if unit in ("ratio", "ratio^2"):
        return f"{value:.4f}".replace("-", "−")
    if unit == "B/s" or (abs(value) >= 1000 and unit != "s"):
        return f"{value:.0f}"
    if unit == "s":
        return f"{value:.2f}"
    return (
        f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}" if abs(value) >= 1 else f"{value:.3g}"
    )


def metric_label(metric: str, unit: str) -> str:
    """Return a metric's label with its unit."""
    return units.axis_title(
        metric, units.Scale("ACKs" if unit == "acks" else "" if "_per_" in metric else unit)
    )


def generic_table(
    summary: pl.DataFrame,
    factors: Sequence[str],
    title: str = "Medians over replications",
    headline: Sequence[str] = HEADLINE,
    who: str = "flow",
) -> TableGroup:
    """Return the medians of the headline metrics, with a row per cell and role, page load or hop.

    Metrics that are always 0 are listed in the title instead.
    """
    medians = summary.filter(pl.col("statistic") == "median", pl.col("metric").is_in(headline))
    scales = {
        metric: units.scale_of(metric, part["value"])
        for (metric,), part in medians.partition_by("metric", as_dict=True).items()
    }
    zero = [metric for metric in scales if not medians.filter(pl.col("value") != 0, metric=metric).height]
    metrics = [metric for metric in headline if metric in scales and metric not in zero]
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for record in medians.iter_rows(named=True):
        labels = tuple(str(record[column]) for column in (*factors, "flow"))
        text = scales[record["metric"]].number(record["value"])
        rows.setdefault(labels, {})[record["metric"]] = CellView(
            text.replace("-", "−") if text != "-" else "–"
        )
    head = [*factors, who, *(units.axis_title(metric, scales[metric]) for metric in metrics)]
    fields = [
        (labels, [cells.get(metric, CellView("–")) for metric in metrics]) for labels, cells in rows.items()
    ]
    name = f"Medians; always zero: {', '.join(map(units.label, zero))}" if zero else "Medians"
    return TableGroup(title, [TableView(name, head, len(factors) + 1, fields)])


def unfinished_table(
    flows: pl.LazyFrame, pages: pl.LazyFrame | None, factors: Sequence[str]
) -> TableView | None:
    """Count page loads and flows that did not complete by cell, role and outcome; `None` if all completed."""
    columns = [factor_column(factor) for factor in factors]
    rows = []
    frames = [] if pages is None else [pages.with_columns(role=pl.format("{} (page load)", "role"))]
    for frame in (*frames, flows):
        unfinished = frame.filter(pl.col("outcome") != COMPLETED)
        counts = unfinished.group_by([*columns, "role", "outcome"], maintain_order=True).len().collect()
        rows += [(tuple(str(v) for v in row[:-1]), [CellView(str(row[-1]))]) for row in counts.iter_rows()]
    return TableView("", [*factors, "flow", "outcome", "number"], len(factors) + 2, rows) if rows else None
