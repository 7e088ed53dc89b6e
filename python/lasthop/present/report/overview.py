"""The first screen of a report: the question and the answer in sentences, badges and a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from lasthop.analysis.claims import NOT_UPHELD, UNDECIDED, UPHELD
from lasthop.analysis.claims.answers import failing_first
from lasthop.analysis.findings.findings import Findings, times
from lasthop.campaign.results.tables import factor_column
from lasthop.common.html.style import Figure
from lasthop.common.metrics import units

if TYPE_CHECKING:
    from lasthop.analysis.studies.comparison import Agreement

_MOST, _HALF = 0.8, 0.5


@dataclass(frozen=True, slots=True)
class Badge:
    """A short verdict that links to its section; `css` is `good`, `bad`, `open` or `none`."""

    text: str
    css: str
    target: str


def question(findings: Findings) -> str:
    """Return the question: which factors vary, which metrics are compared, and the number of runs."""
    plan = findings.campaign.plan
    run = {
        factor: {cell.levels[factor] for cell in plan.cells if factor in cell.levels}
        for factor in findings.factors
    }
    varied = [f"{factor} ({len(levels)} levels)" for factor, levels in run.items() if len(levels) > 1]
    each = times(findings)
    often = "once" if each == "1" else f"{each} times"
    if not varied:
        return f"A single scenario, run {often}."
    # If there are curves, they are about short flows, and other traffic is background.
    things = findings.things[:1] if findings.drawn.curves else findings.things
    metrics = [spec.metric for spec in findings.drawn.heatmaps] or [thing.metric for thing in things]
    what = list(dict.fromkeys(map(units.label, metrics)))
    verb = "does" if len(varied) == 1 else "do"
    on = f" change {units.listed([f'the {name}' for name in what])}" if what else " act"
    return f"How {verb} {units.listed(varied)}{on}? {len(plan.cells)} combinations, each run {often}."


def spread(findings: Findings) -> list[str]:
    """Return a sentence on the range of the first metric's medians over cells; none without values."""
    return [
        sentence for thing in findings.things[:1] if (sentence := _spread(findings, thing.metric, thing.rows))
    ]


def _spread(findings: Findings, metric: str, rows: pl.DataFrame) -> str:
    columns = {
        factor_column(factor): factor
        for factor in findings.factors
        if rows[factor_column(factor)].n_unique() > 1
    }
    keys = [*columns, "role"]
    medians = (
        rows.group_by(keys, maintain_order=True).agg(pl.col(metric).median()).drop_nulls(metric).sort(metric)
    )
    if medians.is_empty():
        return ""
    low, high = (medians.row(row, named=True) for row in (0, -1))
    scale = units.scale_of(metric, [high[metric]])
    roles = rows["role"].n_unique() > 1

    def where(row: Mapping[str, object]) -> str:
        who = [str(row["role"])] if roles else []
        return ", ".join([*who, *(f"{factor} = {row[column]}" for column, factor in columns.items())])

    if medians.height == 1:
        return f"The {units.label(metric)} is {scale.text(low[metric])} (median over the replications)."

    return (
        f"The {units.label(metric)} ranges from {scale.text(low[metric])} ({where(low)}) to "
        f"{scale.text(high[metric])} ({where(high)}) (medians over the replications)."
    )


def nothing_sent(findings: Findings) -> bool:
    """Return whether no run sent a packet."""
    runs = findings.tables.runs
    return (
        "packets_sent" in runs.collect_schema() and not runs.select(pl.sum("packets_sent")).collect().item()
    )


def badges(findings: Findings) -> Iterator[Badge]:
    """Yield verdicts on the requested precision, on a study's claims, and on its published numbers."""
    if findings.precision is not None:
        until = findings.campaign.manifest["until"]
        short, cells = len(until["short"]), len(until["replications"])
        yield Badge(f"{cells - short} of {cells} cells precise", "bad" if short else "good", "precision")
    if findings.claims:
        yield _claims_badge(findings)
    for row in _widest(findings.agreement):
        css = "good" if row.share >= _MOST else "open" if row.share >= _HALF else "bad"
        words = f"{row.what}: {row.hits} of {row.total} within {row.tolerance}"
        yield Badge(words[:1].upper() + words[1:], css, "agreement")


def _claims_badge(findings: Findings) -> Badge:
    what = "statements" if findings.answers else "claims"
    verdicts = [item.verdict for item in findings.answers or findings.claims]
    count = Counter(verdicts)
    others = "".join(f", {count[verdict]} {verdict}" for verdict in (NOT_UPHELD, UNDECIDED) if count[verdict])
    text = f"{count[UPHELD]} of {len(verdicts)} {what} upheld{others}"
    css = "bad" if count[NOT_UPHELD] else "good" if count[UPHELD] == len(verdicts) else "open"
    return Badge(text, css, "claims")


def _widest(agreement: Sequence[Agreement]) -> list[Agreement]:
    """Return the row over all links for each kind of time, rate or ratio, at its widest tolerance."""
    lines = {
        row.what: row
        for row in agreement
        if row.scope == "all" and not row.tolerance.isdigit() and not row.level
    }
    return list(lines.values())[:3]


def exceptions(findings: Findings) -> list[tuple[str, str]]:
    """Return verdict and text of every statement (or else claim) that is not upheld."""
    if findings.answers:
        words = [(item.verdict, item.sentence.text) for item in failing_first(findings.answers)]
    else:
        words = [(item.verdict, item.claim.text) for item in findings.claims]
    return [(verdict, text) for verdict, text in words if verdict != UPHELD]


def first_curve(findings: Findings) -> tuple[str, Figure] | None:
    """Return the first metric of the first curves as a figure with its title."""
    if findings.tables.shorts is None:
        return None
    from lasthop.present.report.curves import curve_figures

    for spec in findings.drawn.curves:
        metric = next(iter(spec.metrics))
        single = replace(spec, metrics={metric: spec.metrics[metric]})
        shorts = findings.tables.shorts.collect()
        for title, figure in curve_figures(shorts, single, findings.factors, findings.tables.looks):
            return title, figure
    return None
