"""Other readings of a source: their changes, their verdicts on each statement, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import fake_core
from claims_tools import rows, scenario
from lasthop.analysis.claims.evaluate import evaluate
from lasthop.analysis.claims.readings import load_readings
from lasthop.analysis.claims.records import Records
from lasthop.analysis.claims.standing import verdict
from lasthop.common.errors import InputError
from test_claims_command import CLAIMS

Command = Callable[..., int]

FACTORS = {"size": ["9", "10"], "assumption": ["default", "cubic"]}
STUDY = scenario(FACTORS)
SLOWER = {("9", "default"): [1.0, 1.1, 4.0], ("10", "default"): [1.2, 1.3, 3.0]}
TABLE = rows({**SLOWER, ("9", "cubic"): [2.0] * 3, ("10", "cubic"): [1.0] * 3}, FACTORS)
CLAIM = """
[metrics]
time = "time_s"

[[claim]]
id = "C"
text = "Ten take longer than nine"
holds = "time(size=10) > time(size=9)"
"""


def readings(folder: Path, text: str, claims: str = CLAIM) -> dict[str, str]:
    """Return the verdict on the only claim under each reading."""
    (folder / "claims.toml").write_text(claims, encoding="utf-8")
    file = folder / "readings.toml"
    file.write_text(text, encoding="utf-8")
    records = Records({"runs": TABLE}, list(FACTORS))
    return {one.id: evaluate(one.claims, records)[0].verdict for one in load_readings(file, STUDY)}


def entry(name: str, *lines: str) -> str:
    return "\n".join(["[[reading]]", f'id = "{name}"', 'text = "said otherwise"', *lines, ""])


DEFAULT = '[where]\nassumption = "default"\n'


def test_a_reading_changes_levels_metrics_or_who_decides(tmp_path: Path) -> None:
    text = DEFAULT + "".join(
        [
            entry("default"),
            entry("cubic", 'where = { assumption = "cubic" }'),
            entry("rate", 'metrics = { time = "1 / time_s" }', 'where = { assumption = "cubic" }'),
            entry("first two", 'where = { replication = "1..2" }'),
            entry("means", 'judged_by = "means"'),
            entry("means of the first two", 'judged_by = "means"', 'where = { replication = "1..2" }'),
        ]
    )
    assert readings(tmp_path, text) == {
        "default": "undecided",
        "cubic": "not upheld",
        "rate": "upheld",
        "first two": "upheld",
        # 1.83 s against 2.03 s.
        "means": "not upheld",
        "means of the first two": "upheld",
    }


def test_means_of_a_single_run_decide_and_equal_ones_are_not_greater(tmp_path: Path) -> None:
    text = entry("one", 'judged_by = "means"', 'where = { replication = 1, assumption = "default" }')
    assert readings(tmp_path, text) == {"one": "upheld"}
    greater = CLAIM.replace("time(size=10) > time(size=9)", "time(size=9) > time(size=9)")
    assert readings(tmp_path, text, greater) == {"one": "not upheld"}
    weak = greater.replace("> time", ">= time") + "within = 0.1\n"
    assert readings(tmp_path, text, weak) == {"one": "upheld"}


def test_a_factor_whose_levels_are_numbers_stands_for_them_in_a_metric(tmp_path: Path) -> None:
    """10 / 1 s is more than 9 / 2 s, and 10 / 1.83 s more than 9 / 2.03 s."""
    rate = CLAIM.replace('time = "time_s"', 'time = "size / time_s"').replace(
        "size=10) >", "size=10) == 10 +"
    )
    rate = rate.replace("10 + time(size=9)", "10 / 1.0") + "within = 0.001\n"
    assert readings(tmp_path, entry("rate", 'where = { assumption = "cubic" }'), rate) == {"rate": "upheld"}
    word = CLAIM.replace('time = "time_s"', 'time = "assumption / time_s"')
    with pytest.raises(
        InputError,
        match="the value of the factor 'assumption' is its level, but 'default' is not a number",
    ):
        readings(tmp_path, DEFAULT + entry("word"), word)


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("", ["readings.toml contains no reading; each begins with a line [[reading]]"]),
        ("readng = 1", ["unknown key 'readng'; did you mean 'reading'?"]),
        ('[[reading]]\ntext = "said"', ["readings.toml: reading : id is missing, empty or not a string"]),
        ('[[reading]]\nid = "a"', ["readings.toml:2: reading a: text is missing, empty or not a string"]),
        (
            entry("a", "wher = {}"),
            ["readings.toml:2: reading a: unknown key 'wher'; did you mean 'where'?"],
        ),
        (entry("a") + entry("a"), ["reading a: the id is used twice"]),
        (entry("a", 'where = "b"'), ["reading a: where and metrics must be tables"]),
        (
            entry("a", 'where = { assumption = "cubc" }'),
            ["readings.toml:2: reading a: there is no level of assumption 'cubc'; did you mean 'cubic'?"],
        ),
        (entry("a", 'metrics = { abs = "time_s" }'), ["reading a: 'abs' is not a valid name of a metric"]),
        (entry("a", 'judged_by = "medians"'), ["judged_by is 'medians'; write \"means\", or omit the key"]),
    ],
)
def test_errors_name_place_reason_and_what_is_near(tmp_path: Path, text: str, reasons: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        readings(tmp_path, text)
    for reason in reasons:
        assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("published", "measured", "expected"),
    [
        # 10 s within 5 %: the number and its interval.
        (10.0, (10.4, 10.3, 10.5), "upheld"),
        (10.0, (10.4, 10.3, 10.51), "undecided"),
        (10.0, (10.7, 10.51, 11.0), "not upheld"),
        (10.0, (9.0, 8.0, 9.4), "not upheld"),
        (10.0, (10.0, 9.0, 11.0), "undecided"),
        (0.0, (0.04, 0.03, 0.05), "upheld"),
        # No interval: the number decides.
        (10.0, (10.5, None, None), "upheld"),
        (10.0, (10.51, None, None), "not upheld"),
        (10.0, (None, None, None), "uncomputable"),
    ],
)
def test_a_published_number_has_a_verdict_by_its_tolerance_and_the_measured_interval(
    published: float, measured: tuple[float | None, float | None, float | None], expected: str
) -> None:
    assert verdict("elapsed_s", published, *measured) == expected


def test_the_tolerance_is_that_of_the_metric() -> None:
    assert verdict("drops_error", 4.0, 6.0, 5.0, 6.0) == "upheld"
    assert not verdict("unheard_of", 10.0, 10.0, 10.0, 10.0)


@pytest.fixture
def finished(engine: fake_core.Engine, study_file: Path, lasthop_main: Command, tmp_path: Path) -> Path:
    folder = study_file.parent
    (folder / "claims.toml").write_text(CLAIMS, encoding="utf-8")
    two = entry("two", 'where = { replication = "1..2" }', 'judged_by = "means"')
    (folder / "readings.toml").write_text(entry("as said") + two, encoding="utf-8")
    assert engine.ran == []
    assert lasthop_main("run", study_file, "--only", "link=e0", "--out", tmp_path / "out") == 0
    return tmp_path / "out"


def test_the_command_counts_verdicts_under_each_reading_and_shows_one(
    finished: Path, study_file: Path, lasthop_main: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    claims = ("check", "results", finished, "--scenario", study_file)
    table = finished.parent / "readings.csv"
    assert lasthop_main(*claims, "--readings", "--out", table) == 0
    claimed, numbers = capsys.readouterr().out.split("\n\n")
    title, *lines = claimed.splitlines()
    heads = "upheld not upheld undecided uncomputable reading"
    assert title.split() == ["claims", *heads.split()]
    assert [line.split()[-6:-2] for line in lines] == [["1", "1", "0", "1"]] * 2
    title, *lines = numbers.splitlines()
    assert title.split() == ["published", "numbers", *heads.split()]
    counts = [[int(word) for word in line.split()[-6:-2]] for line in lines]
    compared = pl.read_csv(finished / "comparison.csv").filter(pl.col("rule").str.starts_with("within"))
    assert counts[0] == counts[1]
    assert sum(counts[0]) == compared.height
    assert counts[0][-1] == compared["measured"].null_count()
    # Some that are upheld by their estimate have an interval that reaches beyond.
    assert 0 < counts[0][0] <= compared["within"].sum()
    found = pl.read_csv(table)
    assert found.columns == ["reading", "id", "section", "text", "verdict"]
    assert found["reading"].to_list() == ["as said"] * 4 + ["two"] * 4
    assert lasthop_main(*claims, "--reading", "two", "--only", "order") == 0
    assert "order  upheld" in capsys.readouterr().out
    assert lasthop_main(*claims, "--reading", "tow") != 0
    assert "--reading tow: no reading has this id; did you mean 'two'?" in capsys.readouterr().err
    assert lasthop_main(*claims, "--readings", "--only", "order") != 0
    assert "--readings counts all claims" in capsys.readouterr().err
    (study_file.parent / "readings.toml").unlink()
    assert lasthop_main(*claims, "--readings") != 0
    assert "its folder has no readings.toml" in capsys.readouterr().err
