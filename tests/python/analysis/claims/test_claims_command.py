"""Claims beside a scenario: `run` and `study run` check them, `lasthop check results` checks them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import fake_core
from lasthop.commands.cli import main

CLAIMS = """
[select]
one = { link = "e0", workload = "2tcp0udp", variant = "eifel" }

[[claim]]
id = "order"
section = "5.1"
text = "The slower flow takes <longer>"
holds = "elapsed_s(one, flow='tcp-slower') > elapsed_s(one, flow='tcp-faster')"
contradicts = ["reverse"]

[[claim]]
id = "reverse"
text = "The slower flow is faster"
holds = "elapsed_s(one, flow='tcp-slower') < elapsed_s(one, flow='tcp-faster')"
reading = "A joke."
explanation = "The slower flow is the one that takes longer."
contradicts = ["order"]

[[claim]]
id = "elsewhere"
text = "It is so on r1"
holds = "elapsed_s(flow='tcp-slower') > elapsed_s(flow='tcp-faster')"
where = { link = "r1", workload = "2tcp0udp" }

[[claim]]
id = "opinion"
text = "Users like it"
uncomputable = "nobody was asked"
"""
COUNTED = "claims: 1 upheld, 1 not upheld, 0 undecided, 1 uncomputable, 1 not run of 4"

Command = Callable[..., int]


@pytest.fixture
def claimed(study_file: Path) -> Path:
    (study_file.parent / "claims.toml").write_text(CLAIMS, encoding="utf-8")
    return study_file


@pytest.fixture
def finished(engine: fake_core.Engine, claimed: Path, lasthop_main: Command, tmp_path: Path) -> Path:
    assert engine.ran == []
    assert lasthop_main("run", claimed, "--only", "link=e0", "--out", tmp_path / "out") == 0
    return tmp_path / "out"


def test_a_run_says_how_many_claims_are_upheld(
    finished: Path, claimed: Path, lasthop_main: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", claimed, "--only", "link=e0", "--out", finished) == 0
    assert f"\n{COUNTED}\n" in capsys.readouterr().out


def test_a_run_leaves_the_claims_as_tables(finished: Path) -> None:
    claims = pl.read_csv(finished / "claims.csv")
    assert claims.select("id", "verdict").rows() == [
        ("order", "upheld"),
        ("reverse", "not upheld"),
        ("elsewhere", "not run"),
        ("opinion", "uncomputable"),
    ]
    assert claims["explanation"].to_list() == [
        None,
        "The slower flow is the one that takes longer.",
        None,
        None,
    ]
    assert claims["reason"].to_list() == [None, None, "8 of its 8 cells were not run", "nobody was asked"]
    assert claims["where"].to_list() == [None, None, "link=r1,workload=2tcp0udp", None]
    cells = pl.read_csv(finished / "claims_cells.csv")
    assert cells.select("id", "replications").rows() == [("order", 4), ("reverse", 4)]
    flows = pl.read_parquet(finished / "flows.parquet").filter(
        link="e0", workload="2tcp0udp", variant="eifel"
    )
    slower, faster = (flows.filter(role=f"tcp-{which}er")["elapsed_s"].mean() for which in ("slow", "fast"))
    assert (claims["left"][0], claims["right"][0]) == (slower, faster)


def test_the_report_has_the_claims_and_contradictory_ones_side_by_side(finished: Path) -> None:
    page = (finished / "report.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="claims">') : page.index('<section id="traces">')]
    assert '<a href="#claims">' in page
    assert COUNTED[1:] in section
    assert "The slower flow takes &lt;longer&gt;" in section
    assert "elapsed_s(one, flow=&#39;tcp-slower&#39;) &gt; elapsed_s" in section
    assert section.count("A joke.") == 1
    pair = section[section.index("Claims that contradict each other") :]
    assert (
        '<li><span class="badge good">upheld</span> The slower flow takes &lt;longer&gt; '
        '(<code>order</code>) versus <span class="badge bad">not upheld</span> The slower flow is faster '
        "(<code>reverse</code>)</li>"
    ) in pair


def test_a_report_without_claims_has_no_section(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Command, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert lasthop_main("run", study_file, "--only", "link=e0", "--out", out) == 0
    assert engine.ran
    page = (out / "report.html").read_text(encoding="utf-8")
    assert '<section id="times">' in page
    assert 'id="claims"' not in page
    assert 'href="#claims"' not in page
    assert not (out / "claims.csv").exists()


def test_a_wrong_claim_stops_before_anything_is_run(
    engine: fake_core.Engine, claimed: Path, lasthop_main: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    file = claimed.parent / "claims.toml"
    file.write_text(CLAIMS.replace("tcp-slower') >", "tcp-slower') >>"), encoding="utf-8")
    assert lasthop_main("run", claimed, "--only", "link=e0") == 2
    assert f"{file}:6: claim order: holds: " in capsys.readouterr().err
    assert engine.ran == []


def test_other_scenarios_of_the_folder_have_no_claims(
    engine: fake_core.Engine, claimed: Path, lasthop_main: Command, tmp_path: Path
) -> None:
    other = claimed.with_name("other.toml")
    other.write_text("kulve2003\n", encoding="utf-8")
    assert lasthop_main("run", other, "--only", "link=e0", "--quiet", "--out", tmp_path / "other") == 0
    assert engine.ran
    assert not (tmp_path / "other" / "claims.csv").exists()


# ---- lasthop check results -------------------------------------------------------------------------------


def test_the_command_shows_the_chosen_claims_and_counts_all(
    finished: Path, claimed: Path, lasthop_main: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert lasthop_main("check", "results", finished, "--scenario", claimed, "--only", "order,opinion") == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in shown] == ["claim", "order", "opinion", "claims:", "without"]
    assert shown[1][1] == "upheld"
    assert shown[2][1:] == ["uncomputable", "nobody", "was", "asked"]
    assert " ".join(shown[3]) == COUNTED


def test_the_command_chooses_by_verdict_and_writes_a_table(
    finished: Path, claimed: Path, lasthop_main: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    out = tmp_path / "failed.csv"
    options = ["--verdict", "not upheld", "--verdict", "not run", "--out", out, "--quiet"]
    assert lasthop_main("check", "results", finished, "--scenario", claimed, *options) == 0
    assert capsys.readouterr().out == ""
    whole = pl.read_csv(finished / "claims.csv")
    assert pl.read_csv(out).rows() == whole.filter(pl.col("verdict").is_in(["not upheld", "not run"])).rows()


def test_a_claim_may_be_changed_after_the_run(
    finished: Path, claimed: Path, lasthop_main: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    (claimed.parent / "claims.toml").write_text(
        CLAIMS.replace("tcp-slower') >", "tcp-slower') <"), encoding="utf-8"
    )
    capsys.readouterr()
    assert lasthop_main("check", "results", finished, "--scenario", claimed, "--only", "order") == 0
    assert "not upheld" in capsys.readouterr().out.splitlines()[1]


def test_results_of_no_study_find_their_file_or_ask_for_it(
    lasthop_main: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = '[[claim]]\nid = "lone"\ntext = "x"\nholds = "timeouts() < 1"\n'
    flow = 'extends = "dsl"\n[[flow]]\nkind = "bulk-tcp"\nbytes = "10 kB"\n'
    file, moved = tmp_path / "mine.toml", tmp_path / "moved" / "mine.toml"
    file.write_text(f"{flow}{claim}", encoding="utf-8")
    assert lasthop_main("run", file, "--out", tmp_path / "out", "--quiet") == 0
    assert lasthop_main("check", "results", tmp_path / "out") == 0
    assert "lone   undecided" in capsys.readouterr().out
    moved.parent.mkdir()
    file.rename(moved)
    assert lasthop_main("check", "results", tmp_path / "out") == 2
    assert "'mine', whose file no longer exists: give --scenario" in capsys.readouterr().err
    assert lasthop_main("check", "results", tmp_path / "out", "--scenario", moved) == 0


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        (["--only", "ordr"], ["--only ordr: no claim has this id", "did you mean 'order'"]),
        (["--verdict", "held"], ["'held' is not one of", "'not upheld'"]),
        (["--out", "failed.txt"], ["the suffix must be a format (.csv, .json, .parquet)"]),
    ],
)
def test_wrong_options_are_explained(
    finished: Path,
    lasthop_main: Command,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    reasons: list[str],
) -> None:
    claimed = finished.parent / "kulve2003" / "study.toml"
    assert lasthop_main("check", "results", finished, "--scenario", claimed, *options) == 2
    error = capsys.readouterr().err
    for reason in reasons:
        assert reason in error


def test_a_folder_without_results_is_refused(
    engine: fake_core.Engine, lasthop_main: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine.ran == []
    assert lasthop_main("check", "results", tmp_path) == 2
    assert "contains no manifest.json and no runs.parquet and no flows.parquet" in capsys.readouterr().err


def test_results_of_another_scenario_are_refused(
    finished: Path, scenario_file: Path, lasthop_main: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("check", "results", finished, "--scenario", scenario_file) == 2
    assert f"contains results of a different scenario than {scenario_file}" in capsys.readouterr().err


def test_a_scenario_without_claims_is_refused(
    finished: Path, claimed: Path, lasthop_main: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    (claimed.parent / "claims.toml").unlink()
    assert lasthop_main("check", "results", finished, "--scenario", claimed) == 2
    assert "its folder has neither study.claims.toml nor claims.toml" in capsys.readouterr().err


def test_the_scenario_is_by_default_that_of_the_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    only = "link=e0,workload=2tcp0udp5s,variant=eifel"
    assert (
        main(
            ["study", "run", "kulve2003", "--only", only, "--replications", "3", "--quiet", "--out", str(out)]
        )
        == 0
    )
    assert main(["check", "results", str(out), "--verdict", "upheld"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["claim", "lock-out", "K060", "statements:"]
