"""`lasthop results`: the contents of a folder, and removing unneeded runs."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fake_core
from lasthop.campaign.results.folder import FLOWS, MANIFEST, PAGES
from lasthop.campaign.results.manifest import finished
from lasthop.campaign.results.store import STORE, Store
from lasthop.commands.cli import main
from lasthop.common.errors import InputError

Main = Callable[..., int]
OUT = Path("results/kulve2003")
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "space.toml"
READING = (
    ("results", "show", "DIR"),
    ("results", "query", "DIR", "FROM flows"),
    ("results", "compare", "DIR", "--reference", "cc=reno", "--metric", "elapsed_s"),
    ("plot", "DIR", "--y", "elapsed_s", "--x", "rate", "--out", "DIR/new.svg"),
    ("results", "size", "DIR"),
    ("export", "DIR", "--only", "cc=reno", "--out", "DIR/new.csv"),
    ("results", "factors", "DIR", "--metric", "elapsed_s"),
    ("run", str(EXAMPLE), "--points", "4", "--quiet", "--out", "DIR"),
)
NUMBERS = [-1, 0, 1, 10**30, 1.5, 1e308, float("nan"), float("inf")]
TEXTS = ["", "x", "\0", "\ud800", "a" * 5000]
VALUES = st.sampled_from([None, True, *NUMBERS, *TEXTS, [], {}, [[]], {"a": 1}, ["x"], [-1]])


def outputs(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert lasthop_main("results", "size", OUT) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[:12].strip(): line[12:] for line in lines}


def test_results_are_described_and_gc_removes_other_runs(
    engine: fake_core.Engine, study_file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("run", study_file, "--quiet") == 0
    texts = outputs(lasthop_main, capsys)
    assert texts["scenario"] == "kulve2003, 48 cells, engine model"
    assert texts["runs"] == "192 requested, 192 stored, 0 missing"
    assert texts["others"].startswith("0 runs")
    assert texts["simulated"].startswith("192 runs in ")
    assert texts["state"] == "finished"
    assert lasthop_main("run", study_file, "--quiet", "--only", "link=r3", "--replications", "3") == 0
    tables = (OUT / FLOWS).read_bytes()
    texts = outputs(lasthop_main, capsys)
    assert texts["runs"] == "24 requested, 24 stored, 0 missing"
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
    assert "40 of 192 runs are stored" in capsys.readouterr().err
    texts = outputs(lasthop_main, capsys)
    assert texts["runs"] == "192 requested, 40 stored, 152 missing"
    assert texts["state"].startswith("not finished")
    assert texts[""].startswith("4 missing of link=")


def test_another_folder_is_refused(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["results", "size", tmp_path], ["results", "gc", tmp_path]):
        assert lasthop_main(*command) == 2
        assert "has no store.sqlite" in capsys.readouterr().err


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return finished results with ranges."""
    out = tmp_path_factory.mktemp("manifest") / "out"
    assert main(["run", str(EXAMPLE), "--points", "4", "--quiet", "--out", str(out)]) == 0
    return out


def copied(results: Path, out: Path, manifest: str, *, store: bool) -> None:
    """Copy results, with another manifest and perhaps without their store."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(results, out)
    (out / MANIFEST).write_bytes(manifest.encode("utf-8", "surrogatepass"))
    if not store:
        (out / STORE).unlink()


def read_back(lasthop_main: Main, out: Path, command: tuple[str, ...]) -> int:
    return lasthop_main(*(word.replace("DIR", str(out)) for word in command))


def places(value: object, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in JSON; of long lists, those of the first elements."""
    items = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    for key, own in items:
        yield (*place, key)
        yield from places(own, (*place, key))


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_manifest_of_any_content_is_read_or_refused(
    results: Path, tmp_path: Path, lasthop_main: Main, data: st.DataObject
) -> None:
    manifest = json.loads((results / MANIFEST).read_text(encoding="utf-8"))
    changed: Any = copy.deepcopy(manifest)
    for place in data.draw(st.lists(st.sampled_from(list(places(manifest))), min_size=1, max_size=2)):
        with suppress(LookupError, TypeError):  # another change has removed this path
            holder = changed
            for key in place[:-1]:
                holder = holder[key]
            if data.draw(st.integers(0, 3)):
                holder[place[-1]] = data.draw(VALUES)
            else:
                del holder[place[-1]]
    out = tmp_path / "out"
    copied(results, out, json.dumps(changed), store=data.draw(st.booleans()))
    assert read_back(lasthop_main, out, data.draw(st.sampled_from(READING))) in (0, 2)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ("[]", "the document is not a table"),
        ("", "Expecting value"),
        ("\ud800", "'utf-8' codec can't decode byte"),
        ({"simulation": {"runs": "8", "wall_s": 1.0}}, "`simulation.runs` is not a whole number from 0"),
        ({"simulation": {"runs": 10**400, "wall_s": 1.0}}, "`simulation.runs` is not a whole number from 0"),
        (
            {"space": {"method": "sobol", "points": 4, "ranges": {"rate": {}}}},
            "`space.ranges.rate.column` is missing",
        ),
        ({"assumed": [{"key": 1}]}, "`assumed[0].key` is not a string"),
        ({"scenario_file": "\ud800"}, "`scenario_file` is not a string"),
        ({"host": []}, "`host` is not a table"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else next(iter(value)),
)
def test_a_wrong_manifest_is_refused_with_its_key(
    results: Path, tmp_path: Path, manifest: str | dict[str, object], reason: str
) -> None:
    if isinstance(manifest, dict):
        manifest = json.dumps(json.loads((results / MANIFEST).read_text(encoding="utf-8")) | manifest)
    out = tmp_path / "out"
    copied(results, out, manifest, store=True)
    with pytest.raises(InputError) as error:
        finished(out)
    assert f"{out / MANIFEST} is not a valid manifest of lasthop ({reason}" in str(error.value)
    assert "Repeat the command that wrote it" in str(error.value)


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_a_manifest_that_is_nested_too_deeply_is_refused_or_rewritten(
    results: Path,
    tmp_path: Path,
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    out = tmp_path / "out"
    copied(results, out, '{"identity": ' * 20_000, store=True)
    code = read_back(lasthop_main, out, command)
    printed = capsys.readouterr()
    if command[:2] == ("results", "size"):
        assert (code, printed.err) == (0, "")
        assert "not finished; repeat the command to continue" in printed.out
    elif command[0] == "run":
        assert code == 0
        assert (out / FLOWS).read_bytes() == (results / FLOWS).read_bytes()
    else:
        assert code == 2
        assert "it is nested too deeply" in printed.err
        assert printed.err.count("\n") == 1


def test_a_table_of_other_results_is_not_used(
    results: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(results, out)
    shutil.copy(out / FLOWS, out / PAGES)
    assert lasthop_main("results", "query", out, "FROM pages") == 2
    assert f"{out / PAGES} is damaged" in capsys.readouterr().err
