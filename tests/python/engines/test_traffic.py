"""Kinds of traffic: short scenarios of each on the model and on the kernel engine, and the errors of wrong
ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.common.metrics.units import human
from lasthop.engines.engine import Request
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel

Main = Callable[..., int]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LINK = '[down.link]\nrate = "1 Mbit/s"\ndelay = "30 ms"\n'
BULK = '[[flow]]\nkind = "bulk-tcp"\nbytes = "500 kB"\n'
CALL = '[[flow]]\nkind = "voip"\n'
ASK = '[[flow]]\nkind = "request-response"\nrequests = 20\nresponse = "20 kB"\n'
VIDEO = (
    '[[flow]]\nkind = "video"\nbitrates = ["250 kbit/s", "500 kbit/s", "900 kbit/s", "2 Mbit/s"]\n'
    'duration = "120 s"\n'
    'buffer = "40 s"\nreservoir = "8 s"\ncushion = "24 s"\n'
)
Flows = dict[str, dict[str, float]]


def cell(folder: Path, *parts: str, top: str = "") -> _core.Cell:
    file = folder / "traffic.toml"
    file.write_text(top + LINK + "".join(parts), encoding="utf-8")
    return _core.load(str(file)).cells[0]


def by_name(records: _core.Records) -> Flows:
    """The flows of a replication, each with its columns."""
    columns = records.flows
    return {
        name: {key: column[row] for key, column in columns.items()}
        for row, name in enumerate(columns["flow"])
    }


def model(parsed: _core.Cell) -> Flows:
    return by_name(parsed.run(1, 1, 1))


def kernel_flows(kernel: Kernel, parsed: _core.Cell) -> Flows:
    return by_name(KernelEngine(kernel).run_cell(parsed, Request(1, 1, 1)))


# ---- Calls -----------------------------------------------------------------------------------------------


def test_a_call_is_perfect_alone_and_not_with_a_download(tmp_path: Path) -> None:
    alone = model(cell(tmp_path, CALL))["voip"]
    assert alone["mos"] == pytest.approx(4.41, abs=0.005)
    # 200 bytes at 1 Mbit/s are 1.6 ms; a frame, its look-ahead and the jitter buffer are 83.75 ms.
    assert alone["voice_delay_s"] == pytest.approx(0.03 + 0.0016 + 0.08375, abs=1e-4)
    beside = model(cell(tmp_path, '[down.queue]\nlimit = "60 packets"\n', CALL + 'duration = "5 s"\n', BULK))
    assert beside["voip"]["voice_late"] > 0.3
    assert beside["voip"]["mos"] < 4.0
    assert beside["bulk-tcp"]["mos"] is None


def test_a_call_over_real_sockets_has_the_score_of_the_model(kernel: Kernel, tmp_path: Path) -> None:
    parsed = cell(tmp_path, CALL + 'codec = "Opus"\nduration = "10 s"\n', BULK)
    expected, real = model(parsed)["voip"], kernel_flows(kernel, parsed)["voip"]
    assert real["sent_packets"] == expected["sent_packets"] == 500
    assert real["mos"] == pytest.approx(expected["mos"], abs=0.15)
    assert real["voice_delay_s"] == pytest.approx(expected["voice_delay_s"], abs=1e-3)


def test_a_call_both_ways_suffers_only_where_the_upload_is(kernel: Kernel, tmp_path: Path) -> None:
    upload = BULK + 'direction = "up"\n'
    parsed = cell(tmp_path, CALL + 'direction = "both"\nduration = "5 s"\n', upload)
    for flows in (model(parsed), kernel_flows(kernel, parsed)):
        assert set(flows) == {"voip-down", "voip-up", "bulk-tcp"}
        assert flows["voip-down"]["sent_packets"] == flows["voip-up"]["sent_packets"] == 250
        assert flows["voip-up"]["mos"] < 4.2 < flows["voip-down"]["mos"]


def test_the_answer_of_calls_is_their_score(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "calls.toml"
    codel = '[factor.queue.drop-tail]\n[factor.queue.codel]\ndown.queue.discipline = "codel"\n'
    file.write_text(LINK + CALL + BULK + codel, encoding="utf-8")
    assert lasthop_main("run", file, "--replications", "5", "--out", tmp_path / "out") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "(MOS)" in text
    advice = (
        "With flow=voip, queue=codel has a speech quality of 4.32 MOS, queue=drop-tail of 3.89 MOS (0.431 "
        "points better"
    )
    assert text.partition("corrected by Holm): - ")[2].startswith(advice)
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    assert flows.filter(role="bulk-tcp")["mos"].null_count() == 10
    assert human("mos", 4.4092) == "4.41 MOS"


def test_invalid_calls_are_errors(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(f'{LINK}{CALL}codec = "G711"\n', encoding="utf-8")
    assert lasthop_main("validate", file) == 2
    assert "did you mean `G.711`?" in capsys.readouterr().err


# ---- Requests --------------------------------------------------------------------------------------------


def test_requests_alone_take_what_round_trips_and_the_link_take(tmp_path: Path) -> None:
    flow = model(cell(tmp_path, ASK + 'think = "2 s"\n'))["request-response"]
    assert (flow["requests"], flow["requests_completed"]) == (20, 20)
    # 14 segments of 1500 bytes at most are 0.16 s; two round trips of 60 ms, as ten segments go at once.
    assert 0.22 < flow["completion_p50_s"] < 0.30
    # The first includes the handshake.
    assert flow["completion_max_s"] == pytest.approx(flow["completion_p50_s"] + 0.06, abs=0.02)
    assert flow["elapsed_s"] > 19 * 2.2
    assert flow["outcome"] == "closed"


def test_requests_over_real_sockets_take_as_long_as_in_the_model(kernel: Kernel, tmp_path: Path) -> None:
    sizes = 'request = { distribution = "uniform", min = "100 B", max = "2 kB" }\nthink = "100 ms"\n'
    parsed = cell(tmp_path, ASK + sizes, CALL)
    expected, real = model(parsed)["request-response"], kernel_flows(kernel, parsed)["request-response"]
    for name in ("requests", "requests_completed"):
        assert real[name] == expected[name] == 20
    for name in ("completion_mean_s", "completion_p50_s", "completion_p95_s", "elapsed_s"):
        assert real[name] == pytest.approx(expected[name], rel=0.03), name


def test_the_answer_of_requests_is_their_completion_time(
    lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "requests.toml"
    slower = '[factor.rate.fast]\n[factor.rate.slow]\ndown.link.rate = "500 kbit/s"\n'
    file.write_text(LINK + ASK + slower, encoding="utf-8")
    assert lasthop_main("run", file, "--replications", "2", "--out", tmp_path / "out") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "takes 74 % longer than rate=fast: median completion time 396.5 ms against 228.3 ms" in text


# ---- Bursts ----------------------------------------------------------------------------------------------


def test_bursts_are_the_same_on_real_sockets(kernel: Kernel, tmp_path: Path) -> None:
    times = "".join(f'{key} = {{ distribution = "exponential", mean = "300 ms" }}\n' for key in ("on", "off"))
    parsed = cell(tmp_path, '[[flow]]\nkind = "on-off"\nrate = "1500 kbit/s"\nduration = "10 s"\n', times)
    expected, real = model(parsed)["on-off"], kernel_flows(kernel, parsed)["on-off"]
    # Half of the time 187.5 datagrams a second, which overflow the queue.
    assert 400 < expected["sent_packets"] < 1500
    assert expected["data_drops_queue"] > 0
    for name in ("sent_packets", "received_packets", "data_drops_queue", "outcome"):
        assert real[name] == expected[name], name
    assert real["outcome"] == "closed"


def test_bursts_that_the_time_limit_ends_are_not_whole(tmp_path: Path) -> None:
    source = '[[flow]]\nkind = "on-off"\nrate = "100 kbit/s"\non = "1 s"\noff = "40 s"\n'
    assert model(cell(tmp_path, source))["on-off"]["outcome"] == "closed"
    assert model(cell(tmp_path, source, top='time_limit = "30 s"\n'))["on-off"]["outcome"] == "unfinished"


# ---- Video -----------------------------------------------------------------------------------------------


def test_a_video_settles_below_what_the_link_carries(tmp_path: Path) -> None:
    flow = model(cell(tmp_path, VIDEO))["video"]
    # The first two segments have 125 kB each and take 1.1 s each at least; the handshake and slow start come
    # on top.
    assert 2.1 < flow["startup_delay_s"] < 3.5
    assert (flow["segments"], flow["stalls"], flow["stalled_s"]) == (30, 0, 0.0)
    assert 500e3 < flow["bitrate_mean_bps"] < 1000e3
    assert flow["bitrate_switches"] >= 2
    assert flow["outcome"] == "closed"
    slow = model(
        cell(tmp_path, VIDEO.replace("250 kbit/s", "1100 kbit/s").replace('"500 kbit/s", "900 kbit/s", ', ""))
    )
    assert slow["video"]["stalls"] > 1
    # 120 s of 1100 kbit/s take at least 132 s.
    assert 12 < slow["video"]["stalled_s"] + slow["video"]["startup_delay_s"] < 30


def test_a_video_over_real_sockets_sees_what_the_model_sees(kernel: Kernel, tmp_path: Path) -> None:
    parsed = cell(tmp_path, VIDEO)
    expected, real = model(parsed)["video"], kernel_flows(kernel, parsed)["video"]
    for name in ("segments", "stalls", "outcome"):
        assert real[name] == expected[name], name
    assert real["bitrate_mean_bps"] == pytest.approx(expected["bitrate_mean_bps"], rel=0.05)
    assert real["startup_delay_s"] == pytest.approx(expected["startup_delay_s"], rel=0.03)


def test_the_last_datagram_of_a_slow_stream_is_sent_by_a_real_host(kernel: Kernel, tmp_path: Path) -> None:
    """It is sent when nothing else is in flight and no more data follows."""
    stream = '[[flow]]\nkind = "constant-udp"\nrate = "8 kbit/s"\npayload = "1000 B"\nduration = "3 s"\n'
    real = kernel_flows(kernel, cell(tmp_path, stream))["constant-udp"]
    assert (real["sent_packets"], real["received_packets"], real["outcome"]) == (3, 3, "closed")


# ---- Recordings ------------------------------------------------------------------------------------------


def pcap(packets: list[tuple[float, bytes]]) -> bytes:
    """Write a capture of Ethernet frames."""
    records = [
        struct.pack("<IIII", int(at), round(at % 1 * 1e6), len(frame), len(frame)) + frame
        for at, frame in packets
    ]
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records)


def ipv4_frame(length: int, padding: int = 0) -> bytes:
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, length, 0, 0, 64, 17, 0, bytes(4), bytes(4))
    return bytes(12) + b"\x08\x00" + header + bytes(length - len(header) + padding)


def test_a_capture_and_a_table_of_its_packets_are_replayed_alike(kernel: Kernel, tmp_path: Path) -> None:
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    frames = [(5.0, ipv4_frame(200)), (5.1, arp), (5.25, ipv4_frame(32, padding=14)), (6.0, ipv4_frame(1500))]
    (tmp_path / "call.pcap").write_bytes(pcap(frames))
    (tmp_path / "call.csv").write_text("time_s,bytes\n0,172\n0.25,4\n1,1472\n", encoding="utf-8")
    replay = '[[flow]]\nkind = "replay"\nfile = "call.{}"\n'
    captured, written = (cell(tmp_path, replay.format(suffix)) for suffix in ("pcap", "csv"))
    assert model(captured) == model(written)
    flow = model(captured)["replay"]
    assert (flow["sent_packets"], flow["sent_bytes"], flow["outcome"]) == (3, 172 + 4 + 1472, "closed")
    # From the first arrival to the last: a second, and how much longer 1500 bytes take than 200.
    assert flow["elapsed_s"] == pytest.approx(1 + 1300 * 8 / 1e6)
    real = kernel_flows(kernel, captured)["replay"]
    assert (real["sent_packets"], real["sent_bytes"]) == (3, 172 + 4 + 1472)
    assert real["elapsed_s"] == pytest.approx(flow["elapsed_s"], abs=1e-4)


def test_errors_of_recordings_name_the_mistake(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "replay.toml"
    file.write_text(LINK + '[[flow]]\nkind = "replay"\nfile = "call.pcap"\n', encoding="utf-8")
    for content, message in (
        (pcap([(1.0, ipv4_frame(1501))]), "packet 1 has 1473 bytes of payload"),
        (pcap([]), "it contains no packets"),
        (pcap([(1.0, ipv4_frame(100))])[:20], "call.pcap: "),
        (b"\x00\x01", "the header is"),
    ):
        (tmp_path / "call.pcap").write_bytes(content)
        assert lasthop_main("validate", file) == 2
        assert message in capsys.readouterr().err
    (tmp_path / "call.pcap").unlink()
    assert lasthop_main("validate", file) == 2
    assert "there is no such file" in capsys.readouterr().err


# ---- The example -----------------------------------------------------------------------------------------


def test_fq_codel_protects_a_call_from_an_upload(lasthop_main: Main, tmp_path: Path) -> None:
    """The claim of `examples/bufferbloat.toml`."""
    example = EXAMPLES / "bufferbloat.toml"
    lines = [
        line for line in example.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    assert len(lines) < 20
    assert lasthop_main("run", example, "--out", tmp_path / "out", "--quiet") == 0
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    calls = {queue: rows for (queue,), rows in flows.filter(role="voip").group_by("queue")}
    quality = {queue: (rows["mos"].min(), rows["mos"].max()) for queue, rows in calls.items()}
    assert quality["drop-tail"][1] < 1.5
    assert quality["fq_codel"][0] > 4.3
    for queue, (low, high), one_in in (("codel", (3.6, 4.0), 20), ("pie", (3.1, 3.6), 11)):
        assert low < calls[queue]["mos"].median() < high
        assert 1 / (1.3 * one_in) < calls[queue]["voice_loss"].median() < 1.3 / one_in
    times = flows.filter(role="upload").group_by("queue").agg(pl.col("elapsed_s").median())["elapsed_s"]
    assert times.max() < 1.03 * times.min()
