"""The first screen of a report: the question and the answer, in sentences, badges and one chart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from lasthop.answer.differences import Difference, sentences
from lasthop.metrics import units
from lasthop.report import style
from lasthop.report.comparisons import first_place, place
from lasthop.report.curves import curve_figures
from lasthop.report.intervals import minus
from lasthop.report.results import Results, times
from lasthop.report.style import Figure
from lasthop.results.tables import factor_column
from lasthop.studies.claims import NOT_RUN, NOT_UPHELD, UNCOMPUTABLE, UNDECIDED, UPHELD
from lasthop.studies.comparison import Agreement

if TYPE_CHECKING:
    from lasthop.studies.claims.evaluate import Outcome

_SENTENCES = 3
_CHART_PX = 330
_JITTER = 0.5
_MOST, _HALF = 0.8, 0.5
_CLASSES = {UPHELD: "good", NOT_UPHELD: "bad", UNDECIDED: "open", UNCOMPUTABLE: "none", NOT_RUN: "none"}


@dataclass(frozen=True, slots=True)
class Badge:
    """A short verdict that leads to its section; `css` is `good`, `bad`, `open` or `none`."""

    text: str
    css: str
    target: str


def asked(results: Results) -> str:
    """Say in a sentence or two what was varied, what is looked at, and how often it was run."""
    plan = results.campaign.plan
    run = {factor: {cell.levels[factor] for cell in plan.cells if factor in cell.levels} for factor in results.factors}
    varied = [f"{factor} ({len(levels)} levels)" for factor, levels in run.items() if len(levels) > 1]
    each = times(results)
    often = "once" if each == "1" else f"{each} times"
    if not varied:
        return f"One scenario, run {often}."
    # Curves are of short flows; what else there is, is background.
    things = results.things[:1] if results.drawn.curves else results.things
    metrics = [spec.metric for spec in results.drawn.heatmaps] or [thing.metric for thing in things]
    what = list(dict.fromkeys(map(units.label, metrics)))
    verb = "does" if len(varied) == 1 else "do"
    on = f" change {_joined([f'the {name}' for name in what])}" if what else " act"
    return f"How {verb} {_joined(varied)}{on}? {len(plan.cells)} combinations, each run {often}."


def outcome(results: Results, found: Sequence[Difference]) -> list[str]:
    """Say in a few sentences what came out of comparing levels; of a report without comparisons, how values spread."""
    if not found:
        return [sentence for thing in results.things[:1] if (sentence := _spread(results, thing.metric, thing.rows))]
    each = sentences(found)
    if len(each) <= _SENTENCES:
        return each
    groups: dict[tuple[str, str], list[Difference]] = {}
    for one in found:
        groups.setdefault((one.metric, one.factor), []).append(one)
    # The sort is stable: what changes by the same share stays in the order of the scenario.
    ranked = sorted(groups.values(), key=lambda members: -max(map(_weight, members)))
    return [_counts(members) for members in ranked[:_SENTENCES]]


def _weight(one: Difference) -> float:
    return abs(one.relative) if one.significant and math.isfinite(one.relative) else 0.0


def _counts(members: Sequence[Difference]) -> str:
    metric, factor = members[0].metric, members[0].factor
    count = Counter((one.mean > 0) - (one.mean < 0) if one.significant else 0 for one in members)
    references = _joined(list(dict.fromkeys(one.reference for one in members)), "or")
    directions = [f"{word} in {count[sign]}" for sign, word in ((-1, "lower"), (1, "higher")) if count[sign]]
    changed = f"is significantly {' and '.join(directions)}" if directions else "differs significantly in none"
    text = f"Against {factor} = {references}, the {units.label(metric)} {changed} of {len(members)} comparisons."
    most = max(members, key=_weight)
    if not _weight(most):
        return text
    share = minus(f"{100 * most.relative:+.0f} %")
    return (
        f"{text} The largest change is {share}, with {factor} = {most.level} ({place(most)}), "
        f"from a mean of {units.human(metric, most.reference_mean)}."
    )


def _spread(results: Results, metric: str, rows: pl.DataFrame) -> str:
    """Say between which cells the median of a metric spreads."""
    columns = {
        factor_column(factor): factor for factor in results.factors if rows[factor_column(factor)].n_unique() > 1
    }
    keys = [*columns, "role"]
    medians = rows.group_by(keys, maintain_order=True).agg(pl.col(metric).median()).drop_nulls(metric).sort(metric)
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
        f"The {units.label(metric)} lies between {scale.text(low[metric])} ({where(low)}) and "
        f"{scale.text(high[metric])} ({where(high)}), as medians over the replications."
    )


def nothing_sent(results: Results) -> bool:
    """Tell whether no run ever sent a packet."""
    runs = results.tables.runs
    return "packets_sent" in runs.collect_schema() and not runs.select(pl.sum("packets_sent")).collect().item()


def badges(results: Results) -> Iterator[Badge]:
    """Yield verdicts: on the precision that was asked for, on the claims of a study, and on its published numbers."""
    if results.precision is not None:
        until = results.campaign.manifest["until"]
        short, cells = len(until["short"]), len(until["replications"])
        yield Badge(f"{cells - short} of {cells} cells precise", "bad" if short else "good", "precision")
    if results.claims:
        yield _claims_badge(results.claims)
    for row in _widest(results.agreement):
        css = "good" if row.share >= _MOST else "open" if row.share >= _HALF else "bad"
        words = f"{row.what}: {row.hits} of {row.total} within {row.tolerance}"
        yield Badge(words[:1].upper() + words[1:], css, "agreement")


def _claims_badge(claims: Sequence[Outcome]) -> Badge:
    count = Counter(one.verdict for one in claims)
    others = "".join(f", {count[verdict]} {verdict}" for verdict in (NOT_UPHELD, UNDECIDED) if count[verdict])
    text = f"{count[UPHELD]} of {len(claims)} claims upheld{others}"
    css = "bad" if count[NOT_UPHELD] else "good" if count[UPHELD] == len(claims) else "open"
    return Badge(text, css, "claims")


def _widest(agreement: Sequence[Agreement]) -> list[Agreement]:
    """Return the line over all links of each kind of time, rate or ratio, at its widest tolerance."""
    lines = {row.what: row for row in agreement if row.scope == "all" and not row.tolerance.isdigit() and not row.level}
    return list(lines.values())[:3]


def exceptions(claims: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """Return verdict, its class and the words of every claim that is not upheld."""
    return [(one.verdict, _CLASSES[one.verdict], one.claim.text) for one in claims if one.verdict != UPHELD]


def first_curve(results: Results) -> tuple[str, Figure] | None:
    """Return the first metric of the first curves as a figure with its title."""
    if results.tables.shorts is None:
        return None
    for spec in results.drawn.curves:
        metric = next(iter(spec.metrics))
        one = replace(spec, metrics={metric: spec.metrics[metric]})
        shorts = results.tables.shorts.collect()
        for title, figure in curve_figures(shorts, one, results.factors, results.tables.looks):
            return title, figure
    return None


def change_chart(found: Sequence[Difference]) -> Figure:
    """Draw all comparisons as changes in per cent: a panel per metric over the levels, coloured by the first factor."""
    metrics = list(dict.fromkeys(one.metric for one in found))
    groups = list(dict.fromkeys(first_place(one) for one in found))
    data: list[Figure] = []
    axes: Figure = {}
    titles = []
    for index, (metric, domain) in enumerate(zip(metrics, style.columns_of(len(metrics), 0.03), strict=True)):
        ref = style.axis_number(index)
        shown = [one for one in found if one.metric == metric and math.isfinite(one.relative)]
        levels = list(dict.fromkeys(one.level for one in shown))
        for number, group in enumerate(groups):
            own = [one for one in shown if first_place(one) == group]
            panel = {"xaxis": f"x{ref}", "yaxis": f"y{ref}", "showlegend": index == 0 and len(groups) > 1}
            lane = _JITTER * ((number + 0.5) / len(groups) - 0.5)
            data.append(_changes(own, levels, group, lane, number) | panel)
        axes[f"xaxis{ref}"] = style.axis(
            found[0].factor,
            domain=domain,
            anchor=f"y{ref}",
            tickvals=list(range(len(levels))),
            ticktext=levels,
            range=[-0.6, len(levels) - 0.4],
            showgrid=False,
        )
        shared = {"matches": "y", "showticklabels": False} if index else {}
        title = None if index else "change (%)"
        axes[f"yaxis{ref}"] = style.axis(title, anchor=f"x{ref}", zeroline=True, zerolinecolor=style.MUTED, **shared)
        titles.append(style.panel_title(units.label(metric), sum(domain) / 2))
    legend = style.legend_above(_CHART_PX, 26)
    settings = style.layout(_CHART_PX + 120, annotations=titles, legend=legend, **axes)
    settings["margin"] = settings["margin"] | {"t": 70, "b": 50}
    return {"data": data, "layout": settings}


def _changes(own: Sequence[Difference], levels: Sequence[str], group: str, lane: float, look: int) -> Figure:
    color, symbol = (kinds[look % len(kinds)] for kinds in (style.CONTRASTING, style.SYMBOLS))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": group,
        "legendgroup": group,
        "x": [round(levels.index(one.level) + lane, 3) for one in own],
        "y": style.rounded((100 * one.relative for one in own), 2),
        "text": [f"{one.factor} = {one.level}<br>{place(one)}" for one in own],
        "hovertemplate": "%{text}<br>%{y:+.1f} %<extra></extra>",
        "marker": {"color": color, "symbol": symbol, "size": 8, "opacity": 0.8},
    }


def _joined(texts: Sequence[str], word: str = "and") -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"
