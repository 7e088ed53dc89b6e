"""The engines of a report: their differences from the scenario, and their numbers side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.analysis.findings.findings import Findings
from lasthop.analysis.studies.beside import Beside, Side
from lasthop.analysis.studies.comparison import CENTRES, Agreement, judge
from lasthop.campaign.results.manifest import Difference
from lasthop.campaign.results.tables import height
from lasthop.common.metrics import units
from lasthop.present.report.table_views import HEADLINE, CellView, Row, TableView, metric_label, number
from lasthop.studies.catalogue import Assets

_TIMES = ("elapsed_s", "response_time_s", "overall_time_s", "fct_mean_s")


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """A difference of Linux, and where it applies if not everywhere."""

    what: str
    effect: str
    where: str


@dataclass(frozen=True, slots=True)
class EnginesView:
    """`sides`, `agreement` and `tables` are empty with a single engine. The first table is the main table."""

    sides: TableView | None
    agreement: TableView | None
    tables: Sequence[TableView]
    differences: Sequence[DifferenceView]


def engines_view(findings: Findings) -> EnginesView | None:
    """Return the facts about engines; `None` for a single engine without differences."""
    campaign, beside = findings.campaign, findings.beside
    if beside is None:
        own = _differences(
            {campaign.plan.engine.name: campaign.finished.live_differences()},
            [cell.key for cell in campaign.plan.cells],
        )
        return EnginesView(None, None, [], own) if own else None
    cells = [cell.key for cell in campaign.plan.cells]
    differences = {side.name: side.differences for side in beside.sides}
    return EnginesView(
        _sides(beside.sides),
        _agreement(beside.agreement),
        list(_tables(beside, findings.assets)),
        _differences(differences, cells),
    )


def _differences(by_side: Mapping[str, Sequence[Difference]], cells: Sequence[str]) -> list[DifferenceView]:
    """Merge the differences of several sides. `where` is empty for all cells on all real hosts."""
    real = [name for name, differences in by_side.items() if differences]
    places: dict[tuple[str, str], dict[str, list[str]]] = {}
    for name, differences in by_side.items():
        for difference in differences:
            own = [cell for cell in difference.cells if cell in cells]
            if own:
                places.setdefault((difference.what, difference.effect), {})[name] = own
    views = []
    for (what, effect), where in places.items():
        engines = "" if len(where) == len(real) else f"on {', '.join(where)} only"
        named = list(dict.fromkeys(cell for own in where.values() for cell in own))
        only = "" if len(named) == len(cells) else f"in {'; '.join(named)}"
        views.append(DifferenceView(what, effect, ", ".join(text for text in (engines, only) if text)))
    return views


def _sides(sides: Sequence[Side]) -> TableView:
    def row(side: Side) -> Row:
        identity, host = side.manifest["identity"], side.manifest["host"]
        sets = f"{identity['sets']} × " if identity["sets"] > 1 else ""
        late = "–" if side.late_runs is None else f"{side.late_runs} of {height(side.tables.runs)}"
        texts = [f"{sets}{identity['replications']}", str(identity["seed"]), late]
        labels = (side.name, str(side.folder), host.get("guest", host["system"]), identity["lasthop_commit"])
        return labels, [CellView(text) for text in texts]

    head = ["engine", "results", "system", "lasthop", "replications", "seed", "invalid runs"]
    return TableView("", head, 4, [row(side) for side in sides])


def _agreement(met: Mapping[str, Sequence[Agreement]]) -> TableView | None:
    """Return the number of published numbers that each side reproduces, over all links, by level."""
    rows: dict[tuple[str, ...], dict[str, CellView]] = {}
    for name, lines in met.items():
        for line in lines:
            if line.scope == "all":
                what = line.what if not line.level else f"{line.what}, {line.level}"
                share = f"{line.hits} of {line.total}"
                rows.setdefault((what, line.tolerance), {})[name] = CellView(share)
    if not rows:
        return None
    fields: list[Row] = [
        (labels, [cells.get(name, CellView("–")) for name in met]) for labels, cells in rows.items()
    ]
    return TableView("", ["published numbers reproduced", "within", *met], 2, fields)


def _tables(beside: Beside, assets: Assets | None) -> Iterator[TableView]:
    """Yield the times of all cells, then the centres of every table."""
    numbers = beside.numbers.filter(pl.col("statistic").is_in(CENTRES))
    if assets is None:
        headline = numbers.filter(pl.col("metric").is_in(HEADLINE))
        yield _table("Medians", headline, beside, None)
        return
    times = numbers.filter(pl.col("metric").is_in(_TIMES))
    if times.height:
        yield _table("Times", times, beside, assets)
    for spec in assets.presentation.tables:
        part = numbers.filter(pl.col("table").is_in(list(spec.ids)), ~pl.col("metric").is_in(_TIMES))
        if part.height:
            yield _table(spec.title, part, beside, assets)


def _table(title: str, part: pl.DataFrame, beside: Beside, assets: Assets | None) -> TableView:
    """Return a table of the numbers that are not zero on all sides: published, and of each side."""
    names = [side.name for side in beside.sides]
    values = [*(["published"] if assets else []), *names]
    part = part.filter(pl.any_horizontal(pl.col(values).fill_null(0) != 0))
    constant = ("metric", "statistic", "direction")  # omitted if equal in all rows
    labels = [
        key for key in beside.keys if key == "table" or (key not in constant and part[key].n_unique() > 1)
    ]
    rows: list[Row] = []
    for record in part.iter_rows(named=True):
        unit, metric = str(record["unit"]), str(record["metric"])
        direction = f" ({record['direction']})" if record.get("direction") not in (None, "data") else ""
        words = [str(record[label] or "") for label in labels]
        published = record.get("published")
        if assets is None:  # in the units of the answer; a study uses the units of its tables
            scale = units.scale_of(metric, [record[name] for name in names])
            label, fields = (
                units.axis_title(metric, scale),
                [CellView(scale.number(record[name])) for name in names],
            )
        else:
            label, fields = metric_label(metric, unit), [CellView(number(published, unit))]
            for name in names:
                within = None if published is None else judge(metric, published, record[name])[0]
                fields.append(CellView(number(record[name], unit), "", within))
        rows.append(((*words, label + direction), fields))
    return TableView(title, [*labels, "metric", *values], len(labels) + 1, rows)
