"""Writing results to the store, and reading them into tables."""

from __future__ import annotations

import pickle
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import polars as pl
import pytest

import fake_core
from conftest import STUDY, replace_table
from lasthop import _core
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.plan import Plan
from lasthop.campaign.results import merge
from lasthop.campaign.results.folder import FLOWS, MERGING, RUNS, locked
from lasthop.campaign.results.store import PIECE, STORE, Batch, BatchBuilder, Store
from lasthop.campaign.runner import Threads
from lasthop.common.errors import InputError
from lasthop.engines.records import TABLES
from test_campaign import ignore, make_plan, records

EXAMPLES = STUDY.parents[1] / "examples"
Main = Callable[..., int]
Make = Callable[[Path], int]


@pytest.fixture
def make(engine: fake_core.Engine, scenario_file: Path) -> Make:
    """Return a function that runs a scenario in a folder and returns the number of runs."""
    return lambda out: Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore).runs


def stored(folder: Path, results: list[_core.Results]) -> dict[str, pl.DataFrame]:
    builder = BatchBuilder()
    for number, each in enumerate(results):
        builder.add(f"source-{number}", 1, 2, None, each)
    batch: Batch = pickle.loads(pickle.dumps(builder.build()))
    assert batch.runs == 2 * len(results)
    with Store(folder) as store:
        store.add(batch)
        assert [(piece.source, piece.position) for piece in store.pieces()] == [
            (f"source-{number}", number) for number in range(len(results))
        ]
        return store.tables(1)


def test_every_number_of_the_engine_reaches_the_store_with_its_type(tmp_path: Path) -> None:
    cells = [
        cell
        for name in ("web-page", "two-flows")
        for cell in _core.load(str(EXAMPLES / f"{name}.toml")).cells
    ]
    results = [cell.run(1, 1, 2) for cell in cells]
    tables = stored(tmp_path, results)
    kinds = {str: pl.String, int: pl.Int64, float: pl.Float64}
    for table in TABLES:
        parts = [getattr(each, table) for each in results]
        frame = tables[table]
        assert frame.columns == [PIECE, *parts[0]]
        assert frame[PIECE].to_list() == [n for n, part in enumerate(parts) for _ in part["replication"]]
        for name in parts[0]:
            cells_ = [cell for part in parts for cell in part[name]]
            assert frame[name].to_list() == cells_, name
            assert {frame.schema[name]} >= {kinds[type(cell)] for cell in cells_ if cell is not None}, name
    flows = tables["flows"]
    assert 0 < flows["rtt_min_s"].null_count() < flows.height or flows["spacing_p50_ms"].null_count() > 0
    assert set(flows["role"]) >= {"main", "inline-1", "tcp-first", "tcp-second"}


def test_a_table_without_rows_knows_its_types(tmp_path: Path) -> None:
    study = _core.load(str(EXAMPLES / "short-flows.toml"))
    out = tmp_path / "out"
    Campaign(Plan(study, study.cells[:1], 1, 1), out).run(Threads(1), ignore)
    flows = pl.read_parquet(out / FLOWS)
    assert flows.height == 0
    assert [flows.schema[name] for name in ("role", "sent_packets", "elapsed_s")] == [
        pl.String,
        pl.Int64,
        pl.Float64,
    ]


def test_tables_that_are_merged_in_parts_are_the_same(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {}
    for rows in (100_000, 20):
        monkeypatch.setattr(merge, "_PART_ROWS", rows)
        out = tmp_path / str(rows)
        Campaign(make_plan(engine, study_file), out).run(Threads(2), ignore)
        tables[rows] = [pl.read_parquet(out / FLOWS) for name in (FLOWS, RUNS)]
        assert not (out / MERGING).exists()
    for whole, parts in zip(*tables.values(), strict=True):
        assert whole.height > 100
        assert whole.schema == parts.schema
        assert whole.equals(parts)


def test_what_a_kill_left_of_merging_is_in_nobodys_way(make: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(out)
    before = records(out)
    (out / "manifest.json").unlink()
    (out / MERGING).mkdir()
    (out / MERGING / "flows-7").write_bytes(b"half")
    assert make(out) == 0
    assert records(out) == before
    assert not (out / MERGING).exists()


@pytest.mark.parametrize("damage", ["flipped", "truncated", "foreign"])
def test_damaged_tables_are_rewritten_without_a_run(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], lasthop_main: Main, damage: str
) -> None:
    out = tmp_path / "out"
    make(out)
    before = records(out)
    content = (out / FLOWS).read_bytes()
    middle = len(content) // 3
    (out / FLOWS).write_bytes({
        # Parquet has no checksums: most flips of a bit only change a number.
        "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "truncated": content[:middle],
        "foreign": b"mine",
    }[damage])  # fmt: skip
    assert lasthop_main("results", "size", out) == 0
    assert "tables were modified or are missing; repeat the command" in capsys.readouterr().out
    for reading in (
        ("plot", out, "--out", tmp_path / "picture.png"),
        ("results", "show", out),
        ("results", "query", out, "FROM flows"),
    ):
        assert lasthop_main(*reading) == 2
        error = capsys.readouterr().err
        assert f"{out / FLOWS} is damaged (its SHA-256 differs from that in the manifest)" in error
        assert error.count("\n") == 1
    assert make(out) == 0
    assert records(out) == before


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_a_store_that_was_cut_short_is_an_error_and_stays_as_it_is(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path, share: float
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, study_file), out).run(Threads(1), ignore)
    content = (out / STORE).read_bytes()
    cut = content[: int(len(content) * share)]
    (out / STORE).write_bytes(cut)
    before = records(out)
    with pytest.raises(InputError, match=r"store\.sqlite is damaged, .* nothing was changed\. .*--overwrite"):
        Campaign(make_plan(engine, study_file, replications=5), out)
    assert (out / STORE).read_bytes() == cut
    assert records(out) == before


def test_a_store_with_a_flipped_bit_has_right_rows_or_is_reported_as_damaged(
    make: Make, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    make(out)
    before, content = records(out), (out / STORE).read_bytes()
    random = Random(1)
    used = [place for place, byte in enumerate(content) if byte]
    accepted, refused = 0, []
    # The first 100 bytes are SQLite's header. Those at 18 and 19 say which versions of SQLite may write and
    # read it.
    for place in {*range(100), *random.sample(used, 150)} - {18}:
        (out / "manifest.json").unlink(missing_ok=True)
        flipped = bytearray(content)
        flipped[place] ^= 1 << random.randrange(8)
        (out / STORE).write_bytes(flipped)
        code = lasthop_main("results", "size", out)
        error_text = capsys.readouterr().err
        assert (code, error_text) == (0, "") or (code == 2 and "store.sqlite is damaged" in error_text), place
        try:
            make(out)
        except InputError as error:
            refused.append((place, str(error)))
            assert bytes(flipped) == (out / STORE).read_bytes()
        else:
            assert records(out) == before, place
            accepted += 1
    pattern = r"(store\.sqlite is damaged, |contains results of ).* nothing was changed\. .*--overwrite"
    assert [place for place, error in refused if not re.search(pattern, error)] == []
    assert len(refused) > 30 < accepted


def test_a_store_with_the_tables_of_another_version_is_refused_with_the_version(
    make: Make, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    make(out)
    with closing(sqlite3.connect(out / STORE)) as database, database:
        database.execute("DROP TABLE memory")
        older = "UPDATE meta SET value = json_set(value, '$.lasthop_commit', 'older') WHERE key = 'identity'"
        database.execute(older)
    message = f"store.sqlite was written by lasthop {_core.VERSION} (commit older)"
    with pytest.raises(InputError, match=re.escape(message) + r".*never mixed\. .*--overwrite"):
        make(out)
    assert lasthop_main("results", "size", out) == 2
    assert message in capsys.readouterr().err


def test_a_piece_that_claims_runs_of_another_is_run_again(make: Make, tmp_path: Path) -> None:
    out = tmp_path / "out"
    runs = make(out)
    before = records(out)
    (out / "manifest.json").unlink()
    with closing(sqlite3.connect(out / STORE)) as database, database:
        database.execute("UPDATE piece SET first = first + 1 WHERE position = 0")
    assert 0 < make(out) <= runs
    assert records(out) == before


def test_folders_may_have_brackets_in_their_names(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], lasthop_main: Main
) -> None:
    outs = [tmp_path / name for name in ("rate[1]", "rate[2]*", "rate1")]
    for out in outs:
        make(out)
    frame = pl.read_parquet(outs[2] / FLOWS)
    replace_table(outs[2] / FLOWS, frame.with_columns(pl.col("elapsed_s") * 2))
    answers = []
    for out in outs:
        assert lasthop_main("results", "factors", out, "--metric", "elapsed_s", "--factors", "queue") == 0
        assert lasthop_main("plot", out, "--out", tmp_path / f"{out.name}.svg") == 0
        capsys.readouterr()
        assert lasthop_main("results", "show", out) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] != answers[2]


KILLED_WRITER = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
database.execute("PRAGMA cache_size = 1")  # so that pages go to the file before the end
database.execute("BEGIN IMMEDIATE")
for number in range(200):
    database.execute("INSERT INTO meta VALUES (?, ?)", (f"fact {number}", '"' + "x" * 1000 + '"'))
os._exit(0)
"""


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_store_that_a_kill_left_open_is_mended_when_the_command_is_repeated(
    make: Make, tmp_path: Path, journal: str
) -> None:
    out = tmp_path / "out"
    assert make(out) > 0
    leave_open(out, journal)
    assert make(out) == 0
    assert not list(out.glob(f"{STORE}-*"))


def leave_open(out: Path, journal: str) -> None:
    subprocess.run([sys.executable, "-c", KILLED_WRITER, str(out / STORE), journal], check=True)
    assert list(out.glob(f"{STORE}-*"))


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_results_that_a_kill_left_open_can_be_read(
    make: Make, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str], journal: str
) -> None:
    out = tmp_path / "out"
    make(out)
    assert lasthop_main("results", "size", out) == 0
    before = capsys.readouterr().out
    assert ", 0 missing" in before
    compared = ("results", "compare", out, "--reference", "queue=5 packets", "--metric", "elapsed_s")
    for reading in (
        ("results", "show", out),
        ("results", "query", out, "FROM flows"),
        ("plot", out, "--out", tmp_path / "picture.png"),
        compared,
        ("results", "size", out),
    ):
        leave_open(out, journal)
        assert lasthop_main(*reading) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
    assert printed.out == before
    assert not list(out.glob(f"{STORE}-*"))
    assert not (out / ".lock").exists()


def test_results_can_be_read_while_another_process_writes(
    make: Make, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    make(out)
    with locked(out), Store(out) as store:
        store.note(news=1)
        assert list(out.glob(f"{STORE}-*"))
        assert lasthop_main("results", "size", out) == 0
        assert ", 0 missing" in capsys.readouterr().out
        store.note(news=2)
