"""Assembling the report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import polars as pl

from lasthop.answer.differences import Difference
from lasthop.campaign.campaign import Campaign
from lasthop.metrics import units
from lasthop.report.comparisons import compared, forests
from lasthop.report.curves import curve_figures
from lasthop.report.distributions import box_sections
from lasthop.report.illustrations import illustrated
from lasthop.report.levels import level_views
from lasthop.report.overview import asked, badges, change_chart, exceptions, first_curve, nothing_sent, outcome
from lasthop.report.results import TRANSFERS, Results, times
from lasthop.report.study_tables import levels_table, study_tables
from lasthop.report.style import Figure
from lasthop.report.tables import HEADLINE, TableGroup, generic_table, unfinished_table
from lasthop.report.trace import trace_figure
from lasthop.results.tables import factor_column, is_empty
from lasthop.statistics.summary import generic_summary
from lasthop.studies.catalogue import Assets
from lasthop.studies.comparison import RULES, Agreement
from lasthop.studies.presentation.spec import HeatmapSpec
from lasthop.studies.summary import extra_columns, table_levels

_ONE_PANEL_PX, _PANEL_PX = 420, 260
_PLOTLY_HERE = "/* plotly.js */"


@dataclass(frozen=True, slots=True)
class FigureView:
    """A figure with its words."""

    title: str
    caption: str
    figure: Figure

    @property
    def width(self) -> int:
        """The least width in pixels at which it can be read; in a narrower window it scrolls."""
        layout = self.figure["layout"]
        axes = [layout[name] for name in layout if name.startswith("xaxis")]
        columns = len({tuple(axis["domain"]) for axis in axes if "domain" in axis})
        right: int = layout["margin"]["r"]
        return (_PANEL_PX * columns if columns > 1 else _ONE_PANEL_PX) + right

    @property
    def flows(self) -> list[str]:
        """The flows that the reader may highlight."""
        flows: list[str] = self.figure["layout"].get("meta", {}).get("flows", [])
        return flows

    @property
    def json(self) -> str:
        """The figure as JSON that may stand inside a script element."""
        return json.dumps(self.figure, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")


def trace_figures(results: Results) -> Iterator[FigureView]:
    """Yield the illustrated replications, packet by packet.

    Tracing may run a replication again; it sees the same packets, which a live run would not.
    """
    for spec, run in illustrated(results):
        figure, said = trace_figure(results.campaign.overview(run), run.cell.scenario)
        place = f"Cell {run.cell.key.replace(',', ', ')}, replication" if run.cell.key else "Replication"
        where = f"{place} {run.replication}."
        yield FigureView(spec.title, " ".join(text for text in (spec.caption, said, where) if text), figure)


def _facts(results: Results) -> list[tuple[str, str]]:
    campaign = results.campaign
    identity, host, simulated = campaign.manifest["identity"], campaign.manifest["host"], campaign.simulated
    plan = campaign.plan
    sets = f"{plan.sets} sets of {plan.replications}" if plan.sets > 1 else f"1 set of {times(results)}"
    return [
        ("Scenario", f"{identity['scenario']} (digest {identity['scenario_digest'][:16]})"),
        ("Cells", str(len(plan.cells))),
        ("Replications", f"{sets} per cell, {campaign.runs} runs in all"),
        *_sample(campaign),
        ("Seed", str(plan.seed)),
        ("Engine", _engine(campaign)),
        ("lasthop", f"{identity['lasthop_version']} (commit {identity['lasthop_commit']})"),
        ("Simulation", f"{simulated.runs} runs in {simulated.wall_s:.2f} s of wall time, without analysis and report"),
        ("Host", f"{host['system']}; {host['processor']}, {host['cores']} cores; Python {host['python']}"),
    ]


def _sample(campaign: Campaign) -> list[tuple[str, str]]:
    if (space := campaign.plan.study.space) is None:
        return []
    ranges = ", ".join(space["ranges"])
    what = f"{space['points']} points by {space['method']} over {ranges}; every point counts as a replication"
    return [("Sample", what)]


def _engine(campaign: Campaign) -> str:
    engine = campaign.plan.engine
    if campaign.plan.repeatable:
        return engine.title
    if engine.repeatable:
        return f"{engine.title}; not repeatable, because computing took time (cpu_cost)"
    late = campaign.late_runs()
    punctual = "all runs were punctual" if not late else f"{late} of {campaign.runs} runs are invalid"
    return f"{engine.title}; {punctual}: 99.9 % of the packets at most 1 ms late"


def _plotly_js() -> bytes:
    # Found without an import: none of plotly's Python is needed.
    source = Path(str(distribution("plotly").locate_file("plotly/package_data/plotly.min.js")))
    return source.read_bytes().replace(b"</script", b"<\\/script")


def _agreement_tables(agreement: Sequence[Agreement]) -> list[tuple[str, list[tuple[str, list[Agreement]]]]]:
    """Group by the kind of number: of times and rates a line per scope, tolerances side by side; counts by metric.

    With several levels: a table for each kind of number, in which each level has its line.
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
            title, line = what[:1].upper() + what[1:], "all links" if row.scope == "all" else f"link {row.scope}"
        tables.setdefault(title, {}).setdefault(line, []).append(row)
    return [(title, list(lines.items())) for title, lines in tables.items()]


def _without_published(results: Results, assets: Assets) -> list[TableGroup]:
    """Lay out the medians of the cells that no table of the study has."""
    factors = list(results.factors)
    flows, pages = results.tables.flows.filter(TRANSFERS), results.tables.pages
    kinds = {table: spec for spec in assets.presentation.tables for table in spec.ids}
    tabled = [
        kinds[row["table"]].own_levels(table_levels(row, factors)).items()
        for row in assets.tables.iter_rows(named=True)
        if row["table"] in kinds
    ]
    cells = results.campaign.plan.cells
    other = [cell.levels for cell in cells if not any(levels <= cell.levels.items() for levels in tabled)]
    if not other:
        return []
    own = pl.LazyFrame({factor_column(factor): [levels[factor] for levels in other] for factor in factors})
    columns = own.collect_schema().names()
    flows = flows.join(own, on=columns, how="semi", maintain_order="left")
    if pages is not None:
        pages = pages.join(own, on=columns, how="semi", maintain_order="left")
    if is_empty(flows) and (pages is None or is_empty(pages)):
        return []
    method, looks = results.presentation.percentiles, results.tables.looks
    summary = generic_summary(flows, pages, factors, method, HEADLINE, looks=looks)
    return [generic_table(summary, factors, "Cells without published numbers")]


def _groups(results: Results) -> list[TableGroup]:
    factors = list(results.factors)
    if results.tables.shorts is not None:
        hosts = results.tables.shorts.select("application").unique().collect()["application"]
        of_hosts = pl.col("flow").is_in(hosts.implode())
        background = results.summary.filter(~of_hosts)
        tables = [generic_table(results.summary.filter(of_hosts), factors, "Short flows, medians over replications")]
        return tables if background.is_empty() else [*tables, generic_table(background, factors, "Background")]
    if results.assets is None:
        return [generic_table(results.summary, factors)]
    extra = extra_columns(factors, results.assets)
    if extra and results.comparison is not None:
        return [levels_table(results.comparison, extra)]
    other = [] if results.presentation.of_runs else _without_published(results, results.assets)
    return [*study_tables(results.summary, results.assets), *other]


def _rules(comparison: pl.DataFrame) -> list[tuple[str, str]]:
    """Return the rules of comparison, each with the metrics that it is for."""
    metrics: dict[str, list[str]] = {}
    for metric in comparison["metric"].unique(maintain_order=True):
        if metric in RULES:
            metrics.setdefault(RULES[metric].text, []).append(units.label(metric))
    return [(text, ", ".join(names)) for text, names in metrics.items()]


@dataclass(frozen=True, slots=True)
class HeatmapsView:
    """The heat maps of one metric; the title of each names the levels that it is of."""

    title: str
    caption: str
    maps: list[FigureView]

    @classmethod
    def of(cls, spec: HeatmapSpec, results: Results) -> HeatmapsView:
        """Draw them."""
        from lasthop.report.heatmaps import heatmap_figures

        figures = heatmap_figures(results.tables, spec, results.factors)
        return cls(spec.title, spec.caption, [FigureView(title, "", figure) for title, figure in figures])


@dataclass(frozen=True, slots=True)
class _Sections:
    """The figures of a report before one of them becomes the chart of its first screen."""

    boxes: list[tuple[str, list[FigureView], int]]
    curves: list[FigureView]
    heatmaps: list[HeatmapsView]
    factorial: list[FigureView]
    found: list[Difference]

    @classmethod
    def of(cls, results: Results) -> _Sections:
        curves = () if results.tables.shorts is None else _curves(results.tables.shorts.collect(), results)
        single = _of_single_flows(results)
        boxes = [
            (section.title, [FigureView(title, "", figure) for title, figure in section.figures], section.left_out)
            for section in (box_sections(results) if single else ())
        ]
        return cls(
            boxes,
            [FigureView(title, "", figure) for title, figure in curves],
            [view for spec in results.drawn.heatmaps if (view := HeatmapsView.of(spec, results)).maps],
            [FigureView(title, "", figure) for title, figure in _factorial(results)],
            compared(results) if single else [],
        )

    def chart(self, results: Results) -> FigureView | None:
        """Take the chart of the first screen: a figure that would follow below, or all comparisons in one."""
        if self.factorial:
            return replace(self.factorial.pop(0), caption=_FACTORIAL_CAPTION)
        if (curve := first_curve(results)) is not None:
            return FigureView(curve[0], _CURVES_CAPTION, curve[1])
        if self.heatmaps:
            first = self.heatmaps[0].maps[0]
            title = f"{self.heatmaps[0].title}: {first.title}" if first.title else self.heatmaps[0].title
            return replace(first, title=title, caption=self.heatmaps[0].caption)
        if self.boxes and len(self.boxes[0][1]) == 1:
            _, (view,), _ = self.boxes.pop(0)
            return replace(view, caption=_BOXES_CAPTION)
        factor = results.presentation.compare.factor
        shown = [one for one in self.found if one.factor == factor]
        if not shown:
            return None
        title = f"Change against {factor} = {' or '.join(dict.fromkeys(one.reference for one in shown))}"
        return FigureView(title, _CHANGES_CAPTION, change_chart(shown))


_FACTORIAL_CAPTION = "Parallel lines: each factor acts on its own. Lines that cross or spread: they interact."
_CURVES_CAPTION = "Marks are means over the replications, bars their 90 % intervals."
_BOXES_CAPTION = (
    "Boxes span the quartiles over the replications, whiskers reach to the least and the greatest value, "
    "dots are the replications, at most 1000 for each box."
)
_CHANGES_CAPTION = (
    "A mark for each combination of the other factors and each flow: the mean difference in replications of the same "
    "number, in per cent of the reference's mean. Point at a mark to see which it is."
)


def _factorial(results: Results) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of a full-factorial study."""
    # With levels that the study does not know, each is a design of its own: a table has them side by side.
    if results.assets is not None and not extra_columns(list(results.factors), results.assets):
        from lasthop.report.interactions import factorial_figures

        yield from factorial_figures(results.summary, results.assets)


def _of_single_flows(results: Results) -> bool:
    """Tell whether single flows and page loads are shown.

    Not of a study whose tables are of runs as wholes, nor of one that says what is drawn instead.
    """
    return not (results.presentation.of_runs or results.drawn)


def _curves(shorts: pl.DataFrame, results: Results) -> Iterator[tuple[str, Figure]]:
    for spec in results.drawn.curves:
        yield from curve_figures(shorts, spec, results.factors, results.tables.looks)


def _context(results: Results) -> dict[str, Any]:
    campaign, presentation = results.campaign, results.presentation
    factors = list(results.factors)
    cells = campaign.plan.cells
    sections = _Sections.of(results)
    single = _of_single_flows(results)
    chart = sections.chart(results)
    return {
        "study": campaign.plan.study,
        "silent": campaign.silent(),
        "asked": asked(results),
        "outcome": outcome(results, sections.found),
        "nothing_sent": nothing_sent(results),
        "badges": list(badges(results)),
        "exceptions": exceptions(results.claims),
        "chart": chart,
        "levels": level_views(cells, results.factors),
        "unfinished": unfinished_table(results.tables.flows, results.tables.pages, factors)
        if single and results.tables.shorts is None
        else None,
        **_seldom(results),
        "forests": forests(sections.found, campaign.plan.seed),
        "boxes": sections.boxes,
        "curves": sections.curves,
        "heatmaps": sections.heatmaps,
        "factorial": sections.factorial,
        "traces": list(trace_figures(results)) if single and results.tables.shorts is None else [],
        "cells": cells,
        "first_scenario": json.dumps(json.loads(cells[0].scenario), indent=2),
        "facts": _facts(results),
        "sets": campaign.plan.sets,
        "replications": int(campaign.counts.max()) * campaign.plan.sets,
        "times": times(results),
        "percentiles": presentation.percentiles,
        "compared": results.assets is not None,
        "of_runs": presentation.of_runs,
        "pages": results.tables.pages is not None,
        "agreement": _agreement_tables(results.agreement),
        "rms": [f"{row.what} {row.rms:.3f}" for row in results.agreement if row.rms is not None],
        "misprints": bool(presentation.misprints),
        "rules": [] if results.comparison is None else _rules(results.comparison),
        "groups": _groups(results),
    }


def _seldom(results: Results) -> dict[str, Any]:
    """Return the parts that few reports have; what makes them is loaded if it is used."""
    found: dict[str, Any] = dict.fromkeys(("claims", "precision", "scatter", "engines"))
    if results.claims:
        from lasthop.report.claims import claims_view

        found["claims"] = claims_view(results.claims)
    if results.precision is not None:
        from lasthop.report.precision import precision_view

        found["precision"] = precision_view(results, results.precision)
    if results.comparison is not None:
        from lasthop.report.scatter import published_figure

        points = published_figure(results.comparison, results.presentation.misprints)
        found["scatter"] = FigureView("", "", points) if points else None
    if results.beside is not None or results.campaign.plan.engine.real_tcp:
        from lasthop.report.engines import engines_view

        found["engines"] = engines_view(results)
    return found


def write_report(results: Results, path: Path) -> None:
    """Write the self-contained HTML report to `path`. It loads nothing from anywhere else."""
    from lasthop.report import template

    parts = {"css": template.text("report.css"), "script": template.text("report.js"), "plotly": _PLOTLY_HERE}
    page = template.page(_context(results) | parts).encode()
    # Five megabytes of plotly.js are put in as bytes: as text they would cost ten times as much memory.
    before, _, after = page.partition(_PLOTLY_HERE.encode())
    with path.open("wb") as file:
        file.writelines((before, _plotly_js(), after))
