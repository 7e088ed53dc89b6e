"""How far a version must exceed a claim's limit to be detected, and by how many replications."""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from lasthop.analysis.claims.evaluate import Outcome, Part, evaluate
from lasthop.analysis.claims.records import Records, Values
from lasthop.campaign.results.manifest import SCENARIO_FILE, finished
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import counted
from lasthop.common.statistics.estimates import OFTEN, student
from lasthop.studies.claims.design import Key
from lasthop.studies.loading import load

_PLANNED = 0.1
"""The difference for which replications are planned, as a share of the right side."""


def detectable(part: Part) -> float | None:
    """Return the difference that a statement's test detects with a probability of 80 %.

    It is a share of the right side; `None` if there is no two-sided interval or no right side.
    """
    interval = part.difference
    if (
        interval is None
        or part.pairs < 2
        or not part.right
        or not math.isfinite(interval.high - interval.low)
    ):
        return None
    half = (interval.high - interval.low) / 2
    return half * (1 + OFTEN / student(part.confidence, part.pairs - 1)) / abs(part.right)


def detects(part: Part) -> str:
    """Describe by how much a version must exceed its limit, the right side, to be detected.

    Empty if it detects any excess, or none.
    """
    least = detectable(part)
    if not least:
        return ""
    text = f"detects {100 * least:.2g} % beyond its limit (with a probability of 80 %)"
    if least <= _PLANNED:
        return text
    needed = math.ceil(part.pairs * (least / _PLANNED) ** 2)
    return f"{text}; {needed} replications detect {100 * _PLANNED:.0f} %"


def uses_baseline(outcome: Outcome) -> bool:
    return any(laid.of_baseline for laid in outcome.claim.holds)


class _OtherSeeds(Records):
    """Records of an equal version with other seeds: each replication has the values of the one before it."""

    def values(self, column: str, flows: tuple[str, ...] | None, key: Key, rows: str = "mean") -> Values:
        return np.roll(super().values(column, flows, key, rows), 1)


def plan_lines(results: Path) -> Iterator[str]:
    """Describe what as many replications with other seeds detect against results with claims."""
    manifest = finished(results)
    file, loaded = Path(manifest.get(SCENARIO_FILE, "")), None
    if file.is_file():
        with suppress(InputError):  # the file may have changed since
            loaded = load(file)
    if loaded is None or loaded.study.digest != manifest["identity"]["scenario_digest"]:
        return
    if (claims := loaded.claims) is None:
        return
    records = Records.read(results, claims.factors)
    other = _OtherSeeds.read(results, claims.factors, beside=records)
    for outcome in evaluate(claims, records, other):
        part = outcome.decisive
        if part is not None and uses_baseline(outcome):
            text = detects(part)
            if text:
                text = f"{counted(part.pairs, 'replication')} with other seeds: {text}"
            if text := text or outcome.reason:
                yield f"{outcome.claim.id}: {text}"
