"""Captures of a network of several hops, read by tshark: a file for each host and both ends of each hop."""

from __future__ import annotations

import polars as pl
import pytest

from lasthop import _core
from lasthop.engines.engine import CaptureTarget, Observation
from observing import observe
from tools import require_tools, tshark

TWO_HOPS = """
[hop.cable]
down = { link = { rate = "10 Mbit/s", delay = "8 ms" }, queue = { limit = "20 packets" } }
up = { link = { rate = "2 Mbit/s", delay = "8 ms" } }

[hop.wifi]
behind = "cable"
down = { link = { rate = "8 Mbit/s", delay = "1 ms", loss = "1 %" }, queue = { limit = "10 packets" } }

[host.laptop]
behind = "wifi"
[host.tv]
behind = "cable"

[[flow]]
kind = "bulk-tcp"
name = "download"
host = "laptop"
bytes = "500 kB"

[[flow]]
kind = "bulk-tcp"
name = "share"
host = "tv"
peer = "laptop"
bytes = "500 kB"

[[flow]]
kind = "bulk-tcp"
name = "film"
host = "tv"
bytes = "500 kB"
"""
HOSTS = {"server": "10.0.0.1", "laptop": "10.0.1.1", "tv": "10.0.2.1"}
PLACES = [(hop, way) for hop in ("cable", "wifi") for way in ("down", "up")]
Captured = tuple[dict[str, pl.DataFrame], pl.DataFrame, pl.DataFrame]
FIELDS = ("ip.src", "ip.dst", "ip.ttl", "frame.comment", "ip.checksum.status", "tcp.checksum.status")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """Return what tshark reads in each file, by its point, the records of the hops, and the drops."""
    require_tools()
    folder = tmp_path_factory.mktemp("captures")
    (folder / "two-hops.toml").write_text(TWO_HOPS, encoding="utf-8")
    cell = _core.load(str(folder / "two-hops.toml")).cells[0]
    out = folder / "out"
    out.mkdir()
    wanted = Observation(capture=CaptureTarget(out, "a test", _core.SNAP_LENGTH))
    observe(cell, 1, 1, 1, wanted)
    hops = pl.DataFrame(cell.run(1, 1, 1).hops)
    files = {file.stem: file for file in out.glob("*.pcapng")}
    read = {
        point: pl.DataFrame(tshark(file, FIELDS), schema=list(FIELDS), orient="row")
        for point, file in files.items()
    }
    return read, hops, pl.read_csv(out / "drops.csv")


def test_there_is_a_file_for_each_host_and_for_both_ends_of_each_hop(captured: Captured) -> None:
    ends = [f"{hop}-{way}-{end}" for hop, way in PLACES for end in ("in", "out")]
    assert sorted(captured[0]) == sorted([*HOSTS, *ends])
    for packets in captured[0].values():
        assert set(packets["ip.checksum.status"]) == {"1"}
        assert set(packets["tcp.checksum.status"]) == {"1"}


def test_each_host_sees_only_its_own_packets(captured: Captured) -> None:
    for host, address in HOSTS.items():
        packets = captured[0][host]
        assert packets.height
        assert ((packets["ip.src"] == address) != (packets["ip.dst"] == address)).all(), host


def test_what_enters_and_leaves_a_hop_is_what_its_record_counts(captured: Captured) -> None:
    read, hops, drops = captured
    dropped = pl.col("frame.comment").str.contains("dropped")
    for hop, way in PLACES:
        (record,) = hops.filter(hop=hop, direction=way).rows(named=True)
        entered, left = (read[f"{hop}-{way}-{end}"] for end in ("in", "out"))
        assert entered.height == record["packets_in"], (hop, way)
        assert left.height == record["packets_out"], (hop, way)
        assert entered.filter(dropped).height == record["drops_queue"], (hop, way)
        dropped_here = drops.filter(place=f"{hop}-{way}").height
        assert dropped_here == record["drops_queue"] + record["drops_error"], (hop, way)
    assert hops["drops_queue"].sum()
    assert hops["drops_error"].sum()


def test_each_router_on_the_way_takes_one_from_the_ttl(captured: Captured) -> None:
    to_laptop = pl.col("ip.dst") == HOSTS["laptop"]
    from_server = pl.col("ip.src") == HOSTS["server"]
    way = ("server", "cable-down-in", "cable-down-out", "wifi-down-in", "wifi-down-out")
    seen = [captured[0][point].filter(to_laptop, from_server)["ip.ttl"].unique().to_list() for point in way]
    assert seen == [["64"], ["64"], ["63"], ["63"], ["62"]]
