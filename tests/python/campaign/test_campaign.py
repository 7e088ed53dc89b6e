from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import polars as pl
import pytest

import fake_core
from lasthop import _core
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.inventory import Outlook
from lasthop.campaign.plan import Plan
from lasthop.campaign.progress import progress
from lasthop.campaign.results.folder import FLOWS, MANIFEST, RUNS, TRACES, empty, locked
from lasthop.campaign.results.store import NEW_STORE, STORE
from lasthop.campaign.runner import Threads
from lasthop.common.errors import InputError, InterruptedCampaignError
from lasthop.engines.live.live_engine import LiveEngine


def make_plan(
    engine: fake_core.Engine, file: Path, *, replications: int = 3, sets: int = 1, seed: int = 1
) -> Plan:
    study = cast("_core.Study", engine.load(str(file)))
    return Plan(study, study.cells, seed, replications, sets)


def ignore(_: int) -> None:
    pass


def records(out: Path) -> tuple[bytes, bytes]:
    return (out / FLOWS).read_bytes(), (out / RUNS).read_bytes()


def test_records_have_factors_sets_and_roles(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    campaign = Campaign(make_plan(engine, scenario_file, sets=2), tmp_path / "out")
    campaign.run(Threads(2), ignore)
    flows = campaign.finished.flows()
    assert flows.columns[:5] == ["queue", "set", "replication", "flow", "role"]
    assert flows.height == 2 * 2 * 3 * 2
    assert campaign.finished.run_rows().height == 2 * 2 * 3
    order = flows.select("set", "queue", "replication").rows()
    assert order == sorted(order, key=lambda row: (row[0], fake_core.SMALL["queue"].index(row[1]), row[2]))


def test_sets_use_consecutive_replication_numbers(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    campaign = Campaign(make_plan(engine, scenario_file, sets=3, replications=4), tmp_path / "out")
    campaign.run(Threads(1), ignore)
    assert sorted({number for _, number in engine.ran}) == list(range(1, 13))
    numbers = campaign.finished.flows().group_by("set").agg(pl.col("replication").unique().sort()).sort("set")
    assert numbers["replication"].to_list() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]


def test_bytes_do_not_depend_on_the_number_of_threads(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path
) -> None:
    for jobs in (1, 4):
        Campaign(make_plan(engine, study_file), tmp_path / str(jobs)).run(Threads(jobs), ignore)
    assert records(tmp_path / "1") == records(tmp_path / "4")


def test_an_interrupted_campaign_goes_on_where_it_stopped(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path
) -> None:
    whole = Campaign(make_plan(engine, study_file), tmp_path / "whole")
    whole.run(Threads(1), ignore)
    engine.ran.clear()
    advanced: list[int] = []

    def stop_after_some(runs: int) -> None:
        advanced.append(runs)
        if sum(advanced) >= 15:
            raise KeyboardInterrupt

    broken = Campaign(make_plan(engine, study_file), tmp_path / "broken")
    with pytest.raises(InterruptedCampaignError, match="Repeat the command to continue"):
        broken.run(Threads(1), stop_after_some)
    before = len(engine.ran)
    resumed = Campaign(make_plan(engine, study_file), tmp_path / "broken")
    assert resumed.existed
    assert not resumed.complete
    assert resumed.outlook() == Outlook(stored=before, missing=resumed.plan.runs - before, again=0, others=0)
    resumed.run(Threads(2), ignore)
    assert len(engine.ran) == resumed.plan.runs
    assert records(tmp_path / "broken") == records(tmp_path / "whole")
    assert resumed.simulated.runs == resumed.plan.runs


@pytest.mark.parametrize("lost", [FLOWS, RUNS, MANIFEST])
def test_records_that_are_lost_are_merged_again_without_a_run(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path, lost: str
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    expected = records(out)
    (out / lost).unlink()
    engine.ran.clear()
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    assert engine.ran == []
    assert records(out) == expected


def test_progress_moves_within_a_cell(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    scenario_file.write_text("single", encoding="utf-8")
    engine.before_run = lambda _: time.sleep(0.01)
    steps: list[int] = []
    Campaign(make_plan(engine, scenario_file, replications=50), tmp_path / "out").run(
        Threads(1), steps.append
    )
    assert sum(steps) == 50
    assert sum(step > 0 for step in steps) > 3


def test_progress_names_its_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([100.0, 107.0, 120.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    with progress(50, 10, quiet=False) as advance:
        advance(0)
        advance(10)
    assert capsys.readouterr().err.splitlines() == [
        "10 of 50 runs, 7 s elapsed",
        "20 of 50 runs, 20 s elapsed, about 60 s left",
    ]


def test_a_progress_whose_total_is_a_bound_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([100.0, 120.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    with progress(50, 0, quiet=False, most=True) as advance:
        advance(10)
    assert capsys.readouterr().err == "10 of at most 50 runs, 20 s elapsed, at most 80 s left\n"


def test_a_complete_campaign_runs_nothing(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    Campaign(make_plan(engine, scenario_file), tmp_path / "out").run(Threads(1), ignore)
    engine.ran.clear()
    again = Campaign(make_plan(engine, scenario_file), tmp_path / "out")
    assert again.complete
    assert again.run(Threads(1), ignore).runs == 0
    assert engine.ran == []


def test_a_damaged_manifest_of_a_store_is_rewritten(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    expected = (out / MANIFEST).read_bytes()
    (out / MANIFEST).write_bytes(expected[: len(expected) // 2])
    engine.ran.clear()
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    assert engine.ran == []
    assert (out / MANIFEST).read_bytes() == expected


def test_a_kill_while_the_store_is_created_does_no_harm(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / NEW_STORE).write_bytes(b"half")
    (out / ".lock").write_bytes(b"")
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    assert not (out / NEW_STORE).exists()


def test_more_replications_run_only_the_missing(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    Campaign(make_plan(engine, scenario_file, replications=5), tmp_path / "afresh").run(Threads(1), ignore)
    engine.ran.clear()
    longer = Campaign(make_plan(engine, scenario_file, replications=5), out)
    assert longer.outlook() == Outlook(stored=6, missing=4, again=0, others=0)
    longer.run(Threads(2), ignore)
    assert {number for _, number in engine.ran} == {4, 5}
    assert len(engine.ran) == 4
    assert records(out) == records(tmp_path / "afresh")
    assert json.loads((out / MANIFEST).read_text("utf-8"))["identity"]["replications"] == 5


def test_more_sets_use_what_is_there(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file, replications=6), out).run(Threads(1), ignore)
    engine.ran.clear()
    split = Campaign(make_plan(engine, scenario_file, replications=3, sets=2), out)
    split.run(Threads(1), ignore)
    assert engine.ran == []
    assert split.finished.flows().group_by("set").len()["len"].to_list() == [12, 12]


def test_a_longer_chain_of_cached_metrics_goes_on(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, study_file), out).run(Threads(1), ignore)
    engine.ran.clear()
    longer = Campaign(make_plan(engine, study_file, replications=4), out)
    chains = {cell.key for cell in longer.plan.cells if cell.sequential}
    assert chains
    assert longer.outlook().again == 0
    longer.run(Threads(2), ignore)
    assert {number for _, number in engine.ran} == {4}
    Campaign(make_plan(engine, study_file, replications=4), tmp_path / "afresh").run(Threads(1), ignore)
    assert records(out) == records(tmp_path / "afresh")
    shorter = Campaign(make_plan(engine, study_file, replications=2), out)
    engine.ran.clear()
    shorter.run(Threads(1), ignore)
    assert engine.ran == []


def test_a_changed_level_runs_alone_and_fewer_cells_are_left_in_the_store(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    before = records(out)
    plan = make_plan(engine, scenario_file)
    changed = cast("fake_core.Cell", plan.cells[1])
    changed.scenario = '{"mtu": "1500 B"}'
    cast("fake_core.Study", plan.study).digest = "b" * 32
    engine.ran.clear()
    campaign = Campaign(plan, out)
    assert campaign.outlook() == Outlook(stored=3, missing=3, again=0, others=3)
    campaign.run(Threads(1), ignore)
    assert {key for key, _ in engine.ran} == {changed.key}
    engine.ran.clear()
    original = make_plan(engine, scenario_file)
    single = Campaign(dataclasses.replace(original, cells=original.cells[:1]), out)
    assert single.outlook() == Outlook(stored=3, missing=0, again=0, others=6)
    single.run(Threads(1), ignore)
    assert set(single.finished.flows()["queue"]) == {"5 packets"}
    Campaign(original, out).run(Threads(1), ignore)
    assert engine.ran == []
    assert records(out) == before


def test_another_seed_runs_again_and_keeps_the_first(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    before = records(out)
    Campaign(make_plan(engine, scenario_file, seed=2), out).run(Threads(1), ignore)
    assert records(out) != before
    engine.ran.clear()
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    assert engine.ran == []
    assert records(out) == before


def test_results_of_another_version_are_refused_with_the_remedy(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    before = records(out)
    monkeypatch.setattr(_core, "RULES", "abcdef0123456789")
    with pytest.raises(InputError, match=r"rules abcdef01\); nothing was changed.*--overwrite"):
        Campaign(make_plan(engine, scenario_file), out)
    (out / MANIFEST).unlink()
    with pytest.raises(InputError, match="Results of different versions are never mixed"):
        Campaign(make_plan(engine, scenario_file), out)
    (out / STORE).unlink()
    with pytest.raises(InputError, match="files that are not results"):
        Campaign(make_plan(engine, scenario_file), out)
    assert records(out) == before


def test_another_commit_with_the_same_rules_runs_nothing_again(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    engine.ran.clear()
    monkeypatch.setattr("lasthop.campaign.plan.commit", lambda: "abcdef0")
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    assert engine.ran == []
    assert json.loads((out / MANIFEST).read_text())["identity"]["lasthop_commit"] == "abcdef0"


@pytest.mark.parametrize("change", [{"engine": "live"}, {"study": "single"}])
def test_results_of_another_engine_or_scenario_are_refused(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path, change: dict[str, str]
) -> None:
    out = tmp_path / "out"
    plan = make_plan(engine, scenario_file)
    Campaign(plan, out).run(Threads(1), ignore)
    before = records(out)
    if "study" in change:
        scenario_file.write_text("single", encoding="utf-8")
        plan = make_plan(engine, scenario_file)
    else:
        plan = dataclasses.replace(plan, engine=LiveEngine())
    with pytest.raises(
        InputError, match=r"contains results of the (engine model|scenario small), not of .*--overwrite"
    ):
        Campaign(plan, out)
    assert records(out) == before


def test_a_damaged_batch_is_run_again(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    before = records(out)
    database = sqlite3.connect(out / STORE)
    (flows,) = database.execute("SELECT flows FROM batch").fetchone()
    middle = len(flows) // 2
    database.execute(
        "UPDATE batch SET flows = ?", (flows[:middle] + bytes([flows[middle] ^ 255]) + flows[middle + 1 :],)
    )
    database.commit()
    database.close()
    (out / MANIFEST).unlink()
    engine.ran.clear()
    campaign = Campaign(make_plan(engine, scenario_file), out)
    campaign.run(Threads(1), ignore)
    assert campaign.damaged == len(engine.ran) == 6
    assert records(out) == before


@pytest.mark.parametrize("content", [b"no database", b""])
def test_a_file_that_is_not_a_store_is_an_error(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path, content: bytes
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(Threads(1), ignore)
    (out / STORE).write_bytes(content)
    with pytest.raises(
        InputError, match=r"store\.sqlite is damaged, or is not a store of lasthop .* --overwrite"
    ):
        Campaign(make_plan(engine, scenario_file), out)


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with locked(out):
        use = f"with locked(Path({str(out)!r})): pass"
        program = f"from lasthop.campaign.results.folder import locked\nfrom pathlib import Path\n{use}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert f"is in use by process {os.getpid()} on " in done.stderr
    assert not out.exists()
    with locked(out):
        assert [path.name for path in out.iterdir()] == [".lock"]


def test_overwriting_removes_results_and_nothing_else(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out, snap_length=96).run(Threads(1), ignore)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    empty(out)
    assert {path.name for path in out.iterdir()} == {"notes.txt", STORE}
    (out / STORE).unlink()
    with pytest.raises(
        InputError, match="contains files that are not results of lasthop; nothing was changed"
    ):
        empty(out)


@pytest.mark.parametrize("content", ["notes.txt", "flows.parquet"])
def test_foreign_content_is_refused(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path, content: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / content).write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="nothing was changed"):
        Campaign(make_plan(engine, scenario_file), out)
    assert [path.name for path in out.iterdir()] == [content]


def test_a_damaged_manifest_is_refused(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="is not a valid manifest"):
        Campaign(make_plan(engine, scenario_file), out)


def test_an_engine_failure_is_not_swallowed(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    def fail(_: int) -> None:
        raise RuntimeError("engine")

    engine.before_run = fail
    with pytest.raises(RuntimeError, match="engine"):
        Campaign(make_plan(engine, scenario_file), tmp_path / "out").run(Threads(2), ignore)


def test_manifest_and_records_state_their_origin(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file, seed=5), out).run(Threads(1), ignore)
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["identity"]["seed"] == 5
    assert manifest["identity"]["engine"] == "model"
    assert manifest["simulation"]["runs"] == 6
    assert set(manifest["host"]) == {"system", "processor", "cores", "python"}
    facts = pl.read_parquet_metadata(out / FLOWS)
    assert facts["lasthop.seed"] == "5"
    assert facts["lasthop.scenario_digest"] == "e" * 32


def captured(out: Path) -> list[str]:
    return sorted(str(file.relative_to(out / TRACES)) for file in (out / TRACES).rglob("*") if file.is_file())


def test_captures_are_named_by_cell_set_and_replication_and_records_stay_equal(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    plan = make_plan(engine, scenario_file, replications=2, sets=2)
    Campaign(plan, tmp_path / "plain").run(Threads(2), ignore)
    campaign = Campaign(plan, tmp_path / "out", snap_length=96)
    assert campaign.run(Threads(2), ignore).runs == plan.runs
    assert records(tmp_path / "out") == records(tmp_path / "plain")
    assert captured(tmp_path / "out") == sorted(
        f"queue={queue}/set-{s}/replication-{r}/server.pcapng"
        for queue in fake_core.SMALL["queue"]
        for s in (1, 2)
        for r in (1, 2)
    )
    text = (tmp_path / "out" / TRACES / "queue=5 packets/set-2/replication-1/server.pcapng").read_text(
        "utf-8"
    )
    assert "cell queue=5 packets, seed 1, set 2, replication 1 (number 3)" in text
    assert text.endswith(" 96")
    assert campaign.finished.traces_bytes() == sum(
        len(file.read_bytes()) for file in (tmp_path / "out" / TRACES).rglob("*.pcapng")
    )


def test_a_finished_folder_gets_captures_later_and_keeps_its_records(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out, plan = tmp_path / "out", make_plan(engine, scenario_file)
    Campaign(plan, out).run(Threads(1), ignore)
    before = records(out)
    for missing in (2, 1, 0):
        engine.ran.clear()
        campaign = Campaign(plan, out, snap_length=65535)
        assert sum(work.count for work in campaign.pending()) == missing * plan.replications
        assert campaign.run(Threads(1), ignore).runs == missing * plan.replications
        assert len(engine.ran) == missing * plan.replications
        assert len(captured(out)) == plan.runs
        assert records(out) == before
        assert campaign.simulated.runs == plan.runs
        if missing == 2:
            shutil.rmtree(out / TRACES / "queue=20 packets")
    Campaign(plan, out).run(Threads(1), ignore)
    assert len(captured(out)) == plan.runs


def test_a_killed_capture_is_repeated(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    out, plan = tmp_path / "out", make_plan(engine, scenario_file)

    def stop(ran: int) -> None:
        if ran == plan.replications + 1:
            raise OSError(28, "No space left on device")

    engine.before_run = stop
    with pytest.raises(OSError, match="No space"):
        Campaign(plan, out, snap_length=65535).run(Threads(1), ignore)
    assert {name.split("/")[0] for name in captured(out)} == {"queue=5 packets"}
    # Leftovers of a kill.
    half = out / TRACES / "queue=20 packets" / "set-1" / "replication-1.tmp"
    half.mkdir(parents=True)
    (half / "router-in.pcapng").write_bytes(b"half")
    Campaign(plan, out, snap_length=65535).run(Threads(1), ignore)
    assert len(captured(out)) == plan.runs
    assert not list(out.rglob("*.tmp"))


def test_captures_of_another_snap_length_are_refused(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out, plan = tmp_path / "out", make_plan(engine, scenario_file)
    Campaign(plan, out, snap_length=96).run(Threads(1), ignore)
    with pytest.raises(InputError, match="contains captures of 96 bytes of each packet, not of 65535"):
        Campaign(plan, out, snap_length=65535)
    assert Campaign(plan, out).pending() == []
    shutil.rmtree(out / TRACES)
    Campaign(plan, out, snap_length=65535).run(Threads(1), ignore)
    assert len(captured(out)) == plan.runs
    with pytest.raises(InputError, match="Use --snaplen 65535"):
        Campaign(plan, out, snap_length=96)
