"""Putting the report together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from lasthop.campaign import Campaign, factor_column
from lasthop.catalogue import Assets, FigureSpec, Presentation
from lasthop.comparison import Agreement
from lasthop.report.boxes import BoxPanel, box_figure, published_by_level, values_by_level
from lasthop.report.scatter import published_figure
from lasthop.report.style import Figure
from lasthop.report.tables import (
    TableGroup,
    TableView,
    generic_table,
    levels_table,
    paired_table,
    study_tables,
    unfinished_table,
)
from lasthop.report.trace import trace_figure
from lasthop.summary import extra_columns

_MAX_BOX_FIGURES = 24
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


@dataclass(frozen=True, slots=True)
class Results:
    """Everything a report is made of. `comparison` and `assets` are there for a study with published numbers."""

    campaign: Campaign
    flows: pl.DataFrame
    summary: pl.DataFrame
    assets: Assets | None = None
    comparison: pl.DataFrame | None = None
    agreement: Sequence[Agreement] = field(default_factory=list)

    @property
    def presentation(self) -> Presentation:
        """The study's presentation, or a plain one that compares the levels of the last factor.

        A factor that the published numbers do not know is what is compared.
        """
        factors = self.campaign.plan.study.factors
        if self.assets is not None:
            presentation = self.assets.presentation
            extra = self.assets.extra_factors(factors)
            return (
                replace(presentation, factor=extra[-1], references=tuple(factors[extra[-1]])) if extra else presentation
            )
        last = next((f for f in reversed(factors) if len(factors[f]) > 1), None)
        return Presentation(factor=last, references=tuple(factors[last]) if last else ())


def _box_factor(results: Results) -> tuple[str | None, list[str]]:
    factors = list(results.campaign.plan.study.factors)
    compared = results.presentation.factor
    if compared not in factors:
        compared = factors[-1] if factors else None
    return compared, [factor for factor in factors if factor != compared]


def box_figures(results: Results) -> Iterator[FigureView]:
    """Yield one figure of elapsed times per combination of the factors that are not compared."""
    compared, others = _box_factor(results)
    tcp = results.flows.filter(pl.col("protocol") == "tcp")
    metric, title = ("elapsed_s", "elapsed time (s)")
    if tcp.is_empty():
        tcp, metric, title = results.flows, "throughput_Bps", "throughput (B/s)"
    column = factor_column(compared) if compared else "_all"
    if compared is None:
        tcp = tcp.with_columns(pl.lit("all").alias(column))
    other_columns = [factor_column(other) for other in others]
    groups = tcp.partition_by(other_columns, as_dict=True, maintain_order=True) if others else {(): tcp}
    for group, rows in list(groups.items())[:_MAX_BOX_FIGURES]:
        levels = [str(level) for level in rows[column].unique(maintain_order=True)]
        panels = [
            BoxPanel(
                str(role), values_by_level(part, column, metric), _published_boxes(results, others, group, str(role))
            )
            for (role,), part in sorted(rows.partition_by("role", as_dict=True).items(), key=lambda item: str(item[0]))
        ]
        words = " · ".join(f"{other} {level}" for other, level in zip(others, group, strict=True)) or (
            f"by {compared}" if compared else "all flows"
        )
        yield FigureView(words, "", box_figure(panels, levels, title, results.presentation.percentiles))


def _published_boxes(
    results: Results, others: Sequence[str], group: Sequence[object], role: str
) -> dict[str, dict[str, float]]:
    factor = results.presentation.factor
    if results.assets is None or factor not in results.assets.published.columns:
        return {}
    rows = results.assets.published.filter(
        pl.col("metric") == "elapsed_s",
        pl.col("flow") == role,
        *(
            pl.col(other) == level
            for other, level in zip(others, group, strict=True)
            if other in results.assets.published
        ),
    )
    return published_by_level(rows, factor)


def trace_figures(results: Results) -> Iterator[FigureView]:
    """Yield the illustrated replications: those the study names, else the first of the first cell.

    A cell that was not run is left out. Tracing runs the replication again; it sees the same packets.
    """
    plan = results.campaign.plan
    cells = {cell.key: cell for cell in plan.cells}
    specs = results.presentation.figures or (
        FigureSpec(plan.cells[0].key, 1, "First replication of the first cell", ""),
    )
    for spec in specs:
        cell = cells.get(spec.cell)
        if cell is None or spec.replication > plan.replications:
            continue
        figure = trace_figure(cell.trace(plan.seed, plan.first(1), spec.replication), cell.scenario)
        where = f"{cell.key.replace(',', ', ')}, replication {spec.replication}."
        yield FigureView(spec.title, f"{spec.caption} {where}".strip(), figure)


def _facts(campaign: Campaign) -> list[tuple[str, str]]:
    identity, host, simulated = campaign.manifest["identity"], campaign.manifest["host"], campaign.simulated
    plan = campaign.plan
    sets = f"{plan.sets} sets of {plan.replications}" if plan.sets > 1 else f"1 set of {plan.replications}"
    return [
        ("Scenario", f"{identity['scenario']} (digest {identity['scenario_digest'][:16]})"),
        ("Cells", str(len(plan.cells))),
        ("Replications", f"{sets} per cell, {plan.runs} runs in all"),
        ("Seed", str(plan.seed)),
        ("Engine", f"{identity['engine']} (virtual time)"),
        ("lasthop", f"{identity['lasthop_version']} (commit {identity['lasthop_commit']})"),
        ("Simulation", f"{simulated.runs} runs in {simulated.wall_s:.2f} s of wall time, without analysis and report"),
        ("Host", f"{host['system']}; {host['processor']}, {host['cores']} cores; Python {host['python']}"),
    ]


def _text(name: str) -> str:
    return resources.files("lasthop.report").joinpath(name).read_text(encoding="utf-8")


def _plotly_js() -> bytes:
    source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return source.replace(b"</script", b"<\\/script")


def _agreement_tables(agreement: Sequence[Agreement]) -> list[tuple[str, list[tuple[str, list[Agreement]]]]]:
    """Group by the kind of number: times by scope with their tolerances side by side, then counts by metric.

    With several levels: a table for each kind of number, in which each level has its line.
    """
    if len({row.level for row in agreement}) > 1:
        kinds: dict[str, dict[str, list[Agreement]]] = {}
        for row in agreement:
            scope = "" if row.scope == "all" else f", link {row.scope}"
            kinds.setdefault(row.what.removeprefix("median ") + scope, {}).setdefault(row.level, []).append(row)
        return [(title, list(levels.items())) for title, levels in kinds.items()]
    times: dict[str, list[Agreement]] = {}
    counts: dict[str, list[Agreement]] = {}
    for row in agreement:
        if row.tolerance.endswith("%"):
            times.setdefault("all links" if row.scope == "all" else f"link {row.scope}", []).append(row)
        else:
            counts.setdefault(row.what.removeprefix("median "), []).append(row)
    titled = [("Elapsed time of TCP flows", times), ("Counts, all links", counts)]
    return [(title, list(rows.items())) for title, rows in titled if rows]


def _context(results: Results) -> dict[str, Any]:
    campaign = results.campaign
    study = campaign.plan.study
    factors = list(study.factors)
    extra = extra_columns(factors, results.assets) if results.assets is not None else []
    groups: list[TableGroup]
    if results.assets is None:
        groups = [generic_table(results.summary, results.flows, factors)]
    elif extra and results.comparison is not None:
        groups = [levels_table(results.comparison, extra)]
    else:
        groups = study_tables(results.summary, results.assets)
    paired: TableView | None = paired_table(results.flows, factors, results.presentation, campaign.plan.seed)
    points = results.comparison is not None and published_figure(results.comparison, results.presentation.misprints)
    return {
        "study": study,
        "cells": campaign.plan.cells,
        "first_scenario": json.dumps(json.loads(campaign.plan.cells[0].scenario), indent=2),
        "levels": {
            factor: list(dict.fromkeys(cell.levels[factor] for cell in campaign.plan.cells if factor in cell.levels))
            for factor in factors
        },
        "facts": _facts(campaign),
        "sets": campaign.plan.sets,
        "percentiles": results.presentation.percentiles,
        "compared": results.assets is not None,
        "agreement": _agreement_tables(results.agreement),
        "scatter": FigureView("", "", points) if points else None,
        "boxes": list(box_figures(results)),
        "traces": list(trace_figures(results)),
        "paired": paired,
        "unfinished": unfinished_table(results.flows, factors),
        "groups": groups,
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
