"""What comparisons of levels say on the first screen of a report: a few sentences and one chart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from lasthop.answer.differences import Difference, sentences
from lasthop.metrics import units
from lasthop.report import style
from lasthop.report.comparisons import first_place, place
from lasthop.report.intervals import minus
from lasthop.report.overview import joined
from lasthop.report.style import Figure

_SENTENCES = 3
_CHART_PX = 330
_JITTER = 0.5


def in_sentences(found: Sequence[Difference]) -> list[str]:
    """Tell each difference, or if there are many, how many of which there are."""
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
    references = joined(list(dict.fromkeys(one.reference for one in members)), "or")
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
        "text": [f"{one.factor} = {one.level}\n{place(one)}" for one in own],
        "hovertemplate": "%{text}\n%{y:+.1f} %<extra></extra>",
        "marker": {"color": color, "symbol": symbol, "size": 8, "opacity": 0.8},
    }
