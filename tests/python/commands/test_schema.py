"""The JSON Schema of scenario files accepts what the reader accepts, and rejects the same structural
faults.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from commands import ROOT
from lasthop import _core

SHORT = """[down.link]
rate = "1 Mbit/s"
delay = "50 ms"
[[flow]]
kind = "bulk-tcp"
bytes = "1 MB"
"""
LONG = """name = "small"
seed = 7
replications = 3
[lan]
rate = "100 Mbit/s"
delay = "0.15 ms"
[down.link]
rate = "64 kbit/s"
delay = "300 ms"
send_buffer = "9600 B"
release = "acknowledged"
[tcp]
profile = "linux-2.4"
sack = true
[[flow]]
kind = "bulk-tcp"
bytes = "10 kB"
start = { distribution = "uniform", min = "0 s", max = "100 ms" }
"""
UNSET = """[factor.a.x]
errors = false
lan = false
down.queue.red = false
tcp.sack = false
flow = { other = false, bulk-tcp = { tcp = false } }
"""
MATRIX = """[factor.link.e0]
[factor.link.r1.errors]
good = "15 s"
bad = { distribution = "exponential", mean = "1 s" }
packet_error_probability = 0.63
arq = { retransmissions = 1, delay = "700 ms" }
[factor.variant.baseline]
[factor.variant."eifel+red"]
tcp.timestamps = true
[[matrix]]
link = ["e0"]
"""
SPACE = """[factor.rate]
from = "64 kbit/s"
to = "10 Mbit/s"
scale = "log"
sets = "down.link.rate"
[factor.length]
from = "100 kB"
to = "1 MB"
sets = ["flow.bulk.bytes"]
[sample]
method = "sobol"
points = 4
"""
FILES = sorted(ROOT.glob("examples/*.toml")) + sorted(ROOT.glob("studies/*/study.toml"))
FAULTS = [
    ("seed = 7", "seeds = 7"),
    ("sack = true", "timestamp = true"),
    ("sack = true", "sack = 1"),
    ("sack = true", "retries = -1"),
    ("linux-2.4", "linux-2.5"),
    ("bulk-tcp", "bulk"),
    ("64 kbit/s", "64"),
    ("64 kbit/s", "-64 kbit/s"),
    ('"64 kbit/s"', "64"),
    ("replications = 3", "replications = 0"),
    ("[lan]", "matrix = []\n[lan]"),
    ('name = "small"', 'name = "a/b"'),
    ('distribution = "uniform", ', ""),
    ("[lan]", "[factor.f]\n[lan]"),
    ("[lan]", "[factor.f.l.tcp]\nsak = true\n[lan]"),
    ("[lan]", '[factor.f."a b"]\n[lan]'),
]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = json.loads(_core.schema())
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def errors(validator: Draft202012Validator, text: str) -> list[str]:
    return [error.message for error in validator.iter_errors(tomllib.loads(text))]


def read(folder: Path, text: str) -> _core.Study:
    file = folder / "file.toml"
    file.write_text(text, encoding="utf-8")
    return _core.load(str(file))


@pytest.mark.parametrize(
    "text",
    [SHORT, LONG, LONG + MATRIX, SHORT + UNSET],
    ids=["short", "long", "matrix", "unset"],
)
def test_the_schema_accepts_what_the_reader_accepts(
    validator: Draft202012Validator, tmp_path: Path, text: str
) -> None:
    read(tmp_path, text)
    assert errors(validator, text) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_schema_accepts_every_example_and_study(validator: Draft202012Validator, file: Path) -> None:
    assert errors(validator, file.read_text(encoding="utf-8")) == []


def test_the_schema_accepts_a_file_that_extends_another(validator: Draft202012Validator) -> None:
    assert errors(validator, 'extends = "study.toml"\nseed = 8\n') == []


@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_the_schema_rejects_structural_faults_as_the_reader_does(
    validator: Draft202012Validator, tmp_path: Path, old: str, new: str
) -> None:
    assert old in LONG
    text = LONG.replace(old, new, 1)
    assert errors(validator, text) != []
    with pytest.raises(_core.ScenarioError):
        read(tmp_path, text)


def test_the_schema_accepts_ranges(validator: Draft202012Validator) -> None:
    assert errors(validator, SHORT + SPACE) == []
    assert errors(validator, (SHORT + SPACE).replace('"100 kB"', "1.5")) == []


@pytest.mark.parametrize(
    ("old", "new"), [("from", "form"), ('"log"', '"lin"'), ("points = 4", "points = 0"), ('"100 kB"', "true")]
)
def test_the_schema_rejects_wrong_ranges(validator: Draft202012Validator, old: str, new: str) -> None:
    assert errors(validator, SHORT + SPACE.replace(old, new, 1)) != []
