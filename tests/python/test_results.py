"""`lasthop results`: what a folder holds, and removing what nobody asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import fake_core
from lasthop.results.folder import FLOWS
from lasthop.results.store import STORE, Store

Main = Callable[..., int]
OUT = Path("results/kulve2003")


def shown(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert lasthop_main("results", OUT) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[:12].strip(): line[12:] for line in lines}


def test_a_folder_says_what_it_holds_and_gc_removes_what_is_not_asked_for(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", study_file, "--quiet") == 0
    found = shown(lasthop_main, capsys)
    assert found["scenario"] == "kulve2003, 48 cells, engine model"
    assert found["runs"] == "192 asked for, 192 there, 0 missing"
    assert found["others"].startswith("0 runs")
    assert found["simulated"].startswith("192 runs in ")
    assert found["state"] == "finished"
    assert lasthop_main("run", study_file, "--quiet", "--only", "link=r3", "--replications", "3") == 0
    tables = (OUT / FLOWS).read_bytes()
    found = shown(lasthop_main, capsys)
    assert found["runs"] == "24 asked for, 24 there, 0 missing"
    before = (OUT / STORE).stat().st_size
    assert lasthop_main("results", "gc", OUT) == 0
    assert "Removed " in capsys.readouterr().out
    assert (OUT / STORE).stat().st_size < before
    with Store(OUT, read_only=True) as store:
        assert sum(piece.count for piece in store.pieces()) < 64
    (OUT / "manifest.json").unlink()
    engine.ran.clear()
    assert lasthop_main("run", study_file, "--quiet", "--only", "link=r3", "--replications", "3") == 0
    assert engine.ran == []
    assert (OUT / FLOWS).read_bytes() == tables


def test_missing_runs_are_named_by_cell(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(number: int) -> None:
        if number == 41:
            raise KeyboardInterrupt

    engine.before_run = stop
    assert lasthop_main("run", study_file, "--quiet", "--jobs", "1") == 130
    assert "40 of 192 runs are kept" in capsys.readouterr().err
    found = shown(lasthop_main, capsys)
    assert found["runs"] == "192 asked for, 40 there, 152 missing"
    assert found["state"].startswith("not finished")
    assert found[""].startswith("4 missing of link=")


def test_another_folder_is_refused(lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["results", tmp_path], ["results", "gc", tmp_path]):
        assert lasthop_main(*command) == 2
        assert "has no store.sqlite" in capsys.readouterr().err
