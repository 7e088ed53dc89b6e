"""Flows over QUIC, from the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.engines.engine import Request
from lasthop.engines.live.live_engine import LiveEngine
from lasthop.present.pictures.panels import panels
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.scenario.facts import Facts
from lasthop.studies.catalogue import find_scenario
from observing import overviewed

Main = Callable[..., int]
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
EPOCH_MS = 946_684_800_000


TRANSFER = """
replications = 3

[down.link]
rate = "2 Mbit/s"
delay = "30 ms"
loss = "5 %"

[[flow]]
kind = "bulk-tcp"
name = "quic"
bytes = "40 kB"
stack = "quic"
"""


def test_the_example_runs(lasthop_main: Main, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("--replications", "1", "--only", "neighbour=tcp", "--out", tmp_path / "out", "--quiet")
    assert lasthop_main("run", EXAMPLES / "quic.toml", *arguments) == 0
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    assert dict(zip(flows["flow"], flows["protocol"], strict=True)) == {"quic": "quic", "neighbour": "tcp"}
    assert set(flows["outcome"]) == {"closed"}
    assert flows["sent_bytes"].min() >= 2_000_000  # type: ignore[operator]
    assert lasthop_main("explain", EXAMPLES / "quic.toml", "--only", "neighbour=tcp", "--flow", "quic") == 0
    output = capsys.readouterr().out.split("\n\n", 1)[1]
    quic = flows.filter(flow="quic").row(0, named=True)
    assert output.count("Recovery period because of a loss") == quic["fast_retransmits"] > 0
    assert output.count("  Probe timeout") == quic["timeouts"]
    assert "packet threshold 3; RFC 9002" in " ".join(output.split())
    # TCP's terms.
    assert not any(word in output for word in ("SYN", "FIN", "SACK", "duplicate", "segment", "RTO"))


def test_transfers_get_through_what_the_interop_runner_does_to_them(
    lasthop_main: Main, tmp_path: Path
) -> None:
    times: dict[str, float] = {}
    for name, levels in (("interop", "path"), ("rebind", "rebind")):
        arguments = ("--replications", "1", "--out", tmp_path / name, "--quiet")
        assert lasthop_main("run", EXAMPLES / f"{name}.toml", *arguments) == 0
        flows = pl.read_parquet(tmp_path / name / "flows.parquet")
        assert set(flows["outcome"]) == {"closed"}
        times |= dict(zip(flows[levels], flows["elapsed_s"], strict=True))
        timeouts = dict(zip(flows[levels], flows["timeouts"], strict=True))
        assert timeouts["blackhole" if name == "interop" else "once"] > 0
    # No packet gets through for two seconds, and the next probe may be almost as far away again.
    assert 2 < times["blackhole"] - times["simple-p2p"] < 4
    # ACKs are small: a tenth of the rate suffices for them.
    assert times["asymmetric"] < 1.02 * times["simple-p2p"]
    # The next packet from the new port validates the path.
    assert times["never"] < times["once"] < times["often"] < times["never"] + 0.4


@pytest.mark.parametrize("name", ["goodput", "crosstraffic"])
def test_the_measurements_of_the_interop_runner_have_a_result(name: str, lasthop_main: Main) -> None:
    assert lasthop_main("check", EXAMPLES / f"{name}.toml", "--quiet") == 0
    flows = pl.read_parquet(Path("results", name, "flows.parquet"))
    ends = flows.partition_by("flow", as_dict=True)
    downloads = ends.pop(("download",))["elapsed_s"]
    others = [other["elapsed_s"].min() for other in ends.values()]
    assert downloads.len() == 5
    assert all(downloads.max() < other for other in others), "TCP competes until the end"  # type: ignore[operator]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize(("engine", "replications"), [("model", 3), ("kernel", 1)])
@pytest.mark.usefixtures("kernel")
def test_tshark_decrypts_captures_and_finds_nothing_malformed(
    lasthop_main: Main, tmp_path: Path, engine: str, replications: int
) -> None:
    scenario = tmp_path / "transfer.toml"
    scenario.write_text(TRANSFER)
    arguments = (
        "--engine",
        engine,
        "--replications",
        replications,
        "--pcap",
        "--out",
        tmp_path / "out",
        "--quiet",
    )
    assert lasthop_main("run", scenario, *arguments) == 0
    captures = sorted((tmp_path / "out").rglob("*.pcapng"))
    assert len(captures) == 4 * replications
    assert len(list((tmp_path / "out").rglob("*.sqlog"))) == 2 * replications
    for capture in captures:
        fields = ["quic.frame_type", "quic.decryption_failed", "_ws.malformed"]
        columns = [argument for field in fields for argument in ("-e", field)]
        done = subprocess.run(
            ["tshark", "-r", capture, "-T", "fields", *columns], capture_output=True, text=True, check=True
        )
        frames: set[int] = set()
        for line in done.stdout.splitlines():
            kinds, *faults = line.split("\t")
            assert kinds, f"{capture}: a datagram was not decrypted"
            assert faults == ["", ""], f"{capture}: {line}"
            frames.update(int(kind) for kind in kinds.split(","))
        # ACK, CRYPTO and STREAM (RFC 9000, section 19).
        assert frames & {2, 3}, capture
        assert 6 in frames, capture
        assert frames & set(range(8, 16)), capture


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_tshark_decrypts_a_request_that_rides_with_the_first_packet(
    lasthop_main: Main, tmp_path: Path
) -> None:
    scenario = tmp_path / "page.toml"
    scenario.write_text(PAGE + "quic = { zero_rtt = true }\n")
    assert (
        lasthop_main("run", scenario, "--replications", "1", "--pcap", "--out", tmp_path / "out", "--quiet")
        == 0
    )
    (capture,) = (tmp_path / "out").rglob("client.pcapng")
    wanted = [
        "-Y",
        "quic.long.packet_type == 1",
        "-T",
        "fields",
        "-e",
        "quic.stream_data",
        "-e",
        "quic.decryption_failed",
    ]
    done = subprocess.run(["tshark", "-r", capture, *wanted], capture_output=True, text=True, check=True)
    (first, *_) = done.stdout.splitlines()
    # 350 zeros are the request for the main object.
    assert first.split("\t") == ["00" * 350, ""]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_logs_have_the_packets_of_the_captures(lasthop_main: Main, tmp_path: Path) -> None:
    scenario = tmp_path / "transfer.toml"
    scenario.write_text(TRANSFER)
    assert lasthop_main("export", scenario, "--out", tmp_path / "out", "--quiet") == 0
    for end, address in (("server", "10.0.0.1"), ("client", "10.0.1.1")):
        header, *events = (
            json.loads(record)
            for record in (tmp_path / "out" / f"flow-0.{end}.sqlog").read_text().split("\x1e")[1:]
        )
        assert header["trace"]["vantage_point"] == {"type": end}
        sent = [event for event in events if event["name"] == "transport:packet_sent"]
        fields = [
            "-Y",
            f"ip.src == {address}",
            "-T",
            "fields",
            "-e",
            "frame.time_epoch",
            "-e",
            "quic.packet_number",
        ]
        done = subprocess.run(
            ["tshark", "-r", tmp_path / "out" / f"{end}.pcapng", *fields],
            capture_output=True,
            text=True,
            check=True,
        )
        captured = [
            (float(time) * 1000 - EPOCH_MS, int(number))
            for time, numbers in (line.split("\t") for line in done.stdout.splitlines())
            for number in numbers.split(",")
        ]
        assert [event["data"]["header"]["packet_number"] for event in sent] == [
            number for _, number in captured
        ]
        assert [event["time"] for event in sent] == pytest.approx([time for time, _ in captured], abs=0.01)


def test_the_null_twin_changes_no_record(lasthop_main: Main, tmp_path: Path) -> None:
    records = []
    for crypto in ("tls", "null"):
        scenario = tmp_path / "transfer.toml"
        scenario.write_text(TRANSFER + f'quic = {{ crypto = "{crypto}" }}\n')
        assert lasthop_main("run", scenario, "--out", tmp_path / crypto, "--quiet") == 0
        records.append(pl.read_parquet(tmp_path / crypto / "flows.parquet"))
    assert records[0].equals(records[1])


PAGE = """
replications = 2

[down.link]
rate = "1 Mbit/s"
delay = "50 ms"

[http]
protocol = "http3"
connections = 1
request = "350 B"
response_header = "250 B"

[[flow]]
kind = "http-page"
name = "page"
main = "6288 B"
inline = "2096 B"
inline_count = 4
stack = "quic"
"""


def test_a_page_travels_on_the_streams_of_one_connection(lasthop_main: Main, tmp_path: Path) -> None:
    scenario = tmp_path / "page.toml"
    scenario.write_text(PAGE)
    assert lasthop_main("run", scenario, "--out", tmp_path / "out", "--quiet") == 0
    pages = pl.read_parquet(tmp_path / "out" / "pages.parquet")
    assert set(pages["outcome"]) == {"closed"}
    assert pages["objects_received"].to_list() == [5, 5]
    # The handshake, the main object and the in-line objects take a round trip each, 17 kB some 140 ms.
    assert 0.40 < pages["response_time_s"].max() < 0.55  # type: ignore[operator]
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    assert flows["flow"].to_list() == ["page/connection-1"] * 2
    assert set(flows["sent_bytes"]) == {6288 + 4 * 2096 + 5 * 250}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('stack = "quic"', ""), "`flow[0].stack`: HTTP/3 requires QUIC"),
        (('"http3"', '"http1.1"'), "`flow[0].stack`: HTTP/3 requires QUIC"),
        (
            ("connections = 1", "connections = 4"),
            "`http.connections`: 4: HTTP/3 loads a page over one connection; write 1",
        ),
    ],
)
def test_http3_and_quic_belong_together(
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    change: tuple[str, str],
    message: str,
) -> None:
    scenario = tmp_path / "page.toml"
    scenario.write_text(PAGE.replace(*change))
    assert lasthop_main("validate", scenario) != 0
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (
            TRANSFER,
            "`flow[0].quic.migration`: the server opens the connection, but only the client may migrate",
        ),
        (PAGE, "`flow[0].quic.migration`: no link changes, so the client never migrates"),
    ],
)
def test_hosts_that_cannot_migrate_are_errors(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], tmp_path: Path, scenario: str, message: str
) -> None:
    (tmp_path / "moving.toml").write_text(scenario + "quic = { migration = true }\n")
    assert lasthop_main("validate", tmp_path / "moving.toml") != 0
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_study_upholds_its_claims_without_errors(lasthop_main: Main, tmp_path: Path) -> None:
    arguments = ("--only", "link=e0", "--replications", "4", "--quiet", "--out", tmp_path / "out")
    assert lasthop_main("run", find_scenario("quic"), *arguments) == 0
    claims = pl.read_csv(tmp_path / "out" / "claims.csv")
    verdicts = dict(zip(claims["id"], claims["verdict"], strict=True))
    assert {verdicts[claim] for claim in ("no-gain-without-loss", "pipelining", "one-connection")} == {
        "upheld"
    }
    assert "not upheld" not in verdicts.values()


MIGRATING = """
[down.link]
rate = "2 Mbit/s"
delay = "30 ms"
change = [{ at = "1 s", rate = "1 Mbit/s" }]

[[flow]]
kind = "bulk-tcp"
direction = "up"
bytes = "40 kB"
stack = "quic"
quic = { migration = true }
"""


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (MIGRATING, "flow[0].quic.migration runs on the model engine only"),
        (
            PAGE.replace("connections = 1", 'connections = 1\nserver = "nginx"'),
            '"nginx" does not support HTTP/3 here',
        ),
    ],
)
def test_what_sockets_cannot_do_is_refused_by_name(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], tmp_path: Path, scenario: str, message: str
) -> None:
    (tmp_path / "it.toml").write_text(scenario)
    for engine in ("live", "kernel"):
        assert lasthop_main("run", tmp_path / "it.toml", "--engine", engine, "--out", tmp_path / "out") != 0
        assert message in " ".join(capsys.readouterr().err.split())


KINDS = """
down.queue.limit = "200 packets"

[down.link]
rate = "2 Mbit/s"
delay = "30 ms"

[http]
protocol = "http3"
connections = 1
request = "350 B"
response_header = "250 B"

[factor.kind]
down.flow = [{ kind = "bulk-tcp", bytes = "200 kB", stack = "quic", quic.congestion_control = "newreno" }]
up.flow = [{ kind = "bulk-tcp", bytes = "200 kB", direction = "up", stack = "quic", quic.crypto = "null" }]
page.flow = [{ kind = "http-page", main = "9 kB", inline = "30 kB", inline_count = 4, stack = "quic" }]
early.flow = [{ kind = "request-response", requests = 4, response = "20 kB", \
stack = "quic", quic.zero_rtt = true }]
video.flow = [{ kind = "video", bitrates = ["300 kbit/s"], segment = "1 s", duration = "3 s", \
stack = "quic" }]
"""


@pytest.mark.usefixtures("kernel")
def test_the_same_ends_over_sockets_of_a_guest_fare_as_in_the_model(
    lasthop_main: Main, tmp_path: Path
) -> None:
    (tmp_path / "kinds.toml").write_text("replications = 1\n" + KINDS)
    tables = []
    for engine in ("model", "kernel"):
        out = tmp_path / engine
        assert lasthop_main("run", tmp_path / "kinds.toml", "--engine", engine, "--out", out, "--quiet") == 0
        tables.append(pl.read_parquet(out / "flows.parquet"))
    model, kernel = tables
    assert model.columns == kernel.columns
    assert model.height == 5
    counts = [name for name, kind in model.schema.items() if not kind.is_float()]
    assert kernel[counts].equals(model[counts])
    for time in ("elapsed_s", "data_transmit_s", "rtt_median_s", "completion_mean_s", "startup_delay_s"):
        # Hosts of the guest take microseconds.
        assert kernel[time].to_list() == pytest.approx(model[time].to_list(), rel=1e-3), time


def test_a_transfer_over_sockets_of_this_machine_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "kinds.toml").write_text(KINDS.replace("200 kB", "40 kB"))
    for cell in _core.load(str(tmp_path / "kinds.toml")).cells[:2]:
        (flow,) = pl.DataFrame(LiveEngine().run_cell(cell, Request(1, 1, 1)).flows).to_dicts()
        assert (flow["outcome"], flow["sent_bytes"], flow["retransmitted_packets"]) == ("closed", 40_000, 0)
        assert flow["elapsed_s"] == pytest.approx(0.4, abs=0.2)


CALL = """
[down.link]
rate = "1 Mbit/s"
delay = "50 ms"
loss = "2 %"
[[flow]]
kind = "voip"
name = "call"
stack = "quic"
duration = "4 s"
"""


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_a_call_is_datagrams_in_captures_and_in_its_story(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scenario = tmp_path / "call.toml"
    scenario.write_text(CALL)
    assert lasthop_main("run", scenario, "--pcap", "--out", tmp_path / "out") == 0
    call = pl.read_parquet(tmp_path / "out/flows.parquet").row(0, named=True)
    assert (call["protocol"], call["outcome"], call["sent_packets"]) == ("quic-datagram", "closed", 200)
    assert call["voice_loss"] * 200 == call["data_drops_error"] > 0
    capture = next((tmp_path / "out").rglob("server.pcapng"))
    # RFC 9221, section 4: DATAGRAM frames that state their length.
    command = ["tshark", "-r", capture, "-T", "fields", "-e", "quic.frame_type", "-e", "_ws.malformed"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    packets = [line.split("\t") for line in done.stdout.splitlines()]
    assert sum("49" in kinds.split(",") for kinds, _ in packets) == 200
    assert not any(malformed for _, malformed in packets)
    capsys.readouterr()
    assert lasthop_main("explain", scenario) == 0
    output = capsys.readouterr().out
    assert "call: QUIC (RFC 9221), server to client, 200 frames of 172 bytes, numbered from 0." in output
    assert f"5 lost ({call['voice_loss'] * 100:.2f} %), 0 late" in output
    assert f"0 router queue full, 0 RED, {call['data_drops_error']} link." in output
    assert f"{call['received_packets']} of 200 packets arrived" in output


OUTAGE = """
time_limit = "60 s"
[down.link]
course = "outage.csv"
[[flow]]
kind = "bulk-tcp"
name = "quic"
bytes = "3 MB"
stack = "quic"
quic = { congestion_control = "newreno" }
"""


def test_persistent_congestion_and_its_probes_are_explained(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Everything is lost for 4 s: probes, then a window of two packets (RFC 9002, section 7.6)."""
    (tmp_path / "outage.csv").write_text(
        "time_s,rate_bps,delay_s,loss\n0,4000000,0.03,0\n2,4000000,0.03,1\n6,4000000,0.03,0\n"
    )
    scenario = tmp_path / "outage.toml"
    scenario.write_text(OUTAGE)
    assert lasthop_main("explain", scenario) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "Persistent congestion: all packets sent over more than three probe timeouts were lost" in output
    assert "Probe timeout, 3 in a row (RFC 9002, section 6.2)" in output
    assert "(persistent congestion" not in output
    assert "(1 x persistent congestion)" in output
    assert "-> 2, ssthresh" in output
    assert "Closed: all data has been acknowledged" in output


def test_a_picture_shows_data_acknowledgments_and_what_is_sent_again(tmp_path: Path) -> None:
    scenario = tmp_path / "transfer.toml"
    scenario.write_text(TRANSFER.replace("40 kB", "400 kB"))
    (cell,) = _core.load(str(scenario)).cells
    record = {name: cells[0] for name, cells in cell.run(1, 1, 1).flows.items()}
    overview = overviewed(cell, 1, 1, 1)
    assert sum(overview.packets["fresh_bytes"]) == 400_000
    sequence, window, times = panels(TraceTables.of(overview, Facts.of(cell)), ["sequence", "cwnd", "rtt"])
    marks = {layer.mark.name: len(layer.x) for layer in sequence.layers}
    assert marks["segment sent"] == record["sent_packets"] - record["retransmitted_packets"]
    assert marks["retransmission of lost data"] >= record["retransmitted_packets"] / 2 > 5
    assert marks["acknowledged"] > 50
    assert not marks.keys() & {"advertised window", "SACK block", "fast retransmission"}
    assert {layer.mark.quantity for layer in window.layers} >= {"cwnd", "ssthresh"}
    # QUIC hosts do not report their timeout.
    assert "RTO" not in {layer.mark.quantity for layer in times.layers}


def test_probes_of_the_mtu_are_no_probe_timeouts(lasthop_main: Main, tmp_path: Path) -> None:
    """Both have a PING, and that of the MTU may leave when the timer of pacing has run."""
    scenario = tmp_path / "transfer.toml"
    scenario.write_text(TRANSFER.replace("5 %", "3 %").replace("40 kB", "200 kB"))
    assert lasthop_main("run", scenario, "--pcap", "--out", tmp_path / "out", "--quiet") == 0
    expired = 0
    for log in (tmp_path / "out").rglob("*.server.sqlog"):
        events = [json.loads(text) for text in log.read_text().split("\x1e")[2:]]
        expired += sum(event["data"].get("pto_count", 0) > 0 for event in events)
    assert expired == pl.read_parquet(tmp_path / "out/flows.parquet")["timeouts"].sum()
