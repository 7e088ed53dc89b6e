"""`mechanisms.toml` of the studies: the whole study again for each examined rule."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lasthop import _core
from lasthop.analysis.claims.readings import load_readings

STUDIES = Path(__file__).resolve().parents[3] / "studies"
FILES = {file.parent.name: file for file in sorted(STUDIES.glob("*/mechanisms.toml"))}
LONG = pytest.mark.long(covers=("studies/iip2004", "crates/lasthop-scenario"), seconds=5)


def test_four_studies_have_mechanisms() -> None:
    assert [*FILES] == ["atmf1998", "iip2004", "kulve2003", "saarto2003"]


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(counts, id=name, marks=LONG if name == "iip2004" else ())
        for name, counts in FILES.items()
    ],
)
def test_each_level_has_all_cells_changes_some_and_is_counted_once(file: Path) -> None:
    study = {cell.key: cell.scenario for cell in _core.load(str(file.with_name("study.toml"))).cells}
    mechanisms = _core.load(str(file))
    levels = mechanisms.factors["mechanism"]
    changed: Counter[str] = Counter()
    cells = 0
    for cell in mechanisms.cells:
        key, _, level = cell.key.rpartition(",mechanism=")
        changed[level] += cell.scenario != study[key]
        cells += 1
    assert cells == len(study) * len(levels)
    assert [level for level in levels if not changed[level]] == ["adopted"]
    readings = load_readings(file.with_name("readings.toml"), mechanisms)
    assert [reading.where["mechanism"] for reading in readings] == levels
