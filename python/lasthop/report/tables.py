"""Tables of the report as plain data for the template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.campaign import factor_column
from lasthop.catalogue import Presentation
from lasthop.report.results import Timed, telling
from lasthop.roles import COMPLETED
from lasthop.statistics import paired_difference
from lasthop.units import unit_of

_UNIT_WORDS = {"s", "ms", "Bps", "packets", "percent"}
_SPELLINGS = {"acks": "ACKs", "ack": "ACK", "red": "RED", "ecn": "ECN", "sack": "SACK", "rtt": "RTT"}
HEADLINE = [
    "response_time_s",
    "elapsed_s",
    "fct_mean_s",
    "throughput_Bps",
    "throughput_mean_Bps",
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
"""Metrics whose medians are shown of cells that no published table has."""


@dataclass(frozen=True, slots=True)
class CellView:
    """One field: what was measured and, where there is one, the published number and what is noted about it.

    `within` says whether it is met; a misprint is not compared.
    """

    measured: str
    published: str = ""
    within: bool | None = None
    note: str = ""
    misprint: bool = False

    @property
    def css(self) -> str:
        """Class of the field: whether the published number is met, or a misprint."""
        return "misprint" if self.misprint else {True: "met", False: "missed", None: ""}[self.within]


Row = tuple[Sequence[str], Sequence[CellView]]


@dataclass(frozen=True, slots=True)
class TableView:
    """A table with `labels` leading text columns; `title` is its heading, empty for none.

    `over` is a line above the head of the other columns: words, and how many columns they stand over.
    """

    title: str
    head: Sequence[str]
    labels: int
    rows: Sequence[Row]
    over: Sequence[tuple[str, int]] = ()

    @property
    def compared(self) -> int:
        """How many fields have a rule and a published number."""
        return sum(cell.within is not None for _, cells in self.rows for cell in cells)

    @property
    def met(self) -> int:
        """How many of them are met."""
        return sum(cell.within is True for _, cells in self.rows for cell in cells)


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables that show the same thing of different cells."""

    title: str
    tables: Sequence[TableView]


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
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}" if abs(value) >= 1 else f"{value:.3g}"


def metric_label(metric: str, unit: str) -> str:
    """Return a metric's name in words, with its unit."""
    words = [_SPELLINGS.get(word, word) for word in metric.split("_") if word not in _UNIT_WORDS]
    label = " ".join(words)
    return label if unit in ("", "acks") or "_per_" in metric else f"{label} ({unit})"


def generic_table(
    summary: pl.DataFrame, factors: Sequence[str], title: str = "Medians over replications"
) -> TableGroup:
    """Lay out the medians of the headline metrics: one row per cell and role or page load."""
    medians = summary.filter(pl.col("statistic") == "median", pl.col("metric").is_in(HEADLINE))
    measured = set(medians["metric"])
    shown = [metric for metric in HEADLINE if metric in measured]
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for record in medians.iter_rows(named=True):
        labels = tuple(str(record[column]) for column in (*factors, "flow"))
        rows.setdefault(labels, {})[record["metric"]] = CellView(number(record["value"], record["unit"]))
    head = [*factors, "flow", *(metric_label(metric, unit_of(metric)) for metric in shown)]
    fields = [(labels, [cells.get(metric, CellView("–")) for metric in shown]) for labels, cells in rows.items()]
    return TableGroup(title, [TableView("Medians", head, len(factors) + 1, fields)])


def unfinished_table(flows: pl.DataFrame, pages: pl.DataFrame | None, factors: Sequence[str]) -> TableView | None:
    """List page loads and flows that did not complete, counted by cell, role and outcome; `None` if all did."""
    columns = [factor_column(factor) for factor in factors]
    rows = []
    frames = [] if pages is None else [pages.with_columns(role=pl.format("{} (page load)", "page"))]
    for frame in (*frames, flows):
        unfinished = frame.filter(pl.col("outcome") != COMPLETED)
        counts = unfinished.group_by([*columns, "role", "outcome"], maintain_order=True).len()
        rows += [(tuple(str(v) for v in row[:-1]), [CellView(str(row[-1]))]) for row in counts.iter_rows()]
    return TableView("", [*factors, "flow", "outcome", "number"], len(factors) + 2, rows) if rows else None


def _signed(value: float) -> str:
    text = f"{value:+.2f}".replace("-", "−")
    return "0.00" if text[1:] == "0.00" else text


def paired_table(
    things: Sequence[Timed], factors: Sequence[str], presentation: Presentation, seed: int
) -> TableView | None:
    """Compare each level of the presentation's factor with its reference, replication by replication.

    The reference of a group (equal levels of all other factors) is the first of `presentation.references` that it has.
    Pairs share set and replication number, that is the link's states and the starting jitter. Median difference with
    its 95 % bootstrap interval, and the two-sided Wilcoxon signed-rank test.
    """
    if presentation.factor is None or presentation.factor not in factors:
        return None
    column = factor_column(presentation.factor)
    names = {factor_column(factor): factor for factor in factors}
    # One list for all, so that the rows of all have the same labels.
    cells = (
        pl.concat([thing.rows.select(list(names)) for thing in things]).unique(maintain_order=True) if things else None
    )
    others = [] if cells is None else telling(cells, (name for name in names if name != column), [column])
    rows: list[Row] = []
    for thing in things:
        for group, part in thing.rows.partition_by([*others, "role"], as_dict=True, maintain_order=True).items():
            pairs = _pairs(part, column, thing.metric, presentation.references, seed)
            rows += [((*map(str, group), *labels), fields) for labels, fields in pairs]
    labels = [*(names[other] for other in others), "flow", presentation.factor, "reference"]
    head = [*labels, "pairs", "difference (s)", "95 % interval (s)", "p"]
    return TableView("", head, len(labels), rows) if rows else None


def _pairs(
    rows: pl.DataFrame, column: str, metric: str, references: Sequence[str], seed: int
) -> Iterator[tuple[tuple[str, str], list[CellView]]]:
    """Yield level and reference, and what their comparison gives, for each level of `column` but the reference."""
    levels = rows.partition_by(column, as_dict=True, maintain_order=True)
    reference = next((r for r in references if (r,) in levels), None)
    if reference is None:
        return
    base = levels[(reference,)].select("set", "replication", pl.col(metric).cast(pl.Float64).alias("base"))
    for (level,), own in levels.items():
        if level == reference:
            continue
        pairs = own.join(base, on=["set", "replication"], how="inner", maintain_order="left")
        found = paired_difference(pairs[metric].cast(pl.Float64).to_numpy(), pairs["base"].to_numpy(), seed)
        if found is None:
            continue
        median = found.median
        yield (
            (str(level), reference),
            [
                CellView(str(found.pairs)),
                CellView(_signed(median.estimate)),
                CellView(f"{_signed(median.low)} … {_signed(median.high)}"),
                CellView("< 0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}"),
            ],
        )
