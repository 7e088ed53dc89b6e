"""Captions: what a picture shows, and of which runs. They stand in a file of their own, or nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from lasthop import _core
from lasthop.campaign.plan import Plan
from lasthop.metrics.units import listed
from lasthop.pictures.shapes import Panel


def made_by(plan: Plan) -> str:
    """Name the seed and the engine of a plan's runs."""
    return f"seed {plan.seed}, {plan.engine.name} engine, lasthop {_core.VERSION}"


def caption(panels: Sequence[Panel], source: str, notes: Sequence[str]) -> str:
    """Say what panels show, which runs are the `source`, and what the notes say."""
    over_time = list(dict.fromkeys(panel.label for panel in panels if not panel.across))
    shows = [f"{listed(over_time)} over time"] if over_time else []
    shows += [f"{panel.label} against {panel.across}" for panel in panels if panel.across]
    sentence = "; ".join(shows)
    return " ".join([f"{sentence[:1].upper()}{sentence[1:]}.", f"{source}.", *notes])
