"""Logarithmic axes with plain numbers at their ticks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lasthop.common.errors import InputError, nearest

if TYPE_CHECKING:
    from matplotlib.axis import Axis

AXES = ("x", "y", "xy")
"""The axes that `--log` makes logarithmic."""
_MANY_DECADES = 2.0
_FEW_DECADES = 0.7


def check_log(log: str | None) -> str:
    """Return the axes in `--log`, or an empty text. Raises `InputError` for other texts."""
    if log not in (None, *AXES):
        raise InputError(f"--log {log}: did you mean '{nearest(log, AXES)}'? Axes: {', '.join(AXES)}.")
    return log or ""


def make_logarithmic(axis: Axis, ends: tuple[float, float] | None = None) -> None:
    """Make an axis logarithmic, between two ends or those of its values, with plain numbers at its ticks."""
    from matplotlib.ticker import AutoLocator, FuncFormatter, LogLocator, NullFormatter

    axes = axis.axes
    is_x = axis is axes.xaxis
    # A step to 0, which has no logarithm, is drawn to the edge.
    (axes.set_xscale if is_x else axes.set_yscale)("log", nonpositive="clip")
    if ends is not None:
        (axes.set_xlim if is_x else axes.set_ylim)(*ends)
    low, high = axes.get_xlim() if is_x else axes.get_ylim()
    decades = math.log10(high / low)
    if decades < _FEW_DECADES:
        axis.set_major_locator(AutoLocator())
    else:
        axis.set_major_locator(LogLocator(subs=(1.0,) if decades > _MANY_DECADES else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
