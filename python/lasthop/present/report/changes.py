"""Comparisons of levels on the first screen of a report: a few sentences and a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lasthop.common.html import style
from lasthop.common.html.style import Figure, Part
from lasthop.common.metrics import units
from lasthop.present.answer.differences import Difference
from lasthop.present.answer.words import sentences
from lasthop.present.report.comparisons import first_place, place

_SENTENCES = 4
_CHART_PX = 330
_JITTER = 0.5


def in_sentences(diffs: Sequence[Difference]) -> list[str]:
    """Return sentences on the most important differences, and on the number of the others."""
    each = sentences(diffs)
    more = len(each) - _SENTENCES
    return each if more <= 0 else [*each[:_SENTENCES], f"{more} more: see Paired differences below."]


def change_chart(diffs: Sequence[Difference]) -> Figure:
    """Draw all comparisons as changes in per cent, a panel per metric, coloured by the first factor.

    Changes of scores are in points, on separate axes.
    """
    metrics = list(dict.fromkeys(diff.metric for diff in diffs))
    groups = list(dict.fromkeys(first_place(diff) for diff in diffs))
    in_percent = [metric for metric in metrics if metric not in units.SCORES]
    gap = 0.03 if len(in_percent) == len(metrics) else 0.1
    drawn = style.Panels(len(metrics), len(metrics), gap)
    for index, metric in enumerate(metrics):
        shown = [diff for diff in diffs if diff.metric == metric and math.isfinite(_change(diff))]
        levels = list(dict.fromkeys(diff.level for diff in shown))
        traces = []
        for number, group in enumerate(groups):
            own = [diff for diff in shown if first_place(diff) == group]
            lane = _JITTER * ((number + 0.5) / len(groups) - 0.5)
            named = {"showlegend": index == 0 and len(groups) > 1}
            traces.append(_changes(own, levels, group, lane, number) | named)
        shared: Part = {}
        title: str | None = "change (points)" if metric in units.SCORES else "change (%)"
        if metric in in_percent[1:]:
            first = style.axis_number(metrics.index(in_percent[0]))
            title, shared = None, {"matches": f"y{first}", "showticklabels": False}
        x = style.levels_axis(diffs[0].factor, levels, 0.6)
        y = style.axis(title, zeroline=True, zerolinecolor=style.MUTED, **shared)
        drawn.draw(index, traces, x, y, units.label(metric))
    return drawn.figure(_CHART_PX, {"t": 70, "b": 50})


def _change(diff: Difference) -> float:
    """Return a change in the drawn unit: points for scores, otherwise per cent."""
    if diff.metric in units.SCORES:
        return diff.mean * units.scale_of(diff.metric, [diff.mean]).factor
    return 100 * diff.relative


def _changes(own: Sequence[Difference], levels: Sequence[str], group: str, lane: float, look: int) -> Part:
    unit = "points" if own and own[0].metric in units.SCORES else "%"
    return style.marked(group, look, {"size": 8, "opacity": 0.8}) | {
        "mode": "markers",
        "x": [round(levels.index(diff.level) + lane, 3) for diff in own],
        "y": style.rounded(map(_change, own), 2),
        "text": [f"{diff.factor} = {diff.level}\n{place(diff)}" for diff in own],
        "hovertemplate": f"%{{text}}\n%{{y:+.3~g}} {unit}<extra></extra>",
    }
