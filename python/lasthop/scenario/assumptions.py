"""The assumptions that lasthop makes for keys that a scenario does not state."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from lasthop import _core


class Assumption(NamedTuple):
    """A key that is not stated, its assumed value, the reason, and the number of affected cells."""

    key: str
    value: str
    why: str
    cells: int


def assumptions(study: _core.Study, cells: Sequence[_core.Cell]) -> list[Assumption]:
    """Return the assumptions of the study and of these cells, without duplicates."""
    counted = Counter(assumed for cell in cells for assumed in cell.assumed)
    of_study = [Assumption(*assumed, len(cells)) for assumed in study.assumed]
    return of_study + [Assumption(*assumed, count) for assumed, count in counted.items()]


def for_manifest(study: _core.Study, cells: Sequence[_core.Cell]) -> list[dict[str, object]]:
    """Return the assumptions as JSON."""
    return [assumption._asdict() for assumption in assumptions(study, cells)]
