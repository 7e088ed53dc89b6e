"""Groups of values from finished results, for `lasthop plot DIR`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from lasthop import _core
from lasthop.campaign.again import runs_of
from lasthop.campaign.results.folder import RUNS, scan_rows
from lasthop.campaign.results.hops import PLACE
from lasthop.campaign.results.manifest import finished, looks_of
from lasthop.campaign.results.sections import try_parts, with_counts
from lasthop.campaign.results.shapes import Identity
from lasthop.campaign.results.space import AT, Range, Space, read_space
from lasthop.campaign.results.tables import Tables, factor_name, parts_of_flows, whole_flows, with_computed
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics import units
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.present.pictures.classes import CLASSES
from lasthop.present.pictures.logarithmic import check_log
from lasthop.present.pictures.marks import FLOW_COLORS
from lasthop.present.pictures.network import NETWORK
from lasthop.present.pictures.over import OVER_KINDS
from lasthop.present.pictures.overlays import (
    AIMD,
    MATHIS,
    SOURCES,
    check_theory,
    losses_of_cell,
    rates_of_cell,
)
from lasthop.present.pictures.panels import KINDS
from lasthop.present.pictures.ratio import Ratio, quotients, read_ratio
from lasthop.scenario import levels
from lasthop.scenario.selection import check_role, select_combinations

BAR, BOX, CDF, LINE, BAND, HEATMAP = "bar", "box", "cdf", "line", "band", "heatmap"
RESULT_KINDS = (BAND, BAR, BOX, CDF, HEATMAP, LINE)
_CAPTIONS = {
    BAND: "Runs",
    BAR: "Medians",
    BOX: "Box plot",
    CDF: "Distribution functions",
    HEATMAP: "Heat map",
    LINE: "Means",
}
"""Beginnings of captions."""
MOST_RESULT_PANELS = 12
"""The largest number of panels, for combinations of the factors that are on neither axis."""
MOST_HUES = 14
"""The largest number of levels that colours and dashes distinguish."""
MOST_ROWS = 40
"""The largest number of rows of a heat map that fits on a page."""
IQR, EXTREMES = "iqr", "extremes"
WHISKERS = (IQR, EXTREMES)
"""Ends of whiskers: within 1.5 interquartile ranges (Tukey 1977), or at minimum and maximum."""
_JOINT = " \u00b7 "
"""Separates the levels of several factors on an axis."""
_REPLICATION = ["set", "replication"]
_HEADLINES = ("response_time_s", "fct_mean_s", "elapsed_s", "throughput_Bps", "efficiency", "duration_s")
"""Default metrics, in order of preference; metrics with a value in every row are preferred."""
_NOT_DRAWN = frozenset({"start_s", *_REPLICATION})
_TRANSFER = "is_transfer"
_LEAST_WINDOW = 5
_FEW_LEVELS = 3
"""The least number of numeric levels over which a metric is drawn as a line by default."""


@dataclass(frozen=True, slots=True)
class ResultRequest:
    """A picture of results; `None` means a default. `only` are filters as for `select_cells`.

    `x` may be several factors separated by commas: their levels form groups, with the last factor's levels
    side by side. `y2` is a second metric, on a right axis. `whiskers` is one of `WHISKERS`, for boxes;
    `lasthop.present.pictures.ratio` reads `ratio`. `log` are the logarithmic axes: `x`, `y` or `xy`.
    `theory` is a key of `lasthop.present.pictures.overlays.SOURCES`.
    """

    x: str | None = None
    y: str | None = None
    hue: str | None = None
    kind: str | None = None
    only: tuple[str, ...] = ()
    role: str | None = None
    whiskers: str | None = None
    ratio: str | None = None
    y2: str | None = None
    log: str | None = None
    theory: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The values of a level of `hue` at a level of `x` by replication, in the unit of the records.

    Over a range, `at` holds the range's levels for these values.
    """

    x: str
    hue: str
    values: Sequence[float]
    at: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class ResultPanel:
    """The groups of a combination of the factors on neither axis, such as `iw = 3`, which is the `title`."""

    title: str
    groups: list[Group]


@dataclass(frozen=True, slots=True)
class Second:
    """A second metric in the same panels, on a right axis."""

    y: str
    title: str
    scale: units.Scale
    panels: list[ResultPanel]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels over the same levels, of the scenario `name`.

    `x` and `hue` are the factors' names, or empty; `scale` is the scale of the values. `over` is the range on
    the horizontal axis, if any. With several factors on that axis, `x` contains all their names, and each of
    `x_levels` is a combination, which `split` separates.
    """

    name: str
    kind: str
    y: str
    x: str
    hue: str
    x_levels: list[str]
    hue_levels: list[str]
    panels: list[ResultPanel]
    scale: units.Scale
    notes: list[str]
    over: Range | None = None
    looks: int = 1
    """Number of looks that the intervals cover; see `lasthop.campaign.until`."""
    source: str = ""
    """Scenario, selection, seed, engine and version of the results."""
    whiskers: str = IQR
    ratio: Ratio | None = None
    """The levels whose ratios are drawn, if any."""
    second: Second | None = None
    log: str = ""
    """The axes that were requested to be logarithmic."""
    theory: Sequence[ResultPanel] = ()
    """The panels with the values of a theory, one in each group, if one is drawn."""

    def split(self, level: str) -> tuple[str, ...]:
        """Return the levels of the factors on the horizontal axis, the outermost first."""
        return tuple(level.split(_JOINT))

    @property
    def title(self) -> str:
        """Name and unit of the values."""
        return _title(self.ratio, self.y, self.scale)

    @property
    def file_name(self) -> str:
        """Default name of the file, without extension."""
        metrics = [self.y, *([] if self.second is None else [self.second.y])]
        return "-".join([self.name, *metrics, *([] if self.ratio is None else ["ratio"])])

    @property
    def caption(self) -> str:
        shows = f"{_CAPTIONS[self.kind]} of {self.title}" + (
            f" and {self.second.title}" if self.second else ""
        )
        shows += f" against {self.x}" if self.x else ""
        shows += f", for each {self.hue}" if self.hue else ""
        return " ".join([f"{shows}.", f"{self.source}.", *self.notes])

    @property
    def window(self) -> int:
        """Number of neighbours in a band: an eighth of the values, at least five."""
        most = max(len(group.values) for panel in self.panels for group in panel.groups)
        return max(_LEAST_WINDOW, math.ceil(most / 8))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a table. `factors` are the columns that identify rows; `who` is the last of them."""

    frame: pl.DataFrame
    factors: list[str]
    who: str | None
    missing: str = ""
    """Number of rows without a value, as text."""
    averaged: bool = False
    """Whether a replication has several rows with equal `factors`."""
    ratio: Ratio | None = None
    alone: int = 0
    """Number of values without a ratio."""

    def like(self, frame: pl.DataFrame) -> _Rows:
        return replace(self, frame=frame)

    def varied(self) -> list[str]:
        return [name for name in self.factors if self.frame[name].n_unique() > 1]

    def levels(self, name: str) -> list[str]:
        return levels.in_order(self.frame[name].unique(maintain_order=True).to_list())


def result_kind(text: str | None) -> str | None:
    """Return the kind in `--kind`. Raises InputError if it is not a kind of results."""
    if text is not None and text not in RESULT_KINDS:
        why = f"did you mean '{nearest(text, RESULT_KINDS)}'?"
        if set(text.split(",")) <= {*KINDS, CLASSES, NETWORK}:
            is_over = set(text.split(",")) <= set(OVER_KINDS)
            all_of_them = ", or draw all runs with --over replications" if is_over else ""
            why = f"for a picture of a single run, give its scenario file instead of the folder{all_of_them}."
        raise InputError(
            f"--kind {text}: results are drawn as {', '.join(RESULT_KINDS[:-1])} or {LINE}; {why}"
        )
    return text


def read_chart(folder: Path, request: ResultRequest) -> Chart:
    """Read the picture's values from finished results. Raises InputError if either does not exist."""
    manifest = finished(folder)
    space = read_space(folder)
    axis = _range_axis(space, request)
    over = None if axis is None else (axis, space.places(scan_rows(folder / RUNS), axis))
    # With a role, only its rows count, so parts of flows are not mixed with whole flows.
    read = Tables.read(folder)
    tables = _all_rows(read, parts=request.role is not None)
    metric, rows = _choose_metric(_chosen(tables, request), request.y, parts_of_flows(read.flows))
    rows = _with_values(rows, metric, request)
    name = str(manifest["identity"]["scenario"])
    source = _source(manifest["identity"], request)
    chart = replace(_chart(name, rows, metric, request, over), looks=looks_of(manifest), source=source)
    if request.theory is not None:
        chart = _with_theory(chart, rows, request, folder)
    if request.y2 is None:
        return chart
    if over is not None:
        raise InputError(
            f"--y2 {request.y2}: a picture over a range has a single metric; give another factor with --x."
        )
    return _with_second(chart, rows, tables, request)


def _with_values(rows: _Rows, metric: str, request: ResultRequest) -> _Rows:
    """Return the rows with a metric, or its ratios, and remarks on the other rows."""
    here = rows.frame.drop_nulls(metric)
    missing = rows.frame.height - here.height
    rows = replace(
        rows,
        frame=here,
        missing=f"{missing} of {rows.frame.height} rows have no {units.label(metric)}" if missing else "",
        averaged=here.select([*rows.factors, *_REPLICATION]).is_duplicated().any(),
    )
    return rows if request.ratio is None else _ratios(rows, metric, request)


def _with_second(chart: Chart, first: _Rows, tables: Sequence[_Rows], request: ResultRequest) -> Chart:
    """Return a chart with a second metric, from the first table with the metric and the chart's factors."""
    metric = str(request.y2)
    option = f"--y2 {metric}"
    if chart.kind not in (BAR, BOX, LINE):
        raise InputError(f"{option}: the kind {chart.kind} has no second axis; use {BAR}, {BOX} or {LINE}.")
    if metric == chart.y:
        raise InputError(f"{option}: this metric is already on the left axis; choose another metric.")
    if len(chart.hue_levels) > len(FLOW_COLORS):
        raise InputError(
            f"{option}: with a second metric, {chart.hue} can have at most {len(FLOW_COLORS)} levels; select "
            "some with --only."
        )
    metrics = dict.fromkeys(name for rows in tables for name in _metrics(rows))
    if metric not in metrics:
        raise InputError(
            f"{option}: the results have no column of this name; did you mean '{nearest(metric, metrics)}'?"
        )
    x = chart.x.split(_JOINT) if chart.x else []
    axes_factors = [name for name in (*x, chart.hue, *_rest(first, [*x, chart.hue])) if name]
    for rows in tables:
        if (
            metric not in _metrics(rows)
            or not rows.frame[metric].count()
            or not set(axes_factors) <= set(rows.factors)
        ):
            continue
        own = replace(request, role=request.role if rows.who == first.who else None)
        (chosen,) = _chosen([rows], own)[-1:]
        values = _with_values(chosen, metric, request)
        rest = _rest(first, [*x, chart.hue])
        panels_by_title = {
            panel.title: panel for panel in _panels(values, metric, (x, [chart.hue]), rest, each_row=False)
        }
        panels = [panels_by_title.get(panel.title, ResultPanel(panel.title, [])) for panel in chart.panels]
        scale = _scale(values, metric, [group for panel in panels for group in panel.groups])
        second = Second(metric, _title(values.ratio, metric, scale), scale, panels)
        what = "the same" if chart.kind == LINE else "medians"
        note = f"Hollow symbols, right axis: {what} of {second.title}."
        return replace(chart, second=second, notes=[*chart.notes, note])
    raise InputError(
        f"{option}: no table contains this metric together with {units.listed(axes_factors)}; select a "
        "single level of each factor that its table lacks, with --only or --role."
    )


def _with_theory(chart: Chart, rows: _Rows, request: ResultRequest, folder: Path) -> Chart:
    """Return a chart with the throughput that a theory predicts for each group."""
    name = str(request.theory)
    _check_theory(name, chart, rows)
    cells = [run.cell for run in runs_of(folder, request.only, 1, 1)]
    if name == MATHIS:
        _check_losses(chart, cells)
    roles = set(rows.levels(str(rows.who)))
    records, places = [], []
    for number, cell in enumerate(cells, 1):
        of_cell = rates_of_cell(name, cell).items()
        levels_ = {factor: cell.levels[factor] for factor in rows.factors if factor in cell.levels}
        key = {"set": 1, "replication": number}
        records += [
            {**levels_, **key, str(rows.who): role, chart.y: rate} for role, rate in of_cell if role in roles
        ]
        places += [{**key, AT: cell.point[chart.x]}] if chart.over else []
    if not records:
        raise InputError(f"--theory {name}: this is for flows with the roles of [[flow]] entries (by-name).")
    x = chart.x.split(_JOINT) if chart.x and not chart.over else []
    values = rows.like(pl.DataFrame(records))
    rest = _rest(rows, [*x, chart.hue])
    at = pl.DataFrame(places) if chart.over else None
    panels = _panels(values, chart.y, (x, [chart.hue]), rest, each_row=False, places=at)
    by_title = {panel.title: panel for panel in panels}
    drawn = [by_title.get(panel.title, ResultPanel(panel.title, [])) for panel in chart.panels]
    return replace(chart, theory=drawn, notes=[*chart.notes, SOURCES[name]])


def _check_theory(name: str, chart: Chart, rows: _Rows) -> None:
    option = f"--theory {name}"
    check_theory(name)
    if name == AIMD:
        raise InputError(f"{option}: this is for the cwnd of one run; give its scenario file.")
    if chart.y != "throughput_Bps" or chart.ratio is not None or rows.who != "role":
        raise InputError(f"{option}: this predicts the throughput of flows; add --y throughput_Bps.")
    if chart.kind in (CDF, HEATMAP):
        raise InputError(f"{option}: the kind {chart.kind} has no line for it; use {LINE} or {BOX}.")


def _check_losses(chart: Chart, cells: Sequence[_core.Cell]) -> None:
    """Raise `InputError` unless each level on the horizontal axis is a loss probability."""
    losses: dict[str, set[float]] = {}
    for cell in cells:
        losses.setdefault(cell.levels.get(chart.x, ""), set()).update(losses_of_cell(cell).values())
    distinct = set().union(*losses.values())
    if len(distinct) < max(len(losses), 2) or any(len(own) != 1 for own in losses.values()):
        raise InputError(
            f"--theory {MATHIS}: the horizontal axis must be a loss probability; choose a factor that sets "
            "the key loss of a link with --x."
        )


def _title(ratio: Ratio | None, metric: str, scale: units.Scale) -> str:
    return units.axis_title(metric, scale) if ratio is None else ratio.title(metric)


def _ratios(rows: _Rows, metric: str, request: ResultRequest) -> _Rows:
    """Return a row for each replication with the ratio of the metric at two levels, without their factor."""
    ratio = read_ratio(str(request.ratio), {name: rows.levels(name) for name in rows.factors})
    for option, text in (("--x", request.x), ("--hue", request.hue)):
        if ratio.factor in _names(text):
            raise InputError(
                f"{option} {text}: --ratio already uses two levels of {ratio.factor}; choose another factor."
            )
    factors = [name for name in rows.factors if name != ratio.factor]
    frame, alone = quotients(_per_replication(rows, metric), ratio, metric, [*factors, *_REPLICATION])
    if frame.is_empty():
        raise InputError(
            f"--ratio {request.ratio}: no replication has values of {units.label(metric)} at both levels "
            "other than 0."
        )
    return replace(rows, frame=frame, factors=factors, ratio=ratio, alone=alone)


def _source(identity: Identity, request: ResultRequest) -> str:
    chosen = [*request.only, *([] if request.role is None else [f"role {request.role}"])]
    facts = [
        f"seed {identity['seed']}",
        f"{identity['engine']} engine",
        f"lasthop {identity['lasthop_version']}",
    ]
    return ", ".join([identity["scenario"], *chosen, *facts])


def _range_axis(space: Space, request: ResultRequest) -> Range | None:
    """Return the range on the horizontal axis, by default the first."""
    ranges = {range_.name: range_ for range_ in space.ranges.values()}
    if request.kind == BAND and not ranges:
        raise InputError(f"--kind {BAND}: no factor of these results is a range; use {BOX} or {LINE}.")
    if request.x in ranges and request.kind not in (None, BAND):
        raise InputError(
            f"--kind {request.kind}: {request.x} is a range, which needs {BAND}; choose a named factor with "
            "--x."
        )
    if request.kind == BAND and request.x is not None and request.x not in ranges:
        raise InputError(
            f"--x {request.x}: the kind {BAND} needs a range; choose one of {', '.join(ranges)}."
        )
    if request.x is None and request.kind in (None, BAND):
        return next(iter(ranges.values()), None)
    return ranges.get(request.x or "")


def _all_rows(tables: Tables, *, parts: bool) -> list[_Rows]:
    """Return the tables in which a metric is searched, in order; with `parts`, including parts of flows."""
    columns = tables.runs.collect_schema().names()
    factors = columns[: columns.index("set")]
    flows = with_computed(tables.flows)
    whole = whole_flows(flows)
    pages = None if tables.pages is None else with_counts(tables.pages, whole)
    kinds = [
        (pages, "role"),
        (tables.shorts, "application"),
        (flows if parts else whole, "role"),
        (tables.hops, PLACE),
        (tables.stations, PLACE),
        (tables.runs, None),
    ]
    rows_of_tables = []
    for rows, who in kinds:
        if rows is None or (frame := rows.collect()).is_empty():
            continue
        is_transfer = pl.col("protocol").is_in(TRANSFER_PROTOCOLS).alias(_TRANSFER)
        transfers = [is_transfer] if "protocol" in frame.columns else []
        names = {column: factor_name(column) for column in factors}
        own = [name for column, name in names.items() if column != name]  # metrics with a factor's name
        named = frame.with_columns(transfers).drop(own, strict=False).rename(names)
        keys = [*names.values(), *([who] if who else [])]
        rows_of_tables.append(_Rows(named.with_columns(pl.col(keys).cast(pl.String)), keys, who))
    if not rows_of_tables:
        raise InputError("The results contain no run.")
    return rows_of_tables


def _metrics(rows: _Rows) -> list[str]:
    return [name for name, kind in rows.frame.schema.items() if kind.is_numeric() and name not in _NOT_DRAWN]


def _chosen(tables: Sequence[_Rows], request: ResultRequest) -> list[_Rows]:
    """Return the part of each table that `--only` and `--role` select, without empty tables."""
    if request.only:
        runs = tables[-1]
        level_names = {name: runs.levels(name) for name in runs.factors}
        combinations = runs.frame.select(runs.factors).unique(maintain_order=True)
        chosen = select_combinations(combinations, level_names, request.only)
        tables = [rows.like(rows.frame.join(chosen, on=runs.factors, how="semi")) for rows in tables]
    if request.role is not None:
        roles = [role for rows in tables if rows.who for role in rows.levels(rows.who)]
        check_role(request.role, roles)
        tables = [
            rows.like(rows.frame.filter(pl.col(rows.who) == request.role)) for rows in tables if rows.who
        ]
    return [rows for rows in tables if not rows.frame.is_empty()]


def _choose_metric(tables: Sequence[_Rows], wanted: str | None, parts: Sequence[str]) -> tuple[str, _Rows]:
    """Return the metric to draw, and the first table with it; `parts` are roles that may also have it."""
    if wanted is None:
        return _headline(tables)
    metrics = list(dict.fromkeys(name for rows in tables for name in _metrics(rows)))
    if wanted not in metrics:
        raise InputError(
            f"--y {wanted}: the results have no column of this name; did you mean "
            f"'{nearest(wanted, metrics)}'? "
            f"Columns: {', '.join(metrics)}."
        )
    for rows in tables:
        if wanted in _metrics(rows) and rows.frame[wanted].count():
            return wanted, rows
    raise InputError(f"--y {wanted}: none of the selected rows has a value.{try_parts(parts)}")


def _headline(tables: Sequence[_Rows]) -> tuple[str, _Rows]:
    """Return the default metric: in the first table with any, preferably one with a value in every row."""
    for rows in tables:
        # The duration of a stream is an input.
        own = rows.like(rows.frame.filter(_TRANSFER)) if _TRANSFER in rows.frame.columns else rows
        candidates = [name for name in _HEADLINES if name in _metrics(rows) and own.frame[name].count()]
        whole = [name for name in candidates if own.frame[name].null_count() == 0]
        if candidates:
            return (whole or candidates)[0], own
    raise InputError("None of the selected rows has a default metric; give one with --y.")


def _names(text: str | None) -> list[str]:
    """Return the factors in an option, which are separated by commas."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def _factor(rows: _Rows, option: str, name: str) -> str:
    if name not in rows.factors:
        raise InputError(
            f"{option} {name}: the results have no factor of this name; did you mean "
            f"'{nearest(name, rows.factors)}'? Factors: {', '.join(rows.factors)}."
        )
    return name


def _axes(rows: _Rows, request: ResultRequest) -> tuple[list[str], str]:
    """Return the factors of the horizontal axis, and the factor of the colours, empty for none."""
    if request.kind == BAND:
        return [], _hue(rows, request, [])
    if request.kind == CDF and request.x is not None:
        raise InputError(
            f"--x {request.x}: a CDF has the metric on its horizontal axis; choose --y and --hue."
        )
    varied = rows.varied()
    x = [_factor(rows, "--x", name) for name in _names(request.x)]
    if len(set(x)) < len(x):
        raise InputError(f"--x {request.x}: a factor occurs twice.")
    if request.x is None and request.kind != CDF:
        free = [name for name in varied if name not in (request.hue, rows.who)]
        x = free[-1:] or [name for name in varied if name == rows.who != request.hue]
    return x, _hue(rows, request, x)


def _hue(rows: _Rows, request: ResultRequest, x: Sequence[str]) -> str:
    if request.hue is not None:
        hue = _factor(rows, "--hue", request.hue)
    else:
        free = [name for name in _rest(rows, x) if len(rows.levels(name)) <= len(FLOW_COLORS)]
        hue = rows.who if rows.who in free else (free or [""])[-1]
    if request.kind == HEATMAP and not (x and hue):
        raise InputError(
            f"--kind {HEATMAP} requires two factors with several levels; give them with --x and --hue."
        )
    most = MOST_ROWS if request.kind == HEATMAP else MOST_HUES
    if hue and hue in x:
        raise InputError(f"--hue {hue}: this factor is already on the horizontal axis; choose another one.")
    if hue and len(rows.levels(hue)) > most:
        raise InputError(
            f"--hue {hue}: this factor has {len(rows.levels(hue))} levels, but a picture can show at most "
            f"{most}; select some with --only."
        )
    return hue or ""


def _chart(
    name: str,
    rows: _Rows,
    metric: str,
    request: ResultRequest,
    over: tuple[Range, pl.DataFrame] | None = None,
) -> Chart:
    """Return a chart. `over` is a range, and a table with its level in each replication (column `AT`)."""
    axis, places = over or (None, None)
    request = replace(request, kind=BAND) if axis else request
    x, hue = _axes(rows, request)
    rest = _rest(rows, [*x, hue])
    panels = _panels(rows, metric, (x, [hue]), rest, each_row=request.kind == CDF, places=places)
    visible = panels[:MOST_RESULT_PANELS]
    drawn = [group for panel in visible for group in panel.groups]
    x_levels = [level for level in _levels(rows, x) if level in {group.x for group in drawn}]
    hue_levels = [level for level in _levels(rows, [hue]) if level in {group.hue for group in drawn}]
    numeric = len(x) == 1 and len(x_levels) >= _FEW_LEVELS and levels.numbers(x_levels) is not None
    kind = request.kind or (LINE if numeric else BOX)
    _check_whiskers(request, kind)
    scale = _scale(rows, metric, drawn)
    title = axis.name if axis else _JOINT.join(x)
    chart = Chart(name, kind, metric, title, hue, x_levels, hue_levels, visible, scale, [], axis)
    chart = replace(chart, whiskers=request.whiskers or IQR, ratio=rows.ratio, log=check_log(request.log))
    _check_log(chart.log, chart, drawn)
    return replace(chart, notes=[_method(chart, drawn), *_remarks(rows, kind, len(panels), rest)])


def _scale(rows: _Rows, metric: str, drawn: Sequence[Group]) -> units.Scale:
    if rows.ratio is not None:
        return units.Scale("")
    return units.scale_of(metric, [value for group in drawn for value in group.values])


def _check_whiskers(request: ResultRequest, kind: str) -> None:
    if request.whiskers is not None and kind != BOX:
        raise InputError(f"--whiskers {request.whiskers}: the kind {kind} has no whiskers; add --kind {BOX}.")
    if request.whiskers not in (None, *WHISKERS):
        raise InputError(f"--whiskers {request.whiskers}: choose one of {', '.join(WHISKERS)}.")


def _check_log(log: str, chart: Chart, drawn: Sequence[Group]) -> None:
    """Raise `InputError` if an axis of `--log` has no numbers above 0 to show."""
    kind, option = chart.kind, f"--log {log}"
    on_y, on_x = "y" in log, "x" in log
    if log and kind == HEATMAP:
        raise InputError(f"{option}: the kind {kind} has no axes with numbers; omit --log.")
    if on_y and kind == CDF:
        raise InputError(f"{option}: the vertical axis of a {kind} is a share, from 0 to 1; use --log x.")
    if on_x and kind in (BAR, BOX):
        raise InputError(f"{option}: the kind {kind} has its levels side by side; add --kind {LINE}.")
    numbers = [chart.over.low] if chart.over else levels.numbers(chart.x_levels)
    if on_x and kind != CDF and (numbers is None or min(numbers) <= 0):
        raise InputError(
            f"{option}: the levels of {chart.x} are not all numbers above 0; choose another factor with --x."
        )
    if (on_y or (on_x and kind == CDF)) and max(value for group in drawn for value in group.values) <= 0:
        raise InputError(f"{option}: no value of {units.label(chart.y)} is above 0; choose another --y.")


def _rest(rows: _Rows, shown: Sequence[str]) -> list[str]:
    """Return the factors that need panels: they vary between rows with equal levels on the axes."""
    distinct = [name for name in shown if name]
    rest: list[str] = []
    for name in rows.varied():
        if name in distinct:
            continue
        apart = rows.frame.select(*distinct, *rest).n_unique() if distinct or rest else 1
        if rows.frame.select(*distinct, *rest, name).n_unique() > apart:
            rest.append(name)
    return rest


def _levels(rows: _Rows, factors: Sequence[str]) -> list[str]:
    """Return the combinations of the levels of some factors; without factors, an empty text."""
    return [
        _JOINT.join(levels) for levels in itertools.product(*(rows.levels(name) for name in factors if name))
    ]


def _level(factors: Sequence[str]) -> pl.Expr:
    named = [pl.col(name) for name in factors if name]
    return pl.concat_str(named, separator=_JOINT) if named else pl.lit("")


def _panels(
    rows: _Rows,
    metric: str,
    axes: tuple[Sequence[str], Sequence[str]],
    rest: Sequence[str],
    *,
    each_row: bool,
    places: pl.DataFrame | None = None,
) -> list[ResultPanel]:
    """Return a panel for each combination of the levels of `rest` that has values.

    `places` has the level of a range in each replication, by which groups are sorted.
    """
    values = rows.frame if each_row else _per_replication(rows, metric)
    if places is not None:
        values = values.join(places, on=_REPLICATION, how="left").sort(AT, *_REPLICATION)
    keyed = values.with_columns(x_level=_level(axes[0]), hue_level=_level(axes[1]))
    pairs = list(itertools.product(*(_levels(rows, names) for names in axes)))
    parts: dict[tuple[object, ...], pl.DataFrame] = (
        keyed.partition_by(rest, as_dict=True) if rest else {(): keyed}
    )
    panels = []
    for combination in itertools.product(*(rows.levels(name) for name in rest)):
        if (own := parts.get(combination)) is None:
            continue
        groups = dict(own.group_by("x_level", "hue_level", maintain_order=True))
        title = ", ".join(
            f"{name}\u00a0=\u00a0{level}" for name, level in zip(rest, combination, strict=True)
        )
        present = [(a, b, groups[a, b]) for a, b in pairs if (a, b) in groups]
        panels.append(
            ResultPanel(
                title,
                [Group(a, b, f[metric].to_list(), f[AT].to_list() if AT in f else []) for a, b, f in present],
            )
        )
    return panels


def _per_replication(rows: _Rows, metric: str) -> pl.DataFrame:
    """Return a value for each replication, because flows of a role in a run are not independent."""
    return rows.frame.group_by([*rows.factors, *_REPLICATION], maintain_order=True).agg(pl.col(metric).mean())


def _method(chart: Chart, groups: Sequence[Group]) -> str:
    """Describe what is drawn, from how many values."""
    kind = chart.kind
    sizes = [len(group.values) for group in groups]
    count = str(min(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    if kind == BAND and min(sizes) <= chart.window:
        return f"Dots: runs. A band requires more than {chart.window} of them."
    if kind == BAND:
        band = f"running median and 10th to 90th percentile of {chart.window} neighbours"
        return f"Dots: runs. Line and band: {band}."
    if kind == CDF:
        return f"Empirical distribution functions of {count} values each."
    replications = "1 replication" if count == "1" else f"{count} replications"
    if kind == BOX and max(sizes) > 1:
        boxes = f"Boxes: quartiles and median of {replications}; whiskers:"
        if chart.whiskers == EXTREMES:
            return f"{boxes} minimum and maximum."
        return f"{boxes} the furthest values within 1.5 interquartile ranges; circles: values beyond."
    if kind == BAR and max(sizes) > 1:
        return f"Bars: medians of {replications}; lines on them: quartiles."
    if kind == LINE and max(sizes) > 1:
        return f"Means of {replications} with 95 % confidence intervals (Student's t)."
    if kind == HEATMAP and max(sizes) > 1:
        return f"Means of {replications}."
    return f"Values of {replications}, without intervals."


def _remarks(rows: _Rows, kind: str, count: int, rest: Sequence[str]) -> list[str]:
    remarks = []
    if rows.ratio is not None:
        remarks.append("Ratios are computed between equal replications.")
    if rows.alone:
        remarks.append(f"{rows.alone} values are omitted because their partner is missing or 0.")
    if rows.averaged and (kind != CDF or rows.ratio is not None):
        remarks.append(f"A replication's value is the mean over its flows of the same {rows.who or 'kind'}.")
    if rows.missing:
        remarks.append(f"{rows.missing} and are omitted.")
    if count > MOST_RESULT_PANELS:
        remarks.append(
            f"The first {MOST_RESULT_PANELS} of {count} combinations of {', '.join(rest)} are shown; "
            "select others with --only."
        )
    return remarks
