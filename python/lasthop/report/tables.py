"""Tables of the report as plain data for the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.campaign import factor_column
from lasthop.catalogue import Assets, Presentation, TableSpec
from lasthop.comparison import judge
from lasthop.roles import COMPLETED
from lasthop.statistics import FIVE_NUMBERS, paired_difference
from lasthop.summary import key_columns, metric_columns, unit_of

_SPACING = ["p50", "p75", "p90", "max_lowest", "max_highest"]
_UNIT_WORDS = {"s", "ms", "Bps", "packets"}
_SPELLINGS = {"acks": "ACKs", "ack": "ACK", "red": "RED", "ecn": "ECN", "sack": "SACK", "rtt": "RTT"}
_HEADLINE = [
    "elapsed_s",
    "throughput_Bps",
    "retransmitted_packets",
    "timeouts",
    "spurious_timeouts",
    "data_drops_queue",
    "data_drops_red",
    "data_drops_error",
]


@dataclass(frozen=True, slots=True)
class CellView:
    """One field: what was measured and, where there is one, the published number."""

    measured: str
    published: str = ""
    within: bool | None = None

    @property
    def css(self) -> str:
        """Class of the field: whether the published number is met."""
        return {True: "met", False: "missed", None: ""}[self.within]


@dataclass(frozen=True, slots=True)
class TableView:
    """A table with `labels` leading text columns; `title` is its heading, empty for none."""

    title: str
    head: Sequence[str]
    labels: int
    rows: Sequence[tuple[Sequence[str], Sequence[CellView]]]

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
    if unit == "B/s" or (abs(value) >= 1000 and unit != "s"):
        return f"{value:.0f}"
    if unit == "s":
        return f"{value:.2f}"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}" if abs(value) >= 1 else f"{value:.3g}"


class _Published:
    """The published numbers by their key columns."""

    def __init__(self, assets: Assets) -> None:
        self._keys = key_columns(assets)
        rows = assets.published.select(*self._keys, "value").iter_rows()
        self._values: dict[tuple[object, ...], float] = {tuple(row[:-1]): row[-1] for row in rows}

    def get(self, record: Mapping[str, object]) -> float | None:
        return self._values.get(tuple(record[key] for key in self._keys))


def _field(record: Mapping[str, object], published: _Published) -> CellView:
    value, unit = record["value"], str(record["unit"])
    measured = value if isinstance(value, float) else None
    known = published.get(record)
    if known is None:
        return CellView(number(measured, unit))
    within, _ = judge(str(record["metric"]), known, measured)
    return CellView(number(measured, unit), number(known, unit), within)


def _rows(
    part: pl.DataFrame,
    label_columns: Sequence[str],
    statistics: Sequence[str],
    published: _Published,
) -> list[tuple[Sequence[str], Sequence[CellView]]]:
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for record in part.iter_rows(named=True):
        labels = [str(record[column] or "") for column in label_columns]
        if "metric" in label_columns:
            labels[label_columns.index("metric")] = _metric_label(record["metric"], record["unit"])
        rows.setdefault(tuple(labels), {})[record["statistic"]] = _field(record, published)
    return [(labels, [cells.get(s, CellView("–")) for s in statistics]) for labels, cells in rows.items()]


def _metric_label(metric: str, unit: str) -> str:
    words = [_SPELLINGS.get(word, word) for word in metric.split("_") if word not in _UNIT_WORDS]
    label = " ".join(words)
    return label if unit in ("", "acks") else f"{label} ({unit})"


def _cell_title(part: pl.DataFrame, columns: Sequence[str]) -> str:
    fixed = [part[column].unique().to_list() for column in columns]
    return " · ".join(str(levels[0]) for levels in fixed if len(levels) == 1 and levels[0])


def study_tables(summary: pl.DataFrame, assets: Assets) -> list[TableGroup]:
    """Lay out every table of a study, with the published number under each measured one where there is one."""
    keys = key_columns(assets)
    cells = keys[keys.index("table") + 1 : keys.index("flow")]
    published = _Published(assets)
    by_table = summary.partition_by("table", as_dict=True, maintain_order=True)
    return [
        TableGroup(spec.title, views)
        for spec in assets.presentation.tables
        if (views := [_view(spec, t, by_table[t,], cells, published) for t in spec.ids if (t,) in by_table])
    ]


def _view(spec: TableSpec, table: str, part: pl.DataFrame, cells: Sequence[str], published: _Published) -> TableView:
    title = f"{table} · {_cell_title(part, cells)}"
    if spec.kind == "per-flow":
        labels, statistics = ["flow", "direction", "metric"], list(FIVE_NUMBERS)
        heads = ["flow", "direction", "metric", *statistics]
    else:
        factor = next((c for c in reversed(cells) if part[c].n_unique() > 1), cells[-1])
        labels = [factor]
        statistics = _SPACING if spec.kind == "udp-spacing" else ["median"]
        unit = part["unit"][0]
        heads = [factor, *(f"{s.replace('_', ' ')} ({unit})" for s in statistics)]
    return TableView(title, heads, len(labels), _rows(part, labels, statistics, published))


def levels_table(comparison: pl.DataFrame, extra: Sequence[str]) -> TableGroup:
    """Lay out the medians of elapsed times with a column per combination of the levels in the columns `extra`."""
    medians = comparison.filter(metric="elapsed_s", statistic="median")
    levels = [" ".join(row) for row in medians.select(extra).unique(maintain_order=True).iter_rows()]
    keys = comparison.columns[comparison.columns.index("table") : comparison.columns.index("flow") + 1]
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for record in medians.iter_rows(named=True):
        labels = tuple(str(record[key] or "") for key in keys)
        level = " ".join(record[column] for column in extra)
        value, published = number(record["measured"], "s"), number(record["published"], "s")
        rows.setdefault(labels, {"published": CellView(published)})[level] = CellView(value, "", record["within"])
    heads = ["published", *levels]
    fields = [(labels, [cells.get(head, CellView("")) for head in heads]) for labels, cells in rows.items()]
    return TableGroup("Median elapsed times (s)", [TableView("", [*keys, *heads], len(keys), fields)])


def generic_table(summary: pl.DataFrame, flows: pl.DataFrame, factors: Sequence[str]) -> TableGroup:
    """Lay out the medians of the headline metrics: one row per cell and role."""
    shown = [metric for metric in _HEADLINE if metric in metric_columns(flows, factors)]
    medians = summary.filter(pl.col("statistic") == "median", pl.col("metric").is_in(shown))
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for record in medians.iter_rows(named=True):
        labels = tuple(str(record[column]) for column in (*factors, "flow"))
        rows.setdefault(labels, {})[record["metric"]] = CellView(number(record["value"], record["unit"]))
    head = [*factors, "flow", *(_metric_label(metric, unit_of(metric)) for metric in shown)]
    view = TableView(
        "Medians", head, len(factors) + 1, [(k, [v.get(m, CellView("–")) for m in shown]) for k, v in rows.items()]
    )
    return TableGroup("Medians over replications", [view])


def unfinished_table(flows: pl.DataFrame, factors: Sequence[str]) -> TableView | None:
    """List the flows that did not complete, counted by cell, role and outcome; `None` if all did."""
    columns = [factor_column(factor) for factor in factors]
    counts = (
        flows.filter(pl.col("outcome") != COMPLETED).group_by([*columns, "role", "outcome"], maintain_order=True).len()
    )
    if counts.is_empty():
        return None
    rows = [(tuple(str(v) for v in row[:-1]), [CellView(str(row[-1]))]) for row in counts.iter_rows()]
    return TableView("", [*factors, "flow", "outcome", "flows"], len(factors) + 2, rows)


def _signed(value: float) -> str:
    text = f"{value:+.2f}".replace("-", "−")
    return "0.00" if text[1:] == "0.00" else text


def paired_table(
    flows: pl.DataFrame, factors: Sequence[str], presentation: Presentation, seed: int, metric: str = "elapsed_s"
) -> TableView | None:
    """Compare each level of the presentation's factor with its reference, replication by replication.

    The reference of a group (equal levels of all other factors) is the first of `presentation.references` that it has.
    Pairs share set and replication number, that is the link's states and the starting jitter. Median difference with
    its 95 % bootstrap interval, and the two-sided Wilcoxon signed-rank test.
    """
    if presentation.factor is None or presentation.factor not in factors:
        return None
    compared = factor_column(presentation.factor)
    others = [factor_column(factor) for factor in factors if factor != presentation.factor]
    tcp = flows.filter(pl.col("protocol") == "tcp")
    rows = []
    for group, part in tcp.partition_by([*others, "role"], as_dict=True, maintain_order=True).items():
        levels = part.partition_by(compared, as_dict=True, maintain_order=True)
        reference = next((r for r in presentation.references if (r,) in levels), None)
        if reference is None:
            continue
        base = levels[(reference,)].select("set", "replication", pl.col(metric).alias("base"))
        for (level,), own in levels.items():
            if level == reference:
                continue
            pairs = own.join(base, on=["set", "replication"], how="inner", maintain_order="left")
            columns = pairs.select(pl.col(metric).cast(pl.Float64), pl.col("base").cast(pl.Float64))
            found = paired_difference(columns[metric].to_numpy(), columns["base"].to_numpy(), seed)
            if found is None:
                continue
            median = found.median
            fields = [
                CellView(str(found.pairs)),
                CellView(_signed(median.estimate)),
                CellView(f"{_signed(median.low)} … {_signed(median.high)}"),
                CellView("< 0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}"),
            ]
            rows.append((tuple(str(v) for v in (*group, level, reference)), fields))
    head = [*others, "flow", presentation.factor, "reference", "pairs", "difference (s)", "95 % interval (s)", "p"]
    return TableView("", head, len(others) + 3, rows) if rows else None
