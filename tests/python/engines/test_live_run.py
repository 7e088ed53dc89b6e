"""Replications on the live engine: the same tables as from the model engine, with this machine's TCP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lasthop import _core
from lasthop.common.errors import InputError
from lasthop.engines.engine import CaptureTarget, Observation, Request
from lasthop.engines.live.live_engine import LiveEngine
from observing import traced
from tools import IN_ORDER, require_tools, tool, tshark

SCENARIO = """
name = "small"
title = "A download and a stream"
seed = 1
replications = 2
mtu = "576 B"
time_limit = "10 s"
lan = { rate = "100 Mbit/s", delay = "0.15 ms" }
down.queue.limit = "20 packets"
down.link = { rate = "1000 kbit/s", delay = "50 ms", send_buffer = "9600 B", release = "serialised" }
up.queue.limit = "20 packets"
up.link = { rate = "1000 kbit/s", delay = "50 ms", send_buffer = "9600 B", release = "serialised" }

[tcp]
profile = "linux-2.4"
"""
DOWNLOAD = """
[[flow]]
kind = "bulk-tcp"
name = "download"
bytes = "100 kB"
start = "100 ms"
"""
STREAM = """
[[flow]]
kind = "constant-udp"
name = "stream"
rate = "100 kbit/s"
payload = "125 B"
duration = "1 s"
start = "0 s"
"""
PAGE = """
[http]
protocol = "http1.0"
connections = 2
request = "300 B"
response_header = "200 B"

[[flow]]
kind = "http-page"
name = "page"
start = "0 s"
main = "5 kB"
inline = "10 kB"
inline_count = 5
"""


ATM = """
name = "switch"
replications = 1
mtu = "1064 B"
time_limit = "20 s"
tcp.profile = "linux-6"

[atm]
access_rate = "20 Mbit/s"
access_delay = "5 us"
rate = "2 Mbit/s"
delay = "20 ms"
buffer_cells = 300
threshold = 0.8
overhead = "16 B"
discard = { policy = "selective", share = 0.8 }

[[flow]]
kind = "bulk-tcp"
name = "early"
bytes = "200 kB"

[[flow]]
kind = "bulk-tcp"
name = "late"
bytes = "200 kB"
start = "100 ms"
"""


def cell_of(folder: Path, flows: str, **replaced: str) -> _core.Cell:
    """Return the cell of the scenario with these flows and, for `queue` and `buffer`, other sizes."""
    text = (SCENARIO + flows).replace("20 packets", replaced.get("queue", "20 packets"))
    file = folder / "cell.toml"
    file.write_text(text.replace("9600 B", replaced.get("buffer", "9600 B")), encoding="utf-8")
    return _core.load(str(file)).cells[0]


def test_a_download_and_a_stream_fare_as_in_the_model(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, DOWNLOAD + STREAM, queue="200 packets")
    live, model = LiveEngine().run_cell(cell, Request(1, 1, 2)), cell.run(1, 1, 2)
    assert list(live.flows) == list(model.flows)
    flows, expected = pl.DataFrame(live.flows), pl.DataFrame(model.flows)
    assert flows["flow"].to_list() == ["download", "stream"] * 2
    assert flows["outcome"].to_list() == ["closed"] * 4
    for column in ("sent_packets", "received_packets", "sent_bytes", "protocol"):
        assert flows[column].to_list() == expected[column].to_list(), column
    # Nothing is lost; today's TCP needs fewer round trips for its handshake's end, more for its ACKs: 100 ms
    # each.
    assert flows["retransmitted_packets"].sum() == 0
    for mine, theirs in zip(flows["elapsed_s"], expected["elapsed_s"], strict=True):
        assert mine == pytest.approx(theirs, abs=0.25)
    runs = pl.DataFrame(live.runs)
    assert (runs["packets_sent"] == runs["packets_delivered"]).all()
    assert runs["fairness_maxmin"].to_list() == [1.0, 1.0]  # of a single transfer; it counts what was written
    assert runs["lateness_p50_us"].max() < 5000  # type: ignore[operator]


def test_a_stream_keeps_its_pace(tmp_path: Path) -> None:
    flows = pl.DataFrame(LiveEngine().run_cell(cell_of(tmp_path, STREAM), Request(1, 1, 1)).flows)
    assert flows["sent_packets"].to_list() == [100]
    assert flows["elapsed_s"].to_list() == pytest.approx([0.99], abs=0.02)
    assert flows["spacing_mean_ms"].to_list() == pytest.approx([10], abs=0.2)


def test_a_link_changes_when_the_scenario_says_so(tmp_path: Path) -> None:
    longer = '"500 ms", delay = "200 ms"'
    changed = SCENARIO.replace('delay = "50 ms",', f'delay = "50 ms", change = [{{ at = {longer} }}],', 1)
    file = tmp_path / "changed.toml"
    file.write_text(changed + STREAM)
    (cell,) = _core.load(str(file)).cells
    for results in (cell.run(1, 1, 1), LiveEngine().run_cell(cell, Request(1, 1, 1))):
        flows = pl.DataFrame(results.flows)
        assert flows["received_packets"].to_list() == [100]
        # 10 ms between datagrams, and once 150 ms of delay more.
        assert flows["spacing_max_ms"].to_list() == pytest.approx([160], abs=5)


def test_real_tcp_crosses_an_atm_switch_and_every_packet_is_accounted_for(tmp_path: Path) -> None:
    file = tmp_path / "atm.toml"
    file.write_text(ATM + STREAM, encoding="utf-8")
    (cell,) = _core.load(str(file)).cells
    live, model = LiveEngine().run_cell(cell, Request(1, 1, 1)), cell.run(1, 1, 1)
    flows, expected = pl.DataFrame(live.flows), pl.DataFrame(model.flows)
    assert flows["flow"].to_list() == ["early", "late", "stream"]
    assert flows["outcome"].to_list() == ["closed"] * 3
    # What TCP repairs arrives in both. A datagram that a busy machine sends late may meet a full buffer, and
    # is lost.
    assert flows["received_packets"].to_list()[:2] == expected["received_packets"].to_list()[:2]
    assert flows["sent_packets"].to_list()[2] == expected["sent_packets"].to_list()[2] == 100
    # Whole packets go, of those that hold more than their share of the buffer; never of the stream, which is
    # slow.
    drops = flows["data_drops_queue"] + flows["data_drops_selective"]
    assert (flows["sent_packets"] - flows["received_packets"] == drops).all()
    assert flows["data_drops_selective"].to_list()[2] == 0 < flows["data_drops_selective"].sum()
    (run,) = pl.DataFrame(live.runs).to_dicts()
    assert run["packets_sent"] == run["packets_delivered"] + run["packets_dropped"]
    assert run["packets_dropped"] == drops.sum()
    # Cells have a tenth more than what they carry; nothing is faster than the port.
    assert 0.5 < run["utilisation"] <= 1


def test_losses_are_seen_and_repaired(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, DOWNLOAD, queue="4 packets", buffer="1152 B")
    flows = pl.DataFrame(LiveEngine().run_cell(cell, Request(1, 1, 3)).flows)
    # The kernel is asked after each packet; on a busy machine a short recovery may fall between two answers.
    assert flows["fast_retransmits"].sum() + flows["timeouts"].sum() > 0
    row = flows.row(0, named=True)
    assert row["outcome"] == "closed"
    assert row["data_drops_queue"] > 0
    assert row["retransmitted_packets"] >= row["data_drops_queue"]
    assert row["sack_blocks"] > 0
    assert 0.1 < row["rtt_min_s"] < row["rtt_max_s"] < 0.3
    assert row["sent_packets"] - row["received_packets"] == row["data_drops_queue"]


PIPELINED = PAGE.replace("http1.0", "http1.1-pipelined").replace(
    "connections = 2", 'connections = 1\nclose_after = "50 ms"'
)


@pytest.mark.parametrize("server", ["built-in", "nginx"])
@pytest.mark.parametrize(
    "page", [PAGE, PAGE.replace('"200 B"', '"0 B"'), PIPELINED], ids=["1.0", "whole", "1.1"]
)
def test_a_page_is_loaded_in_real_http(tmp_path: Path, page: str, server: str) -> None:
    if server == "nginx" and not any(map(shutil.which, ("nginx", "/usr/sbin/nginx"))):
        pytest.fail("nginx not found: run 'scripts/setup-system --test' as root.")
    page = page.replace('"200 B"', '"250 B"')
    page = page.replace("\n[[flow]]", f'server = "{server}"\n\n[[flow]]')
    cell = cell_of(tmp_path, page, queue="200 packets")
    live, model = LiveEngine().run_cell(cell, Request(1, 1, 2)), cell.run(1, 1, 2)
    for column in ("outcome", "objects", "objects_received", "connections"):
        assert live.pages[column] == model.pages[column], column
    assert live.pages["response_time_s"] == pytest.approx(model.pages["response_time_s"], rel=0.25)
    # The messages are as large as the model's, byte for byte; both ends of each connection were watched to
    # its end.
    assert live.flows["outcome"] == model.flows["outcome"]
    assert live.flows["sent_bytes"] == model.flows["sent_bytes"]
    is_server = [difference["what"].startswith("server") for difference in live.facts["differences"]]
    assert any(is_server) == (server == "nginx")


def test_a_captured_page_shows_its_messages(tmp_path: Path) -> None:
    require_tools()
    cell, folder = cell_of(tmp_path, PIPELINED, queue="200 packets"), tmp_path / "captures"
    folder.mkdir()
    target = CaptureTarget(folder, "a page", _core.SNAP_LENGTH)
    LiveEngine().run_cell(cell, Request.of_one(1, 3, 3, Observation(capture=target)))
    for point in ("server", "client"):
        fields = ("http.request.method", "http.response.code", "http.content_length", "_ws.malformed")
        messages = tshark(folder / f"{point}.pcapng", fields, *IN_ORDER, "-Y", "http")
        assert sum(method == "GET" for method, *_ in messages) >= 1
        answers = [(code, length) for _, code, length, _ in messages if code]
        assert answers == [("200", "5000")] + [("200", "10000")] * 5
        assert {malformed for *_, malformed in messages} == {""}


def test_a_page_too_small_for_real_messages_is_refused(tmp_path: Path) -> None:
    for change, text in (
        (('"200 B"', '"0 B"'), 'write "256 B" or more'),
        (('"200 B"\n', '"200 B"\nserver = "nginx"\n'), 'at least "224 B"'),
    ):
        with pytest.raises(InputError, match=text):
            LiveEngine().run_cell(
                cell_of(tmp_path, PAGE.replace("10 kB", "100 B").replace(*change)), Request(1, 1, 1)
            )


@pytest.mark.parametrize("algorithm", ["reno", "cubic"])
def test_the_window_grows_as_the_scenario_says(tmp_path: Path, algorithm: str) -> None:
    cell = cell_of(
        tmp_path, f'congestion_control = "{algorithm}"\n' + DOWNLOAD, queue="4 packets", buffer="1152 B"
    )
    trace = LiveEngine().run_cell(cell, Request.of_one(1, 1, 1, Observation(trace=True))).trace
    assert trace is not None
    windows = [
        (cwnd, ssthresh)
        for event, cwnd, ssthresh in zip(
            trace.transport["event"], trace.transport["cwnd"], trace.transport["ssthresh"], strict=True
        )
        if event == "window"
    ]
    before = max(cwnd for cwnd, ssthresh in windows if ssthresh is None)
    first = next(ssthresh for _, ssthresh in windows if ssthresh is not None)
    share = {"reno": 0.5, "cubic": 0.7}[algorithm]
    assert first == pytest.approx(share * before, abs=1.5)


def test_hosts_keep_state_within_a_chain_only_on_request(tmp_path: Path) -> None:
    losses = {}
    for cached in ("true", "false"):
        flows_of = f"cached_metrics = {cached}\n" + DOWNLOAD
        cell = cell_of(tmp_path, flows_of, queue="4 packets", buffer="1152 B")
        flows = LiveEngine().run_cell(cell, Request(1, 1, 3)).flows
        assert flows["outcome"] == ["closed"] * 3
        losses[cached] = flows["data_drops_queue"]
    # How many packets a first slow start loses depends on how busy the machine is; that one with a cached
    # ssthresh loses fewer does not.
    assert losses["true"][2] < losses["true"][0], "a cached ssthresh ends slow start in time"
    assert losses["true"][2] < losses["false"][2], "what nobody asked for is remembered"


def test_a_run_ends_at_its_time_limit(tmp_path: Path) -> None:
    cell = cell_of(tmp_path, DOWNLOAD.replace("100 kB", "10000 kB"))
    flows = LiveEngine().run_cell(cell, Request(1, 1, 1)).flows
    assert flows["outcome"] == ["unfinished"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_end_by_signal_ends_the_emulator_too(tmp_path: Path, number: signal.Signals, code: int) -> None:
    file = tmp_path / "long.toml"
    file.write_text(
        (SCENARIO + DOWNLOAD).replace("1000 kbit/s", "1 kbit/s").replace('"10 s"', '"10 min"'),
        encoding="utf-8",
    )
    mark = str(uuid.uuid4())
    # A shell without job control has its background processes ignore SIGINT; these do not.
    source = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from lasthop.commands.cli import main; sys.exit(main())"
    )
    command = [
        sys.executable,
        "-c",
        source,
        "run",
        str(file),
        "--engine",
        "live",
        "--out",
        str(tmp_path / "out"),
    ]
    environment = {**os.environ, "MARK": mark}
    process = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)

    def emulators() -> list[Path]:
        marked = f"MARK={mark}".encode()
        return [
            file
            for file in Path("/proc").glob("[0-9]*/environ")
            if marked in read(file) and b"live.child" in read(file.with_name("cmdline"))
        ]

    end = time.monotonic() + 20
    while not emulators():
        assert time.monotonic() < end, "no emulator was started"
        time.sleep(0.05)
    time.sleep(0.5)
    # Ctrl-C at a terminal reaches the whole group; a kill reaches one process.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    assert process.wait(20) == code
    while emulators():
        assert time.monotonic() < end, "the emulator goes on"
        time.sleep(0.05)


def read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process is gone, or another user's
        return b""


def test_the_command_leaves_what_the_model_engine_leaves(
    tmp_path: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SCENARIO + STREAM, encoding="utf-8")
    out = tmp_path / "out"
    code = lasthop_main("run", file, "--engine", "live", "--out", out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["identity"]["engine"] == "live"
    assert any(deviation["what"].startswith("recovery") for deviation in manifest["live"]["differences"][""])
    runs = pl.read_parquet(out / "runs.parquet")
    assert {"valid", "lateness_p999_us"} <= set(runs.columns)
    assert code == (0 if runs["valid"].all() else 3)
    report = (out / "report.html").read_text()
    assert "real time" in report
    assert "Linux marks lost segments by RFC 6675" in report
    capsys.readouterr()
    assert lasthop_main("run", file, "--out", out) == 2
    assert "contains results of the engine live, not of model" in capsys.readouterr().err


def test_a_live_run_is_captured_like_one_of_the_model(
    tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    require_tools()
    file, out = tmp_path / "small.toml", tmp_path / "out"
    file.write_text((SCENARIO + DOWNLOAD + STREAM).replace("20 packets", "4 packets"), encoding="utf-8")
    code = lasthop_main("run", file, "--engine", "live", "--pcap", "--out", out)
    flows, runs = pl.read_parquet(out / "flows.parquet"), pl.read_parquet(out / "runs.parquet")
    assert code == (0 if runs["valid"].all() else 3)
    for replication, run in enumerate(runs.iter_rows(named=True), 1):
        folder = out / "traces" / "cell" / "set-1" / f"replication-{replication}"
        assert sorted(path.name for path in folder.iterdir()) == sorted(_core.CAPTURE_FILES)
        sent = 0
        for point, source in (("server", "10.0.0.1"), ("client", "10.0.1.1")):
            checks = (
                "_ws.malformed",
                "ip.checksum.status",
                "tcp.checksum.status",
                "udp.checksum.status",
                "ip.src",
            )
            packets = tshark(folder / f"{point}.pcapng", checks)
            assert {malformed for malformed, *_ in packets} == {""}
            assert {(ip, tcp + udp) for _, ip, tcp, udp, _ in packets} == {("1", "1")}
            sent += sum(packet[-1] == source for packet in packets)
        assert sent == run["packets_sent"]
        drops = pl.read_csv(folder / "drops.csv")
        own = flows.filter(replication=replication)
        assert drops.height == own["data_drops_queue"].sum() + own["ack_drops_queue"].sum() > 0
        commented = tshark(folder / "router-in.pcapng", ("frame.comment",))
        assert sum(comment == "dropped: router queue full" for (comment,) in commented) == drops.height
    assert "engine live" in tool("capinfos", folder / "server.pcapng")


@pytest.mark.parametrize("cached", [False, True])
def test_a_live_run_is_recorded_event_by_event(tmp_path: Path, cached: bool) -> None:
    memory = f"cached_metrics = {str(cached).lower()}\n"
    cell = cell_of(tmp_path, memory + DOWNLOAD, queue="4 packets", buffer="1152 B")
    results = LiveEngine().run_cell(cell, Request.of_one(1, 1, 2, Observation(trace=True)))
    trace = results.trace
    assert trace is not None
    packets, model = pl.DataFrame(trace.packets), traced(cell, 1, 1, 2)
    assert list(trace.packets) == list(model.packets)
    assert list(trace.transport) == list(model.transport)
    flows = pl.DataFrame(results.flows).filter(replication=2)
    assert pl.DataFrame(trace.flows).equals(flows)
    row = flows.row(0, named=True)
    data = packets.filter(pl.col("direction") == "down", pl.col("payload_bytes") > 0)
    assert data.filter(event="sent").height == row["sent_packets"]
    assert data.filter(event="dropped-queue").height == row["data_drops_queue"]
    assert row["data_drops_queue"] > 0 or cached, (
        "what the first of a chain has cached may spare the second its losses"
    )
    assert trace.transport["event"].count("window") > 10
    assert trace.transport["event"].count("recovery-entered") == row["fast_retransmits"]
    assert LiveEngine().run_cell(cell, Request(1, 1, 1)).trace is None


def test_a_live_run_is_explained_drawn_and_traced(
    tmp_path: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.toml"
    file.write_text((SCENARIO + DOWNLOAD).replace("20 packets", "4 packets"), encoding="utf-8")
    options = (file, "--replication", 2, "--engine", "live")
    assert lasthop_main("explain", *options) == 0
    story = capsys.readouterr().out
    assert "slow start" in story
    assert "queue" in story
    picture, captures = tmp_path / "run.png", tmp_path / "captures"
    assert lasthop_main("plot", *options, "--out", picture) == 0
    assert picture.stat().st_size > 10_000
    assert lasthop_main("export", *options, "--out", captures) == 0
    assert sorted(path.name for path in captures.iterdir()) == sorted(_core.CAPTURE_FILES)


KINDS = """
name = "kinds"
time_limit = "5 s"
down.queue.limit = "200 packets"
down.link = { rate = "4 Mbit/s", delay = "20 ms", framing = "40 B", duplicate = "20 %" }
up.queue.limit = "200 packets"
up.link = { course = "course.csv" }

[[flow]]
name = "call"
kind = "voip"
direction = "both"
duration = "1 s"

[[flow]]
name = "bursts"
kind = "on-off"
direction = "up"
rate = "200 kbit/s"
on = { distribution = "exponential", mean = "100 ms" }
off = { distribution = "exponential", mean = "100 ms" }
duration = "1 s"

[[flow]]
name = "video"
kind = "video"
bitrates = ["100 kbit/s", "400 kbit/s"]
segment = "500 ms"
duration = "2 s"
startup = "500 ms"
buffer = "2 s"
reservoir = "250 ms"
cushion = "500 ms"

[[flow]]
name = "requests"
kind = "request-response"
requests = 5
response = "5 kB"
think = "20 ms"
access = { delay = "30 ms" }

[[flow]]
name = "sensor"
kind = "coap"
requests = 5
request = "100 B"
response = "60 B"
interval = "100 ms"
nstart = 2

[[flow]]
name = "tape"
kind = "replay"
file = "tape.csv"

[[flow]]
name = "upload"
kind = "bulk-tcp"
duration = "500 ms"
direction = "up"
tcp = { congestion_control = "reno", sack = false }

[[flow]]
name = "download"
kind = "bulk-tcp"
bytes = "20 kB"
count = 2
"""


def test_every_kind_of_traffic_runs_on_real_sockets(tmp_path: Path) -> None:
    """All at once: they send the same data as in the model, and every flow has the metrics of its kind."""
    (tmp_path / "course.csv").write_text(
        "time_s,rate_bps,delay_s\n0,4000000,0.02\n0.4,1000000,0.03\n", encoding="utf-8"
    )
    (tmp_path / "tape.csv").write_text("time_s,bytes\n0,100\n0.1,1000\n0.15,40\n", encoding="utf-8")
    (tmp_path / "kinds.toml").write_text(KINDS, encoding="utf-8")
    cell = _core.load(str(tmp_path / "kinds.toml")).cells[0]
    live, model = (
        pl.DataFrame(own.flows) for own in (LiveEngine().run_cell(cell, Request(1, 1, 1)), cell.run(1, 1, 1))
    )
    assert live.columns == model.columns
    assert live.select("flow", "direction").equals(model.select("flow", "direction"))
    assert set(live["outcome"]) == {"closed"}

    def of(flows: pl.DataFrame, name: str) -> dict[str, Any]:
        return flows.row(by_predicate=pl.col("flow") == name, named=True)

    for name in ("call-down", "call-up", "bursts", "tape"):
        for column in ("sent_packets", "sent_bytes"):
            assert of(live, name)[column] == of(model, name)[column], (name, column)
    for name, column in (
        ("call-down", "mos"),
        ("call-up", "mos"),
        ("video", "segments"),
        ("video", "startup_delay_s"),
    ):
        assert of(live, name)[column] == pytest.approx(of(model, name)[column], rel=0.1), (name, column)
    assert of(live, "requests")["requests_completed"] == of(live, "sensor")["requests_completed"] == 5
    assert of(live, "sensor")["sent_bytes"] == 5 * 100
    assert of(live, "requests")["rtt_min_s"] > 2 * 0.03 + 2 * 0.02  # the access link is under way both times
    assert of(live, "video")["duplicate_acks"] > 0  # copies on the link
    # Within the duration both send a slow start; behind it the queue is the course's.
    assert of(live, "upload")["throughput_Bps"] == pytest.approx(
        of(model, "upload")["throughput_Bps"], rel=0.2
    )


DISCIPLINES = (
    "drop-tail",
    "drop-head",
    "random-drop",
    "codel",
    "fq_codel",
    "pie",
    "fq_pie",
    "sfq",
    "dualpi2",
    "cake",
)


def test_every_queue_discipline_serves_a_class_on_this_machines_clock(tmp_path: Path) -> None:
    """All at once, each in its own class; the last is RED, which has no own name."""
    red = (
        "red = { min = '5 kB', max = '9 kB', max_probability = 0.1, weight = 0.1, avpkt = '1 kB', "
        "gentle = true }"
    )
    queues = [
        *(f"discipline = '{name}', limit = '90 packets'" for name in DISCIPLINES),
        f"limit = '40 kB', {red}",
    ]
    classes, flows = [], []
    for number, queue in enumerate(queues, start=1):
        match = "default = true" if number == 1 else f"match = [{{ port = {30_000 + number} }}]"
        classes.append(f"{{ name = 'c{number}', rate = '1 Mbit/s', queue = {{ {queue} }}, {match} }}")
        flows.append(
            f"{{ kind = 'constant-udp', name = 'f{number}', rate = '400 kbit/s', payload = '500 B', "
            f"duration = '200 ms', port = {30_000 + number}, ecn = 'ect1' }}"
        )
    text = "[down.link]\nrate = '10 Mbit/s'\ndelay = '10 ms'\n"
    keys = f"down.htb.class = [{', '.join(classes)}]\nflow = [{', '.join(flows)}]\ntcp.profile = 'linux-6'\n"
    (tmp_path / "disciplines.toml").write_text(keys + text, encoding="utf-8")
    live = pl.DataFrame(
        LiveEngine().run_cell(_core.load(str(tmp_path / "disciplines.toml")).cells[0], Request(1, 1, 1)).flows
    )
    assert live["sent_packets"].to_list() == live["received_packets"].to_list() == [20] * len(queues)
    assert set(live["outcome"]) == {"closed"}


SHORT_FLOWS = """{ kind = "short-flows", packets = 3, request = "200 B", \
arrivals = { model = "poisson", load = 0.5 },
hosts = [{ name = "iw3", initial_window = 3, receive_window_initial = 4 }], \
tcp = { congestion_control = "reno" } }"""
WEB_CLIENTS = """{ kind = "web-clients", name = "web", clients = 2, start = "0 s", batches = 1, \
interval = "1 s",
requests = { mean = 5, min = 1, max = 9 }, multiple = { mean = 5, min = 1, max = 9 }, \
gap = "1 ms", first_unit = "9 B",
others = [{ unit = "1 kB", share = 0.3 }] }"""


@pytest.mark.parametrize(
    ("line", "key", "instead"),
    [
        ("router.implementation = 'linux'", r"router\.implementation", "--engine kernel"),
        ("tcp.profile = 'ns-1998'", r"tcp\.stack", "--engine model"),
        (f"flow = [{SHORT_FLOWS}]".replace("\n", ""), "its own `tcp`", "leave out its tcp"),
        (f"flow = [{WEB_CLIENTS}]".replace("\n", ""), "web-clients", "--engine model"),
    ],
)
def test_what_the_live_engine_cannot_do_is_refused_with_the_key_and_what_can(
    tmp_path: Path, line: str, key: str, instead: str
) -> None:
    link = "[down.link]\nrate = '1 Mbit/s'\ndelay = '10 ms'\n"
    flow = "" if "flow" in line else "[[flow]]\nkind = 'bulk-tcp'\nbytes = '1 kB'\n"
    (tmp_path / "refused.toml").write_text(f"{line}\n{link}{flow}", encoding="utf-8")
    study = _core.load(str(tmp_path / "refused.toml"))
    with pytest.raises(_core.ScenarioError, match=rf"(?s){key}.*{instead}"):
        LiveEngine.check(study, study.cells)
