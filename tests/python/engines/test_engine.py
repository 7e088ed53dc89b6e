"""The command line and the report with the real engine."""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import polars as pl
import pytest

from conftest import STUDY
from lasthop import _core
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.plan import Plan
from lasthop.campaign.results.folder import FLOWS, PAGES, RUNS, SHORTS
from lasthop.campaign.results.store import STORE
from lasthop.campaign.runner import Threads
from lasthop.common.errors import InterruptedCampaignError
from lasthop.engines.engine import WHOLE, Observation, Request
from lasthop.engines.model_engine import ModelEngine
from lasthop.present.report.trace import trace_figure
from lasthop.scenario.facts import Facts
from observing import overviewed, traced

Main = Callable[..., int]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture(scope="module")
def study() -> _core.Study:
    return _core.load(str(STUDY / "study.toml"))


def cell(study: _core.Study, key: str) -> _core.Cell:
    return next(cell for cell in study.cells if cell.key == key)


def test_the_study_has_the_cells_of_its_tables(study: _core.Study) -> None:
    tables = pl.read_csv(STUDY / "tables.csv")
    wanted = {tuple(row) for row in tables.select("link", "workload", "variant").iter_rows()}
    assert {tuple(cell.levels[f] for f in ("link", "workload", "variant")) for cell in study.cells} == wanted


def test_records_are_the_same_bytes_on_one_and_two_threads(study: _core.Study, tmp_path: Path) -> None:
    plan = Plan(study, study.cells, study.seed, 3, sets=2)
    for jobs in (1, 2):
        Campaign(plan, tmp_path / str(jobs)).run(Threads(jobs), lambda _: None)
    for name in (FLOWS, RUNS):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_a_chain_in_parts_gives_the_rows_of_the_whole(study: _core.Study) -> None:
    chained = cell(study, "link=r1,workload=2tcp1udp,variant=eifel+cbi+ecn")
    whole = chained.run(1, 1, 6)
    parts, memory = [], None
    for first, count in ((1, 1), (2, 3), (5, 2)):
        parts.append(chained.run(1, first, count, memory=memory))
        memory = parts[-1].memory
    assert memory == whole.memory is not None
    for table in ("flows", "runs"):
        for name, cells in getattr(whole, table).items():
            assert [cell for part in parts for cell in getattr(part, table)[name]] == cells, name
    assert chained.run(1, 5, 2).flows != parts[2].flows, "without its memory, a part begins anew"
    assert cell(study, "link=r1,workload=2tcp1udp,variant=eifel").run(1, 1, 1).memory is None
    with pytest.raises(ValueError, match="not the state of hosts"):
        chained.run(1, 2, 1, memory="[[1]]")


CHAINS = "link=r1,workload=2tcp0udp,variant=eifel+cbi"


@pytest.mark.parametrize(
    ("jobs", "replications", "snap_length"), [(1, 150, None), (2, 150, None), (2, 60, 96)]
)
def test_sets_and_captures_of_a_chain_go_on_where_they_were_stopped(
    study: _core.Study, tmp_path: Path, jobs: int, replications: int, snap_length: int | None
) -> None:
    plan = Plan(study, [cell(study, CHAINS), cell(study, f"{CHAINS}+ecn")], 1, replications, sets=2)
    whole, out = tmp_path / "whole", tmp_path / "out"
    Campaign(plan, whole, snap_length).run(Threads(jobs), lambda _: None)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    stored_runs = [0]
    for _ in range(3):
        with pytest.raises(InterruptedCampaignError):
            Campaign(plan, out, snap_length).run(Threads(jobs), stop)
        outlook = Campaign(plan, out, snap_length).outlook()
        assert outlook.again == 0
        stored_runs.append(outlook.stored)
    assert stored_runs == sorted(set(stored_runs)) < [plan.runs]
    last = Campaign(plan, out, snap_length)
    last.run(Threads(jobs), lambda _: None)
    assert last.simulated.runs == plan.runs
    for name in (FLOWS, RUNS):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    captures = [file.relative_to(whole) for file in (whole / "traces").rglob("*.*")]
    assert bool(captures) == (snap_length is not None)
    assert all((out / file).read_bytes() == (whole / file).read_bytes() for file in captures)


def test_lost_parts_of_a_chain_run_again_from_its_start(study: _core.Study, tmp_path: Path) -> None:
    plan = Plan(study, [cell(study, CHAINS)], 1, 40)
    Campaign(plan, tmp_path).run(Threads(1), lambda _: None)
    before = (tmp_path / FLOWS).read_bytes()
    (tmp_path / FLOWS).unlink()
    with closing(sqlite3.connect(tmp_path / STORE)) as store, store:
        store.execute("UPDATE batch SET runs = x'00' WHERE id = 1")
    again = Campaign(plan, tmp_path)
    again.run(Threads(1), lambda _: None)
    assert 0 < again.damaged == again.assigned <= 40
    assert (tmp_path / FLOWS).read_bytes() == before
    with closing(sqlite3.connect(tmp_path / STORE)) as store, store:
        store.execute("UPDATE memory SET content = CAST(x'00' || content AS BLOB)")
    longer = dataclasses.replace(plan, replications=45)
    assert Campaign(longer, tmp_path).outlook().again == 40, "of a damaged memory, nothing is used"


def test_a_cell_alone_gives_the_rows_it_gives_in_the_whole_study(study: _core.Study, tmp_path: Path) -> None:
    whole = Campaign(Plan(study, study.cells, study.seed, 2), tmp_path / "whole")
    whole.run(Threads(2), lambda _: None)
    chosen = cell(study, "link=r1,workload=2tcp1udp,variant=eifel+cbi+ecn")
    alone = Campaign(Plan(study, [chosen], study.seed, 2), tmp_path / "alone")
    alone.run(Threads(1), lambda _: None)
    assert whole.finished.flows().filter(**chosen.levels).equals(alone.finished.flows())


@pytest.mark.parametrize(
    "key", ["link=r6,workload=2tcp0udp,variant=frto", "link=r1,workload=2tcp0udp5s,variant=eifel+cbi"]
)
def test_a_trace_shows_the_replication_that_was_measured(study: _core.Study, key: str) -> None:
    chosen = cell(study, key)
    measured = chosen.run(study.seed, 1, 3).flows
    trace = traced(chosen, study.seed, 1, 3)
    last = [row for row, replication in enumerate(measured["replication"]) if replication == 3]
    assert trace.flows["elapsed_s"] == [measured["elapsed_s"][row] for row in last]
    figure = go.Figure(trace_figure(overviewed(chosen, study.seed, 1, 3), Facts.of(chosen))[0])
    drawn = {entry.name: entry for entry in figure.data}
    assert {"segment sent", "acknowledged", "packets in the router queue", "bad link period"} <= set(drawn)
    # 188 640 bytes in segments, without retransmissions.
    assert 350 <= len(drawn["segment sent"].x) <= 362
    assert max(drawn["acknowledged"].y) == pytest.approx(188.64, abs=0.01)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"nonsense = 1\n", "nonsense"),
        ("[study]\n".encode("utf-16"), "UTF-8"),
        (b"", ""),
        (None, ""),
    ],
)
def test_bad_files_are_named_in_every_line_and_leave_nothing(
    tmp_path: Path,
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    expected: str,
) -> None:
    file = tmp_path / "bad.toml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    assert lasthop_main("run", file) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert str(file) in error
    assert expected in error
    assert all(str(file) in line for line in error.splitlines())
    assert not Path("results").exists()


def test_the_example_with_classes_runs_and_spares_the_stream(lasthop_main: Main) -> None:
    assert lasthop_main("run", EXAMPLES / "diffserv.toml", "--out", "out", "--quiet") == 0
    flows = pl.read_parquet(Path("out") / FLOWS)
    of_stream = flows.filter(pl.col("flow") == "stream", pl.col("queue") == "tail-drop")
    drops = of_stream.group_by("router").agg(pl.col("data_drops_queue").sum())
    lost = dict(drops.iter_rows())
    assert lost["classes"] == 0
    assert lost["one-queue"] > 0


def test_the_handover_example_runs_and_distinguishes_late_acks_from_losses(lasthop_main: Main) -> None:
    assert lasthop_main("run", EXAMPLES / "handover.toml", "--out", "out", "--quiet") == 0
    flows = pl.read_parquet(Path("out") / FLOWS)
    steady = flows.filter(pl.col("handover") == "none")
    assert steady["timeouts"].sum() == 0
    moved = flows.filter(pl.col("handover") != "none")
    assert (moved["spurious_timeouts"] >= 1).all()
    unnecessary = dict(moved.group_by("frto").agg(pl.col("unnecessary_retransmissions").sum()).iter_rows())
    assert unnecessary["on"] < unnecessary["off"]
    use = pl.read_parquet(Path("out") / RUNS)["utilisation"]
    assert use.max() <= 1  # type: ignore[operator]


def test_the_example_with_a_web_page_runs_and_a_larger_window_loads_it_sooner(lasthop_main: Main) -> None:
    assert lasthop_main("run", EXAMPLES / "web-page.toml", "--out", "out", "--quiet") == 0
    pages = pl.read_parquet(Path("out") / PAGES)
    assert pages.height == 3 * 2 * 5
    assert set(pages["objects_received"]) == {9}
    medians = pages.group_by("factor_protocol", "window").agg(pl.col("response_time_s").median())
    time_of = {(protocol, window): time_s for protocol, window, time_s in medians.iter_rows()}
    for protocol in ("http1.0", "http1.1", "http1.1-pipelined"):
        assert time_of[protocol, "iw4"] < time_of[protocol, "iw2"], protocol


def test_the_example_of_short_flows_runs_and_the_load_is_offered(lasthop_main: Main) -> None:
    assert lasthop_main("run", EXAMPLES / "short-flows.toml", "--out", "out", "--quiet") == 0
    shorts, runs = (pl.read_parquet(Path("out") / name) for name in (SHORTS, RUNS))
    assert shorts.group_by("load", "application").len().height == 4
    use = dict(runs.group_by("load").agg(pl.col("utilisation").mean()).iter_rows())
    assert use["half"] == pytest.approx(0.5, abs=0.05)
    times = dict(shorts.group_by("load").agg(pl.col("fct_mean_s").mean()).iter_rows())
    assert times["busy"] > times["half"]
    # If all flows are short, only short flows are summarised.
    assert set(pl.read_csv("out/summary.csv")["flow"]) == {"iw3", "iw10"}


def test_of_many_flows_the_report_draws_some_of_every_application() -> None:
    study = _core.load(str(STUDY.parent / "iip2004" / "study.toml"))
    levels = "link=e0,protocol=http1.0,workload={},variant=baseline,queue=fifo"
    for workload, expected in (
        ("m+8m", {"page"}),
        ("http(m+8m)+2tcp-diffserv", {"page", "tcp-1", "tcp-2"}),
    ):
        chosen = cell(study, levels.format(workload))
        figure, caption = trace_figure(overviewed(chosen, study.seed, 1, 1), Facts.of(chosen))
        assert re.match(r"4 of \d+ TCP flows have a panel .* 7 of \d+ flows have a colour", caption)
        named = {
            entry["name"].rpartition(" of ")[2] for entry in figure["data"] if "goodput of" in entry["name"]
        }
        others = {name for name in named if name.endswith(" other flows")}
        named -= others
        assert (len(named), len(others)) == (7, 1)
        assert {name.partition("/")[0] for name in named} == expected
        axes = [axis["title"]["text"] for name, axis in figure["layout"].items() if name.startswith("yaxis")]
        assert axes[0] == "page"
        assert sum("sequence number" in title for title in axes) == 4
        received = next(trace for trace in figure["data"] if trace["name"] == "receiving")
        assert len(received["x"]) == 9  # the waterfall shows all objects


def test_a_trace_draws_a_line_per_class() -> None:
    study = _core.load(str(EXAMPLES / "diffserv.toml"))

    def drawn(key: str) -> dict[str, Any]:
        chosen = cell(study, key)
        figure, _ = trace_figure(overviewed(chosen, study.seed, 1, 1), Facts.of(chosen))
        return {entry.name: entry for entry in go.Figure(figure).data}

    lines = drawn("router=classes,queue=red")
    first, second = (f"packets in the router queue of class {name}" for name in ("stream", "download"))
    assert {first, second, "RED's average queue of class download"} <= set(lines)
    assert max(lines[second].y) > max(lines[first].y)
    assert not any("class" in name for name in drawn("router=one-queue,queue=red"))


def test_the_study_runs_by_name_from_anywhere(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--only", "link=e0,workload=2tcp0udp5s", "--replications", "4"]
    assert lasthop_main("study", "run", "kulve2003", *arguments) == 0
    assert "simulated 20 runs" in capsys.readouterr().out
    comparison = pl.read_csv("results/kulve2003/comparison.csv", infer_schema_length=None)
    assert set(comparison["table"]) == {"T8", "T34", "T35", "T36", "T37"}
    assert comparison["measured"].null_count() == 0


def test_the_sensitivity_of_the_study_is_compared_assumption_by_assumption(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file = STUDY / "sensitivity.toml"
    study = _core.load(str(file))
    arguments = ["--only", "workload=2tcp0udp5s", "--only", "link=r6", "--replications", "2"]
    assert lasthop_main("run", file, *arguments, "--out", "out") == 0
    comparison = pl.read_csv("out/comparison.csv", infer_schema_length=None)
    run = pl.read_parquet("out/flows.parquet")
    assert set(comparison["assumption"]) == set(run["assumption"]) == set(study.factors["assumption"])
    printed = capsys.readouterr().out
    assert all(f"\n  {level} " in printed for level in study.factors["assumption"])
    assert "Times (s)" in Path("out/report.html").read_text(encoding="utf-8")


def test_the_sensitivity_study_starts_from_the_study(study: _core.Study) -> None:
    scenarios = {cell.key: cell.scenario for cell in study.cells}
    changed: dict[str, set[bool]] = {}
    for cell in _core.load(str(STUDY / "sensitivity.toml")).cells:
        key, _, assumption = cell.key.rpartition(",assumption=")
        changed.setdefault(assumption, set()).add(cell.scenario != scenarios[key])
    assert changed.pop("default") == {False}
    assert set(map(frozenset, changed.values())) == {frozenset({True})}


def test_schema_is_json(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("validate", "--schema") == 0
    assert "properties" in json.loads(capsys.readouterr().out)


def test_a_reader_that_stops_reading_gets_no_complaint(tmp_path: Path) -> None:
    arguments = [
        "study",
        "run",
        "kulve2003",
        "--only",
        "link=r6",
        "--replications",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    command = [sys.executable, "-m", "lasthop.commands.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, error = process.communicate()
    assert error == b""


def test_a_run_that_is_watched_gives_the_records_and_the_overview_of_two_runs(study: _core.Study) -> None:
    chosen = cell(study, "link=r1,workload=2tcp1udp,variant=eifel+cbi+ecn")
    watched = ModelEngine().run(chosen, Request(study.seed, 2, 1, {2: Observation(overview=WHOLE)}))
    results, trace = watched.results, watched.trace
    alone, overview = chosen.run(study.seed, 2, 1), overviewed(chosen, study.seed, 2, 2)
    for table in ("flows", "pages", "shorts", "runs"):
        assert getattr(results, table) == getattr(alone, table)
    for table in ("packets", "transport", "objects", "flows", "bad_periods", "left_out", "series", "delays"):
        assert getattr(trace, table) == getattr(overview, table)


@pytest.mark.parametrize(("replications", "again", "title"), [(1, 0, "The only"), (2, 1, "A typical")])
def test_the_report_runs_the_only_replication_no_second_time(
    replications: int, again: int, title: str, lasthop_main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Request] = []
    run = ModelEngine.run
    monkeypatch.setattr(
        ModelEngine, "run", lambda *args, **kwargs: requests.append(args[2]) or run(*args, **kwargs)
    )
    command = ("run", EXAMPLES / "first.toml", "--replications", replications, "--out", "out", "--quiet")
    assert lasthop_main(*command) == 0
    assert sum(not request.records for request in requests) == again
    assert f"{title} replication of the only cell" in Path("out/report.html").read_text(encoding="utf-8")
