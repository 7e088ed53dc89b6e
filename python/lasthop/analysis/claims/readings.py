"""Alternative readings of a source, from `readings.toml` (`docs/reference/claims.md`)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lasthop.analysis.claims.answers import Answer
from lasthop.analysis.claims.evaluate import Outcome
from lasthop.common.errors import InputError, nearest
from lasthop.studies.claims.design import Design, Scenario
from lasthop.studies.claims.file import (
    CLAIMS_FILE,
    Changes,
    Claims,
    error_at,
    id_pattern,
    load_claims,
    read_toml,
)
from lasthop.studies.claims.language import ClaimError, Vocabulary, parse_metric

READINGS_FILE = "readings.toml"
_TOP = ("where", "reading")
_KEYS = ("id", "text", "where", "metrics", "judged_by")
_MEANS = "means"


@dataclass(frozen=True)
class Reading:
    """A way to read the source: a sentence, the levels that it sets, and the claims according to it."""

    id: str
    text: str
    where: Mapping[str, object]
    claims: Claims


@dataclass(frozen=True)
class Judged:
    """A reading with the outcomes of its claims, and their answers to the source's statements.

    `numbers` counts the verdicts on the published numbers, if the source has any.
    """

    reading: Reading
    outcomes: Sequence[Outcome]
    answers: Sequence[Answer]
    numbers: Counter[str] | None = None


def load_readings(file: Path, study: Scenario) -> list[Reading]:
    """Read the readings of a study. Raises InputError with file, line, reading and reason."""
    text, data = read_toml(file)
    for key in data:
        if key not in _TOP:
            raise InputError(f"{file}: unknown key '{key}'; did you mean '{nearest(key, _TOP)}'?")
    entries = data.get("reading", [])
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{file} contains no reading; each begins with a line [[reading]].")
    readings: list[Reading] = []
    for entry in entries:
        name = entry.get("id", "")
        try:
            changes = _changes(
                data.get("where", {}), entry, [reading.id for reading in readings], Design.of(study)
            )
        except (ClaimError, RecursionError) as error:
            raise error_at(file, text, id_pattern(str(name)), f"reading {name}", str(error)) from None
        readings.append(
            Reading(
                name, entry["text"], changes.where, load_claims(file.with_name(CLAIMS_FILE), study, changes)
            )
        )
    return readings


def _changes(where: object, entry: Mapping[str, object], earlier: Sequence[str], design: Design) -> Changes:
    for key in entry:
        if key not in _KEYS:
            raise ClaimError(f"unknown key '{key}'; did you mean '{nearest(key, _KEYS)}'?")
    for key in ("id", "text"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise ClaimError(f"{key} is missing, empty or not a string.")
    if entry["id"] in earlier:
        raise ClaimError("the id is used twice.")
    together = {**_table(where), **_table(entry.get("where", {}))}
    metrics = _table(entry.get("metrics", {}))
    if entry.get("judged_by", _MEANS) != _MEANS:
        raise ClaimError(
            f"judged_by is '{entry['judged_by']}'; write \"{_MEANS}\", or omit the key to use intervals."
        )
    Vocabulary(design.factors).selection(together)
    for metric, formula in metrics.items():
        parse_metric(metric, str(formula))
    return Changes(together, metrics, by_means="judged_by" in entry)


def _table(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ClaimError('where and metrics must be tables, such as { window = "iw10" }.')
    return value
