"""Random courses: the claim of their example, and their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from claims_tools import verdicts
from commands import ROOT

Main = Callable[..., int]
EXAMPLE = ROOT / "examples" / "starlink-call.toml"
ONE = ("--only", "load=upload,queue=drop-tail")


def test_epochs_spoil_a_call_only_through_a_long_queue(lasthop_main: Main, tmp_path: Path) -> None:
    """The claims of examples/starlink-call.toml: frames come too late, hardly any is lost."""
    assert lasthop_main("run", EXAMPLE, "--out", tmp_path / "out", "--quiet") == 0
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    up = flows.filter(role="call-up")
    assert verdicts(tmp_path / "out") == dict.fromkeys(["alone", "luck", "fq_codel"], "upheld")
    unlucky = up.filter(load="upload", queue="drop-tail").sort("mos")
    assert len(unlucky) == 10
    assert unlucky["voice_loss"].max() < 0.01
    assert unlucky["voice_late"].first() > 0.05


def test_a_scenario_that_names_what_was_drawn_has_the_same_run(lasthop_main: Main, tmp_path: Path) -> None:
    """The export of a course, read back."""
    for place in ("down", "up"):
        out = tmp_path / f"{place}.csv"
        assert lasthop_main("export", EXAMPLE, *ONE, "--course", place, "--out", out, "--quiet") == 0
    drawn = (tmp_path / "up.csv").read_text(encoding="utf-8").splitlines()
    assert drawn[0] == "time_s,rate_bps,delay_s"
    assert [line.split(",")[0] for line in drawn[2::2]][:4] == ["12", "27", "42", "57"]
    preset = (ROOT / "crates" / "lasthop-scenario" / "presets" / "starlink.toml").read_text(encoding="utf-8")
    tables = preset.split("\n\n")
    named = [
        f'{table}\ncourse = "{table[1:].split(".")[0]}.csv"' if ".link]" in table else table
        for table in tables
        if ".link.course]" not in table
    ]
    (tmp_path / "named.toml").write_text("\n\n".join(named), encoding="utf-8")
    example = EXAMPLE.read_text(encoding="utf-8").replace('extends = "starlink"', 'extends = "named.toml"')
    (tmp_path / "call.toml").write_text(example, encoding="utf-8")
    results = []
    for number, file in enumerate((EXAMPLE, tmp_path / "call.toml")):
        out = tmp_path / f"out{number}"
        code = lasthop_main("run", file, *ONE, "--replications", "1", "--out", out, "--quiet")
        assert code == 0
        results.append(pl.read_parquet(out / "flows.parquet"))
    assert results[0].equals(results[1])


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--course", "up"], "there are 4 cells; choose one with --only"),
        ([*ONE, "--course", "sideways"], "Give 'down' or 'up'"),
        ([*ONE, "--course", "cable-up"], "there is no hop"),
        ([*ONE, "--course", "up", "--over", "replications"], "leave out --over"),
    ],
)
def test_a_course_that_cannot_be_written_is_an_error(
    arguments: list[str], part: str, lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("export", EXAMPLE, *arguments, "--out", tmp_path / "up.csv") != 0
    assert part in capsys.readouterr().err
    assert not (tmp_path / "up.csv").exists()
