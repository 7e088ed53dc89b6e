"""Forest plots for papers, by matplotlib: paired differences from a reference level with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.common.metrics.units import Scale, label, scale_of
from lasthop.present.answer.paired import Compare, Comparison, correction
from lasthop.present.answer.paired_show import bracketed, varying_cases
from lasthop.present.pictures.marks import GREY
from lasthop.present.pictures.static import (
    PAGE,
    WIDTHS_IN,
    finish_grid,
    level_look,
    name_levels,
    new_grid,
    save,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SHOWN = 240
"""The largest number of comparisons in a picture."""
_ONE_PANEL = 30
"""With more comparisons, each level of the first other factor has a panel."""
_ROW_IN = 0.13
_GAP_ROWS = 0.6
"""Gap between two cases."""
_AXIS_IN = 1.4
"""Width of the axis title if two panels are side by side."""
_PANEL_IN = 0.6
"""Height of a panel's title and axis."""


def draw_forest(compared: Compare, path: Path, file_format: str) -> None:
    """Draw comparisons into the file `path`, as wide as a page of a paper."""
    save(lambda: forest_figure(compared), path, file_format)


def forest_caption(compared: Compare) -> str:
    return " ".join(
        [
            f"Differences of {label(compared.metric)} from {compared.factor} = {compared.reference}.",
            *_notes(compared),
        ]
    )


def forest_figure(compared: Compare, *, noted: bool = True) -> Figure:
    """Return the figure: a row per comparison, a colour per level, hollow marks where p is not below 0.05.

    If `noted`, the notes are below.
    """
    rows = compared.comparisons[:MOST_SHOWN]
    panels = _panels(rows)
    across = min(len(panels), 2)
    down = math.ceil(len(panels) / across)
    looks = _looks(rows)
    notes = wrapped(_notes(compared), WIDTHS_IN[PAGE]) if noted else []
    bands = list(panels.values())
    heights_in_rows = [max(map(_rows_of, bands[row * across : (row + 1) * across])) for row in range(down)]
    heights = [_PANEL_IN + _ROW_IN * count for count in heights_in_rows]
    figure, grid = new_grid(PAGE, len(panels), across, {"height_ratios": heights})
    scale = scale_of(compared.metric, [end for row in rows for end in _ends(row)])
    for place, (axes, title, cases) in enumerate(zip(grid, panels, bands, strict=True)):
        _draw_panel(axes, cases, looks, scale, numbers=across == 1)
        # All panels in a row of the grid have equally high rows.
        axes.set_ylim(heights_in_rows[place // across] - 0.5, -1.0)
        axes.set_title(title, fontsize=8)
        if place + across >= len(panels):
            axes.set_xlabel(
                "\n".join(wrapped([_axis_title(compared, looks, scale)], _AXIS_IN if across > 1 else 5))
            )
    # A single level is named by the axis.
    legend_rows = name_levels(figure, compared.factor, looks) if len(looks) > 1 else 0
    finish_grid(figure, sum(heights) + 0.3, legend_rows, notes)
    return figure


def _ends(row: Comparison) -> tuple[float, float, float]:
    return row.difference.mean, row.difference.low, row.difference.high


def _panels(rows: Sequence[Comparison]) -> dict[str, dict[str, list[Comparison]]]:
    """Return the comparisons by panel and case; the keys are their titles."""
    varying = varying_cases(rows)
    by_panel = varying[:1] if len(rows) > _ONE_PANEL and len(varying) > 1 else []
    panels: dict[str, dict[str, list[Comparison]]] = {}
    for row in rows:
        title = ", ".join(f"{name} = {row.case[name]}" for name in by_panel)
        case = " · ".join(row.case[name] for name in varying if name not in by_panel)
        panels.setdefault(title, {}).setdefault(case, []).append(row)
    return panels


def _rows_of(cases: Mapping[str, Sequence[Comparison]]) -> float:
    return sum(len(own) + _GAP_ROWS for own in cases.values())


def _looks(rows: Sequence[Comparison]) -> dict[str, dict[str, Any]]:
    levels = dict.fromkeys(row.difference.level for row in rows)
    return {
        level: level_look(place) | {"linestyle": "none", "markersize": 3.4}
        for place, level in enumerate(levels)
    }


def _draw_panel(
    axes: Axes,
    cases: Mapping[str, Sequence[Comparison]],
    looks: Mapping[str, Mapping[str, Any]],
    scale: Scale,
    *,
    numbers: bool,
) -> None:
    """Draw the rows of a panel from the top, with their numbers on the right if `numbers`."""
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)
    # An unbounded end is drawn at the largest finite end.
    last = max(
        (high for own in cases.values() for row in own if math.isfinite(high := _ends(row)[2])), default=0.0
    )
    top, middles = 0.0, []
    for own in cases.values():
        for offset, row in enumerate(own):
            look = looks[row.difference.level]
            mean, low, high = (min(end, max(last, _ends(row)[0])) * scale.factor for end in _ends(row))
            has_interval = math.isfinite(low)
            axes.errorbar(
                [mean],
                [top + offset],
                xerr=[[mean - low], [high - mean]] if has_interval else None,
                markerfacecolor=look["color"] if row.difference.significant else "white",
                markeredgewidth=0.7,
                elinewidth=0.9,
                **look,
            )
            if numbers:
                text = bracketed(scale, *_ends(row))
                axes.text(
                    1.02, top + offset, text, transform=axes.get_yaxis_transform(), fontsize=6.5, va="center"
                )
        middles.append(top + (len(own) - 1) / 2)
        top += len(own) + _GAP_ROWS
    axes.set_yticks(middles, list(cases))
    axes.tick_params(axis="y", length=0)


def _axis_title(compared: Compare, looks: Mapping[str, object], scale: Scale) -> str:
    unit = f" ({scale.unit})" if scale.unit else ""
    level = f" of {next(iter(looks))}" if len(looks) == 1 else ""
    return f"{label(compared.metric)}: difference{level} from {compared.factor} = {compared.reference}{unit}"


def _notes(compared: Compare) -> list[str]:
    sizes = [row.difference.pairs for row in compared.comparisons]
    count = str(min(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    notes = [
        f"Means of {count} paired differences with 95 % confidence intervals (Student's t). Filled: p < 0.05 "
        f"in the paired t test{' of logarithms' if compared.by_ratios else ''}, {correction(compared)}."
    ]
    if len(compared.comparisons) > MOST_SHOWN:
        notes.append(
            f"The first {MOST_SHOWN} of {len(compared.comparisons)} comparisons are shown; select others "
            "with --only."
        )
    return notes
