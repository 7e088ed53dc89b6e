from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import cast

import polars as pl
import pytest

import fake_core
from lasthop import _core
from lasthop.campaign import FLOWS, RUNS, TRACES, Campaign, Plan
from lasthop.errors import InputError, InterruptedCampaignError


def make_plan(engine: fake_core.Engine, file: Path, *, replications: int = 3, sets: int = 1, seed: int = 1) -> Plan:
    study = cast("_core.Study", engine.load(str(file)))
    return Plan(study, study.cells, seed, replications, sets)


def ignore(_: int) -> None:
    pass


def records(out: Path) -> tuple[bytes, bytes]:
    return (out / FLOWS).read_bytes(), (out / RUNS).read_bytes()


def test_records_have_factors_sets_and_roles(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    campaign = Campaign(make_plan(engine, scenario_file, sets=2), tmp_path / "out")
    campaign.run(2, ignore)
    flows = campaign.flows()
    assert flows.columns[:5] == ["queue", "set", "replication", "flow", "role"]
    assert flows.height == 2 * 2 * 3 * 2
    assert campaign.run_rows().height == 2 * 2 * 3
    order = flows.select("set", "queue", "replication").rows()
    assert order == sorted(order, key=lambda row: (row[0], fake_core.SMALL["queue"].index(row[1]), row[2]))
    assert not (tmp_path / "out" / "parts").exists()


def test_sets_use_consecutive_replication_numbers(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    campaign = Campaign(make_plan(engine, scenario_file, sets=3, replications=4), tmp_path / "out")
    campaign.run(1, ignore)
    assert sorted({first for _, first in engine.ran}) == [1, 5, 9]
    numbers = campaign.flows().group_by("set").agg(pl.col("replication").unique().sort()).sort("set")
    assert numbers["replication"].to_list() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]


def test_bytes_do_not_depend_on_the_number_of_threads(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path
) -> None:
    for jobs in (1, 4):
        Campaign(make_plan(engine, study_file), tmp_path / str(jobs)).run(jobs, ignore)
    assert records(tmp_path / "1") == records(tmp_path / "4")


def test_an_interrupted_campaign_goes_on_where_it_stopped(
    engine: fake_core.Engine, study_file: Path, tmp_path: Path
) -> None:
    whole = Campaign(make_plan(engine, study_file), tmp_path / "whole")
    whole.run(1, ignore)
    engine.ran.clear()
    advanced: list[int] = []

    def stop_after_some(runs: int) -> None:
        advanced.append(runs)
        if len(advanced) == 5:
            raise KeyboardInterrupt

    broken = Campaign(make_plan(engine, study_file), tmp_path / "broken")
    with pytest.raises(InterruptedCampaignError, match="The same command goes on from there"):
        broken.run(1, stop_after_some)
    kept = len(list((tmp_path / "broken" / "parts").glob("*.flows.parquet")))
    assert 5 <= kept < len(broken.units)
    assert len(engine.ran) == kept
    resumed = Campaign(make_plan(engine, study_file), tmp_path / "broken")
    assert resumed.existed
    assert len(resumed.pending()) == len(resumed.units) - kept
    resumed.run(2, ignore)
    assert len(engine.ran) == len(resumed.units)
    assert records(tmp_path / "broken") == records(tmp_path / "whole")
    assert resumed.simulated.runs == resumed.plan.runs


def test_a_half_written_unit_is_done_again(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    campaign = Campaign(make_plan(engine, scenario_file), out)
    campaign.run(1, ignore)
    expected = records(out)
    (out / FLOWS).unlink()
    parts = out / "parts"
    parts.mkdir()
    (parts / "001-0000.flows.parquet.tmp").write_bytes(b"half")
    engine.ran.clear()
    Campaign(make_plan(engine, scenario_file), out).run(1, ignore)
    assert len(engine.ran) == 2
    assert records(out) == expected


def test_a_complete_campaign_runs_nothing(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    Campaign(make_plan(engine, scenario_file), tmp_path / "out").run(1, ignore)
    engine.ran.clear()
    again = Campaign(make_plan(engine, scenario_file), tmp_path / "out")
    assert again.complete
    assert again.run(1, ignore).runs == 0
    assert engine.ran == []


@pytest.mark.parametrize(
    ("change", "named"), [({"seed": 2}, "seed"), ({"replications": 9}, "replications"), ({"sets": 2}, "sets")]
)
def test_another_campaigns_folder_is_refused(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path, change: dict[str, int], named: str
) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file), out).run(1, ignore)
    before = records(out)
    with pytest.raises(InputError, match=rf"Different: {named} \("):
        Campaign(make_plan(engine, scenario_file, **change), out)
    assert records(out) == before


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
    with pytest.raises(InputError, match="cannot be read as a manifest"):
        Campaign(make_plan(engine, scenario_file), out)


def test_an_engine_failure_is_not_swallowed(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise RuntimeError("engine")

    engine.before_run = fail
    with pytest.raises(RuntimeError, match="engine"):
        Campaign(make_plan(engine, scenario_file), tmp_path / "out").run(2, ignore)


def test_manifest_and_records_say_what_made_them(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    Campaign(make_plan(engine, scenario_file, seed=5), out).run(1, ignore)
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


def test_captures_stand_by_cell_set_and_replication_beside_equal_records(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    plan = make_plan(engine, scenario_file, replications=2, sets=2)
    Campaign(plan, tmp_path / "plain").run(2, ignore)
    campaign = Campaign(plan, tmp_path / "out", snap_length=96)
    assert campaign.run(2, ignore).runs == plan.runs
    assert records(tmp_path / "out") == records(tmp_path / "plain")
    assert captured(tmp_path / "out") == sorted(
        f"queue={queue}/set-{s}/replication-{r}/server.pcapng"
        for queue in fake_core.SMALL["queue"]
        for s in (1, 2)
        for r in (1, 2)
    )
    text = (tmp_path / "out" / TRACES / "queue=5 packets/set-2/replication-1/server.pcapng").read_text("utf-8")
    assert "cell queue=5 packets, seed 1, set 2, replication 1 (number 3)" in text
    assert text.endswith(" 96")
    assert campaign.traces_bytes() == sum(
        len(file.read_bytes()) for file in (tmp_path / "out" / TRACES).rglob("*.pcapng")
    )


def test_a_finished_folder_gets_captures_later_and_keeps_its_records(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out, plan = tmp_path / "out", make_plan(engine, scenario_file)
    Campaign(plan, out).run(1, ignore)
    before = records(out)
    for missing in (2, 1, 0):
        engine.ran.clear()
        campaign = Campaign(plan, out, snap_length=65535)
        assert len(campaign.pending()) == missing
        assert campaign.run(1, ignore).runs == missing * plan.replications
        assert len(engine.ran) == missing
        assert len(captured(out)) == plan.runs
        assert records(out) == before
        assert campaign.simulated.runs == plan.runs
        assert not (out / "parts").exists()
        if missing == 2:
            shutil.rmtree(out / TRACES / "queue=20 packets")
    Campaign(plan, out).run(1, ignore)
    assert len(captured(out)) == plan.runs


def test_a_killed_capture_is_made_again(engine: fake_core.Engine, scenario_file: Path, tmp_path: Path) -> None:
    out, plan = tmp_path / "out", make_plan(engine, scenario_file)

    def stop(ran: int) -> None:
        if ran == 2:
            raise OSError(28, "No space left on device")

    engine.before_run = stop
    with pytest.raises(OSError, match="No space"):
        Campaign(plan, out, snap_length=65535).run(1, ignore)
    assert {name.split("/")[0] for name in captured(out)} == {"queue=5 packets"}
    # What a kill would leave.
    half = out / TRACES / "queue=20 packets" / "set-1.tmp" / "replication-1"
    half.mkdir(parents=True)
    (half / "router-in.pcapng").write_bytes(b"half")
    Campaign(plan, out, snap_length=65535).run(1, ignore)
    assert len(captured(out)) == plan.runs
    assert not list(out.rglob("*.tmp"))


def test_captures_of_another_snap_length_are_refused(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    out, plan = tmp_path / "out", make_plan(engine, scenario_file)
    Campaign(plan, out, snap_length=96).run(1, ignore)
    with pytest.raises(InputError, match="holds captures of 96 bytes of each packet, not of 65535"):
        Campaign(plan, out, snap_length=65535)
    assert Campaign(plan, out).pending() == []
    shutil.rmtree(out / TRACES)
    Campaign(plan, out, snap_length=65535).run(1, ignore)
    assert len(captured(out)) == plan.runs
    with pytest.raises(InputError, match="Ask for --snaplen 65535"):
        Campaign(plan, out, snap_length=96)
