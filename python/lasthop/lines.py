"""A number of a study's tables, and its unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """What a table says of a flow: a statistic of a metric, over that many replications.

    `levels` are those of factors of which the table has several levels.
    """

    flow: str
    direction: str
    metric: str
    statistic: str
    value: float
    replications: int
    unit: str
    levels: Mapping[str, str] = field(default_factory=dict)


def unit_of(metric: str) -> str:
    """Return the unit that the name of a column of the records states."""
    for suffix, unit in (("_Bps", "B/s"), ("_ms", "ms"), ("_s", "s"), ("_bytes", "B"), ("_acks", "acks")):
        if metric.endswith(suffix):
            return unit
    if metric.endswith("_packets") or "_drops_" in metric or "_marks_" in metric or "retransmissions" in metric:
        return "packets"
    ratio = metric in ("efficiency", "utilisation") or metric.startswith("fairness_") or "_per_" in metric
    return "ratio" if ratio else ""
