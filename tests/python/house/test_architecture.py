"""ARCHITECTURE.md and decisions.md agree with the source: rooms, files, libraries and counts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import polars as pl
import pytest

from lasthop.engines.registry import ENGINES

ROOT = Path(__file__).parents[3]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
DECISIONS = (ROOT / "docs" / "internals" / "decisions.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLASS = (ROOT / "docs" / "start" / "class.md").read_text(encoding="utf-8")
PROFILES = (ROOT / "docs" / "reference" / "tcp.md").read_text(encoding="utf-8")
VALIDATION = (ROOT / "docs" / "validation" / "index.md").read_text(encoding="utf-8")

LISTS = {"Rust": (ROOT / "crates", "src", ".rs"), "Python": (ROOT / "python" / "lasthop", "", ".py")}
"""A section of ARCHITECTURE.md -> folder of its rooms, folder of a room's files, their suffix."""

NO_FILES = {"__init__", "lib", "main", "tests"}
"""What the lists leave out: a crate or package itself, and tests."""

NAMES = r"`[\w/]+`(?:, `[\w/]+`)*"

TOOLS = {"llvm-profdata"}
"""What docs/internals/decisions.md lists as a tool and no package manager brings."""


def section(text: str, title: str) -> str:
    """Return what stands under a heading, up to the next heading of any level."""
    found = re.search(rf"^#+ {title}\b.*?\n(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"there is no heading {title}"
    return found[1]


def listed(title: str) -> dict[str, dict[str, set[str]]]:
    """Return, for each room of a section, the names in its list: folder -> names. A point's folder is that of
    the point above it with less indentation.
    """
    rooms: dict[str, dict[str, set[str]]] = {}
    folders: dict[str, set[str]] = {}
    above: list[str] = [""]
    for line in section(ARCHITECTURE, title).splitlines():
        if room := re.match(r"\*\*`([\w-]+)/?`\*\*: ", line):
            folders = rooms.setdefault(room[1], {"": set()})
        elif point := re.match(rf"( *)- ({NAMES}): ", line):
            depth = len(point[1]) // 2
            paths = [
                f"{above[depth]}/{name.rstrip('/')}".lstrip("/") for name in re.findall(r"[\w/]+", point[2])
            ]
            for path in paths:
                names = path.split("/")
                for end, name in enumerate(names):
                    folders.setdefault("/".join(names[:end]), set()).add(name)
            above[depth + 1 :] = [paths[-1]]
        else:
            assert not re.match(r" *[-*]", line), f"a point that names no file: {line}"
    return rooms


def there(folder: Path, suffix: str) -> set[str]:
    """Return the names of a folder's files and folders, without links and what Python leaves behind; none if
    the room is a single file.
    """
    if not folder.is_dir():
        return set()
    entries = {entry for entry in folder.iterdir() if not entry.is_symlink()}
    full = {entry for entry in entries if any(file.suffix not in {"", ".pyc"} for file in entry.rglob("*"))}
    return {entry.stem for entry in entries if entry.suffix == suffix or entry in full} - NO_FILES


@pytest.mark.parametrize("title", LISTS)
def test_rooms_are_those_of_the_source(title: str) -> None:
    place, _, suffix = LISTS[title]
    assert set(listed(title)) == there(place, suffix)


@pytest.mark.parametrize(("title", "room"), [(title, room) for title in LISTS for room in listed(title)])
def test_a_room_lists_all_of_its_files(title: str, room: str) -> None:
    place, source, suffix = LISTS[title]
    top = place / room / source
    folders = {""} | {
        str(file.parent.relative_to(top)) for file in top.rglob(f"*{suffix}") if file.parent != top
    }
    found = {folder: there(top / folder, suffix) for folder in folders if "tests" not in folder.split("/")}
    assert listed(title)[room] == {folder: names for folder, names in found.items() if names or not folder}


@pytest.mark.parametrize("text", [ARCHITECTURE, DECISIONS], ids=["ARCHITECTURE.md", "decisions.md"])
def test_files_named_in_prose_exist(text: str) -> None:
    named = set(re.findall(r"`([\w./-]+(?:\.(?:rs|py|md|toml)|/))`", text))
    named |= set(re.findall(r"`((?:crates|python|scripts|benches|docs|tests)/[\w./-]+)`", text))
    assert len(named) > 3
    assert [name for name in sorted(named) if not _is_there(name)] == []


def _is_there(name: str) -> bool:
    """Whether a file or folder has this path, from the root or from a folder of the sources."""
    return (ROOT / name).exists() or any(
        next((ROOT / top).rglob(name), None) for top in ("crates", "python", "scripts", "studies", "tests")
    )


def libraries(title: str) -> set[str]:
    """Return the names in the first column of a table of docs/internals/decisions.md, in lower case."""
    rows = re.findall(r"^\| (.*?) \|", section(DECISIONS, title), re.MULTILINE)
    names = ", ".join(rows[2:] if rows[1].startswith("-") else rows[1:])
    return {name.lower() for name in re.sub(r" \(.*?\)", "", names).split(", ")}


def required(lines: list[str]) -> set[str]:
    """Return the names of packages, without their versions."""
    return {re.split(r"[<>=!~\[ ]", line)[0] for line in lines} - {"lasthop"}


def dependencies(crate: str, *kinds: str) -> set[str]:
    """Return what a crate depends on directly, its tables of these kinds taken together."""
    content = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text(encoding="utf-8"))
    return {name for kind in kinds for name in content.get(kind, {})}


def crates() -> set[str]:
    """Return what the crates depend on directly, lasthop's own aside."""
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    names = {name for crate in listed("Rust") for name in dependencies(crate, *kinds)}
    return {name for name in names if not name.startswith("lasthop-")}


def test_crates_depend_on_those_in_lines_below() -> None:
    lines = re.findall(r"^    (lasthop-.*)", section(ARCHITECTURE, "Rust"), re.MULTILINE)
    floors = {crate: floor for floor, line in enumerate(lines) for crate in line.split()}
    assert set(floors) == set(listed("Rust"))
    for crate, floor in floors.items():
        own = {name for name in dependencies(crate, "dependencies") if name.startswith("lasthop-")}
        assert {name for name in own if floors[name] <= floor} == set(), (
            f"{crate} uses these beside or above it"
        )


def test_libraries_are_the_direct_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    assert libraries("Dependencies") == crates() | required([*project["dependencies"], *extras])


def test_tools_are_those_that_are_required() -> None:
    lines = (ROOT / "requirements.in").read_text(encoding="utf-8").splitlines()
    needed = required([line for line in lines if line and not line.startswith("#")])
    assert libraries("Tools") == needed | TOOLS


NUMBERS = [
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]

COUNTS = {
    "The same file runs on {} engines": (README, len(ENGINES)),
    "has {} lessons": (CLASS, len(list((ROOT / "python/lasthop/present/lab/lessons").glob("*.toml")))),
    "The model knows {} profiles": (
        PROFILES,
        len(list((ROOT / "crates/lasthop-tcp/profiles").glob("*.toml"))),
    ),
}
"""A sentence, with braces for a number -> the document that says it, and the number in the source."""


@pytest.mark.parametrize("sentence", COUNTS)
def test_a_count_in_prose_is_that_of_the_source(sentence: str) -> None:
    document, count = COUNTS[sentence]
    words = {str(count)} | ({NUMBERS[count]} if count < len(NUMBERS) else set())
    said = {sentence.format(word) for word in words}
    assert any(each in " ".join(document.split()) for each in said), (
        f"no document says {' or '.join(sorted(said))}"
    )


@pytest.mark.parametrize(
    "file", sorted(ROOT.glob("studies/*/statements.csv")), ids=lambda file: file.parent.name
)
def test_validation_counts_the_statements_of_a_study(file: Path) -> None:
    said = re.findall(rf"^\| \[{file.parent.name}\].* of (\d+) statements", VALIDATION, re.MULTILINE)
    assert said == [str(len(pl.read_csv(file)))]
