"""The report as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import polars as pl

from lasthop.analysis.findings.files import write_tables
from lasthop.analysis.findings.findings import Findings, times
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.results.hops import PLACE
from lasthop.campaign.results.sections import HOPS, STATIONS, without_parts
from lasthop.campaign.results.tables import parts_of_flows, whole_flows
from lasthop.common.files import replace_atomically
from lasthop.common.html.figures import FigureView, PackedFigures
from lasthop.common.html.packed import plotly_js
from lasthop.common.html.style import Figure
from lasthop.present.pictures.network_layout import network_svg
from lasthop.present.report.distributions import box_sections
from lasthop.present.report.illustrations import illustrated
from lasthop.present.report.levels import level_views, short
from lasthop.present.report.overview import badges, exceptions, first_curve, nothing_sent, question, spread
from lasthop.present.report.table_views import TableGroup, generic_table, unfinished_table
from lasthop.present.report.trace import trace_figure
from lasthop.scenario.changes import Flat
from lasthop.scenario.facts import Facts
from lasthop.scenario.recordings import Recorded, recordings_of
from lasthop.studies.presentation.spec import HeatmapSpec

if TYPE_CHECKING:
    from lasthop.present.answer.differences import Difference
    from lasthop.present.report.comparisons import Forest

_PLOTLY_HERE = "<plotly.js>"
REPORT = "report.html"


def _views(figures: Iterable[tuple[str, Figure]]) -> list[FigureView]:
    return [FigureView(title, "", figure) for title, figure in figures]


def trace_figures(findings: Findings) -> Iterator[FigureView]:
    """Yield the packet traces of the illustrated replications.

    Tracing may run a replication again; the packets are the same because the runs are repeatable.
    """
    for spec, run in illustrated(findings):
        figure, notes = trace_figure(findings.campaign.overview(run), Facts.of(run.cell))
        place = f"Cell {run.cell.key.replace(',', ', ')}, replication" if run.cell.key else "Replication"
        where = f"{place} {run.replication}."
        yield FigureView(spec.title, " ".join(text for text in (spec.caption, notes, where) if text), figure)


def _facts(findings: Findings) -> list[tuple[str, str]]:
    campaign = findings.campaign
    identity, host, simulated = campaign.manifest["identity"], campaign.manifest["host"], campaign.simulated
    plan = campaign.plan
    sets = f"{plan.sets} sets of {plan.replications}" if plan.sets > 1 else f"1 set of {times(findings)}"
    return [
        ("Scenario", f"{identity['scenario']} (digest {identity['scenario_digest'][:16]})"),
        ("Cells", str(len(plan.cells))),
        ("Replications", f"{sets} per cell, {campaign.runs} runs in total"),
        *_sample(campaign),
        ("Seed", str(plan.seed)),
        ("Engine", _engine(campaign)),
        ("lasthop", f"{identity['lasthop_version']} (commit {identity['lasthop_commit']})"),
        (
            "Simulation",
            f"{simulated.runs} runs in {simulated.wall_s:.2f} s of wall time, without analysis and report",
        ),
        ("Host", f"{host['system']}; {host['processor']}, {host['cores']} cores; Python {host['python']}"),
    ]


def _sample(campaign: Campaign) -> list[tuple[str, str]]:
    if (space := campaign.plan.study.space) is None:
        return []
    ranges = ", ".join(space["ranges"])
    what = f"{space['points']} points of {ranges} by {space['method']}; every point counts as a replication"
    return [("Sample", what)]


def _engine(campaign: Campaign) -> str:
    engine = campaign.plan.engine
    if campaign.plan.repeatable:
        return engine.title
    if engine.repeatable:
        return f"{engine.title}; not repeatable, because computations take time (cpu_cost)"
    late = campaign.finished.late_runs()
    valid = "all runs are valid" if not late else f"{late} of {campaign.runs} runs are invalid"
    return f"{engine.title}; {valid} (at least 99.9 % of the packets at most 1 ms late)"


def _groups(findings: Findings) -> list[TableGroup]:
    """Return the tables; those of hops and of stations of media, if any, come last."""
    tables, factors = findings.tables, list(findings.factors)
    parts = parts_of_flows(tables.flows)
    flows, last = findings.summary.filter(~pl.col("flow").is_in(parts)), []
    kinds = (("Hops", tables.hops, HOPS, "hop"), ("Stations", tables.stations, STATIONS, "station"))
    for title, rows, metrics, noun in kinds:
        if rows is not None:
            own = pl.col("flow").is_in(rows.select(PLACE).unique().collect()[PLACE].implode())
            last.append(generic_table(flows.filter(own), factors, title, metrics, noun))
            flows = flows.filter(~own)
    groups = [*_groups_of_flows(findings, flows), *last]
    return [replace(groups[0], note=without_parts(parts)), *groups[1:]] if parts and groups else groups


def _groups_of_flows(findings: Findings, summary: pl.DataFrame) -> list[TableGroup]:
    factors = list(findings.factors)
    if findings.tables.shorts is not None:
        hosts = findings.tables.shorts.select("application").unique().collect()["application"]
        of_hosts = pl.col("flow").is_in(hosts.implode())
        background = summary.filter(~of_hosts)
        tables = [generic_table(summary.filter(of_hosts), factors, "Short flows, medians over replications")]
        return (
            tables if background.is_empty() else [*tables, generic_table(background, factors, "Background")]
        )
    if findings.assets is None:
        return [generic_table(summary, factors)]
    from lasthop.present.report.study_tables import table_groups

    return table_groups(findings, findings.assets)


@dataclass(frozen=True, slots=True)
class HeatmapsView:
    """The heat maps of a metric; the title of each names its levels."""

    title: str
    caption: str
    maps: list[FigureView]

    @classmethod
    def of(cls, spec: HeatmapSpec, findings: Findings) -> HeatmapsView:
        from lasthop.present.report.heatmaps import heatmap_figures

        return cls(spec.title, spec.caption, _views(heatmap_figures(findings.tables, spec, findings.factors)))


@dataclass(frozen=True, slots=True)
class _Sections:
    """The figures of a report, before one of them becomes the chart of the first screen."""

    boxes: list[tuple[str, list[FigureView], int]]
    curves: list[FigureView]
    heatmaps: list[HeatmapsView]
    factorial: list[FigureView]
    diffs: list[Difference]
    forests: list[Forest]

    @classmethod
    def of(cls, findings: Findings) -> _Sections:
        curves = () if findings.tables.shorts is None else _curves(findings.tables.shorts.collect(), findings)
        single = _of_single_flows(findings)
        boxes = [
            (section.title, _views(section.figures), section.left_out)
            for section in (box_sections(findings) if single else ())
        ]
        return cls(
            boxes,
            _views(curves),
            [view for spec in findings.drawn.heatmaps if (view := HeatmapsView.of(spec, findings)).maps],
            _views(_factorial(findings)),
            *(_comparisons(findings) if single and len(findings.campaign.plan.cells) > 1 else ([], [])),
        )

    def chart(self, findings: Findings) -> FigureView | None:
        """Remove and return the figure for the first screen, or else draw all comparisons."""
        if self.factorial:
            return replace(self.factorial.pop(0), caption=_FACTORIAL_CAPTION)
        if (curve := first_curve(findings)) is not None:
            return FigureView(curve[0], _CURVES_CAPTION, curve[1])
        if self.heatmaps:
            first = self.heatmaps[0].maps[0]
            title = f"{self.heatmaps[0].title}: {first.title}" if first.title else self.heatmaps[0].title
            return replace(first, title=title, caption=self.heatmaps[0].caption)
        if self.boxes and len(self.boxes[0][1]) == 1:
            _, (view,), _ = self.boxes.pop(0)
            return replace(view, caption=_BOXES_CAPTION)
        factor = findings.presentation.compare.factor
        headlines = [diff for diff in self.diffs if diff.factor == factor and diff.headline]
        if not headlines:
            return None
        from lasthop.present.report.changes import change_chart

        references = " or ".join(dict.fromkeys(diff.reference for diff in headlines))
        title = f"Change relative to {factor} = {references}"
        return FigureView(title, _CHANGES_CAPTION, change_chart(headlines))


_FACTORIAL_CAPTION = (
    "Parallel lines: the factors act independently. Lines that cross or diverge: they interact."
)
_CURVES_CAPTION = "Marks are means over the replications, bars their 90 % intervals."
_BOXES_CAPTION = (
    "Boxes span the quartiles over the replications and the flows of each name, whiskers extend to the least "
    "and the greatest value, dots are single values, at most 1000 per box."
)
_CHANGES_CAPTION = (
    "A mark for each combination of the other factors and each flow: the mean difference between "
    "replications of the same number, in per cent of the reference's mean. Hover over a mark to identify it."
)


def _comparisons(findings: Findings) -> tuple[list[Difference], list[Forest]]:
    from lasthop.present.report.comparisons import compared, forests

    diffs = compared(findings)
    return diffs, forests(diffs, findings.campaign.plan.seed)


def _outcome(findings: Findings, diffs: Sequence[Difference]) -> list[str]:
    """Summarise the comparison of levels in a few sentences; without comparisons, the range of values."""
    if not diffs:
        return spread(findings)
    from lasthop.present.report.changes import in_sentences

    return in_sentences(diffs)


def _factorial(findings: Findings) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of a full-factorial study."""
    # Factors that the study does not have would repeat the design; a table compares their levels instead.
    if findings.assets is not None and not findings.assets.extra_factors(findings.factors):
        from lasthop.present.report.interactions import factorial_figures

        yield from factorial_figures(findings.summary, findings.assets)


def _of_single_flows(findings: Findings) -> bool:
    """Return whether single flows and page loads are shown.

    They are not if a study's tables cover whole runs, or if a study defines other figures instead.
    """
    return not (findings.presentation.of_runs or findings.drawn)


def _curves(shorts: pl.DataFrame, findings: Findings) -> Iterator[tuple[str, Figure]]:
    from lasthop.present.report.curves import curve_figures

    for spec in findings.drawn.curves:
        yield from curve_figures(shorts, spec, findings.factors, findings.tables.looks)


def _context(findings: Findings) -> dict[str, object]:
    campaign, presentation = findings.campaign, findings.presentation
    factors = list(findings.factors)
    cells = campaign.plan.cells
    sections = _Sections.of(findings)
    recordings = recordings_of(campaign.plan.file)
    first = short(json.loads(cells[0].scenario), recordings)
    single = _of_single_flows(findings)
    chart = sections.chart(findings)
    return {
        "study": campaign.plan.study,
        "silent": campaign.finished.silent(),
        "question": question(findings),
        "window": findings.tables.window,
        "outcome": _outcome(findings, sections.diffs),
        "nothing_sent": nothing_sent(findings),
        "badges": list(badges(findings)),
        "exceptions": exceptions(findings),
        "chart": chart,
        "network": network_svg(cells[0]),
        "levels": level_views(cells, findings.factors, recordings),
        "unfinished": unfinished_table(whole_flows(findings.tables.flows), findings.tables.pages, factors)
        if single and findings.tables.shorts is None
        else None,
        **_optional(findings),
        "forests": sections.forests,
        "boxes": sections.boxes,
        "curves": sections.curves,
        "heatmaps": sections.heatmaps,
        "factorial": sections.factorial,
        "traces": list(trace_figures(findings)) if single and findings.tables.shorts is None else [],
        "cells": cells,
        "first_scenario": json.dumps(first, indent=2, default=str),
        "recordings": [
            (key, value)
            for key, value in Flat.of(cast("dict[str, object]", first)).values.items()
            if isinstance(value, Recorded)
        ],
        "facts": _facts(findings),
        "sets": campaign.plan.sets,
        "replications": max(campaign.counts) * campaign.plan.sets,
        "times": times(findings),
        "percentiles": presentation.percentiles,
        "compared": findings.assets is not None,
        "of_runs": presentation.of_runs,
        "pages": findings.tables.pages is not None,
        "rms": [f"{row.what} {row.rms:.3f}" for row in findings.agreement if row.rms is not None],
        "misprints": bool(presentation.misprints),
        "groups": _groups(findings),
    }


def _optional(findings: Findings) -> dict[str, object]:
    """Return the parts that few reports have; their code is imported only when used."""
    parts: dict[str, object] = dict.fromkeys(
        ("claims", "precision", "agreement", "rules", "scatter", "engines")
    )
    if findings.claims:
        from lasthop.present.report.claims import ClaimsView, css

        parts["css_of"] = css
        parts["claims"] = ClaimsView(findings.claims, findings.answers)
    if findings.precision is not None:
        from lasthop.present.report.precision import precision_view

        parts["precision"] = precision_view(findings, findings.precision)
    if findings.comparison is not None:
        from lasthop.present.report.scatter import published_figure
        from lasthop.present.report.study_tables import agreement_tables, rules

        parts["agreement"], parts["rules"] = agreement_tables(findings.agreement), rules(findings.comparison)
        points = published_figure(findings.comparison, findings.presentation.misprints)
        parts["scatter"] = FigureView("", "", points) if points else None
    if findings.beside is not None or findings.campaign.plan.engine.real_tcp:
        from lasthop.present.report.engines import engines_view

        parts["engines"] = engines_view(findings)
    return parts


def write_outputs(findings: Findings) -> Path:
    """Write the tables and the report into the campaign's folder; return the report's path."""
    write_tables(findings)
    report = findings.campaign.out / REPORT
    replace_atomically(report, lambda path: write_report(findings, path))
    return report


def write_report(findings: Findings, path: Path) -> None:
    """Write the HTML report to `path`. It is self-contained."""
    from lasthop.common.html import template

    parts = {
        "css": template.text("report.css"),
        "script": template.text("report.js"),
        "plotly": _PLOTLY_HERE,
        "figures": PackedFigures(),
    }
    page = template.page(Path(__file__).with_name("report.html.j2"), _context(findings) | parts).encode()
    # Two megabytes are inserted as bytes: as text they would need ten times as much memory.
    before, _, after = page.partition(_PLOTLY_HERE.encode())
    with path.open("wb") as file:
        file.writelines((before, plotly_js(), after))
