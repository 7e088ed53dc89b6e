"""Packet captures, read by tshark; what tcptrace counts in them is in test_analyze.py."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from conftest import STUDY
from lasthop import _core
from lasthop.campaign.provenance import usable_cores
from lasthop.engines.engine import CaptureTarget, Observation
from observing import observe, traced
from tools import require_tools, tool, tshark

Main = Callable[..., int]

*CAPTURES, DROPS = _core.CAPTURE_FILES
POINTS = [Path(name).stem for name in CAPTURES]
ONE_CELL = ("--only", "link=r1,workload=2tcp1udp,variant=eifel+ecn")
BATCH = 8  # runs that one tshark reads
EPOCH_NS = 946_684_800 * 10**9
FIELDS = (
    "frame.interface_id", "frame.interface_name", "frame.time_epoch", "frame.comment", "_ws.malformed",
    "ip.checksum.status", "tcp.checksum.status", "udp.checksum.status",
)  # fmt: skip
GOOD = "1"
DROP_COMMENTS = {"queue": "dropped: router queue full", "red": "dropped: RED"}
MARKED = "marked: congestion experienced"
COUNTED = re.compile(r"(data|ack)_(drops_(queue|red|aqm)|marks_ecn)")
DISCIPLINES = """
[down]
link = { rate = "4 Mbit/s", delay = "20 ms" }
queue.limit = "30 packets"
[[flow]]
kind = "bulk-tcp"
name = "with-ecn"
bytes = "500 kB"
tcp.ecn = true
[[flow]]
kind = "bulk-tcp"
name = "without"
count = 2
bytes = "500 kB"
[factor.queue]
drop-tail = {}
drop-head.down.queue.discipline = "drop-head"
random-drop.down.queue.discipline = "random-drop"
codel.down.queue.discipline = "codel"
codel-ecn.down.queue = { discipline = "codel", ecn = true, limit = "1000 packets" }
fq_codel.down.queue.discipline = "fq_codel"
pie.down.queue.discipline = "pie"
dualpi2.down.queue.discipline = "dualpi2"
sfq.down.queue.discipline = "sfq"
cake.down.queue = { discipline = "cake", limit = "100 kB" }
"""


@dataclass(frozen=True)
class Run:
    """One captured replication, what the engine says of it, and what the tools read."""

    name: str
    events: pl.DataFrame
    drops: pl.DataFrame
    packets: pl.DataFrame


def read_packets(folders: list[Path], points: Sequence[str] = POINTS) -> list[pl.DataFrame]:
    """Return tshark's reading of the captures of several runs; in one call, because it starts slowly."""
    merged = folders[0] / "all.pcapng"
    files = [folder / f"{point}.pcapng" for folder in folders for point in points]
    # Without -I none, equal interfaces of different runs would become one.
    tool("mergecap", "-a", "-I", "none", "-w", merged, *files)
    # A segment appears at up to four points, which is no retransmission.
    rows = tshark(merged, FIELDS, "-o", "tcp.analyze_sequence_numbers:FALSE")
    run = pl.col("frame.interface_id").cast(pl.Int64) // len(points)
    packets = pl.DataFrame(rows, schema=list(FIELDS), orient="row").with_columns(run.alias("run"))
    return [packets.filter(pl.col("run") == number) for number in range(len(folders))]


def capture_runs(study: _core.Study, wanted: list[tuple[_core.Cell, int]], root: Path) -> list[Run]:
    folders = [root / str(number) for number in range(len(wanted))]
    for folder, (cell, replication) in zip(folders, wanted, strict=True):
        folder.mkdir(parents=True)
        observe(
            cell,
            study.seed,
            1,
            replication,
            Observation(capture=CaptureTarget(folder, "a test", _core.SNAP_LENGTH)),
        )
    runs = []
    for folder, packets, (cell, replication) in zip(folders, read_packets(folders), wanted, strict=True):
        trace = traced(cell, study.seed, 1, replication).packets
        events = {name: trace[name] for name in ("time_ns", "event", "direction", "serial")}
        runs.append(
            Run(
                f"{cell.key} {replication}",
                pl.DataFrame(events),
                pl.read_csv(folder / DROPS),
                packets,
            )
        )
    shutil.rmtree(root)
    return runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Return a run of every cell of kulve2003, of its first three replications in turn."""
    require_tools()
    study = _core.load(str(STUDY / "study.toml"))
    wanted = [(cell, 1 + number % 3) for number, cell in enumerate(study.cells)]
    root = tmp_path_factory.mktemp("captures")
    with ThreadPoolExecutor(usable_cores()) as pool:
        tasks = [
            pool.submit(capture_runs, study, wanted[start : start + BATCH], root / str(start))
            for start in range(0, len(wanted), BATCH)
        ]
        return [run for task in tasks for run in task.result()]


def test_all_variants_links_and_workloads_are_captured(runs: list[Run]) -> None:
    assert len(runs) == 48
    assert sum(run.drops.height for run in runs) > 0
    causes = {cause for run in runs for cause in run.drops["cause"]}
    assert causes == {"queue", "red", "arq"}


def test_tshark_finds_every_packet_well_formed_with_good_checksums(runs: list[Run]) -> None:
    for run in runs:
        assert set(run.packets["_ws.malformed"]) == {""}, run.name
        assert set(run.packets["ip.checksum.status"]) == {GOOD}, run.name
        transport = run.packets["tcp.checksum.status"] + run.packets["udp.checksum.status"]
        assert set(transport) == {GOOD}, run.name


def test_each_point_has_the_packets_that_passed_it(runs: list[Run]) -> None:
    at_server = ((pl.col("event") == "sent") & (pl.col("direction") == "down")) | (
        (pl.col("event") == "delivered") & (pl.col("direction") == "up")
    )
    at_client = pl.col("event").is_in(["sent", "delivered"]) & ~at_server
    points = {
        "server": at_server,
        "client": at_client,
        "router-in": pl.col("event").is_in(["enqueued", "dropped-queue", "dropped-red"]),
        "router-out": pl.col("event") == "dequeued",
    }
    for run in runs:
        for point, passed in points.items():
            captured = run.packets.filter(pl.col("frame.interface_name") == point)
            times = [nanoseconds(text) for text in captured["frame.time_epoch"]]
            assert times == run.events.filter(passed)["time_ns"].to_list(), (run.name, point)


def nanoseconds(epoch: str) -> int:
    seconds, fraction = epoch.split(".")
    return int(seconds) * 10**9 + int(fraction) - EPOCH_NS


def test_drops_are_told_with_their_cause(runs: list[Run]) -> None:
    for run in runs:
        dropped = run.events.filter(pl.col("event").str.starts_with("dropped-"))
        assert run.drops["cause"].to_list() == [
            event.removeprefix("dropped-") for event in dropped["event"]
        ], run.name
        assert run.drops["ip_id"].to_list() == (dropped["serial"] % 65536).to_list(), run.name
        at_router = run.packets.filter(pl.col("frame.interface_name") == "router-in")
        comments = Counter(part for text in at_router["frame.comment"] for part in text.split(","))
        for cause, comment in DROP_COMMENTS.items():
            assert comments[comment] == (run.drops["cause"] == cause).sum(), run.name
        assert comments[MARKED] == run.events.filter(pl.col("event") == "marked").height, run.name


def test_whatever_a_discipline_drops_or_marks_has_its_comment(tmp_path: Path) -> None:
    """At arrival, at the head, and out of another queue; counted against the columns of the records."""
    require_tools()
    file = tmp_path / "disciplines.toml"
    file.write_text(DISCIPLINES, encoding="utf-8")
    study = _core.load(str(file))
    folders = [tmp_path / cell.levels["queue"] for cell in study.cells]
    counted = []
    for cell, folder in zip(study.cells, folders, strict=True):
        folder.mkdir()
        capture = CaptureTarget(folder, "a test", 80)
        trace = observe(cell, study.seed, 1, 1, Observation(trace=True, capture=capture))
        assert trace is not None
        sums = {name: sum(values) for name, values in trace.flows.items() if COUNTED.fullmatch(name)}
        marks = sum(number for name, number in sums.items() if name.endswith("marks_ecn"))
        counted.append((sum(sums.values()) - marks, marks))
    found = {}
    for folder, expected, packets in zip(folders, counted, read_packets(folders, ["router-in"]), strict=True):
        times = [nanoseconds(text) for text in packets["frame.time_epoch"]]
        assert times == sorted(times), folder.name
        comments = ",".join(packets["frame.comment"])
        assert (comments.count("dropped: "), comments.count("marked: ")) == expected, folder.name
        found[folder.name] = tuple(number > 0 for number in expected)
    both = dict.fromkeys(("codel-ecn", "fq_codel", "dualpi2", "cake"), (True, True))
    drops = ("drop-tail", "drop-head", "random-drop", "codel", "pie", "sfq")
    assert found == dict.fromkeys(drops, (True, False)) | both


def test_a_snap_length_cuts_packets_and_leaves_their_headers_alone(tmp_path: Path) -> None:
    study = _core.load(str(STUDY / "study.toml"))
    cell = next(cell for cell in study.cells if cell.key == "link=r1,workload=2tcp1udp,variant=eifel+ecn")
    fields = (
        "frame.len",
        "ip.checksum",
        "ip.len",
        "tcp.checksum",
        "udp.checksum",
        "tcp.seq_raw",
        "tcp.ack_raw",
    )
    read = {}
    for snap_length in (80, _core.SNAP_LENGTH):
        folder = tmp_path / str(snap_length)
        folder.mkdir()
        observe(cell, study.seed, 1, 1, Observation(capture=CaptureTarget(folder, "a test", snap_length)))
        for point in POINTS:
            names = [word for field in (*fields, "frame.cap_len", "_ws.malformed") for word in ("-e", field)]
            text = tool("tshark", "-n", "-r", folder / f"{point}.pcapng", "-T", "fields", *names)
            read[snap_length, point] = [line.split("\t") for line in text.splitlines()]
    for point in POINTS:
        short, whole = read[80, point], read[_core.SNAP_LENGTH, point]
        assert [row[: len(fields)] for row in short] == [row[: len(fields)] for row in whole]
        assert all(int(row[-2]) == min(int(row[0]), 80) for row in short)
        assert all(row[-2] == row[0] for row in whole)
        assert {row[-1] for row in short + whole} == {""}


def test_udp_payloads_number_the_datagrams(tmp_path: Path) -> None:
    study = _core.load(str(STUDY / "study.toml"))
    cell = next(cell for cell in study.cells if cell.key == "link=r1,workload=2tcp1udp,variant=eifel+ecn")
    observe(cell, study.seed, 1, 1, Observation(capture=CaptureTarget(tmp_path, "a test", _core.SNAP_LENGTH)))
    numbers = {}
    for point in ("server", "client"):
        text = tool(
            "tshark",
            "-n",
            "-r",
            tmp_path / f"{point}.pcapng",
            "-Y",
            "udp",
            "-T",
            "fields",
            "-e",
            "udp.payload",
        )
        payloads = [bytes.fromhex(line) for line in text.split()]
        assert all(not any(payload[8:]) for payload in payloads)
        numbers[point] = [int.from_bytes(payload[:8], "big") for payload in payloads]
    trace = traced(cell, study.seed, 1, 1)
    flow = trace.flows["flow"].index("udp")
    sent, received = trace.flows["sent_packets"][flow], trace.flows["received_packets"][flow]
    assert numbers["server"] == list(range(sent))
    assert numbers["client"] == sorted(set(numbers["client"]))
    assert len(numbers["client"]) == received < sent


def test_the_command_makes_a_new_folder(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    out = Path("some") / "r1"
    assert lasthop_main("export", "kulve2003", *ONE_CELL, "--replication", 2, "--set", 3, "--out", out) == 0
    said = capsys.readouterr().out
    assert "replication 2 of set 3" in said
    files = sorted(path.name for path in out.iterdir())
    assert files == sorted([f"{point}.pcapng" for point in POINTS] + [DROPS])
    assert all(str(out / name) in said for name in files)
    assert b"replication 2 (number 42)" in (out / "server.pcapng").read_bytes()
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert lasthop_main("export", "kulve2003", *ONE_CELL, "--replication", 1, "--out", out) == 2
    assert "is not overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    key = "link=r1,workload=2tcp1udp,variant=eifel+ecn"
    again = ("--cell", key, "--replication", 42, "--replications", 60, "--out", "again", "--quiet")
    assert lasthop_main("export", STUDY / "study.toml", *again) == 0
    assert capsys.readouterr().out == ""
    assert (Path("again") / DROPS).read_bytes() == before[out / DROPS]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["kulve203", "--replication", "1"], "did you mean 'kulve2003'"),
        (["kulve2003", "--replication", "1"], "48 cells match"),
        (["kulve2003", "--only", "link=e0,workload=2tcp0udp", "--replication", "1"], "narrow --only"),
        (["kulve2003", "--cell", "link=e1", "--replication", "1"], "did you mean 'link="),
        (["kulve2003", "--cell", "link=e0", *ONE_CELL, "--replication", "1"], "omit one of them"),
        (["kulve2003", *ONE_CELL, "--replication", "21"], "has 20 replications"),
        (["kulve2003", *ONE_CELL, "--replication", "0"], "Invalid value for '--replication'"),
        (["kulve2003", *ONE_CELL, "--replication", "1", "--snaplen", "0"], "Invalid value for '--snaplen'"),
        (["missing.toml", "--replication", "1"], "missing.toml"),
    ],
)
def test_bad_requests_end_with_2_and_leave_nothing(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], *, arguments: list[str], expected: str
) -> None:
    assert lasthop_main("export", *arguments, "--out", "out") == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""
    assert not Path("out").exists()


def test_a_failure_leaves_nothing(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullDisk:
        """A cell on a disk that is full."""

        key = levels = ""
        sequential = False
        digest = ""
        estimate = (0.0, 0.0)

        def run(self, _seed: int, first: int, _count: int, observations: str, **_: object) -> None:
            folder = json.loads(observations)[str(first)]["capture"]["folder"]
            (Path(folder) / "server.pcapng").write_bytes(b"half")
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("lasthop.commands.one_run.select_cell", lambda *_: FullDisk())
    assert lasthop_main("export", "kulve2003", "--replication", 1, "--out", "out") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_campaign_leaves_what_trace_writes(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    """Cached metrics chain the replications: the third shows whether the pass kept the chain."""
    cell = "link=e0,workload=2tcp0udp,variant=eifel+cbi"
    run = ("study", "run", "kulve2003", "--only", cell, "--replications", 3, "--sets", 2, "--out", "out")
    assert lasthop_main(*run, "--pcap", "--snaplen", 96) == 0
    assert re.search(r"captures: out/traces, \d+\.\d MB", capsys.readouterr().out)
    one = (
        "--cell",
        cell,
        "--replications",
        3,
        "--replication",
        3,
        "--set",
        2,
        "--snaplen",
        96,
        "--out",
        "one",
    )
    assert lasthop_main("export", "kulve2003", *one) == 0
    made = Path("out") / "traces" / cell / "set-2" / "replication-3"
    assert {path.name: path.read_bytes() for path in made.iterdir()} == {
        path.name: path.read_bytes() for path in Path("one").iterdir()
    }
    assert len(list(Path("out").rglob("server.pcapng"))) == 6
    before = Path("out", "flows.parquet").read_bytes()
    shutil.rmtree(made.parent)
    assert lasthop_main(*run, "--pcap", "--snaplen", 96) == 0
    assert "has the records of 6 runs; 3 are run again to capture their packets." in capsys.readouterr().out
    assert Path("out", "flows.parquet").read_bytes() == before
    assert made.is_dir()


def test_a_snap_length_without_captures_is_refused(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("study", "run", "kulve2003", "--snaplen", 96, "--out", "out") == 2
    assert "add --pcap" in capsys.readouterr().err
    assert not Path("out").exists()
