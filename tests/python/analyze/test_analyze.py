"""`lasthop analyze` against tcptrace, tshark and the engine's own record, over hundreds of runs of the model.

The runs are all cells of kulve2003, and a choice of the page loads of iip2004; as long tests, three
replications of each cell.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import STUDY
from lasthop import _core
from lasthop.engines.engine import CaptureTarget, Observation
from long_tests import ENGINE
from observing import observe
from tools import IN_ORDER, Packets, Pair, read_pcap, require_tools, tcptrace, tool, tshark, write_pcap

Row = dict[str, Any]

LONG = pytest.mark.long(
    covers=("crates/lasthop-capture", "python/lasthop/commands/analyze.py", *ENGINE), seconds=9
)

WORKERS = 2
# Cells of iip2004, and their replications.
PAGES = [
    (f"link={link},protocol={protocol},workload={workload},variant={variant},queue=fifo", replication)
    for link, replications in (("e0", (1,)), ("r0", (1,)), ("r2", (1, 2)), ("r4", (1,)))
    for protocol in ("http1.0", "http1.1")
    for workload in ("s+2s", "m+8m", "l+8m")
    for variant in ("baseline", "iw4+frto")
    for replication in replications
]
# Our column, tcptrace's label, and whether tcptrace reports it for the direction it came from: the ACKs' own.
AGREE = [
    ("packets", "total packets", False),
    ("sent_packets", "actual data pkts", False),
    ("sent_bytes", "actual data bytes", False),
    ("unique_bytes", "unique bytes sent", False),
    ("rexmt", "rexmt data pkts", False),
    ("rexmt_bytes", "rexmt data bytes", False),
    ("out_of_order_packets", "outoforder pkts", False),
    ("duplicate_acks", "duplicate acks", False),
    ("triple_duplicate_acks", "triple dupacks", False),
    ("sack_blocks", "sack pkts sent", True),
    ("dsacks", "dsack pkts sent", True),
    ("zero_windows", "zero win adv", True),
    ("zero_window_probes", "zwnd probe pkts", False),
    ("mss_bytes", "mss requested", False),
    ("rtt_samples", "RTT samples", False),
]
# What the engine's record counts too, in the data direction.
SAME_AS_RECORD = (
    "sent_packets", "sent_bytes", "retransmitted_packets", "triple_duplicate_acks", "duplicate_acks",
    "sack_blocks", "sack_blocks_total",
)  # fmt: skip
SAME_TIMES_AS_RECORD = ("elapsed_s", "data_transmit_s", "throughput_Bps")
SUSPECT = (
    "_ws.malformed || ip.checksum.status != 1 || tcp.checksum.status == 0 || udp.checksum.status == 0 || "
    "tcp.analysis.retransmission || tcp.analysis.out_of_order"
)
FIELDS = (
    "_ws.malformed", "ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "tcp.srcport",
    "tcp.dstport", "tcp.len", "tcp.analysis.retransmission", "tcp.analysis.out_of_order",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One run as the engine, our analysis and tcptrace see it."""

    name: str
    records: list[Row]
    streams: list[Row]
    micros: list[Row]  # our analysis of the file that tcptrace read
    tcptrace: list[dict[str, Pair]]
    packets: Packets


def rows(columns: dict[str, list[Any]]) -> list[Row]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def streams(file: Path) -> list[Row]:
    found = rows(_core.analyze(str(file))[0])
    for row in found:
        # tcptrace calls a SYN or FIN that is sent again data, of one byte.
        row["rexmt"] = row["retransmitted_packets"] + row["retransmitted_syns_fins"]
        row["rexmt_bytes"] = row["retransmitted_bytes"] + max(row["syns"] - 1, 0) + max(row["fins"] - 1, 0)
    return found


def look(cell: _core.Cell, seed: int, replication: int, folder: Path) -> Run:
    folder.mkdir()
    observe(
        cell, seed, 1, replication, Observation(capture=CaptureTarget(folder, "a test", _core.SNAP_LENGTH))
    )
    ours, pcap = folder / "server.pcapng", folder / "server.pcap"
    tool("editcap", "-F", "pcap", ours, pcap)
    records = [row for row in rows(cell.run(seed, 1, replication).flows) if row["replication"] == replication]
    run = Run(
        f"{cell.key} {replication}",
        records,
        streams(ours),
        streams(pcap),
        tcptrace(pcap),
        read_pcap(pcap),
    )
    shutil.rmtree(folder)
    return run


@pytest.fixture(scope="module", params=[1, pytest.param(3, marks=LONG)])
def replications(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def runs(replications: int, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Return every cell of kulve2003, some replications of each, and page loads."""
    require_tools()
    study = _core.load(str(STUDY / "study.toml"))
    pages = _core.load(str(STUDY.parent / "iip2004" / "study.toml"))
    cell_of = {cell.key: cell for cell in pages.cells}
    wanted = [
        (study, cell, replication) for cell in study.cells for replication in range(1, replications + 1)
    ]
    wanted += [(pages, cell_of[key], replication) for key, replication in PAGES]
    root = tmp_path_factory.mktemp("runs")
    with ThreadPoolExecutor(WORKERS) as pool:
        tasks = [
            pool.submit(look, cell, of.seed, replication, root / str(number))
            for number, (of, cell, replication) in enumerate(wanted)
        ]
        return [task.result() for task in tasks]


def renumbered(packet: bytes, number: int) -> bytes:
    """Return the packet with `number` in its addresses, whose sum stays as it was, and so do its
    checksums.
    """
    addresses = packet[12:20]
    for old, new in (
        (b"\x0a\0\0\1", bytes([10, number, 0, 1])),
        (b"\x0a\0\1\1", bytes([9, 256 - number, 1, 1])),
    ):
        addresses = addresses.replace(old, new)
    return packet[:12] + addresses + packet[20:]


@pytest.fixture(scope="module")
def suspects(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> list[list[list[str]]]:
    """Return the suspects of each run. A single tshark reads all runs, because it takes long to start."""
    packets = [
        (seconds, micros, length, renumbered(packet, number))
        for number, run in enumerate(runs, 1)
        for seconds, micros, length, packet in run.packets
    ]
    found: list[list[list[str]]] = [[] for _ in runs]
    file = write_pcap(tmp_path_factory.mktemp("tshark") / "all.pcap", packets)
    for *row, source in tshark(file, (*FIELDS, "ip.src"), *IN_ORDER, "-Y", SUSPECT):
        network, number, *_ = (int(part) for part in source.split("."))
        found[(number if network == 10 else 256 - number) - 1].append(row)
    return found


def connections(run: Run) -> Iterator[tuple[Row, Row, dict[str, Pair], Row]]:
    """Yield both directions of each connection, tcptrace's numbers, and the engine's record."""
    tcp = [row for row in run.streams if row["protocol"] == "tcp"]
    records = {20_001 + number: record for number, record in enumerate(run.records)}
    opened = sum(record["protocol"] == "tcp" and record["start_s"] is not None for record in run.records)
    assert len(tcp) == 2 * len(run.tcptrace) == 2 * opened, run.name
    for first, second, seen in zip(tcp[::2], tcp[1::2], run.tcptrace, strict=True):
        assert first["source_port"] == seen["port"][0], run.name
        # Browsers connect to servers, bulk senders to their receivers.
        browser = first["source"] == "10.0.1.1"
        down, up = (second, first) if browser else (first, second)
        assert (down["source"], up["source"]) == ("10.0.0.1", "10.0.1.1"), run.name
        pairs = {label: pair[::-1] for label, pair in seen.items()} if browser else seen
        yield down, up, pairs, records[up["source_port"]]


def test_hundreds_of_runs_agree_with_tcptrace_in_both_directions(runs: list[Run], replications: int) -> None:
    assert len(runs) == 48 * replications + len(PAGES)
    totals: Counter[str] = Counter()
    for run in runs:
        for down, up, seen, _ in connections(run):
            for ours, label, swapped in AGREE:
                found = (down[ours], up[ours])
                assert found == (seen[label][::-1] if swapped else seen[label]), (run.name, ours)
                totals[ours] += sum(found)
    never = {ours for ours, _, _ in AGREE if not totals[ours]}
    # The model neither reorders nor closes its window.
    assert never == {"out_of_order_packets", "zero_windows", "zero_window_probes"}


def test_elapsed_times_are_tcptraces_to_the_microsecond(runs: list[Run], replications: int) -> None:
    """Both read the same microseconds; tcptrace's last digit is one off at times, for it uses floating
    point.
    """
    compared = 0
    for run in runs:
        tcp = [row for row in run.micros if row["protocol"] == "tcp"]
        for row, seen in zip(tcp[::2], run.tcptrace, strict=True):
            assert abs(row["span_s"] * 1e6 - seen["elapsed_us"][0]) < 1.5, run.name
            compared += 1
    assert compared >= {1: 96 + len(PAGES), 3: 400}[replications]


def test_the_engines_own_record_says_the_same(runs: list[Run]) -> None:
    for run in runs:
        for down, _, _, record in connections(run):
            assert {name: down[name] for name in SAME_AS_RECORD} == {
                name: record[name] for name in SAME_AS_RECORD
            }, run.name
            for name in SAME_TIMES_AS_RECORD:
                assert down[name] == pytest.approx(record[name], rel=1e-12, abs=1e-9), (run.name, name)
            assert down["outcome"] == record["outcome"]
            assert down["complete"] == 1


def test_udp_datagrams_are_those_that_were_sent(runs: list[Run]) -> None:
    seen = 0
    for run in runs:
        ours = [row for row in run.streams if row["protocol"] == "udp"]
        records = [record for record in run.records if record["protocol"] == "udp"]
        assert [(row["sent_packets"], row["sent_bytes"]) for row in ours] == [
            (record["sent_packets"], record["sent_bytes"]) for record in records
        ], run.name
        seen += len(ours)
    assert seen > 0


def test_tshark_counts_the_same_retransmissions_and_finds_nothing_wrong(
    runs: list[Run], suspects: list[list[list[str]]]
) -> None:
    """tshark's verdicts retransmission, fast retransmission and spurious retransmission are ours.

    There is one exception. If a retransmission comes soon after newer data, before its own data was
    acknowledged, tshark takes it for reordering. At the sender, whose packets leave in order, it can only be
    a retransmission.
    """
    totals: Counter[str] = Counter()
    for run, found in zip(runs, suspects, strict=True):
        counts: Counter[str] = Counter()
        for malformed, ip, tcp, udp, source, destination, length, again, reordered in found:
            assert (malformed, ip) == ("", "1"), run.name
            assert "0" not in (tcp, udp), run.name
            if int(length) > 0:
                assert (again, reordered) in {("1", ""), ("", "1")}, run.name
                counts[f"{source} {destination}"] += 1
                totals["retransmission" if again else "out of order"] += 1
        for down, *_ in connections(run):
            ports = f"{down['source_port']} {down['destination_port']}"
            assert counts[ports] == down["retransmitted_packets"], run.name
    assert totals["retransmission"] > totals["out of order"] > 0
