"""`lasthop check`: verdicts against limits and against a baseline, and what it leaves for services."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from lasthop.analysis.claims.evaluate import evaluate
from lasthop.analysis.claims.records import Records
from lasthop.commands.cli import main
from lasthop.studies.claims.file import load_claims

Main = Callable[..., int]
SCENARIO = """
replications = {replications}

[down]
queue.limit = "50 packets"
link = {{ rate = "{rate}", delay = "40 ms", loss = {loss} }}

[[flow]]
kind = "bulk-tcp"
name = "download"
bytes = "500 kB"
"""
LIMIT = """
[[claim]]
id = "limit"
text = "95 % of the downloads take less than {limit} s"
holds = "p95(elapsed_s) < {limit}"
"""
NO_WORSE = """
[[claim]]
id = "no-worse"
text = "95 % of them are not more than 10 % slower than before"
holds = "p95(elapsed_s) <= 1.1 * p95(elapsed_s, baseline)"
"""


def write(
    file: str, *claims: str, rate: str = "2 Mbit/s", loss: float = 0.01, replications: int = 100
) -> None:
    text = SCENARIO.format(rate=rate, loss=loss, replications=replications)
    Path(file).write_text(text + "".join(claims), encoding="utf-8")


@pytest.mark.parametrize(
    ("limit", "code", "verdict"), [(5, 0, "upheld"), (2, 4, "not upheld"), (3.2, 5, "undecided")]
)
def test_the_exit_code_says_whether_a_limit_is_kept(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], limit: float, code: int, verdict: str
) -> None:
    write("up.toml", LIMIT.format(limit=limit))
    assert lasthop_main("check", "up.toml") == code
    said = capsys.readouterr().out
    assert re.search(rf"^{verdict} +limit: 95 % of the downloads", said, re.MULTILINE)
    assert f"claims: 1 {verdict} of 1" in said
    assert ("--until-decided" in said) == (verdict == "undecided")


def test_claims_may_stand_in_a_file_beside_the_scenario_but_not_in_two_places(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("up.toml")
    assert lasthop_main("check", "up.toml") == 2
    assert "up.toml contains no claims" in capsys.readouterr().err
    Path("up.claims.toml").write_text(LIMIT.format(limit=5), encoding="utf-8")
    assert lasthop_main("check", "up.toml") == 0
    write("up.toml", LIMIT.format(limit=5))
    assert lasthop_main("check", "up.toml") == 2
    assert "Both up.toml and up.claims.toml contain claims" in capsys.readouterr().err


def test_run_shows_the_claims_of_a_scenario_too(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("up.toml", LIMIT.format(limit=5))
    assert lasthop_main("run", "up.toml") == 0
    table, verdict = capsys.readouterr().out.split("upheld      limit: 95 % of the downloads")
    assert "elapsed time (s)" in table
    assert "p95(elapsed_s) < 5: " in verdict
    assert "claims: 1 upheld, 0 not upheld, 0 undecided of 1" in verdict
    assert "95 % of the downloads" in Path("results/up/report.html").read_text(encoding="utf-8")


def test_a_slower_version_fails_against_its_baseline_and_the_same_one_passes(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("up.toml", NO_WORSE)
    assert lasthop_main("check", "up.toml") == 5  # nothing to compare with
    assert "there is no baseline" in capsys.readouterr().out
    assert lasthop_main("check", "baseline", "save", "up") == 0
    assert lasthop_main("check", "up.toml") == 0
    assert lasthop_main("check", "up.toml", "--baseline", "baselines") == 0
    assert lasthop_main("check", "up.toml", "--baseline", "baselines/up") == 0
    write("up.toml", NO_WORSE, rate="1 Mbit/s")
    assert lasthop_main("check", "up.toml", "--quiet") == 4
    assert capsys.readouterr().out.count("not upheld") == 1


def test_a_report_shows_the_verdicts_against_the_baseline(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("up.toml", NO_WORSE)
    assert lasthop_main("run", "up.toml", "--quiet") == 0
    assert lasthop_main("check", "baseline", "save", "up") == 0
    write("up.toml", NO_WORSE, rate="1 Mbit/s")
    assert lasthop_main("check", "up.toml", "--report") == 4
    assert "report: results/up/report.html\n" in capsys.readouterr().out
    claims = pl.read_csv("results/up/claims.csv")
    assert claims.select("id", "verdict").rows() == [("no-worse", "not upheld")]
    assert "not upheld" in Path("results/up/report.html").read_text(encoding="utf-8")


def test_annotations_name_files_from_the_root_of_the_checkout(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("net").mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd()))
    monkeypatch.chdir("net")
    write("up.toml", LIMIT.format(limit=2))
    assert lasthop_main("check", "up.toml", "--format", "github") == 4
    assert "\n::error file=net/up.toml,line=14,title=claim limit%3A not upheld::" in capsys.readouterr().out


def test_a_baseline_says_what_its_replications_detect(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("up.toml", NO_WORSE)
    assert lasthop_main("run", "up.toml", "--quiet") == 0
    assert lasthop_main("check", "baseline", "save", "up") == 0
    planned = r"100 replications with other seeds: detects (\d+) % beyond its limit .*; (\d+) replications"
    found = re.search(f"no-worse: {planned}", capsys.readouterr().out)
    assert found is not None
    assert int(found[2]) == pytest.approx(100 * (int(found[1]) / 10) ** 2, rel=0.1)
    assert lasthop_main("check", "up.toml", "--seed", 5, "--replications", 120) in (0, 5)
    out = capsys.readouterr().out
    assert "the baseline has 100 of the 120 replications" in out
    assert "n = 100" in out
    assert "% beyond its limit" in out


@pytest.mark.parametrize("seed", range(1, 21))
def test_a_version_is_never_worse_than_itself(lasthop_main: Main, seed: int) -> None:
    write("up.toml", NO_WORSE, loss=0.03)
    assert lasthop_main("run", "up.toml", "--seed", seed, "--quiet") == 0
    assert lasthop_main("check", "baseline", "save", "up", "--quiet") == 0
    assert lasthop_main("check", "up.toml", "--seed", seed, "--quiet") == 0


@pytest.mark.long(
    covers=(
        "python/lasthop/analysis/checks",
        "python/lasthop/studies/claims",
        "python/lasthop/analysis/claims",
    ),
    seconds=10,
)
def test_verdicts_on_two_equal_versions_are_wrong_as_rarely_as_stated(tmp_path: Path) -> None:
    """Both are drawn from one distribution, so `not upheld` is a false alarm: 2.5 % of them may be."""
    numbers = np.random.default_rng(1)
    for count in (10, 100):
        pairs = numbers.lognormal(0, 0.3, (500, 2, count))
        # 12.5 are expected of the half of 5 %; 25 is more than three standard deviations above.
        assert _alarms("p95(elapsed_s) <= p95(elapsed_s, baseline)", pairs, tmp_path) <= 25
        assert _alarms("median(elapsed_s) <= median(elapsed_s, baseline)", pairs, tmp_path) <= 25


@pytest.mark.long(
    covers=(
        "python/lasthop/analysis/checks",
        "python/lasthop/studies/claims",
        "python/lasthop/analysis/claims",
    ),
    seconds=30,
)
def test_verdicts_on_equal_simulated_versions_are_wrong_as_rarely_as_stated(
    lasthop_main: Main, tmp_path: Path
) -> None:
    """As above, but with 100 000 downloads that met losses of their own."""
    write("up.toml", replications=100_000)
    assert lasthop_main("run", "up.toml", "--quiet") == 0
    times = pl.read_parquet("results/up/flows.parquet")["elapsed_s"].to_numpy()
    pairs = times.reshape(500, 2, 100)
    found = {
        name: _alarms(f"{name}(elapsed_s) <= {name}(elapsed_s, baseline)", pairs, tmp_path)
        for name in ("p95", "median", "mean")
    }
    assert max(found.values()) <= 25, found


def _alarms(holds: str, pairs: np.ndarray, folder: Path) -> int:  # type: ignore[type-arg]
    """Return how many of the pairs, each of two samples, violate a claim."""
    file = folder / "study.claims.toml"
    file.write_text(f'[[claim]]\nid = "C"\ntext = "no worse"\nholds = "{holds}"\n', encoding="utf-8")
    claims = load_claims(file, _NO_FACTORS)
    verdicts = []
    for one, other in pairs:
        records = Records({"flows": _flows(one)}, [])
        earlier = Records({"flows": _flows(other)}, [], beside=records)
        verdicts.append(evaluate(claims, records, earlier)[0].verdict)
    return verdicts.count("not upheld")


class _Study:
    factors: dict[str, list[str]] = {}  # noqa: RUF012

    class _Cell:
        levels: dict[str, str] = {}  # noqa: RUF012

    cells = (_Cell(),)


_NO_FACTORS = _Study()


def _flows(values: np.ndarray) -> pl.DataFrame:  # type: ignore[type-arg]
    count = len(values)
    return pl.DataFrame(
        {"set": [1] * count, "replication": range(1, count + 1), "role": ["a"] * count, "elapsed_s": values}
    )


def test_what_did_not_finish_is_not_left_out(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    write("up.toml", LIMIT.format(limit=60))
    text = Path("up.toml").read_text(encoding="utf-8")
    Path("up.toml").write_text(f'time_limit = "2400 ms"\n{text}', encoding="utf-8")
    assert lasthop_main("check", "up.toml") == 5
    assert re.search(
        r"\d replications? ha(s|ve) no value, because a flow did not finish", capsys.readouterr().out
    )


def test_replications_are_added_until_a_claim_is_decided(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = '[[claim]]\nid = "mean"\ntext = "they take less than 2.4 s"\nholds = "elapsed_s < 2.4"\n'
    write("up.toml", claim)
    assert lasthop_main("check", "up.toml", "--replications", 10) == 5
    assert lasthop_main("check", "up.toml", "--until-decided", "--at-most", 400) == 0
    looked = re.search(r"up.toml: (\d+) replications", capsys.readouterr().out.split("\nclaims:")[1])
    assert looked is not None
    assert int(looked[1]) in (16, 25, 40, 63, 100, 158, 251, 398, 400)
    write("up.toml", claim.replace("2.4", "2.33"))
    assert lasthop_main("check", "up.toml", "--until-decided", "--at-most", 10, "--quiet") in (4, 5)


def test_the_command_of_a_verdict_tells_of_the_worst_run(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("up.toml", LIMIT.format(limit=2))
    text = Path("up.toml").read_text(encoding="utf-8")
    factor = (
        '[factor.rate.slow]\ndown.link.rate = "1 Mbit/s"\n[factor.rate.fast]\ndown.link.rate = "2 Mbit/s"\n'
    )
    Path("up.toml").write_text(text + factor, encoding="utf-8")
    assert lasthop_main("check", "up.toml", "--seed", 3) == 4
    said = capsys.readouterr().out
    command = re.search(r"lasthop (explain up.toml --only rate=slow --replication (\d+) --seed 3)", said)
    assert command is not None
    flows = pl.read_parquet("results/up/flows.parquet").filter(pl.col("rate") == "slow")
    assert flows.sort("elapsed_s")["replication"][-1] == int(command[2])
    assert main(command[1].split()) == 0
    assert "download" in capsys.readouterr().out


def test_services_get_the_verdicts_in_their_formats(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("up.toml", LIMIT.format(limit=2), LIMIT.format(limit=5).replace('"limit"', '"kept"'), NO_WORSE)
    files = ("--junit", "verdicts.xml", "--json", "verdicts.json")
    assert lasthop_main("check", "up.toml", *files, "--format", "github") == 4
    suite = ElementTree.parse("verdicts.xml").getroot()
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["3", "1", "1", "0"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "p95(elapsed_s) < 2" in failure.get("message", "")
    (told,) = json.loads(Path("verdicts.json").read_text(encoding="utf-8"))
    assert [claim["verdict"] for claim in told["claims"]] == ["not upheld", "upheld", "not run"]
    assert told["claims"][0]["command"].startswith("lasthop explain up.toml --replication ")
    line = next(
        number
        for number, text in enumerate(Path("up.toml").read_text(encoding="utf-8").splitlines(), 1)
        if text == 'id = "limit"'
    )
    said = capsys.readouterr().out
    assert f"::error file=up.toml,line={line},title=claim limit%3A not upheld::" in said
    assert "::warning file=up.toml" in said


def test_baselines_are_listed_and_removed(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    write("up.toml", LIMIT.format(limit=5))
    assert lasthop_main("check", "up.toml", "--quiet") == 0
    assert lasthop_main("check", "baseline", "save", "up") == 0
    assert lasthop_main("check", "baseline", "save", "up") == 2
    assert "baselines/up already exists: give --overwrite" in capsys.readouterr().err
    assert lasthop_main("check", "baseline", "save", "up", "--overwrite") == 0
    assert lasthop_main("check", "baseline", "list") == 0
    assert re.search(r"^up +model +1 +100 ", capsys.readouterr().out, re.MULTILINE)
    assert lasthop_main("results", "show", "baselines/up") == 0
    Path("baselines/up/notes.txt").write_text("mine", encoding="utf-8")
    assert lasthop_main("check", "baseline", "remove", "upp") == 2
    assert "did you mean 'up'?" in capsys.readouterr().err
    assert lasthop_main("check", "baseline", "remove", "up") == 0
    assert [file.name for file in Path("baselines/up").iterdir()] == ["notes.txt"]


def test_a_baseline_of_another_scenario_is_refused(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("other.toml", LIMIT.format(limit=5))
    write("up.toml", NO_WORSE)
    assert lasthop_main("check", "other.toml", "--quiet") == 0
    assert lasthop_main("check", "baseline", "save", "other") == 0
    assert lasthop_main("check", "up.toml", "--baseline", "baselines/other") == 2
    assert "belongs to the scenario 'other', not to up.toml" in capsys.readouterr().err
    assert lasthop_main("check", "up.toml", "--baseline", "nowhere") == 2
    assert "'lasthop check baseline save up' saves those in results/up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--at-most", "50"), "--at-most needs --until-decided"),
        (("--until-decided", "--replications", "5"), "--until-decided chooses the number"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], reason: str
) -> None:
    write("up.toml", LIMIT.format(limit=5))
    assert lasthop_main("check", "up.toml", *options) == 2
    assert reason in capsys.readouterr().err


def test_an_unknown_word_beside_the_baseline_is_told(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    write("up.toml", NO_WORSE.replace("baseline)", "baselin)"))
    assert lasthop_main("check", "up.toml") == 2
    assert "may be followed by 'baseline'" in capsys.readouterr().err
