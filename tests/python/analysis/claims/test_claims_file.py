"""Errors of claims.toml: each names place, reason and the nearest valid thing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from claims_tools import ORDERS, check, one, rows, scenario
from lasthop.common.errors import InputError

STUDY = scenario(
    {**ORDERS, "queue": ["fifo", "red"]}, lambda cell: cell["variant"] != "c" or cell["queue"] == "red"
)
FACTORS = {**ORDERS, "queue": ["fifo", "red"]}
TABLE = rows({(*key.levels.values(),): [1.0, 2.0] for key in STUDY.cells}, FACTORS)
HOLDS = 'holds = "time_s(variant=a) > time_s(variant=b)"'


def message(folder: Path, body: str) -> str:
    with pytest.raises(InputError) as caught:
        one(folder, body, STUDY, runs=TABLE)
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        (
            'holds = "time_s(varian=a) > 1"',
            ["factor 'varian'", "did you mean 'variant'", "Valid: variant, load, queue"],
        ),
        ('holds = "time_s(load=65) > 1"', ["level of load '65'", "did you mean '60'"]),
        ("holds = \"time_s(load='95..') > 1\"", ["no level of load is within '95..'", "60, 70, 80, 90"]),
        ("holds = \"time_s(variant='a..b') > 1\"", ["variant is 'a..b'", "must be numbers"]),
        ('holds = "tim_s(variant=a) > 1"', ["metric 'tim_s'", "did you mean 'time_s'"]),
        ('holds = "time_s(variant=a, flow=x) > 1"', ["'time_s' is a metric of whole runs", "omit flow"]),
        ('holds = "time_s(a) > 1"', ["selection 'a'"]),
        ('holds = "time_s(variant=a, variant=b) > 1"', ["selects variant twice"]),
        ('holds = "time_s(variant=a) ~ 1"', ["is not a valid expression: invalid syntax"]),
        ('holds = "time_s(variant=a, baseline) < 1"', ["write 'baseline' before FACTOR=LEVEL"]),
        ('holds = "time_s(variant=a) != 1"', ["invalid relation", "Valid: >, <, >=, <=, =="]),
        ('holds = "time_s(variant=a)"', ["is not a statement", "increases(..., factor=levels)"]),
        (
            'holds = "time_s(variant=a) ** 2 > 1"',
            ["time_s(variant=a) ** 2", "neither a number, nor a metric"],
        ),
        ('holds = "time_s(variant=1+1) > 1"', ["'1 + 1' is not a level"]),
        (
            'holds = "slope(time_s(), variant=[a, b]) > 1"',
            ["needs at least two levels of variant, which must be numbers"],
        ),
        ('holds = "1 > 0"', ["'1 > 0' contains no metric"]),
        (f'holds = "time_s(variant=a) > {10**400}"', ["a number is too large"]),
        (f'holds = "time_s(variant=a) > 1{" + 1" * 5000}"', ["nested too deeply"]),
        (f'holds = "time_s(variant=a) > 1{" + 1" * 700}"', ["nested too deeply"]),
        ('holds = "slope(time_s()) > 1"', ["needs one expression and one factor with levels"]),
        (
            'holds = "explained(time_s(), load=[60, 70]) > 0"',
            ["needs one expression and at least two factors"],
        ),
        ('holds = "explained(time_s(), load=60, load=70) > 0"', ["load is iterated over twice"]),
        ('holds = "least(time_s(), load=60, variant=a) > 0"', ["needs one expression and one factor"]),
        ('holds = "increases(time_s(), load=60)"', ["needs at least two levels of load"]),
        ("holds = \"increases(time_s(), load='60..') > 1\"", ["'increases' is a statement"]),
        ('holds = "sum(time_s() + 1) > 1"', ["sum needs a single metric, as in sum(timeouts())"]),
        ('holds = "max(time_s(), load=60) > 1"', ["max needs a single metric"]),
        ('holds = "min(max(time_s())) > 1"', ["min needs a single metric"]),
        ('holds = "median() > 1"', ["'median()' needs one expression"]),
        ('holds = "quantile(time_s()) > 1"', ["a share from 0 to 1, as in quantile(fct(), 0.9)"]),
        ('holds = "quantile(time_s(), 90) > 1"', ["a share from 0 to 1"]),
        ('holds = "fraction(time_s()) > 1"', ["needs a relation, as in fraction(timeouts() > 0)"]),
        ('holds = "fraction(time_s() != 1) > 1"', ["invalid relation", "Valid: >, <, >=, <=, =="]),
        (
            'holds = "iqr(median(time_s())) > 1"',
            ["contains a statistic over replications within another one"],
        ),
        ('holds = "median(time_s(), lod=60) > 1"', ["factor 'lod'", "did you mean 'load'"]),
        (
            'holds = "median(time_s(load=60), load=[60, 70]) > 1"',
            ["names load, which the enclosing function"],
        ),
        ('holds = "least(median(time_s(), load=[60, 70]), load=60) > 1"', ["load is iterated over twice"]),
        ('holds = "time_s(replication=first) > 1"', ["replication is 'first'", "must be numbers"]),
        (f"{HOLDS}\nat_least = 2", ["at_least is a number of levels of some"]),
        (f'{HOLDS}\nsome = ["load"]\nat_least = 5', ["at_least is '5'", "from 1 to 4"]),
        (f'{HOLDS}\nstory = "look at it"', ["story must be a command that begins with 'lasthop explain '"]),
        (
            f'{HOLDS}\nstatements = ["S1"]',
            ["statements: statements.csv is missing in the folder of claims.toml"],
        ),
        ('holds = "least(time_s(load=60), load=[60, 70]) > 1"', ["names load, which the enclosing function"]),
        ('holds = "time_s(variant=a) > time_s()"', ["'time_s()' does not select a level of variant"]),
        (
            'holds = "time_s(variant=c) > 1"\nwhere = { queue = "fifo" }',
            ["the scenario has no cell for 'time_s(variant=c) > 1' with queue: fifo"],
        ),
        ('holds = "time_s(variant=a) == 1"', ["== needs a tolerance", "within = 0.1"]),
        ('holds = "time_s(variant=a) == 1"\nwithin = 10', ["within is '10'", "between 0 and 1"]),
        (f"{HOLDS}\nwithin = 0.1", ["within is the tolerance of ==, <= and >=, but holds has none"]),
        (f'{HOLDS}\nevery = ["lod"]', ["every: there is no factor 'lod'", "did you mean 'load'"]),
        (f'{HOLDS}\nevery = ["variant"]', ["does not vary variant: its terms select the level"]),
        (f'{HOLDS}\nsome = ["flow"]', ["does not vary flow: it is not in where"]),
        (f'{HOLDS}\nevery = ["load"]\nsome = ["load"]', ["load occurs twice in every, most, some"]),
        (f'{HOLDS}\nmost = ["load"]\nsome = ["queue"]', ["give either most or some"]),
        (f'{HOLDS}\nwhere = {{ link = "e0" }}', ["where: there is no factor 'link'"]),
        (f"{HOLDS}\nwhere = 3", ["where: write a table"]),
        (f'{HOLDS}\nwher = {{ load = "60" }}', ["no key 'wher'", "did you mean 'where'"]),
        (
            f'{HOLDS}\ncontradicts = ["D"]',
            ["contradicts: there is no claim 'D'", "did you mean 'C'", "elsewhere"],
        ),
        (f'{HOLDS}\ncontradicts = "C"', ["contradicts is not a list of texts"]),
        (f'{HOLDS}\nuncomputable = "who knows"', ["give either holds", "or uncomputable"]),
        ("every = []", ["give either holds", "or uncomputable"]),
        ("holds = []", ["holds is empty"]),
        ("holds = 3", ["holds is not a list of texts"]),
        (f"{HOLDS}\nreading = 3", ["reading is not a text"]),
    ],
)
def test_an_error_names_the_claim_and_what_would_do(tmp_path: Path, body: str, reasons: list[str]) -> None:
    found = message(tmp_path, body)
    assert found.startswith(f"{tmp_path / 'claims.toml'}:"), found
    assert "claim C: " in found
    for reason in reasons:
        assert reason in found


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("", ["there are no claims", "[[claim]]"]),
        ("[claim]\nid = 3 3", ["(at line 2, column 8)"]),
        ("[metric]\n", ["no key 'metric'", "did you mean 'metrics'"]),
        ("[[claim]]\nholds = '1 > 0'\n", ["[[claim]] number 1 has no id"]),
        (f'[[claim]]\nid = "C"\n{HOLDS}\n', ["text, the statement", "is missing"]),
        (
            "[metrics]\nloss = 'lost %'\n[[claim]]\nid = 'C'\n",
            [":1: [metrics]: loss: 'lost %' is not a valid expression"],
        ),
        (
            "[metrics]\nloss = 'abs(lost)'\n[[claim]]\nid = 'C'\n",
            ["[metrics]: loss: 'abs(lost)'", "neither a number"],
        ),
        (
            "[metrics]\nfraction = 'lost'\n[[claim]]\nid = 'C'\n",
            ["'fraction' is not a valid name of a metric"],
        ),
        ("[metrics]\nslope = 'lost'\n[[claim]]\nid = 'C'\n", ["'slope' is not a valid name of a metric"]),
        (
            "[metrics]\nexplained = 'lost'\n[[claim]]\nid = 'C'\n",
            ["'explained' is not a valid name of a metric"],
        ),
        ("[metrics]\nloss = 3\n[[claim]]\nid = 'C'\n", ["[metrics]: loss: write a text"]),
        (
            "[select]\nx = { variant = 'd' }\n[[claim]]\nid = 'C'\n",
            [":1: [select]: x: there is no level", "'d'"],
        ),
        ("[where]\nlod = '60'\n[[claim]]\nid = 'C'\n", [":1: [where]: there is no factor 'lod'", "'load'"]),
        (
            f'[[claim]]\nid = "C"\ntext = "x"\n{HOLDS}\n[[claim]]\nid = "C"\ntext = "x"\n{HOLDS}\n',
            ["claim C: the id is not unique"],
        ),
    ],
)
def test_an_error_names_the_part_of_the_file(tmp_path: Path, text: str, reasons: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        check(tmp_path, text, STUDY, runs=TABLE)
    for reason in (str(tmp_path / "claims.toml"), *reasons):
        assert reason in str(caught.value)


def test_the_line_is_that_of_the_claim(tmp_path: Path) -> None:
    text = f'# x\n[[claim]]\nid = "B"\ntext = "x"\n{HOLDS}\n\n[[claim]]\nid = "C"\ntext = "x"\nholds = "1"\n'
    with pytest.raises(InputError, match=r"claims\.toml:8: claim C: "):
        check(tmp_path, text, STUDY, runs=TABLE)


def test_an_unknown_flow_names_those_there_are(tmp_path: Path) -> None:
    table = TABLE.with_columns(role=pl.lit("tcp-slower"))
    with pytest.raises(
        InputError, match=r"no flow 'tcp-slow' .* did you mean 'tcp-slower'\? Flows: tcp-slower"
    ):
        one(tmp_path, "holds = \"time_s(flow='tcp-slow') > 1\"", STUDY, flows=table)
