"""The dossier as text for the terminal, and as a CSV file."""

import csv
from collections.abc import Iterator
from pathlib import Path

from lasthop.analysis.checks.judge import Judged
from lasthop.analysis.claims import UPHELD
from lasthop.analysis.claims.verdicts import place_text
from lasthop.common.files import replace_atomically
from lasthop.evaluate.dossier import Dossier, Judgement
from lasthop.evaluate.rows import TESTED

_WIDTH = 14
COLUMNS = ("section", "scenario", "cell", "control", "tested", "metric", "unit", "value", "low", "high")


def lines(judgement: Judgement) -> Iterator[str]:
    """Yield the verdict on a section, and the numbers behind it."""
    yield f"{judgement.verdict:<{_WIDTH}}{judgement.section.title}"
    for ran in judgement.rows:
        if ran.refused:
            yield f"{'':{_WIDTH}}{ran.row.name}: not run: {ran.refused}"
        yield from (f"{'':{_WIDTH}}{ran.row.name}: left out: {reason}" for reason in ran.row.left_out)
    yield from (f"{'':{_WIDTH}}{text}" for text in short(judgement))


def short(judgement: Judgement) -> list[str]:
    """Return the claims behind a verdict with their values, without formulas, or the cases that failed."""
    failed = [f"{case.case.title}: {fault}" for case in judgement.cases for fault in case.faults]
    refused = sum(1 for case in judgement.cases if case.refused)
    if judgement.cases and not failed:
        failed = [f"all {len(judgement.cases) - refused} cases pass"]
    if refused:
        failed.append(f"{refused} cases were not run, because packets do not decide them")
    return [*(_text(judged) for judged in behind(judgement)), *failed]


def _text(judged: Judged) -> str:
    claim, part = judged.outcome.claim, judged.outcome.decisive
    if part is None or part.left is None or part.right is None:
        return f"{claim.text}: {judged.outcome.reason}"
    place = f", at {place_text(part)}" if part.place else ""
    remark = f" ({judged.outcome.reason})" if judged.outcome.reason else ""
    return f"{claim.text}: {part.left:.3g} versus {part.right:.3g}{place}{remark}"


def behind(judgement: Judgement) -> list[Judged]:
    """Return the claims that are not upheld, or else the claim nearest to failing."""
    claims = [judged for ran in judgement.rows if ran.checked for judged in ran.checked.judged]
    wrong = [judged for judged in claims if judged.outcome.verdict != UPHELD]
    return wrong or sorted(claims, key=_strength)[:1]


def _strength(judged: Judged) -> float:
    return 0.0 if judged.outcome.decisive is None else judged.outcome.decisive.strength


def write_csv(dossier: Dossier, file: Path) -> None:
    """Write a row for each number in each cell, with the ends of its 95 % interval."""

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.writer(opened, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(_rows(dossier))

    replace_atomically(file, write)


def _rows(dossier: Dossier) -> Iterator[tuple[object, ...]]:
    names = dossier.controls
    for judgement in dossier.judgements:
        for ran in judgement.rows:
            for measured in ran.measured:
                for value in measured.values:
                    cell = ",".join(f"{factor}={level}" for factor, level in value.place.items())
                    interval = value.interval
                    ends = (
                        ("", "", "") if interval is None else (interval.estimate, interval.low, interval.high)
                    )
                    yield (
                        judgement.section.id,
                        ran.row.name,
                        cell,
                        names[value.control],
                        value.control == TESTED,
                        measured.number.name,
                        measured.number.unit,
                        *ends,
                    )
