"""The answers that students downloaded, as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lasthop.common.errors import InputError
from lasthop.present.lab.classroom.key import Key

_TEXTS = (
    "student",
    "question",
    "metric",
    "flow",
    "prediction_text",
    "measured_text",
    "predicted_at",
    "measured_at",
)
_MOST_BYTES = 16 << 20


def collect(files: Sequence[Path], key: Key) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each answer, and for each file that is not a sheet of answers the reason."""
    rows: list[dict[str, Any]] = []
    faults = []
    for file in files:
        try:
            rows += _rows(file, key)
        except InputError as error:
            faults.append(str(error))
        except RecursionError:
            faults.append(f"{file}: this is not a file of answers, because it is nested too deeply.")
    return rows, faults


def _rows(file: Path, key: Key) -> Iterator[dict[str, Any]]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise InputError(f"{file}: has more than {_MOST_BYTES >> 20} MB, which no file of answers has.")
        sheet = json.loads(content)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as JSON: {error}.") from error
    answers = sheet.get("answers") if isinstance(sheet, Mapping) else None
    if not isinstance(answers, list):
        raise InputError(f"{file}: this is not a file of answers, which a student downloads from the lab.")
    for number, answer in enumerate(answers, 1):
        record = answer.get("record") if isinstance(answer, Mapping) else None
        if not isinstance(answer, Mapping) or not isinstance(record, Mapping):
            raise InputError(f"{file}: answer {number} has no record.")
        yield _row(file, record, answer, verified=key.has_signed(record, answer.get("signature")))


def _row(
    file: Path, record: Mapping[str, Any], answer: Mapping[str, Any], *, verified: bool
) -> dict[str, Any]:
    """Return the columns of an answer. Only a verified record has the types that the server writes."""
    texts = {name: _text(record.get(name, "")) for name in _TEXTS}
    prediction, measured = (_number(record.get(name)) for name in ("prediction", "measured"))
    error = None
    if prediction is not None and measured:
        error = (prediction - measured) / abs(measured)
    return {
        **texts,
        "prediction": prediction,
        "measured": measured,
        "error": error,
        "verified": verified,
        "seed": _whole(record.get("seed")),
        "replication": _whole(record.get("replication")),
        "levels": json.dumps(record.get("levels", {})),
        "scenario": _text(record.get("scenario", "")),
        "notes": _text(answer.get("notes", "")),
        "file": _text(file),
    }


def _text(value: object) -> str:
    """Return a text of a student, which a spreadsheet must not run as a formula."""
    text = str(value).encode(errors="replace").decode()
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None
