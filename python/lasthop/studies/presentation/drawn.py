"""The figures that a study draws of its results.

This is separate from the classes of the keys of `report.toml`, which take long to load and which most
scenarios do not need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lasthop.studies.presentation.spec import CurvesSpec, HeatmapSpec

PRESENTATION_FILE = "report.toml"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The figures that a study draws instead of the default ones."""

    curves: tuple[CurvesSpec, ...] = ()
    heatmaps: tuple[HeatmapSpec, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.curves or self.heatmaps)
