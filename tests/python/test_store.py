"""Results on their way into the store, and out of it into tables."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pytest

import fake_core
from conftest import STUDY
from lasthop import _core, merge
from lasthop.campaign import FLOWS, RUNS, Campaign, Plan
from lasthop.folder import MERGING
from lasthop.runner import Threads
from lasthop.store import PIECE, TABLES, Batch, BatchBuilder, Store
from test_campaign import ignore, make_plan, records

EXAMPLES = STUDY.parents[1] / "examples"


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
    cells = [cell for name in ("web-page", "two-flows") for cell in _core.load(str(EXAMPLES / f"{name}.toml")).cells]
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
    assert [flows.schema[name] for name in ("role", "sent_packets", "elapsed_s")] == [pl.String, pl.Int64, pl.Float64]


def test_tables_that_are_merged_in_parts_are_the_same(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {}
    for runs in (10_000, 5):
        monkeypatch.setattr(merge, "_PART_RUNS", runs)
        out = tmp_path / str(runs)
        Campaign(make_plan(engine, study_file), out).run(Threads(2), ignore)
        tables[runs] = [pl.read_parquet(out / name) for name in (FLOWS, RUNS)]
        assert not (out / MERGING).exists()
    for whole, parts in zip(*tables.values(), strict=True):
        assert whole.height > 100
        assert whole.schema == parts.schema
        assert whole.equals(parts)


def test_what_a_kill_left_of_merging_is_in_nobodys_way(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    plan = make_plan(engine, scenario_file)
    Campaign(plan, out).run(Threads(1), ignore)
    before = records(out)
    (out / "manifest.json").unlink()
    (out / MERGING).mkdir()
    (out / MERGING / "flows-7").write_bytes(b"half")
    Campaign(plan, out).run(Threads(1), ignore)
    assert records(out) == before
    assert not (out / MERGING).exists()
