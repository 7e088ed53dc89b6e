"""Check the claims of a study on a finished results folder, for the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop import _core
from lasthop.analysis.claims import NOT_UPHELD, UPHELD, VERDICTS
from lasthop.analysis.claims.answers import Answer, answers
from lasthop.analysis.claims.evaluate import Outcome, evaluate
from lasthop.analysis.claims.readings import READINGS_FILE, Judged, Reading, load_readings
from lasthop.analysis.claims.records import Records
from lasthop.analysis.claims.standing import standing
from lasthop.analysis.claims.verdicts import figure, place_text
from lasthop.campaign.results.manifest import finished
from lasthop.common.errors import InputError, nearest
from lasthop.scenario.points import read_study
from lasthop.studies.catalogue import SCENARIO_FILE, find_study, list_studies, load_assets
from lasthop.studies.claims.file import CLAIMS_FILE, Claims, claims_file, find_claims, load_claims

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {UPHELD: "green", NOT_UPHELD: "red"}


def check(
    folder: Path, scenario: Path | None, reading: str | None = None
) -> tuple[list[Outcome], list[Answer]]:
    """Evaluate the claims on a scenario file, by default the file of the results.

    `reading` is the id of one of its readings; by default `claims.toml` is taken literally. Return the
    outcomes, and their answers to the source's statements.

    Raises InputError if the folder contains no finished results, or results of another scenario.
    """
    file, study = _scenario(folder, scenario)
    if reading is None:
        claims = _claims(file, study)
    else:
        readings = {reading.id: reading.claims for reading in _readings(file, study)}
        if reading not in readings:
            near = nearest(reading, readings)
            raise InputError(f"--reading {reading}: no reading has this id; did you mean '{near}'?")
        claims = readings[reading]
    return _judge(claims, Records.read(folder, claims.factors))


def check_readings(folder: Path, scenario: Path | None) -> list[Judged]:
    """Evaluate the claims under each reading of a scenario file, as `check` does.

    If the source has published numbers, count for each reading how many of them hold. These counts depend on
    the reading's levels only, not on its metrics, replications or `judged_by`.
    """
    file, study = _scenario(folder, scenario)
    readings, factors = _readings(file, study), list(study.factors)
    assets = load_assets(file, factors)
    numbers = {} if assets is None else standing(folder, factors, assets)
    extra = [] if assets is None else assets.extra_factors(factors)
    records = Records.read(folder, factors)
    return [
        Judged(
            reading,
            *_judge(reading.claims, records),
            numbers.get(tuple(str(reading.where.get(factor)) for factor in extra)),
        )
        for reading in readings
    ]


def _scenario(folder: Path, scenario: Path | None) -> tuple[Path, _core.Study]:
    manifest = finished(folder)
    identity = manifest["identity"]
    if scenario is not None:
        file = scenario
    elif identity["scenario"] in list_studies():
        file = find_study(identity["scenario"]) / SCENARIO_FILE
    elif not (file := Path(manifest.get("scenario_file", ""))).is_file():
        raise InputError(
            f"{folder} contains results of '{identity['scenario']}', whose file no longer exists: give "
            "--scenario FILE."
        )
    study = read_study(file)
    if study.digest != identity["scenario_digest"]:
        raise InputError(
            f"{folder} contains results of a different scenario than {file}, or of a different version of "
            "it. Run it again into another folder, or give the right file with --scenario FILE."
        )
    return file, study


def _claims(file: Path, study: _core.Study) -> Claims:
    """Read the claims on a scenario, by default those in its folder."""
    if (claims := find_claims(file, study)) is not None:
        return claims
    if not claims_file(file).is_file():
        raise InputError(
            f"There are no claims on {file}: it has no [[claim]], and its folder has neither "
            f"{file.with_suffix(f'.{CLAIMS_FILE}').name} nor {CLAIMS_FILE}."
        )
    return load_claims(claims_file(file), study)


def _readings(file: Path, study: _core.Study) -> list[Reading]:
    place = claims_file(file).with_name(READINGS_FILE)
    if not place.is_file():
        raise InputError(f"There are no readings of {file}: its folder has no {READINGS_FILE}.")
    return load_readings(place, study)


def _judge(claims: Claims, records: Records) -> tuple[list[Outcome], list[Answer]]:
    outcomes = evaluate(claims, records)
    return outcomes, answers(claims.sentences, outcomes)


def choose(outcomes: Sequence[Outcome], only: Sequence[str], verdicts: Sequence[str]) -> list[Outcome]:
    """Return the outcomes with these ids and verdicts; by default all of them."""
    ids = [outcome.claim.id for outcome in outcomes]
    wanted = [name.strip() for text in only for name in text.split(",")]
    for name in wanted:
        if name not in ids:
            raise InputError(f"--only {name}: no claim has this id; did you mean '{nearest(name, ids)}'?")
    return [
        outcome
        for outcome in outcomes
        if (not wanted or outcome.claim.id in wanted) and (not verdicts or outcome.verdict in verdicts)
    ]


def show(outcomes: Sequence[Outcome]) -> None:
    """Print a line for each claim, with the numbers of its decisive part."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("claim", "verdict"):
        table.add_column(title, no_wrap=True)
    for title in ("left", "right", "difference", "95 % interval", "cells upheld"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("statement", no_wrap=True)
    for outcome in outcomes:
        part, style = outcome.decisive, _STYLES.get(outcome.verdict, "")
        verdict = Text(outcome.verdict, style=style)
        if part is None:
            table.add_row(outcome.claim.id, verdict, "", "", "", "", "", Text(outcome.reason))
            continue
        interval = part.difference
        upheld = sum(cell.verdict == UPHELD for cell in outcome.cells)
        place = f" at {place_text(part)}" if part.place else ""
        about = f" [{outcome.claim.where}]" if outcome.claim.where else ""
        table.add_row(
            outcome.claim.id,
            verdict,
            figure(part.left),
            figure(part.right),
            figure(interval.estimate) if interval else "-",
            f"{figure(interval.low)} .. {figure(interval.high)}" if interval else "-",
            f"{upheld} of {len(outcome.cells)}",
            Text(f"{part.statement}{place}{about}"),
        )
    # Wider than any terminal, so that the terminal wraps long lines.
    Console(width=1000, highlight=False).print(table)


def show_readings(rows: Sequence[Judged]) -> None:
    """Print how many statements (or claims, if there are no statements) have each verdict, by reading.

    A second table counts the published numbers.
    """
    from rich.console import Console

    console = Console(width=1000, highlight=False)
    verdicts = [(row.reading, Counter(item.verdict for item in row.answers or row.outcomes)) for row in rows]
    what = "statements" if any(row.answers for row in rows) else "claims"
    console.print(_counts(what, verdicts))
    numbers = [(row.reading, row.numbers) for row in rows if row.numbers is not None]
    if numbers:
        console.print()
        console.print(_counts("published numbers", numbers))


def _counts(what: str, rows: Sequence[tuple[Reading, Counter[str]]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column(what, no_wrap=True)
    for verdict in VERDICTS[:-1]:
        table.add_column(verdict, justify="right", no_wrap=True)
    table.add_column("reading", no_wrap=True)
    for reading, counts in rows:
        numbers = (str(counts[verdict]) for verdict in VERDICTS[:-1])
        table.add_row(reading.id, *numbers, Text(reading.text))
    return table
