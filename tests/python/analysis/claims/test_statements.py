"""What a source says, sentence by sentence: read, answered by claims, counted and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import fake_core
from claims_tools import check, rows, scenario
from lasthop.analysis.claims.answers import answers
from lasthop.analysis.claims.evaluate import Outcome
from lasthop.analysis.claims.verdicts import statements_frame, verdict_lines
from lasthop.common.errors import InputError
from lasthop.scenario.points import read_study
from lasthop.studies.catalogue import SCENARIO_FILE, find_study, list_studies
from lasthop.studies.claims.file import claims_file, load_claims
from lasthop.studies.claims.sentences import STATEMENTS_FILE, read_sentences

STUDIES = [name for name in list_studies() if (find_study(name) / STATEMENTS_FILE).is_file()]

Command = Callable[..., int]


@pytest.mark.parametrize("name", STUDIES)
def test_every_statement_of_a_study_has_a_claim(name: str) -> None:
    file = find_study(name) / SCENARIO_FILE
    claims = load_claims(claims_file(file), read_study(file))
    named = {one for claim in claims.claims for one in claim.statements}
    assert [sentence.id for sentence in claims.sentences if sentence.id not in named] == []


def test_the_studies_list_what_their_sources_say() -> None:
    assert {name: len(read_sentences(find_study(name))) for name in STUDIES} == {
        "atmf1998": 46,
        "balekaki2012": 156,
        "bbr2016": 19,
        "iip2004": 248,
        "kulve2003": 208,
        "l4s2020": 22,
        "saarto2003": 34,
        "sce2019": 22,
    }


# ---- Verdicts --------------------------------------------------------------------------------------------

SENTENCES = """id,section,text
S1,4,a takes longer
S2,4,"a takes longer, and b does"
S3,5,a takes as long as it takes
S4,,users like a
S5,6,users like a because it takes longer
S6,6,c takes longer
S7,6,nobody asks
S8,6,"a takes longer, and c does"
"""
CLAIMS = """
[[claim]]
id = "yes"
text = "a above b"
holds = "time_s(variant=a) > time_s(variant=b)"
statements = ["S1", "S2", "S5", "S8"]
[[claim]]
id = "no"
text = "a below b"
holds = "time_s(variant=a) < time_s(variant=b)"
statements = ["S2"]
explanation = "b does not wait"
contradicts_source = "its table 3 has 1 and 2 s."
story = "lasthop explain study.toml --only variant=a"
[[claim]]
id = "open"
text = "a above 2"
holds = "time_s(variant=a) > 2"
statements = ["S3"]
[[claim]]
id = "mute"
text = "liked"
uncomputable = "nobody was asked"
statements = ["S4", "S5"]
[[claim]]
id = "absent"
text = "c above a"
holds = "time_s(variant=c) > time_s(variant=a)"
statements = ["S6", "S8"]
"""
STUDY = scenario({"variant": ["a", "b", "c"]})
TABLE = rows({("a",): [2.0, 2.1, 1.9], ("b",): [1.0, 1.1, 0.9]}, {"variant": []})


@pytest.fixture
def outcomes(tmp_path: Path) -> list[Outcome]:
    (tmp_path / STATEMENTS_FILE).write_text(SENTENCES, encoding="utf-8")
    return check(tmp_path, CLAIMS, STUDY, runs=TABLE)


def test_the_verdict_on_a_statement_follows_from_its_claims(tmp_path: Path, outcomes: list[Outcome]) -> None:
    table = statements_frame(answers(read_sentences(tmp_path), outcomes))
    assert table.columns == ["id", "section", "text", "verdict", "claims"]
    assert table.select("id", "verdict", "claims").rows() == [
        ("S1", "upheld", "yes"),
        ("S2", "not upheld", "yes;no"),
        ("S3", "undecided", "open"),
        ("S4", "uncomputable", "mute"),
        ("S5", "uncomputable", "yes;mute"),
        ("S6", "not run", "absent"),
        ("S7", "unanswered", None),
        ("S8", "not run", "yes;absent"),
    ]
    assert table.row(1)[:3] == ("S2", "4", "a takes longer, and b does")


def test_statements_are_counted_instead_of_claims(tmp_path: Path, outcomes: list[Outcome]) -> None:
    found = answers(read_sentences(tmp_path), outcomes)
    assert verdict_lines(outcomes, found)[:2] == [
        "statements: 1 of 8 upheld, 1 not upheld, 1 undecided, 2 uncomputable, 2 not run, 1 unanswered",
        "  1 is undecided: S3.",
    ]
    assert verdict_lines(outcomes, found[:1]) == [
        "statements: 1 of 1 upheld, 0 not upheld, 0 undecided",
        "  Every statement holds.",
    ]


# ---- The file --------------------------------------------------------------------------------------------


def test_a_claim_names_statements_that_there_are(tmp_path: Path) -> None:
    (tmp_path / STATEMENTS_FILE).write_text(SENTENCES, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        check(tmp_path, CLAIMS.replace('"S2"]', '"S22"]'), STUDY, runs=TABLE)
    for reason in (
        "claims.toml:8: claim no: statements: there is no 'S22' in statements.csv",
        "did you mean 'S2'",
    ):
        assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ":1: the columns must be id,section,text."),
        ("id,text\n", ":1: the columns must be id,section,text."),
        ("id,section,text\nS1,4\n", ":2: a row needs an id, a section, which may be empty, and a text."),
        ("id,section,text\nS1,4,\n", ":2: a row needs an id"),
        ("id,section,text\nS1,4,x\nS1,5,y\n", ":3: the id 'S1' is not unique."),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / STATEMENTS_FILE
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_sentences(tmp_path)
    assert str(caught.value).startswith(f"{file}{reason}")


def test_without_a_file_there_are_no_statements(tmp_path: Path) -> None:
    assert read_sentences(tmp_path) == ()


# ---- A run -----------------------------------------------------------------------------------------------

ON_A_RUN = """
[[claim]]
id = "order"
text = "The slower flow takes longer"
holds = "elapsed_s(flow='tcp-slower') > elapsed_s(flow='tcp-faster')"
where = { link = "e0", workload = "2tcp0udp", variant = "eifel" }
statements = ["S1"]

[[claim]]
id = "reverse"
text = "The slower flow is faster"
holds = "elapsed_s(flow='tcp-slower') < elapsed_s(flow='tcp-faster')"
where = { link = "e0", workload = "2tcp0udp", variant = "eifel" }
statements = ["S2"]
explanation = "It is the one that takes longer."
contradicts_source = "its table 3 agrees with us."
story = "lasthop explain study.toml --only link=e0"
"""
SAID = "id,section,text\nS1,4,The slower flow takes <longer>\nS2,5,The slower flow is faster\n"
COUNTED = "statements: 1 of 2 upheld, 1 not upheld, 0 undecided"


def test_a_run_answers_the_statements(
    engine: fake_core.Engine,
    study_file: Path,
    lasthop_main: Command,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert engine.ran == []
    (study_file.parent / "claims.toml").write_text(ON_A_RUN, encoding="utf-8")
    (study_file.parent / STATEMENTS_FILE).write_text(SAID, encoding="utf-8")
    out = tmp_path / "out"
    assert lasthop_main("run", study_file, "--only", "link=e0", "--out", out) == 0
    printed = capsys.readouterr().out
    assert f"\n{COUNTED}\n" in printed
    assert "claims:" not in printed
    table = pl.read_csv(out / STATEMENTS_FILE)
    assert table["verdict"].to_list() == ["upheld", "not upheld"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "1 of 2 statements upheld, 1 not upheld</a>" in page
    assert "This statement is not upheld or undecided" in page
    section = page[page.index('<section id="claims">') : page.index('<section id="traces">')]
    failing, upheld = section.split("Statements that are upheld")
    assert COUNTED[1:] in failing
    assert (
        '<li><span class="badge bad">not upheld</span> The slower flow is faster <span class="note">S2 · 5 · '
        '<a href="#claim-reverse">reverse</a></span><br><span class="note">It is the one that takes '
        'longer.</span><br><span class="note">The source contradicts itself: its table 3 agrees with '
        "us.</span></li>"
    ) in failing
    assert '</span> The slower flow takes &lt;longer&gt; <span class="note">S1' in upheld
    assert "An example run: <code>lasthop explain study.toml --only link=e0</code>" in upheld
    assert lasthop_main("check", "results", out, "--scenario", study_file) == 0
    assert COUNTED in capsys.readouterr().out
