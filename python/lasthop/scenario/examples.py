"""The examples that come with lasthop."""

import json
import re
from pathlib import Path
from typing import TypedDict

from lasthop.common.errors import InputError, nearest
from lasthop.scenario.named import named_files

_FOLDER = Path(__file__).with_name("examples")
"""A link in a checkout."""
_PATTERNS = ("*.toml", "algorithms/*.toml", "check/*.toml", "*.ipynb")


def list_examples() -> dict[str, Path]:
    """Return the scenario files and notebooks of the examples by name."""
    files = [file for pattern in _PATTERNS for file in sorted(_FOLDER.glob(pattern))]
    return {file.stem: file for file in files}


def find_example(name: str) -> Path:
    """Return the file of an example; raise `InputError` if it does not exist."""
    examples = list_examples()
    if name not in examples:
        raise InputError(
            f"There is no example '{name}'; did you mean '{nearest(name, examples)}'? 'lasthop example list' "
            "lists them."
        )
    return examples[name]


def needed_files(file: Path) -> list[Path]:
    """Return the file of an example, followed by all files that it needs in the same folder."""
    if file.suffix != ".toml":
        return [file]
    others = [file.with_name(name) for name in named_files(file.read_text(encoding="utf-8"))]
    named = [needed for other in others if other.is_file() for needed in needed_files(other)]
    return [file, *named, *sorted(file.parent.glob("*.py"))]


def comment(file: Path) -> list[str]:
    """Return the lines of the comment at the start of a scenario file, without `#`."""
    lines = file.read_text(encoding="utf-8").splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return [line.removeprefix("#").removeprefix(" ") for line in lines[:end]]


def title(file: Path) -> str:
    """Return the title of an example: a notebook's heading, or a scenario's first question or sentence."""
    if file.suffix == ".ipynb":
        return cells(file)[0].splitlines()[0].removeprefix("#").strip()
    lines = comment(file)
    paragraph = " ".join(lines[: lines.index("")] if "" in lines else lines)
    sentences = re.split(r"(?<=[.?])\)? (?=[A-Z`])", paragraph)
    question = next((sentence for sentence in sentences if sentence.endswith("?")), sentences[0])
    return question.strip().rstrip(".")


class _NotebookCell(TypedDict):
    source: list[str]


def cells(notebook: Path) -> list[str]:
    """Return the text of each cell of a notebook."""
    content: list[_NotebookCell] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in content]
