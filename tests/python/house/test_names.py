"""Names in the source: the glossary's terms, and no name for two types."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "scripts"))

from rust_source import strip_comments_and_literals, strip_tests  # noqa: E402

TYPE = re.compile(r"^(?:pub(?:\([\w ]+\))? )?(?:struct|enum|trait|type|union) (\w+)", re.MULTILINE)

RETIRED = {r"\bfixed host": "server", r"\bmobile host": "client"}
"""What the parts of a network were once called, in code and in prose -> the term of the glossary."""

RETIRED_IN_RUST = RETIRED | {
    r"\bLane\b|\blanes?\b": "host pair, or connection",
    r"\bBetween::|\w+_beside\b|\bTopology::": "network, with ports",
}


def sources() -> list[Path]:
    """Return the Rust files of all crates without their tests."""
    files = ROOT.glob("crates/*/src/**/*.rs")
    return [file for file in files if "tests" not in file.parts and file.stem != "tests"]


def test_no_two_types_of_a_crate_share_a_name() -> None:
    """A reader who finds a name has found its type."""
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for file in sources():
        code = strip_tests(strip_comments_and_literals(file.read_text(encoding="utf-8")))
        names[file.relative_to(ROOT).parts[1]].update(TYPE.findall(code))
    assert names["lasthop-sim"]["Network"] == 1
    twice = {crate: [name for name, times in of.items() if times > 1] for crate, of in names.items()}
    assert not {crate: found for crate, found in twice.items() if found}
    everywhere = sum(names.values(), Counter())
    assert all(everywhere[name] <= 1 for name in ("Way", "Ways", "Lane", "Side"))


def test_parts_of_a_network_have_the_names_of_the_glossary() -> None:
    """A term that was retired does not come back, in code or in prose."""
    prose = [*ROOT.glob("docs/*/*.md"), *ROOT.glob("python/lasthop/**/*.py"), ROOT / "ARCHITECTURE.md"]
    places = [(file, RETIRED_IN_RUST) for file in sources()] + [(file, RETIRED) for file in prose]
    found = [
        f"{file.relative_to(ROOT)}: {match[0]!r}; say {term}"
        for file, retired in places
        for pattern, term in retired.items()
        for match in re.finditer(pattern, file.read_text(encoding="utf-8"))
    ]
    assert not found
