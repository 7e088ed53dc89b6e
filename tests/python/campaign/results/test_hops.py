"""Records of hops in each format, and hops in explanations and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import lasthop
from lasthop import _core
from lasthop.analysis.claims.records import Records
from lasthop.analysis.explain import stories
from lasthop.commands.cli import main
from lasthop.present.lab.desk import Desk
from lasthop.present.lab.measures import measures
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.picture import split
from lasthop.present.pictures.cast import MOST_QUEUES, Cast
from lasthop.present.pictures.panels import panels
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.scenario.facts import Facts
from observing import overviewed, traced
from paths_examples import HOME, backhaul

PLACES = ["cable down", "cable up", "wifi down", "wifi up"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    assert main(["run", str(HOME), "--replications", "3", "--out", str(folder / "out")]) == 0
    return folder / "out"


def test_there_is_a_row_for_each_run_hop_and_direction(out: Path) -> None:
    hops = pl.read_parquet(out / "hops.parquet")
    assert hops.columns[:4] == ["set", "replication", "hop", "direction"]
    names = hops.select(pl.format("{} {}", "hop", "direction")).to_series().to_list()
    assert names == PLACES * 3
    assert hops["replication"].to_list() == [number for number in (1, 2, 3) for _ in PLACES]
    assert "hops.parquet" in json.loads((out / "manifest.json").read_text(encoding="utf-8"))["tables"]


def test_a_scenario_without_hops_has_no_such_file(tmp_path: Path) -> None:
    scenario = tmp_path / "one.toml"
    scenario.write_text('down.link = { rate = "1 Mbit/s", delay = "5 ms" }\n', encoding="utf-8")
    with scenario.open("a", encoding="utf-8") as file:
        file.write('[[flow]]\nkind = "bulk-tcp"\nbytes = "10 kB"\n')
    assert main(["run", str(scenario), "--out", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "hops.parquet").exists()
    assert lasthop.run(lasthop.Scenario.load(scenario), out=tmp_path / "python").hops is None


def test_drops_of_flows_and_hops_are_the_same(out: Path) -> None:
    """Each data packet that a flow lost was dropped at the hop that `drop_hops` names."""
    flows, hops = pl.read_parquet(out / "flows.parquet"), pl.read_parquet(out / "hops.parquet")
    for number in (1, 2, 3):
        lost: dict[str, int] = {}
        for text in flows.filter(replication=number)["drop_hops"]:
            for part in filter(None, text.split(", ")):
                hop, count = part.rsplit(" ", 1)
                lost[hop] = lost.get(hop, 0) + int(count)
        own = hops.filter(replication=number).group_by("hop").agg(pl.col("drops_queue").sum())
        # No ACK is dropped in this scenario.
        assert lost == {hop: drops for hop, drops in own.iter_rows() if drops}
        assert sum(lost.values()) > 0


def test_terminal_summary_and_report_describe_hops(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "show", str(out)]) == 0
    output = capsys.readouterr().out
    assert "Hops: median of 3 replications" in output
    assert all(place in output for place in PLACES)
    summary = pl.read_csv(out / "summary.csv")
    hops = pl.read_parquet(out / "hops.parquet")
    own = summary.filter(flow="wifi up", metric="utilisation", statistic="median")["value"].item()
    assert own == pytest.approx(hops.filter(hop="wifi", direction="up")["utilisation"].median(), abs=1e-6)
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "<h3>Hops</h3>" in report
    assert ": hops, hosts, and flows (arrows)." in report
    assert len(report) < 3_000_000


def test_a_claim_names_hop_and_direction(out: Path) -> None:
    records = Records.read(out, [])
    hops = pl.read_parquet(out / "hops.parquet")
    own = hops.filter(hop="cable", direction="up")["queue_delay_p95_s"].to_list()
    assert records.values("queue_delay_p95_s", ("cable up",), ()).tolist() == own
    utilisation = hops.filter(hop="wifi", direction="up")["utilisation"].to_list()
    assert records.values("utilisation", ("wifi up",), ()).tolist() == utilisation


def test_python_has_the_table(tmp_path: Path) -> None:
    results = lasthop.run(lasthop.Scenario.load(HOME), replications=1, out=tmp_path / "out")
    assert results.hops is not None
    assert results.hops.select("hop", "direction").rows() == [tuple(place.split()) for place in PLACES]


def test_sql_has_the_table(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT hop, direction FROM hops WHERE replication = 1"
    assert main(["results", "query", str(out), query]) == 0
    assert capsys.readouterr().out.count("wifi") == 2


def test_pictures_have_a_panel_for_each_place_that_data_cross() -> None:
    cell = _core.load(str(HOME)).cells[0]
    tables = TraceTables.of(overviewed(cell, 1, 1, 1), Facts.of(cell))
    every = [panel.subject for panel in panels(tables, ["queue"])]
    assert sorted(every) == PLACES
    game = [flow for flow in tables.flows if flow.name == "game"]
    (only,) = panels(tables, ["queue"], Cast.of(tables, game))
    assert only.subject == "cable down"
    share = [flow for flow in tables.flows if flow.name == "share"]
    (only,) = panels(tables, ["queue"], Cast.of(tables, share))
    assert (only.subject, share[0].ends) == ("wifi up", ("phone", "tv"))
    (stack,) = [panel for panel in panels(tables, ["stack"]) if panel.subject == "cable down"]
    stacked = {layer.flow for layer in stack.layers if layer.flow}
    assert "share" not in stacked
    assert "game" in stacked


def test_drops_are_drawn_at_their_hop() -> None:
    cell = _core.load(str(HOME)).cells[0]
    trace = overviewed(cell, 1, 1, 1)
    tables = TraceTables.of(trace, Facts.of(cell))
    hops = pl.DataFrame(cell.run(1, 1, 1).hops)
    for panel in panels(tables, ["queue"]):
        hop, direction = panel.subject.split()
        drawn = sum(len(layer.x) for layer in panel.layers if layer.mark.name.startswith("dropped"))
        assert drawn == hops.filter(hop=hop, direction=direction)["drops_queue"].item(), panel.subject


def test_only_the_busiest_queues_have_a_panel(tmp_path: Path) -> None:
    file = tmp_path / "backhaul.toml"
    file.write_text(backhaul(12), encoding="utf-8")
    cell = _core.load(str(file)).cells[0]
    tables = TraceTables.of(overviewed(cell, 1, 1, 1), Facts.of(cell))
    cast = Cast.of(tables)
    drawn = panels(tables, ["queue"], cast)
    assert len(drawn) == MOST_QUEUES
    assert "backhaul down" in {panel.subject for panel in drawn}
    assert cast.notes(drawn) == [
        f"{MOST_QUEUES} of 13 queues have a panel: those with most drops, then the longest."
    ]


def test_stories_say_where_packets_waited_and_were_lost() -> None:
    cell = _core.load(str(HOME)).cells[0]
    trace, facts = traced(cell, 1, 1, 1), Facts.of(cell)
    texts = {story.of: " ".join(str(story).split()) for story in stories(trace, facts)}
    assert texts["share"].startswith("share: TCP, phone to tv,")
    assert "Loss at wifi: router queue full" in texts["share"]
    assert "Loss at cable: router queue full" in texts["game"]
    assert "in the router queue at cable, behind" in texts["call-up"]


def test_only_bad_periods_of_hops_on_the_path_are_reported(tmp_path: Path) -> None:
    errors = (
        'errors = { good = "200 ms", bad = "50 ms", packet_error_probability = 0.5, '
        'arq = { retransmissions = 3, delay = "10 ms" } }'
    )
    text = HOME.read_text(encoding="utf-8").replace('behind = "cable"\n', f'behind = "cable"\n{errors}\n', 1)
    file = tmp_path / "home.toml"
    file.write_text(text, encoding="utf-8")
    cell = _core.load(str(file)).cells[0]
    trace, facts = traced(cell, 1, 1, 1), Facts.of(cell)
    texts = {story.of: " ".join(str(story).split()) for story in stories(trace, facts)}
    assert "Link of wifi bad for" in texts["photos"]
    assert "bad for" not in texts["game"]
    tables = TraceTables.of(trace_overview(cell), facts)
    flows = {flow.name: flow for flow in tables.flows}
    assert {period.hop for period in tables.picture([], flows=[flows["photos"]]).bad_periods} == {"wifi"}
    assert tables.picture([], flows=[flows["game"]]).bad_periods == []
    (mark,) = {period.mark.name for period in tables.picture([], flows=[flows["photos"]]).bad_periods}
    assert mark == "bad link period of wifi"


def trace_overview(cell: _core.Cell) -> _core.Trace:
    return overviewed(cell, 1, 1, 1)


def test_the_lab_measures_hops() -> None:
    cell = _core.load(str(HOME)).cells[0]
    hops = measures(cell.run(1, 1, 1), 1)
    assert [each["of"] for each in hops[1:5]] == PLACES
    assert "utilisation" in {metric["name"] for metric in hops[1]["metrics"]}


def test_the_lab_has_controls_of_hops_and_draws_the_network() -> None:
    text = HOME.read_text(encoding="utf-8")
    desk = Desk(Opened(text), lambda: False)
    look, _ = split(desk.answer({"ask": "look", "text": text}))
    assert {"Hop: cable, down", "Hop: wifi, up"} <= {control["group"] for control in look["controls"]}
    assert ">cable</text>" in look["network"]
    change = {"path": "hop.wifi.up.queue.discipline", "value": "codel"}
    changed, _ = split(desk.answer({"ask": "look", "text": text, "changes": [change]}))
    assert 'discipline = "codel"' in changed["text"]
    before, after = (
        next(each for each in answer["measures"] if each["of"] == "wifi up") for answer in (look, changed)
    )
    assert before["metrics"] != after["metrics"]
    story, _ = split(desk.answer({"ask": "story", "text": text}))
    assert any("dropped at wifi" in step[2] for life in story["lives"] for step in life["life"]["steps"])
