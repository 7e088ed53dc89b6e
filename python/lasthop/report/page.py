"""Putting the report together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from lasthop.campaign import MODEL, Campaign, ChosenRun
from lasthop.catalogue import Assets, FigureSpec
from lasthop.comparison import RULES, Agreement
from lasthop.live.engine import LIVE
from lasthop.report.claims import claims_view
from lasthop.report.curves import curve_figures
from lasthop.report.distributions import box_sections
from lasthop.report.engines import engines_view
from lasthop.report.interactions import factorial_figures
from lasthop.report.results import Results, timed, transfers
from lasthop.report.scatter import published_figure
from lasthop.report.study_tables import levels_table, study_tables
from lasthop.report.style import Figure
from lasthop.report.tables import HEADLINE, TableGroup, generic_table, metric_label, paired_table, unfinished_table
from lasthop.report.trace import trace_figure
from lasthop.summary import extra_columns, generic_summary, in_cell, table_levels

_MOST_FLOWS_TRACED = 20
_PLOTLY_HERE = "/* plotly.js */"


@dataclass(frozen=True, slots=True)
class FigureView:
    """A figure with its words."""

    title: str
    caption: str
    figure: Figure

    @property
    def json(self) -> str:
        """The figure as JSON that may stand inside a script element."""
        return json.dumps(self.figure, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")


def trace_figures(results: Results) -> Iterator[FigureView]:
    """Yield the illustrated replications: those the study names, else the first of the first cell.

    The latter only of so few flows that those drawn in detail tell something. A cell that was not run is left out.
    Tracing runs the replication again; it sees the same packets, which a live run would not.
    """
    plan = results.campaign.plan
    if plan.engine == LIVE:
        return
    cells = {cell.key: cell for cell in plan.cells}
    specs = results.presentation.figures
    first = plan.cells[0]
    if not specs and results.flows.filter(in_cell(first.levels), set=1, replication=1).height <= _MOST_FLOWS_TRACED:
        specs = (FigureSpec(first.key, 1, "First replication of the first cell", ""),)
    for spec in specs:
        cell = cells.get(spec.cell)
        if cell is None or spec.replication > plan.replications:
            continue
        figure, said = trace_figure(ChosenRun(plan, cell, 1, spec.replication).trace(), cell.scenario)
        where = f"{cell.key.replace(',', ', ')}, replication {spec.replication}."
        yield FigureView(spec.title, " ".join(text for text in (spec.caption, said, where) if text), figure)


def _facts(campaign: Campaign) -> list[tuple[str, str]]:
    identity, host, simulated = campaign.manifest["identity"], campaign.manifest["host"], campaign.simulated
    plan = campaign.plan
    sets = f"{plan.sets} sets of {plan.replications}" if plan.sets > 1 else f"1 set of {plan.replications}"
    return [
        ("Scenario", f"{identity['scenario']} (digest {identity['scenario_digest'][:16]})"),
        ("Cells", str(len(plan.cells))),
        ("Replications", f"{sets} per cell, {plan.runs} runs in all"),
        ("Seed", str(plan.seed)),
        ("Engine", _engine(campaign)),
        ("lasthop", f"{identity['lasthop_version']} (commit {identity['lasthop_commit']})"),
        ("Simulation", f"{simulated.runs} runs in {simulated.wall_s:.2f} s of wall time, without analysis and report"),
        ("Host", f"{host['system']}; {host['processor']}, {host['cores']} cores; Python {host['python']}"),
    ]


def _engine(campaign: Campaign) -> str:
    if campaign.plan.engine == MODEL:
        return "model (virtual time)"
    if (kernel := campaign.plan.kernel) is not None:
        return f"kernel (Linux {kernel.info.version}, virtual time; SHA-256 {kernel.digest[:16]})"
    late = campaign.late_runs()
    punctual = "all runs were punctual" if not late else f"{late} of {campaign.plan.runs} runs are invalid"
    return f"live (this machine's TCP, real time); {punctual}: 99.9 % of the packets at most 1 ms late"


def _text(name: str) -> str:
    return resources.files("lasthop.report").joinpath(name).read_text(encoding="utf-8")


def _plotly_js() -> bytes:
    source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return source.replace(b"</script", b"<\\/script")


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
    flows, pages = transfers(results.flows), results.pages
    kinds = {table: spec for spec in assets.presentation.tables for table in spec.ids}
    tabled = [
        in_cell(kinds[row["table"]].own_levels(table_levels(row, factors)))
        for row in assets.tables.iter_rows(named=True)
        if row["table"] in kinds
    ]
    other = ~pl.any_horizontal(pl.lit(value=False), *tabled)
    flows, pages = flows.filter(other), None if pages is None else pages.filter(other)
    if flows.is_empty() and (pages is None or pages.is_empty()):
        return []
    summary = generic_summary(flows, pages, factors, results.presentation.percentiles, HEADLINE)
    return [generic_table(summary, factors, "Cells without published numbers")]


def _groups(results: Results) -> list[TableGroup]:
    factors = list(results.factors)
    if results.shorts is not None:
        of_hosts = pl.col("flow").is_in(results.shorts["application"].unique().implode())
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
            metrics.setdefault(RULES[metric].text, []).append(metric_label(metric, ""))
    return [(text, ", ".join(names)) for text, names in metrics.items()]


def _single_flows(results: Results) -> dict[str, Any]:
    """Return what is shown of single flows and page loads: nothing of a study whose tables are of runs as wholes.

    Nor of one that has curves of its short flows; beside short flows, the background may never end.
    """
    presentation, factors = results.presentation, list(results.factors)
    if presentation.of_runs or results.curves:
        return {"boxes": [], "traces": [], "paired": None, "unfinished": None}
    sections = [
        (section.title, [FigureView(title, "", figure) for title, figure in section.figures], section.left_out)
        for section in box_sections(results)
    ]
    seed = results.campaign.plan.seed
    return {
        "boxes": sections,
        "traces": list(trace_figures(results)) if results.shorts is None else [],
        "paired": paired_table(timed(results.flows, results.pages, results.shorts), factors, presentation, seed),
        "unfinished": unfinished_table(results.flows, results.pages, factors) if results.shorts is None else None,
    }


def _context(results: Results) -> dict[str, Any]:
    campaign = results.campaign
    factors = list(results.factors)
    cells = campaign.plan.cells
    misprints = results.presentation.misprints
    points = None if results.comparison is None else published_figure(results.comparison, misprints)
    # With levels that the study does not know, each is a design of its own: a table has them side by side.
    known = results.assets is not None and not extra_columns(factors, results.assets)
    factorial = factorial_figures(results.summary, results.assets) if results.assets and known else ()
    curves = (
        []
        if results.shorts is None
        else [
            FigureView(title, "", figure)
            for spec in results.curves
            for title, figure in curve_figures(results.shorts, spec, results.factors)
        ]
    )
    return {
        **_single_flows(results),
        "curves": curves,
        "study": campaign.plan.study,
        "silent": campaign.silent(),
        "cells": cells,
        "first_scenario": json.dumps(json.loads(cells[0].scenario), indent=2),
        "claims": claims_view(results.claims),
        "levels": {
            factor: list(dict.fromkeys(cell.levels[factor] for cell in cells if factor in cell.levels))
            for factor in factors
        },
        "facts": _facts(campaign),
        "sets": campaign.plan.sets,
        "replications": campaign.plan.sets * campaign.plan.replications,
        "percentiles": results.presentation.percentiles,
        "compared": results.assets is not None,
        "of_runs": results.presentation.of_runs,
        "pages": results.pages is not None,
        "agreement": _agreement_tables(results.agreement),
        "rms": [f"{row.what} {row.rms:.3f}" for row in results.agreement if row.rms is not None],
        "misprints": bool(misprints),
        "rules": [] if results.comparison is None else _rules(results.comparison),
        "scatter": FigureView("", "", points) if points else None,
        "factorial": [FigureView(title, "", figure) for title, figure in factorial],
        "engines": engines_view(results),
        "groups": _groups(results),
    }


def write_report(results: Results, path: Path) -> None:
    """Write the self-contained HTML report to `path`. It loads nothing from anywhere else."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_text("report.html.j2"))
    parts = {"css": _text("report.css"), "script": _text("report.js"), "plotly": _PLOTLY_HERE}
    page = template.render(**_context(results), **parts).encode()
    # Five megabytes of plotly.js are put in as bytes: as text they would cost ten times as much memory.
    before, _, after = page.partition(_PLOTLY_HERE.encode())
    with path.open("wb") as file:
        file.writelines((before, _plotly_js(), after))
