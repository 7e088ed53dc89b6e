"""The figures that a study draws of its results.

Most scenarios have no `report.toml`: they need this, and none of the classes of its keys, which take long to
load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lasthop.studies.presentation.spec import CurvesSpec, HeatmapSpec

PRESENTATION_FILE = "report.toml"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The figures of results that a study asks for in place of the figures of every report."""

    curves: tuple[CurvesSpec, ...] = ()
    heatmaps: tuple[HeatmapSpec, ...] = ()

    def __bool__(self) -> bool:
        """Whether it asks for any."""
        return bool(self.curves or self.heatmaps)
