"""The statements of a source, from the `statements.csv` in the folder of its claims."""

from dataclasses import dataclass
from pathlib import Path

from lasthop.common.errors import InputError
from lasthop.studies.text import read_rows

STATEMENTS_FILE = "statements.csv"
_COLUMNS = ["id", "section", "text"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A paraphrased statement of the source."""

    id: str
    section: str
    text: str


def read_sentences(folder: Path) -> tuple[Sentence, ...]:
    """Read the statements of a study, if its folder has any; raise `InputError` with file and line."""
    file = folder / STATEMENTS_FILE
    if not file.is_file():
        return ()
    rows = read_rows(file)
    if next(rows, None) != (1, _COLUMNS):
        raise InputError(f"{file}:1: the columns must be {','.join(_COLUMNS)}.")
    sentences: dict[str, Sentence] = {}
    for line, row in rows:
        if len(row) != len(_COLUMNS) or not row[0] or not row[2]:
            raise InputError(f"{file}:{line}: a row needs an id, a section, which may be empty, and a text.")
        if row[0] in sentences:
            raise InputError(f"{file}:{line}: the id '{row[0]}' is not unique.")
        sentences[row[0]] = Sentence(*row)
    return tuple(sentences.values())
