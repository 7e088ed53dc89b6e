"""`lasthop analyze` on every form that a capture can come in; the tools of the field judge forms and numbers.

`captures/loopback.pcap` is a capture by dumpcap of Linux 6 talking to itself: a request and an answer over
TCP and ten datagrams over UDP, once over IPv4 and once over IPv6, with segmentation offload and a snap length
of 120 bytes.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import STUDY
from lasthop import _core
from lasthop.engines.engine import CaptureTarget, Observation
from observing import observe
from tools import read_pcap, require_tools, tcptrace, tool, tshark, write_pcap

Main = Callable[..., int]
Columns = dict[str, list[Any]]

LOOPBACK = Path(__file__).parents[1] / "captures" / "loopback.pcap"
CELL = "link=r1,workload=2tcp1udp,variant=eifel+ecn"
ADDRESSES = bytes(range(12))
# Link type and header before the IP packet.
ENCAPSULATIONS = {
    "raw": (101, b""),
    "ethernet": (1, ADDRESSES + b"\x08\x00"),
    "vlan": (1, ADDRESSES + b"\x81\x00\x00\x07\x08\x00"),
    "qinq": (1, ADDRESSES + b"\x88\xa8\x00\x01\x81\x00\x00\x02\x08\x00"),
    "sll": (113, b"\0\0\0\1\0\6" + bytes(8) + b"\x08\x00"),
    "sll2": (276, b"\x08\x00\0\0\0\0\0\1\0\1\0\6" + bytes(8)),
    "null": (0, b"\x02\0\0\0"),
    "ppp": (9, b"\xff\x03\x00\x21"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture of the model: two TCP flows and one UDP flow, with losses and ECN marks."""
    require_tools()
    study = _core.load(str(STUDY / "study.toml"))
    (cell,) = (cell for cell in study.cells if cell.key == CELL)
    folder = tmp_path_factory.mktemp("model")
    observe(cell, study.seed, 1, 1, Observation(capture=CaptureTarget(folder, "a test", _core.SNAP_LENGTH)))
    return folder / "server.pcapng"


@pytest.fixture(scope="module")
def micros(server: Path) -> Path:
    """Return the same as pcap, whose times are cut to microseconds."""
    tool("editcap", "-F", "pcap", server, server.with_suffix(".pcap"))
    return server.with_suffix(".pcap")


def streams(file: Path) -> Columns:
    return _core.analyze(str(file))[0]


@pytest.mark.parametrize("form", ["pcapng", "nsecpcap"])
def test_what_editcap_writes_says_the_same(server: Path, tmp_path: Path, form: str) -> None:
    again = tmp_path / "again"
    tool("editcap", "-F", form, server, again)
    assert streams(again) == streams(server)


@pytest.mark.parametrize("encapsulation", ENCAPSULATIONS)
def test_every_link_layer_and_byte_order_says_the_same(
    micros: Path, tmp_path: Path, encapsulation: str
) -> None:
    link, header = ENCAPSULATIONS[encapsulation]
    packets = [(s, f, length + len(header), header + data) for s, f, length, data in read_pcap(micros)]
    for order in "<>":
        file = write_pcap(tmp_path / "file.pcap", packets, link, order)
        seen = tshark(file, ("_ws.malformed", "ip.checksum.status", "ip.src"))
        assert len(seen) == len(packets)
        assert {tuple(row[:2]) for row in seen} == {("", "1")}
        assert streams(file) == streams(micros)


def test_nanoseconds_in_big_endian_say_the_same(server: Path, tmp_path: Path) -> None:
    tool("editcap", "-F", "nsecpcap", server, tmp_path / "nanos.pcap")
    file = write_pcap(tmp_path / "big.pcap", read_pcap(tmp_path / "nanos.pcap"), order=">", magic=0xA1B23C4D)
    assert streams(file) == streams(server)


@pytest.mark.parametrize("snap", [68, 96])
def test_a_snap_length_changes_no_count(micros: Path, tmp_path: Path, snap: int) -> None:
    """All but the SACK option: with timestamps and more than one block it reaches beyond 68 bytes."""
    file = tmp_path / "snapped.pcap"
    tool("editcap", "-F", "pcap", "-s", str(snap), micros, file)
    cut, whole = streams(file), streams(micros)
    sacks = {"sack_blocks", "sack_blocks_total", "dsacks"} if snap == 68 else set()
    assert {name: cut[name] for name in cut if name not in sacks} == {
        name: whole[name] for name in whole if name not in sacks
    }


def to_ipv6(packet: bytes) -> bytes:
    """Return the IPv4 packet as IPv6 behind hop-by-hop options, its checksum made anew."""
    protocol, upper = packet[9], bytearray(packet[20:])
    source, destination = (bytes.fromhex("fd00") + bytes(10) + packet[at : at + 4] for at in (12, 16))
    where = {6: 16, 17: 6}[protocol]
    upper[where : where + 2] = b"\0\0"
    pseudo = (
        source
        + destination
        + struct.pack("!II", len(upper), protocol)
        + bytes(upper)
        + b"\0" * (len(upper) % 2)
    )
    total = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    upper[where : where + 2] = struct.pack("!H", ~total & 0xFFFF or 0xFFFF)
    options = bytes([protocol, 0, 1, 4, 0, 0, 0, 0])
    traffic_class = 0x60000000 | packet[1] << 20
    head = struct.pack("!IHBB", traffic_class, len(upper) + len(options), 0, 64)
    return head + source + destination + options + bytes(upper)


def test_ipv6_says_the_same(micros: Path, tmp_path: Path) -> None:
    packets = [(s, f, length + 28, to_ipv6(data)) for s, f, length, data in read_pcap(micros)]
    file = write_pcap(tmp_path / "ipv6.pcap", packets)
    seen = tshark(file, ("_ws.malformed", "tcp.checksum.status", "udp.checksum.status"))
    assert {tuple(row) for row in seen} == {("", "1", ""), ("", "", "1")}
    six, four = streams(file), streams(micros)
    assert set(six["source"]) == {"fd00::a00:1", "fd00::a00:101"}
    assert {name: six[name] for name in six if name not in ("source", "destination")} == {
        name: four[name] for name in four if name not in ("source", "destination")
    }


def test_a_capture_of_a_real_host_agrees_with_tcptrace() -> None:
    require_tools()
    frame = pl.DataFrame(streams(LOOPBACK), infer_schema_length=None)
    tcp = frame.filter(protocol="tcp")
    seen = tcptrace(LOOPBACK)
    assert tcp["source"].to_list() == ["127.0.0.1", "127.0.0.1", "::1", "::1"]
    assert len(seen) == 2
    for name, label in (
        ("packets", "total packets"),
        ("sent_packets", "actual data pkts"),
        ("sent_bytes", "actual data bytes"),
        ("unique_bytes", "unique bytes sent"),
        ("retransmitted_packets", "rexmt data pkts"),
        ("duplicate_acks", "duplicate acks"),
        ("mss_bytes", "mss requested"),
        ("window_scale", "adv wind scale"),
        ("rtt_samples", "RTT samples"),
    ):
        assert tcp[name].to_list() == [count for connection in seen for count in connection[label]], name
    assert tcp["outcome"].unique().to_list() == ["closed"]
    udp = frame.filter(protocol="udp")
    assert udp.select("source", "sent_packets", "sent_bytes").rows() == [
        ("127.0.0.1", 10, 2000),
        ("::1", 10, 2000),
    ]
    assert udp["spacing_p50_ms"].is_between(10, 12).all()


def test_the_command_prints_a_table_and_writes_every_column(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], server: Path
) -> None:
    assert lasthop_main("analyze", server, LOOPBACK, "--out", "flows.csv") == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert captured.err == ""
    assert lines[0].split()[:5] == ["file", "flow", "from", "to", "outcome"]
    assert len(lines) == 1 + 5 + 6
    assert "[::1]:" in lines[-1]
    # The table has one unit for all rates.
    fastest = max(
        rate or 0.0 for rate in pl.read_csv("flows.csv", infer_schema_length=None)["throughput_Bps"]
    )
    unit, shown = ("Gbit/s", fastest * 8e-9) if fastest >= 1.25e8 else ("Mbit/s", fastest * 8e-6)
    assert lines[0].split()[-1] == unit
    assert max(float(line.split()[-1]) for line in lines[1:] if line[-1] != "-") == pytest.approx(
        shown, rel=0.01
    )
    assert lasthop_main("analyze", server, LOOPBACK, "--out", "flows.json", "--quiet") == 0
    assert lasthop_main("analyze", server, LOOPBACK, "--out", "flows.parquet", "--quiet") == 0
    assert capsys.readouterr().out == ""
    parquet, csv = pl.read_parquet("flows.parquet"), pl.read_csv("flows.csv", infer_schema_length=None)
    assert parquet.columns == csv.columns == ["file", *streams(server), "capture_cut"]
    assert parquet["unique_bytes"].to_list() == csv["unique_bytes"].to_list()
    assert json.loads(Path("flows.json").read_text())[0]["capture_cut"] == 0
    assert csv["unique_bytes"][:2].to_list() == [188_640, 0]


def hierarchy(file: Path) -> dict[str, tuple[int, int]]:
    """Return tshark's protocol hierarchy: frames and bytes of each protocol. Names are paths from IP up."""
    found: dict[str, tuple[int, int]] = {}
    path: dict[int, str] = {}
    for line in tool("tshark", "-n", "-q", "-r", file, "-z", "io,phs").splitlines():
        if match := re.match(r"( *)(\S+) +frames:(\d+) bytes:(\d+)", line):
            depth = len(match[1]) // 2
            path = {**{above: path[above] for above in range(depth)}, depth: match[2]}
            name = ":".join(each for each in path.values() if each not in ("raw", "eth"))
            found[name] = int(match[3]), int(match[4])
    return found


def lengths(file: Path) -> list[tuple[str | Any, ...]]:
    """Return tshark's packet lengths: from, to, count, mean, least, most."""
    pattern = r" (\d+)(?:-(\d+)| and greater) +(\d+) +(\S+) +(\S+) +(\S+)"
    lines = tool("tshark", "-n", "-q", "-r", file, "-z", "plen,tree").splitlines()
    return [match.groups() for line in lines if (match := re.match(pattern, line))]


@pytest.mark.parametrize("what", ["server", "real host"])
def test_protocols_and_sizes_are_those_of_tshark(server: Path, what: str) -> None:
    file = server if what == "server" else LOOPBACK
    _, capture, protocols, sizes = _core.analyze(str(file))
    found = {
        name: (packets, size)
        for name, packets, size in zip(
            *(protocols[key] for key in ("protocol", "packets", "bytes")), strict=True
        )
    }
    upto_transport = {
        name: counts for name, counts in hierarchy(file).items() if name and name.count(":") < 2
    }
    assert found == upto_transport
    assert {"ip", "ip:tcp", "ip:udp"} <= set(found)
    assert sum(sizes["packets"]) == capture["packets"][0]
    mine = {
        str(least): (str(count), f"{whole / count:.2f}", str(low), str(high))
        if count
        else ("0", "-", "-", "-")
        for least, count, whole, low, high in zip(
            *(sizes[key] for key in ("from_bytes", "packets", "bytes", "min_bytes", "max_bytes")), strict=True
        )
    }
    theirs = {least: tuple(rest) for least, _, *rest in lengths(file)}
    assert mine == {least: theirs[least] for least in mine}
    assert {counts for least, counts in theirs.items() if least not in mine} <= {("0", "-", "-", "-")}


def test_the_command_prints_protocols_and_sizes(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], server: Path, micros: Path
) -> None:
    assert lasthop_main("analyze", server, "--table", "protocols", "--out", "protocols.csv") == 0
    ip, tcp, udp = capsys.readouterr().out.splitlines()[1:]
    counts = pl.read_csv("protocols.csv")
    assert counts.columns == ["file", "protocol", "packets", "bytes", "capture_cut"]
    assert [line.split()[0] for line in (ip, tcp, udp)] == ["ip", "tcp", "udp"]
    assert (ip[:2], tcp[:3]) == ("ip", "  t")
    assert [int(line.split()[1]) for line in (ip, tcp, udp)] == counts["packets"].to_list()
    assert ip.split()[2] == "100.00"
    assert float(tcp.split()[2]) == pytest.approx(
        100 * counts["packets"][1] / counts["packets"][0], abs=0.005
    )
    assert lasthop_main("analyze", server, "--table", "sizes") == 0
    first, *_, last = capsys.readouterr().out.splitlines()[1:]
    assert first.split()[:3] == ["40", "to", "79"]
    assert first.split()[-2:] == ["52", "72"]
    assert last.split()[5] == "100.00"
    # An empty capture has no rows, beside a capture that has some.
    write_pcap(Path("empty.pcap"), [])
    for table in ("flows", "protocols", "sizes"):
        assert (
            lasthop_main("analyze", "empty.pcap", micros, "--table", table, "--out", f"{table}.parquet") == 0
        )
        assert pl.read_parquet(f"{table}.parquet")["file"].unique().to_list() == [str(micros)]


def test_a_cut_capture_gives_results_that_say_so(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], server: Path
) -> None:
    Path("cut.pcapng").write_bytes(server.read_bytes()[:50_000])
    assert lasthop_main("analyze", "cut.pcapng", server, "--out", "flows.parquet") == 0
    captured = capsys.readouterr()
    assert "cut.pcapng ends within a packet, at byte 49" in captured.err
    assert "unfinished" in captured.out
    assert pl.read_parquet("flows.parquet").group_by("file", maintain_order=True).agg(
        pl.col("capture_cut").unique()
    ).rows() == [("cut.pcapng", [1]), (str(server), [0])]


def test_packets_that_were_left_out_are_named(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], micros: Path
) -> None:
    packets = read_pcap(micros)
    ping = bytearray(packets[0][3])
    ping[9] = 1
    fragment = bytearray(packets[0][3])
    fragment[6] |= 0x20
    extra = [(0, 0, len(ping), bytes(ping)), (0, 0, len(fragment), bytes(fragment)), (0, 0, 40, b"\x45\0")]
    write_pcap(Path("some.pcap"), packets + extra)
    assert lasthop_main("analyze", "some.pcap") == 0
    said = capsys.readouterr().err
    assert "1 neither TCP nor UDP, 1 IP fragments, 1 too short for their headers" in said


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda data: data[:2000] + b"\xff" * 600 + data[2600:], "unreadable at byte"),
        (lambda data: b"\x1f\x8b" + data, "compressed by gzip"),
        (lambda _: b"", "it is empty"),
        (lambda _: b"no capture at all, but some text", "neither pcap nor pcapng"),
    ],
)
def test_a_damaged_file_ends_with_2_and_gives_nothing(
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
    micros: Path,
    *,
    damage: Callable[[bytes], bytes],
    expected: str,
) -> None:
    Path("bad.pcap").write_bytes(damage(micros.read_bytes()))
    assert lasthop_main("analyze", micros, "bad.pcap", "--out", "flows.csv") == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert "bad.pcap: " in captured.err
    assert captured.out == ""
    assert not Path("flows.csv").exists()


def test_bad_requests_end_with_2(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, expected in (
        (("missing.pcap",), "missing.pcap: there is no such file"),
        ((LOOPBACK, "--out", "flows.cvs"), "did you mean 'flows.csv'"),
        ((), "Missing argument 'FILE...'"),
    ):
        assert lasthop_main("analyze", *arguments) == 2
        assert expected in capsys.readouterr().err
    Path("there.csv").write_text("mine")
    assert lasthop_main("analyze", LOOPBACK, "--out", "there.csv") == 2
    assert "already exists" in capsys.readouterr().err
    assert Path("there.csv").read_text() == "mine"
