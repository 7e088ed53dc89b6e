"""Relays: the model compared with real sockets, explanations, captures, pictures and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from conftest import replace_table
from lasthop import _core
from lasthop.analysis.claims.records import Records
from lasthop.analysis.statistics.anova import from_folder
from lasthop.present.answer.folder import read_sections
from lasthop.present.pictures.network import network_of
from lasthop.scenario.facts import Facts

Main = Callable[..., int]

SPLIT = """
name = "split"
time_limit = "60 s"
[hop.land]
down = { link = { rate = "50 Mbit/s", delay = "10 ms" }, queue.limit = "1 MB" }
[hop.geo]
behind = "land"
down = { link = { rate = "10 Mbit/s", delay = "100 ms" }, queue.limit = "500 kB" }
[host.ship]
behind = "geo"
[[flow]]
kind = "bulk-tcp"
name = "file"
bytes = "1 MB"
relay = { at = "geo", buffer = "100 kB" }
"""


@pytest.fixture
def split(tmp_path: Path) -> Path:
    file = tmp_path / "split.toml"
    file.write_text(SPLIT, encoding="utf-8")
    return file


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_relay_of_sockets_takes_as_long_as_the_modelled_one(
    split: Path, tmp_path: Path, lasthop_main: Main, direction: str
) -> None:
    split.write_text(f'{SPLIT}direction = "{direction}"\n', encoding="utf-8")
    took = {}
    for engine in ("kernel", "model"):
        out = tmp_path / engine
        assert lasthop_main("run", split, "--engine", engine, "--jobs", 1, "--out", out, "--quiet") == 0
        flows = pl.read_parquet(out / "flows.parquet")
        assert flows["flow"].to_list() == ["file", "file/peer-side", "file/host-side"]
        assert flows["outcome"].to_list() == ["closed"] * 3
        took[engine] = flows.filter(flow="file")["elapsed_s"].to_list()
    assert took["kernel"] == pytest.approx(took["model"], rel=5e-3)


def test_the_rows_of_a_relayed_flow_and_what_is_missing_from_end_to_end(
    split: Path, tmp_path: Path, lasthop_main: Main
) -> None:
    out = tmp_path / "out"
    assert lasthop_main("run", split, "--out", out, "--quiet") == 0
    whole, peer_side, host_side = pl.read_parquet(out / "flows.parquet").rows(named=True)
    assert (whole["peer"], whole["host"]) == ("server", "ship")
    assert (peer_side["host"], host_side["peer"]) == ("geo-relay", "geo-relay")
    missing = ("rtt_min_s", "queue_delay_median_s", "one_way_delay_p50_s", "cwnd_max")
    assert [whole[column] for column in missing] == [None] * 4
    assert whole["sent_packets"] == peer_side["sent_packets"] + host_side["sent_packets"]
    assert whole["role"] == "file"
    assert host_side["role"] == "file/host-side"


def test_stories_captures_and_pictures_have_the_relay(
    split: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("explain", split, "--flow", "file") == 0
    story = capsys.readouterr().out
    assert "file: data from server to ship through a relay." in story
    assert "file/peer-side: TCP, server to geo-relay" in story
    assert "file/host-side: TCP, geo-relay to ship" in story
    assert lasthop_main("export", split, "--out", tmp_path / "captures") == 0
    assert list((tmp_path / "captures").rglob("geo-relay.pcapng"))
    cell = _core.load(str(split)).cells[0]
    drawn = network_of(Facts.of(cell), json.loads(cell.scenario)["flow"])
    (land,) = drawn.root.children
    assert [host.title for host in land.hosts] == ["geo-relay"]
    assert [arrow.ends for arrow in drawn.arrows] == [("server", "geo-relay"), ("geo-relay", "ship")]
    assert lasthop_main("plot", split, "--out", tmp_path / "plot.svg") == 0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('relay.at = "goe"', 'there is no hop "goe"; did you mean `geo`?'),
        ('relay = { at = "geo", buffer = "100 B" }', "relay.buffer"),
        ('stack = "quic"\nrelay.at = "geo"', "QUIC is encrypted from end to end"),
        ('host = "port"\nrelay.at = "geo"', 'the flow does not cross "geo" (accepted: land)'),
    ],
)
def test_what_a_relay_cannot_be_is_refused_with_its_place(
    split: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str], keys: str, message: str
) -> None:
    text = SPLIT.replace('relay = { at = "geo", buffer = "100 kB" }', keys)
    if "port" in keys:
        text = text.replace("[[flow]]", '[host.port]\nbehind = "land"\n[[flow]]')
    split.write_text(text, encoding="utf-8")
    assert lasthop_main("validate", split) != 0
    assert message in capsys.readouterr().err


def test_the_preset_has_the_round_trip_of_geo_and_a_relay_that_may_move(
    lasthop_main: Main, tmp_path: Path
) -> None:
    (geo,) = _core.load(str(_file(tmp_path, "geo", "extends = 'geo'\n"))).cells
    scenario = _file(
        tmp_path,
        "moved",
        "extends = 'geo-relay'\n[factor.at]\ngateway = {}\n"
        "terminal.flow.download = { direction = 'up', relay.at = 'home' }\n",
    )
    assert lasthop_main("run", scenario, "--out", tmp_path / "out", "--quiet") == 0
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    for at, relay in (("gateway", "geo-relay"), ("terminal", "home-relay")):
        sides = flows.filter(at=at)
        assert relay in {*sides["host"], *sides["peer"]}
        # A relay's two sides share the round trip.
        times = sides.filter(pl.col("role") != "download")["rtt_min_s"]
        assert times.sum() == pytest.approx(0.629, rel=0.05)
    (flow,) = pl.DataFrame(geo.run(1, 1, 1).flows)["rtt_min_s"]
    assert flow == pytest.approx(0.629, rel=0.05)


def _file(folder: Path, name: str, text: str) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


TWO_SIZES = """
[[flow]]
kind = "bulk-tcp"
name = "other"
bytes = "1 MB"

[factor.size.small]
[factor.size.large]
flow.file.bytes = "2 MB"
"""


@pytest.fixture
def halves(split: Path, tmp_path: Path, lasthop_main: Main) -> Path:
    """Return results of a relayed flow with another flow, at two sizes."""
    split.write_text(SPLIT + TWO_SIZES, encoding="utf-8")
    out = tmp_path / "halves"
    assert lasthop_main("run", split, "--replications", "3", "--out", out, "--quiet") == 0
    return out


def test_a_whole_flow_is_part_of_nothing_for_sql_and_for_python(
    halves: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    flows = pl.read_parquet(halves / "flows.parquet")
    assert set(flows.filter(pl.col("part_of").is_null())["flow"]) == {"file", "other"}
    assert set(flows.filter(part_of="file")["flow"]) == {"file/peer-side", "file/host-side"}
    query = "SELECT DISTINCT flow FROM flows WHERE part_of IS NULL ORDER BY flow"
    assert lasthop_main("results", "query", halves, query) == 0
    assert capsys.readouterr().out.split() == ["flow", "file", "other"]


def test_halves_of_a_flow_enter_no_average_and_no_comparison_unless_a_role_asks_for_them(
    halves: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    def output_of(*arguments: object) -> str:
        assert lasthop_main(*arguments) == 0
        return capsys.readouterr().out

    left_out = "Not shown: connections that carry parts of flows (file/peer-side, file/host-side)."
    comparison = ("results", "compare", halves, "--reference", "size=small", "--metric")
    for text in (output_of("results", "show", halves), output_of(*comparison, "elapsed_s")):
        assert left_out in text
        assert "-side" not in text.replace(left_out, "")
        assert "flow=file" in text
    assert "large" in output_of(*comparison, "rtt_median_s", "--role", "file/peer-side")
    assert lasthop_main("results", "compare", *comparison[1:], "rtt_median_s", "--role", "file") == 2
    assert lasthop_main("plot", halves, "--y", "cwnd_max", "--role", "file/host-side", "--out", "p.svg") == 0
    # An analysis of variance and a claim take the mean over a run's flows: two, not four.
    flows = pl.read_parquet(halves / "flows.parquet")
    whole = flows.filter(pl.col("part_of").is_null()).group_by(
        "size", "set", "replication", maintain_order=True
    )
    expected = whole.agg(pl.col("throughput_Bps").mean())["throughput_Bps"].to_list()
    assert from_folder(halves, "throughput_Bps", None).frame["throughput_Bps"].to_list() == pytest.approx(
        expected
    )
    records = Records.read(halves, ["size"])
    values = [records.values("throughput_Bps", None, (size,)) for size in ("small", "large")]
    assert [*values[0], *values[1]] == pytest.approx(expected)
    of_file, of_half = (
        flows.filter(size="small", role=role)["throughput_Bps"] for role in ("file", "file/host-side")
    )
    assert list(records.values("throughput_Bps", ("fil*",), ("small",))) == of_file.to_list()
    assert list(records.values("throughput_Bps", ("*/host-side",), ("small",))) == of_half.to_list()
    # Shares of the throughput add up to one without the halves.
    (section,) = (
        section_ for section_ in read_sections(halves, ["throughput_share"]) if section_.title == "Flows"
    )
    shares = section.rows.group_by("size", "replication").agg(pl.col("throughput_share").sum())
    assert shares["throughput_share"].to_list() == pytest.approx([1.0] * 6)


def test_results_of_a_version_that_wrote_empty_texts_are_read_alike(
    halves: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("results", "show", halves) == 0
    before = capsys.readouterr().out
    old = pl.read_parquet(halves / "flows.parquet").with_columns(pl.col("part_of").fill_null(""))
    replace_table(halves / "flows.parquet", old)
    assert lasthop_main("results", "show", halves) == 0
    assert capsys.readouterr().out == before
    replace_table(halves / "flows.parquet", old.filter(part_of="").drop("part_of"))
    assert lasthop_main("results", "show", halves) == 0
    assert capsys.readouterr().out.replace(" ", "")[:200] == before.replace(" ", "")[:200]
