"""The box plots of a report: times of page loads and transfers by level of the compared factor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lasthop.analysis.findings.findings import Findings, Timed, informative
from lasthop.campaign.results.tables import factor_column
from lasthop.common.html.style import Figure
from lasthop.common.metrics import units
from lasthop.present.report.boxes import BoxAxes, BoxPanel, box_figure
from lasthop.studies.presentation.spec import NOT_STATED

_MOST_FIGURES = 24
_FEW_PANELS = 6
"""The largest number of panels in a figure for all combinations of levels."""
_ALL = "_all"


@dataclass(frozen=True, slots=True)
class BoxSection:
    """The figures of a kind with their titles; `left_out` further figures are not drawn."""

    title: str
    figures: Sequence[tuple[str, Figure]]
    left_out: int


def box_sections(findings: Findings) -> Iterator[BoxSection]:
    """Yield the box plots of each kind of traffic."""
    for thing in findings.things:
        figures = list(_figures(thing, findings))
        yield BoxSection(thing.title, figures[:_MOST_FIGURES], max(0, len(figures) - _MOST_FIGURES))


def _figures(thing: Timed, findings: Findings) -> Iterator[tuple[str, Figure]]:
    """Yield a figure per combination of the factors that are not compared; published combinations come first.

    A figure has a panel per role, or per level of other factors if all fit into one figure. Page loads have
    a figure per level of the factor with most levels, which is the page, as pages differ widely in size, and
    a panel per level of another factor.
    """
    names = {factor_column(factor): factor for factor in findings.factors}
    compared = findings.presentation.compare.factor
    if compared not in findings.factors:
        compared = next(reversed(findings.factors), None)
    column = factor_column(compared) if compared else _ALL
    rows = thing.rows if compared else thing.rows.with_columns(pl.lit("").alias(_ALL))
    rows = rows.select(column, *(name for name in names if name != column), "role", thing.metric)
    others = informative(rows, (name for name in names if name != column), [column])
    panels_by = ["role"]
    if rows.select(*others, "role").unique().height <= _FEW_PANELS:
        panels_by, others = [*others, "role"], []
    elif thing.metric == "response_time_s" and len(others) > 1:
        most = max(reversed(others), key=lambda other: rows[other].n_unique())
        panels_by = [next(other for other in others if other != most)]
        others.remove(panels_by[0])
    published = _published(findings, thing)
    scale = units.scale_of(thing.metric, rows[thing.metric])
    later = []
    for group, part in (
        rows.partition_by(others, as_dict=True, maintain_order=True).items() if others else [((), rows)]
    ):
        words = " · ".join(f"{names[other]} = {level}" for other, level in zip(others, group, strict=True))
        for own in _with_equal_levels(part, panels_by, column):
            panels = list(_panels(own, thing, {by: names.get(by, "") for by in panels_by}, column, published))
            if not panels:
                continue
            levels = [str(level) for level in own[column].unique(maintain_order=True)]
            axes = BoxAxes(levels, compared, units.axis_title(thing.metric, scale), scale.factor)
            titled = (
                words or _title(thing, compared),
                box_figure(panels, axes, findings.presentation.percentiles),
            )
            if published is None or any(panel.published for panel in panels):
                yield titled
            else:
                later.append(titled)
    yield from later


def _title(thing: Timed, compared: str | None) -> str:
    by = f", by {compared}" if compared else ""
    return f"{thing.title}: {units.label(thing.metric)}{by}"


def _with_equal_levels(rows: pl.DataFrame, panels_by: Sequence[str], column: str) -> list[pl.DataFrame]:
    """Split rows into parts whose panels have the same levels."""
    if list(panels_by) == ["role"]:
        return [rows]
    marked = rows.with_columns(
        pl.col(column).unique().sort().implode().over(panels_by).list.join(",").alias("_levels")
    )
    return marked.partition_by("_levels", maintain_order=True)


def _panels(
    rows: pl.DataFrame,
    thing: Timed,
    panels_by: Mapping[str, str],
    column: str,
    published: pl.DataFrame | None,
) -> Iterator[BoxPanel]:
    """Yield the panels with values, in the order of the scenario, or by name if they are roles.

    `panels_by` maps columns to names; the name of the role column is empty.
    """
    parts = rows.partition_by(list(panels_by), as_dict=True, maintain_order=True)
    if list(panels_by) == ["role"]:
        parts = dict(sorted(parts.items(), key=lambda item: str(item[0])))
    for group, part in parts.items():
        five_numbers = {}
        if published is not None:
            keys = [key for key in published.columns if key in part.columns]
            own = published.join(part.select(keys).unique(), on=keys, how="semi")
            five_numbers = published_by_level(own, column)
        values = values_by_level(part, column, thing.metric)
        if values:
            titles = [
                f"{name} = {level}" if name else str(level)
                for name, level in zip(panels_by.values(), group, strict=True)
            ]
            yield BoxPanel(" · ".join(titles), values, five_numbers)


def _published(findings: Findings, thing: Timed) -> pl.DataFrame | None:
    """Return the published numbers of a metric without misprints, with the names of the records.

    Columns: the factors, `role`, `statistic`, `value`. `None` without a study.
    """
    assets = findings.assets
    if assets is None:
        return None
    from lasthop.analysis.studies.comparison import misprinted

    rows = assets.published_in_own_words().filter(
        pl.col("metric") == thing.metric, ~misprinted(assets.presentation.misprints)
    )
    rows = rows.with_columns(pl.col("statistic").replace(NOT_STATED, assets.presentation.not_stated))
    columns = {factor: factor_column(factor) for factor in findings.factors}
    cells = findings.tables.flows.select(list(columns.values())).unique().collect()
    factors = [factor for factor in columns if factor in rows.columns]
    # Response times belong to whole page loads.
    who = [] if thing.metric == "response_time_s" else [pl.col("flow").alias("role")]
    rows = rows.select(*factors, *who, "statistic", "value")
    rows = rows.rename({factor: columns[factor] for factor in factors})
    # A number with an empty field covers all levels.
    empty = pl.concat_str(pl.col(columns[factor]).is_null().cast(pl.String) for factor in factors)
    parts = []
    for part in rows.with_columns(empty.alias("_empty")).partition_by("_empty"):
        named = [column for column in part.columns if part[column].null_count() == 0 and column != "_empty"]
        keys = [column for column in named if column in cells.columns]
        own = part.select(named)
        parts.append(own.join(cells, on=keys) if keys else own.join(cells, how="cross"))
    return pl.concat(parts, how="diagonal") if parts else None


def values_by_level(rows: pl.DataFrame, column: str, metric: str) -> dict[str, list[float]]:
    """Return a metric's values, without missing ones, by the level in `column`, in order of replication."""
    present = rows.select(column, metric).drop_nulls(metric)
    return {
        str(level): part[metric].cast(pl.Float64).to_list()
        for (level,), part in present.partition_by(column, as_dict=True, maintain_order=True).items()
    }


def published_by_level(rows: pl.DataFrame, column: str) -> dict[str, dict[str, float]]:
    """Return the published statistics by the level in `column`."""
    statistics: dict[str, dict[str, float]] = {}
    for level, statistic, value in rows.select(column, "statistic", "value").iter_rows():
        statistics.setdefault(level, {})[statistic] = value
    return statistics
