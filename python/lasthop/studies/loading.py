"""A scenario file together with the files in its folder that a run needs."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.scenario.points import read_study
from lasthop.studies.catalogue import SCENARIO_FILE, Assets, list_studies, load_assets, load_drawn
from lasthop.studies.presentation.drawn import Drawn

if TYPE_CHECKING:
    from lasthop.studies.claims.file import Claims


class Loaded(NamedTuple):
    """A scenario, and the contents of its folder's files on its results."""

    study: _core.Study
    assets: Assets | None = None
    claims: Claims | None = None
    drawn: Drawn = Drawn()


def load(file: Path, points: int | None = None) -> Loaded:
    """Read a scenario file and the files in its folder; raise `InputError` or `ScenarioError`.

    `points` replaces the scenario's number of points in its ranges.
    """
    study = read_study(file, points)
    factors = study.factors
    return Loaded(study, load_assets(file, factors), _claims(file, study), load_drawn(file, factors))


def _claims(file: Path, study: _core.Study) -> Claims | None:
    """Read the claims on a scenario; for most, which have none, the module for claims is not loaded."""
    has_file = file.name == SCENARIO_FILE or file.with_suffix(".claims.toml").is_file()
    if not has_file and b"claim" not in _core.read_file(str(file)):
        return None
    from lasthop.studies.claims.file import find_claims

    return find_claims(file, study)


def file_to_run(file: Path) -> Path:
    """Return the file; raise `InputError` for the name of a study, which another command runs."""
    if file.exists() or file.suffix:
        return file
    studies = list_studies()
    if str(file) in studies:
        raise InputError(f"{file} is a published study, not a file: run it with 'lasthop study run {file}'.")
    if near := difflib.get_close_matches(str(file), studies, n=1):
        raise InputError(f"There is no file {file}; did you mean the study: 'lasthop study run {near[0]}'?")
    return file
