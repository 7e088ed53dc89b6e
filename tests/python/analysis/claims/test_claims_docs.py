"""What docs/reference/claims.md shows can be written in a claims.toml."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from claims_tools import scenario
from lasthop.studies.claims.file import load_claims

TEXT = (Path(__file__).resolve().parents[4] / "docs" / "reference" / "claims.md").read_text(encoding="utf-8")
STUDY = scenario(
    {
        "link": ["64k", "1m"],
        "pattern": ["constant", "mixed"],
        "window": ["iw3", "iw10", "hybrid"],
        "packets": ["9", "10", "21", "22"],
        "congestion": ["60", "70", "80", "90"],
    }
)
EXAMPLE = TEXT[TEXT.index("```toml") + 7 : TEXT.index("```\n\n| key")]
KINDS = TEXT[TEXT.index("| what the source says") : TEXT.index("## Verdicts")]
STATEMENTS = [
    code
    for code in itertools.chain.from_iterable(
        re.findall(r"`([^`]+)`", line) for line in KINDS.splitlines()[2:]
    )
    if "(" in code and "..." not in code and " = " not in code
]


def test_the_example_is_a_claims_file(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(EXAMPLE, encoding="utf-8")
    assert [claim.id for claim in load_claims(file, STUDY).claims] == ["SC03", "G03"]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_kind_of_statement_is_accepted(tmp_path: Path, statement: str) -> None:
    file = tmp_path / "claims.toml"
    weak = "\nwithin = 0.1" if re.search(r"[=<>]=", statement) else ""
    head = EXAMPLE[: EXAMPLE.index("[[claim]]")]
    # Where a kind names no window or size, the words of the source do.
    where = 'where = { window = ["iw3", "iw10"], packets = "9" }'
    text = f'{head}[[claim]]\nid = "C"\ntext = "said"\nholds = "{statement}"{weak}\n{where}\n'
    file.write_text(text, encoding="utf-8")
    assert load_claims(file, STUDY).claims[0].holds


def test_all_kinds_were_found() -> None:
    assert len(STATEMENTS) == 32
