"""Reading a scenario, and sampling points of its ranges, which are factors with levels between two numbers.

A point assigns a level to every range. Its cells combine the point with the named levels of the other
factors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lasthop import _core
from lasthop.common.errors import InputError

if TYPE_CHECKING:
    import polars as pl

KEY: Final = "space"
"""The key of a manifest."""


def draw(method: str, points: int, dimensions: int, seed: int) -> list[list[float]]:
    """Sample points, as rows of numbers from 0 to 1, with scipy's quasi-Monte Carlo engines.

    `method` is `sobol`, a scrambled sequence to which points can be added, or `latin-hypercube`.
    """
    import numpy as np
    from scipy.stats import qmc  # loaded late: it needs 50 MB

    generator = np.random.default_rng(seed)
    engine = qmc.Sobol if method == "sobol" else qmc.LatinHypercube
    with warnings.catch_warnings():
        # The scenario has its own note on numbers of points that are not powers of two.
        warnings.simplefilter("ignore", UserWarning)
        rows: list[list[float]] = engine(dimensions, rng=generator).random(points).tolist()
    return rows


def read_study(file: Path, points: int | None = None, *, for_link: bool = False) -> _core.Study:
    """Read a scenario file and sample the points of its ranges; `points` replaces the file's number of them.

    The file's seed determines the points. With `for_link`, a file without flows gets a download. Raises
    `ScenarioError`, or `InputError` for `points` without a range.
    """
    if not file.exists():
        _check_no_example(file)
    study = _core.load(str(file), points, draw, for_link)
    _check_code(study, str(file), file.parent)
    if points is not None and study.space is None:
        raise InputError(
            f"--points {points}: no factor of {file} is a range. A range has the keys from, to and sets."
        )
    return study


def parse_study(text: str) -> _core.Study:
    """Read the text of a scenario, which is named `scenario` in errors; see `read_study`."""
    study = _core.parse(text, "scenario", draw)
    _check_code(study, "scenario", Path())
    return study


def parse_in_place(text: str, file: Path, files: list[str], code: Sequence[str]) -> _core.Study:
    """Read a text instead of a file's, as `read_study` does; it may use only these files and this code."""
    study = _core.parse(text, str(file), draw, files)
    foreign = [(key, name) for key, name in study.code if name not in code]
    if foreign:
        lines = [
            f"{file}: `{key}`: {name!r} is not code of the scenario that was opened" for key, name in foreign
        ]
        raise InputError("\n".join(lines))
    _check_code(study, str(file), file.parent)
    return study


def _check_no_example(file: Path) -> None:
    """Raise `InputError` if a missing file has the name of an example."""
    from lasthop.scenario.examples import list_examples

    if file.stem in list_examples():
        raise InputError(f"There is no file {file}. To copy the example: lasthop example copy {file.stem}.")


def _check_code(study: _core.Study, name: str, folder: Path) -> None:
    """Raise `InputError` if user code that a study names does not exist; the code is not executed."""
    if not study.code:
        return
    from lasthop.common.algorithms import check_all

    check_all(study.code, name, folder)


def factors_of(cells: Iterable[_core.Cell]) -> list[str]:
    """Return the factors of cells, in order."""
    return list(dict.fromkeys(factor for cell in cells for factor in cell.levels))


def level_column(name: str, factor: str, cells: Sequence[_core.Cell]) -> pl.Series:
    """Return the level of a factor in each cell, which are numbers for a range and names otherwise."""
    import polars as pl

    points = [cell.point for cell in cells]
    if any(factor in point for point in points):
        return pl.Series(name, [point.get(factor) for point in points])
    return pl.Series(name, [cell.levels.get(factor) for cell in cells], dtype=pl.String)


def for_manifest(
    study: _core.Study, cells: Sequence[_core.Cell], column: Callable[[str], str]
) -> dict[str, object]:
    """Return a manifest's facts about ranges: the sample, and for each range its column and levels by name.

    Without ranges, there are none. `column` returns the column of a factor.
    """
    if (space := study.space) is None:
        return {}
    named = {
        name: {cell.levels[name]: cell.point[name] for cell in cells if name in cell.point}
        for name in space["ranges"]
    }
    ranges = {
        name: {"column": column(name), **facts, "levels": named[name]}
        for name, facts in space["ranges"].items()
    }
    return {KEY: {**space, "ranges": ranges}}
