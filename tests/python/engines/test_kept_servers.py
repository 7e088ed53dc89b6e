"""Servers that start once in a guest and serve several replications."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from long_tests import GUEST

Main = Callable[..., int]

LINK = """
time_limit = "20 s"
down.link = { rate = "2 Mbit/s", delay = "20 ms" }
errors = { good = "0 s", bad = "1 s", packet_error_probability = 0.02 }

[[flow]]
kind = "bulk-tcp"
bytes = "1 kB"
"""
# Each response is longer than the previous one.
COUNT = """
import socket
listener = socket.create_server(("", 80))
served = 0
while True:
    connection, _ = listener.accept()
    served += 1
    try:
        connection.recv(10_000)
        head = b"HTTP/1.0 200 OK\\r\\nServed: %d\\r\\n\\r\\n" % served
        connection.sendall(head + bytes(60_000 + served))
    except OSError:
        pass
    connection.close()
"""
# Leaves a program running that reads nothing from its connection.
FETCH = """
curl -s -o /dev/null -w '%{json}' http://server/
curl -s http://server/ | sleep 1000 &
sleep 2
"""


@pytest.fixture
def command(tmp_path: Path) -> list[object]:
    for name, text in (("link.toml", LINK), ("count.py", COUNT)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    server = f"python3 {tmp_path / 'count.py'}"
    return ["shell", "--repeated", "--link", tmp_path / "link.toml", "--quiet", "--json", "--server", server]


FETCHED = ["--", "sh", "-c", FETCH]


def tables(out: Path) -> list[pl.DataFrame]:
    return [
        pl.read_parquet(out / "flows.parquet"),
        pl.read_parquet(out / "runs.parquet").drop("wall_s"),
    ]


def served(runs: pl.DataFrame) -> list[float]:
    return [size - 60_000 for size in runs["printed_size_download"]]


@pytest.mark.long(covers=GUEST, seconds=12)
@pytest.mark.usefixtures("kernel")
def test_results_do_not_depend_on_how_many_runs_share_a_boot(
    command: list[object], tmp_path: Path, lasthop_main: Main
) -> None:
    """Servers keep state over the replications that share them, and no others."""
    command += ["--keep-servers", 2]
    for out, replications, jobs in (("at_once", 3, 2), ("bit_by_bit", 1, 1), ("bit_by_bit", 3, 1)):
        options = ["--replications", replications, "--jobs", jobs, "--out", tmp_path / out]
        assert lasthop_main(*command, *options, *FETCHED) == 0
    flows, runs = tables(tmp_path / "at_once")
    again = tables(tmp_path / "bit_by_bit")
    assert flows.equals(again[0])
    assert runs.equals(again[1])
    # Each makes two connections.
    assert served(runs) == [1, 3, 1]
    assert flows["replication"].to_list() == [1, 1, 2, 2, 3, 3]


@pytest.mark.usefixtures("kernel")
def test_a_replication_finds_nothing_of_those_before_it_on_the_network(
    command: list[object], tmp_path: Path, lasthop_main: Main
) -> None:
    """The transfers are those with servers of their own, the packets and timers of each on its own link."""
    shared, anew = tmp_path / "kept", tmp_path / "anew"
    command += ["--replications", 3]
    assert lasthop_main(*command, "--keep-servers", 3, "--out", shared, *FETCHED) == 0
    assert lasthop_main(*command, "--out", anew, *FETCHED) == 0
    (flows, runs), (flows_anew, runs_anew) = (
        (table.filter(flow="tcp-1") if "flow" in table.columns else table for table in tables(out))
        for out in (shared, anew)
    )
    assert (served(runs), served(runs_anew)) == ([1, 3, 5], [1, 1, 1])
    columns = ["replication", "retransmitted_packets", "data_drops_error", "outcome"]
    assert flows.select(columns).equals(flows_anew.select(columns))
    assert flows["elapsed_s"].to_list() == pytest.approx(flows_anew["elapsed_s"].to_list(), abs=5e-5)


@pytest.mark.usefixtures("kernel")
def test_a_single_replication_runs_after_the_previous_ones(
    command: list[object], tmp_path: Path, lasthop_main: Main
) -> None:
    """The same run as in the campaign: that of the server's second client."""
    out, traces = tmp_path / "out", tmp_path / "traces"
    options = ["--keep-servers", 2, "--replications", 2, "--pcap", "--out", out]
    assert lasthop_main(*command, *options, *FETCHED) == 0
    (capture,) = (out / "traces").rglob("replication-2/client.pcapng")
    look = ["export", f"{out}.toml", "--engine", "kernel", "--replications", 2]
    assert lasthop_main(*look, "--replication", 2, "--out", traces) == 0
    looked_at = next(traces.rglob("client.pcapng"))
    assert all(b"Served: 3\r\n" in file.read_bytes() for file in (capture, looked_at))
    assert looked_at.stat().st_size == capture.stat().st_size
