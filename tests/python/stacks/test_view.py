"""A log next to captures: packets found, losses that were none, round trips, bursts; secrets in captures."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasthop.commands.cli import main
from lasthop.common.captures import add_secrets, packets_of
from lasthop.common.errors import InputError
from lasthop.common.metrics.dictionary import STACK_METRICS
from lasthop.engines.engine import CaptureTarget, Observation, Request
from lasthop.engines.stack_views import add_logs, captured, of_flows, views_in, with_metrics
from lasthop.stacks.qlog import read_logs
from lasthop.stacks.view import NEVER, View, sender_view, view_of
from tools import require_tools

START_S = 1_700_000_000


@dataclass
class Connection:
    """A server that sends datagrams and its client, as both captures and the server's log show them.

    Times are in milliseconds. `ahead_ms` is what the clock of the log is ahead.
    """

    folder: Path
    ahead_ms: float = 0.0
    near: list[tuple[float, bytes]] = field(default_factory=list)
    far: list[tuple[float, bytes]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def send(
        self, time: float, packets: list[tuple[int, str, int]], arrives: float | None, pad: int = 0
    ) -> None:
        """Send packets (number, type, bytes) in a datagram."""
        size = sum(own for *_, own in packets) + pad
        frame = udp(True, self.payload(size))
        self.near.append((time, frame))
        if arrives is not None:
            self.far.append((arrives, frame))
        for number, kind, own in packets:
            header = {"packet_type": kind, "packet_number": number}
            self.log(time, "transport:packet_sent", header=header, raw={"length": own})

    def ack(self, time: float, sent: float, ranges: list[list[int]]) -> None:
        """Receive an acknowledgment that the client sent."""
        frame = udp(False, self.payload(40))
        self.near.append((time, frame))
        self.far.append((sent, frame))
        frames = [{"frame_type": "ack", "acked_ranges": ranges}]
        header = {"packet_type": "1RTT", "packet_number": 0}
        self.log(time, "transport:packet_received", header=header, raw={"length": 40}, frames=frames)

    def metrics(self, time: float, **values: float) -> None:
        self.log(time, "recovery:metrics_updated", **values)

    def lose(self, time: float, number: int) -> None:
        self.log(time, "recovery:packet_lost", header={"packet_type": "1RTT", "packet_number": number})

    def log(self, time: float, name: str, **data: object) -> None:
        self.events.append({"time": time + self.ahead_ms, "name": name, "data": data})

    def payload(self, size: int) -> bytes:
        return struct.pack("!I", len(self.near)) * (size // 4) + bytes(size % 4)

    def view(self) -> View:
        log, near, far = (self.folder / name for name in ("s.qlog", "near.pcap", "far.pcap"))
        log.write_text(json.dumps({"traces": [{"vantage_point": {"type": "server"}, "events": self.events}]}))
        write_capture(near, self.near)
        write_capture(far, self.far)
        return view_of(read_logs(log)[0], near, far)


def udp(from_server: bool, payload: bytes) -> bytes:
    ports, ends = (
        ((443, 5000), ((10, 0, 0, 1), (10, 0, 1, 1)))
        if from_server
        else ((5000, 443), ((10, 0, 1, 1), (10, 0, 0, 1)))
    )
    length = 28 + len(payload)
    head = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + bytes(ends[0]) + bytes(ends[1])
    return head + struct.pack("!HHHH", *ports, length - 20, 0) + payload


def write_capture(file: Path, packets: list[tuple[float, bytes]]) -> None:
    parts = [struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)]
    for time, frame in sorted(packets, key=lambda own: own[0]):
        micros = round(time * 1000)
        parts.append(
            struct.pack("<IIII", START_S + micros // 10**6, micros % 10**6, len(frame), len(frame)) + frame
        )
    file.write_bytes(b"".join(parts))


def ones(*numbers: int, size: int = 1200) -> list[tuple[int, str, int]]:
    return [(number, "1RTT", size) for number in numbers]


@pytest.fixture
def connection(tmp_path: Path) -> Connection:
    return Connection(tmp_path)


def test_a_declared_loss_is_real_if_its_datagram_did_not_arrive(connection: Connection) -> None:
    for number in range(6):
        arrives = {1: None, 2: 30.0}.get(number, 12.0 + number)
        connection.send(float(number), ones(number), arrives)
    connection.ack(22, 17, [[0, 0], [3, 5]])
    connection.lose(23, 1)
    connection.lose(23, 2)
    connection.lose(24, 2)
    view = connection.view()
    assert [(own.number, own.arrived) for own in view.declared] == [(1, False), (2, True)]
    metrics = view.metrics()
    assert metrics["stack_declared_losses"] == 2
    assert metrics["stack_spurious_losses"] == 1
    assert metrics["stack_real_losses_share"] == 0.5
    assert metrics["stack_detection_ms"] == pytest.approx(22)
    assert metrics["wire_lost_datagrams"] == 1
    events = view.events().filter(pl.col("event") != "sent")
    assert events.rows() == [
        (pytest.approx(0.001), "network", "lost", None, None, False),
        (pytest.approx(0.023), "stack", "declared-lost", 1, None, False),
        (pytest.approx(0.023), "stack", "declared-lost", 2, None, True),
    ]


def test_what_was_on_the_way_at_the_end_is_not_lost(connection: Connection) -> None:
    for number, arrives in enumerate((10.0, None, 12.0, None)):
        connection.send(float(number), ones(number), arrives)
    connection.lose(14, 1)
    connection.lose(15, 3)
    view = connection.view()
    assert [(own.number, own.arrived) for own in view.declared] == [(1, False), (3, None)]
    metrics = view.metrics()
    assert (metrics["wire_lost_datagrams"], metrics["stack_declared_losses"]) == (1, 2)
    assert (metrics["stack_spurious_losses"], metrics["stack_real_losses_share"]) == (0, 1)


def test_coalesced_packets_share_a_datagram_and_padding_fills_it(connection: Connection) -> None:
    connection.send(0, [(0, "initial", 150), (0, "handshake", 800)], 10, pad=250)
    connection.send(0.1, [(1, "handshake", 400), (0, "1RTT", 60)], 10.1)
    connection.send(0.2, ones(1), 10.2)
    view = connection.view()
    assert view.datagram_of == [0, 0, 1, 1, 2]


def test_packets_behind_a_padded_datagram_are_not_taken_for_its_padding(connection: Connection) -> None:
    connection.send(0, [(0, "initial", 150), (0, "handshake", 800)], 10, pad=250)
    connection.send(30, ones(0, size=100), 40)
    connection.send(31, ones(1), 41)
    assert connection.view().datagram_of == [0, 0, 1, 2]


@given(st.lists(st.lists(st.integers(20, 400), min_size=1, max_size=3), min_size=1, max_size=40))
def test_all_packets_are_found_however_they_share_datagrams(datagrams: list[list[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        connection, number, expected = Connection(Path(folder)), 0, []
        for place, sizes in enumerate(datagrams):
            packets = [(number + index, "handshake", size) for index, size in enumerate(sizes)]
            connection.send(place * 10.0, packets, place * 10.0 + 20)
            number += len(sizes)
            expected += [place] * len(sizes)
        assert connection.view().datagram_of == expected


@pytest.mark.parametrize("missing", ["log", "capture"])
def test_what_only_one_side_has_is_left_out(missing: str, connection: Connection) -> None:
    for number in range(20):
        connection.send(float(number), ones(number, size=1000 + number % 7), 10.0 + number)
    if missing == "log":
        del connection.events[5:8]
        expected = [*range(5), *range(8, 20)]
    else:
        del connection.near[5:8]
        expected = [*range(5), *[NEVER] * 3, *range(5, 17)]
    assert connection.view().datagram_of == expected


def test_a_round_trip_lasts_from_the_datagram_to_the_first_acknowledgment_of_it(
    connection: Connection,
) -> None:
    connection.ahead_ms = 5000
    connection.metrics(0, smoothed_rtt=333, congestion_window=12000)
    connection.send(0, ones(0), 20)
    connection.send(1, ones(1), 21)
    connection.ack(50, 30, [[0, 1]])
    connection.metrics(50.5, smoothed_rtt=60, latest_rtt=49.5)
    connection.ack(52, 31, [[0, 1]])
    connection.send(53, ones(2), 73)
    connection.ack(103, 83, [[0, 2]])
    connection.metrics(103, smoothed_rtt=55, latest_rtt=50)
    view = connection.view()
    assert [(own.actual_ms, own.latest_ms, own.smoothed_ms) for own in view.trips] == [
        (pytest.approx(49), 49.5, 60),
        (pytest.approx(50), 50, 55),
    ]
    metrics = view.metrics()
    assert metrics["stack_srtt_ms"] == 57.5
    assert metrics["stack_srtt_error"] == pytest.approx((11 / 49 + 5 / 50) / 2)
    assert metrics["stack_rtt_error"] == pytest.approx(0.5 / 49 / 2)
    assert metrics["wire_rtt_ms"] == pytest.approx(49.5)


def test_packets_that_only_acknowledge_measure_no_round_trip(connection: Connection) -> None:
    connection.send(0, ones(0), 20)
    connection.events[-1]["data"]["frames"] = [{"frame_type": "ack"}]
    connection.ack(50, 30, [[0, 0]])
    assert connection.view().trips == []


def test_bursts_are_datagrams_within_a_tenth_of_a_millisecond(connection: Connection) -> None:
    for number, time in enumerate((0, 0.05, 0.15, 5, 5.2)):
        connection.send(time, ones(number, size=1000), time + 20)
    view = connection.view()
    assert view.bursts.tolist() == [3000, 1000, 1000]
    assert view.metrics()["wire_burst_max_bytes"] == 3000


def test_bytes_are_on_the_way_until_they_arrive(connection: Connection) -> None:
    connection.send(0, ones(0, size=1000), 10)
    connection.send(5, ones(1, size=500), 15)
    connection.send(6, ones(2, size=700), None)
    connection.send(20, ones(3, size=100), 30)
    times, flying = connection.view().on_the_way
    assert list(zip(times.tolist(), flying.tolist(), strict=True)) == [
        (pytest.approx(0), 1000),
        (pytest.approx(0.005), 1500),
        (pytest.approx(0.010), 500),
        (pytest.approx(0.015), 0),
        (pytest.approx(0.020), 100),
        (pytest.approx(0.030), 0),
    ]
    # 1000 B for 5 ms, 1500 B for 5 ms and 500 B for 5 ms, of 20 ms.
    assert connection.view().metrics()["wire_in_flight_bytes"] == pytest.approx(750)


def test_series_state_their_source(connection: Connection) -> None:
    connection.send(0, ones(0), 20)
    connection.metrics(1, congestion_window=12000, bytes_in_flight=1200)
    connection.ack(40, 20, [[0, 0]])
    rows = (
        connection.view().series().select("source", "cwnd_bytes", "in_flight_bytes", "latest_rtt_ms").rows()
    )
    assert ("stack", 12000, 1200, None) in rows
    assert ("network", None, 1200, None) in rows
    assert ("network", None, None, pytest.approx(40)) in rows


def test_a_log_of_another_connection_is_refused(connection: Connection) -> None:
    for number in range(10):
        connection.send(float(number), ones(number), 20.0 + number)
    connection.view()
    for event in connection.events:
        event["data"]["raw"]["length"] = 77
    with pytest.raises(InputError, match="no UDP flow with the datagrams of"):
        connection.view()


@pytest.fixture(scope="module")
def quinn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures and logs of the modelled QUIC, over a link that loses and reorders."""
    folder = tmp_path_factory.mktemp("quinn")
    scenario = folder / "s.toml"
    scenario.write_text(
        'name = "s"\n[down]\nlink = { rate = "5 Mbit/s", delay = "20 ms", loss = 0.02, reorder = true, '
        'jitter = { distribution = "uniform", min = "0 ms", max = "10 ms" } }\n'
        '[[flow]]\nkind = "bulk-tcp"\nstack = "quic"\nbytes = "500 kB"\n'
    )
    assert main(["export", str(scenario), "--as", "pcapng", "--quiet", "--out", str(folder / "out")]) == 0
    return folder / "out"


def test_the_view_of_a_modelled_connection_agrees_with_the_model(quinn: Path) -> None:
    log = read_logs(quinn / "flow-0.server.sqlog")[0]
    view = view_of(log, quinn / "server.pcapng", quinn / "client.pcapng")
    assert NEVER not in view.datagram_of
    assert NEVER not in view.datagram_from
    drops = pl.read_csv(quinn / "drops.csv").filter(pl.col("direction") == "down")
    metrics = view.metrics()
    assert metrics["wire_lost_datagrams"] == drops.height > 0
    assert (metrics["stack_rtt_error"] or 1) < 1e-4  # the log has microseconds
    assert list(metrics) == STACK_METRICS
    ranges = [own for received in log.received if received.space == "application" for own in received.acked]
    acknowledged = {number for first, last in ranges for number in range(first, last + 1)}
    arrived = {own.number: own.arrived for own in view.declared}
    assert {True, False} == set(arrived.values())
    assert {number for number, came in arrived.items() if came} == acknowledged & set(arrived)


def test_a_flow_has_the_metrics_of_the_end_that_sent_most(quinn: Path, tmp_path: Path) -> None:
    captures = {end: quinn / f"{end}.pcapng" for end in ("client", "server")}
    assert sender_view(tmp_path, captures) == "no log"
    for end in captures:
        (tmp_path / end / "qlog").mkdir(parents=True)
        shutil.copy(quinn / f"flow-0.{end}.sqlog", tmp_path / end / "qlog")
    view = sender_view(tmp_path, captures)
    assert isinstance(view, View)
    assert view.log.end == "server"
    (log,) = (tmp_path / "server" / "qlog").iterdir()
    log.write_text("damaged")
    assert sender_view(tmp_path, captures) == "unreadable"
    log.unlink()
    assert sender_view(tmp_path, captures) == "no log"


def test_a_log_of_other_packets_than_those_of_the_captures_is_not_found(
    quinn: Path, connection: Connection, tmp_path: Path
) -> None:
    for number in range(10):
        connection.send(float(number), ones(number, size=77), 20.0 + number)
    connection.view()
    folder = tmp_path / "server" / "qlog"
    folder.mkdir(parents=True)
    shutil.copy(tmp_path / "s.qlog", folder)
    captures = {end: quinn / f"{end}.pcapng" for end in ("client", "server")}
    assert sender_view(tmp_path, captures) == "not found"


def test_the_command_prints_writes_and_draws_a_view(
    quinn: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    captures = quinn / "server.pcapng", quinn / "client.pcapng"
    log, table, figure = quinn / "flow-0.server.sqlog", tmp_path / "v.parquet", tmp_path / "v.svg"
    assert lasthop_main("analyze", *captures, "--qlog", log, "--out", table, "--figure", figure) == 0
    assert "spurious losses" in capsys.readouterr().out
    assert pl.read_parquet(table).columns == ["file", "stack", "end", *STACK_METRICS]
    assert "smoothed RTT of the stack" in figure.read_text()
    assert lasthop_main("analyze", *captures, "--qlog", log, "--table", "events") == 0
    assert "declared-lost" in capsys.readouterr().out
    assert lasthop_main("analyze", *captures, "--qlog", log, "--table", "flows") == 2
    assert lasthop_main("analyze", *captures, "--figure", tmp_path / "w.png") == 2


def test_secrets_come_before_the_packets_and_change_none(quinn: Path, tmp_path: Path) -> None:
    capture = tmp_path / "a.pcapng"
    shutil.copy(quinn / "client.pcapng", capture)
    before = packets_of(capture)[0]
    keys = b"CLIENT_RANDOM 00 11\n"
    add_secrets(capture, keys)
    after = packets_of(capture)[0]
    assert all((before[name] == after[name]).all() for name in before)
    (section,) = struct.unpack_from("<I", capture.read_bytes(), 4)
    assert capture.read_bytes().index(keys) == section + 16


def test_tshark_decrypts_with_added_secrets(quinn: Path, tmp_path: Path) -> None:
    require_tools()
    whole, bare = quinn / "server.pcapng", tmp_path / "bare.pcapng"
    subprocess.run(["editcap", "--discard-all-secrets", whole, bare], check=True)
    assert (decrypted(whole) > 100, decrypted(bare)) == (True, 0)
    keys = re.findall(rb"(?:CLIENT|SERVER)_[A-Z_0-9]+ [0-9a-f]{64} [0-9a-f]+\n", whole.read_bytes())
    add_secrets(bare, b"".join(keys))
    assert decrypted(bare) == decrypted(whole)


def decrypted(capture: Path) -> int:
    """Return the number of packets in which tshark sees a STREAM frame."""
    command = ["tshark", "-r", capture, "-Y", "quic.stream.stream_id", "-T", "fields", "-e", "frame.number"]
    return len(subprocess.run(command, capture_output=True, check=True).stdout.splitlines())


def test_only_pcapng_holds_secrets(connection: Connection) -> None:
    connection.send(0, ones(0), 20)
    connection.view()
    with pytest.raises(InputError, match=r"near\.pcap is no pcapng file"):
        add_secrets(connection.folder / "near.pcap", b"CLIENT_RANDOM 00 11\n")


@pytest.fixture
def run(quinn: Path, tmp_path: Path) -> Request:
    """Captures and logs of replication 3, in which the modelled QUIC carried the flow `mine`."""
    logs, packets = tmp_path / "logs", tmp_path / "packets"
    packets.mkdir()
    for capture in quinn.glob("*.pcapng"):
        shutil.copy(capture, packets)
    for end in ("client", "server"):
        folder = logs / "replication-3" / "mine" / end
        (folder / "qlog").mkdir(parents=True)
        shutil.copy(quinn / f"flow-0.{end}.sqlog", folder / "qlog" / "0123abcd.sqlog")
        (folder / "keys.log").write_bytes(b"CLIENT_RANDOM 00 11\n")
    wanted = {3: Observation(capture=CaptureTarget(packets, "", 65_535))}
    return Request(1, 3, 1, observations=wanted, logs=logs)


def test_flows_of_a_run_have_the_metrics_of_their_logs(quinn: Path, run: Request) -> None:
    views = views_in([{"name": "mine"}, {"name": "other"}, {"name": "third"}], run)
    table = {
        "flow": ["other", "mine", "mine-2", "third"],
        "protocol": ["udp", "udp", "udp", "tcp"],
        "start_s": [0, 2, 0.001, 0],
    }
    flows = with_metrics(table, views)
    (log,) = read_logs(quinn / "flow-0.server.sqlog")
    expected = view_of(log, quinn / "server.pcapng", quinn / "client.pcapng")
    assert flows["stack_srtt_ms"] == [None, expected.metrics()["stack_srtt_ms"], None, None]
    assert flows["stack_log"] == ["no log", None, None, None]
    # The connection of the log started at once.
    assert list(of_flows(table, views)) == ["mine-2"]


def test_captures_of_a_run_have_the_keys_and_logs_beside_them(quinn: Path, run: Request) -> None:
    add_logs(run)
    folder = run.captures[3].folder
    for capture in folder.glob("*.pcapng"):
        assert capture.read_bytes().count(b"CLIENT_RANDOM 00 11\n") == 1
    for end in ("client", "server"):
        assert (folder / f"mine.{end}.sqlog").read_bytes() == (quinn / f"flow-0.{end}.sqlog").read_bytes()


def test_a_run_of_transfers_is_captured(tmp_path: Path) -> None:
    with captured(Request(1, 2, 1, logs=tmp_path)) as watched:
        assert watched.captures[2].folder.is_dir()
    assert not watched.captures[2].folder.exists()
