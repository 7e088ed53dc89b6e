"""Trees of hops on real hosts: a namespace for each host, and programs on any of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop import _core
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Kernel
from lasthop.engines.rows import rows
from lasthop.scenario.facts import Facts
from observing import traced
from test_live import run_shell
from tools import tshark

Main = Callable[..., int]

TREE = """
name = "home"
title = "A cable and the Wi-Fi behind it"
replications = 1
time_limit = "1 min"
tcp = { profile = "linux-6", common_clock = true }
[hop.cable]
down = { link = { rate = "5 Mbit/s", delay = "8 ms" }, queue = { limit = "30 packets" } }
up = { link = { rate = "1 Mbit/s", delay = "8 ms" }, queue = { limit = "60 packets" } }
[hop.wifi]
behind = "cable"
down = { link = { rate = "3 Mbit/s", delay = "1 ms" }, queue = { limit = "40 packets" } }
[host.laptop]
behind = "wifi"
[host.tv]
behind = "cable"
"""

FLOWS = """
[http]
protocol = "http1.1"
connections = 1
request = "300 B"
response_header = "300 B"
[[flow]]
kind = "bulk-tcp"
name = "game"
host = "tv"
bytes = "400 kB"
[[flow]]
kind = "bulk-tcp"
name = "photos"
host = "laptop"
direction = "up"
start = "3 s"
bytes = "150 kB"
[[flow]]
kind = "bulk-tcp"
name = "share"
host = "laptop"
peer = "tv"
start = "6 s"
bytes = "200 kB"
[[flow]]
kind = "bulk-tcp"
name = "over-quic"
stack = "quic"
host = "tv"
peer = "laptop"
start = "8 s"
bytes = "200 kB"
[[flow]]
kind = "http-page"
name = "page"
host = "laptop"
start = "11 s"
main = "10 kB"
inline = "20 kB"
inline_count = 3
[[flow]]
kind = "voip"
name = "call"
host = "laptop"
direction = "both"
start = "13 s"
duration = "2 s"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    file = tmp_path / "home.toml"
    file.write_text(TREE + FLOWS, encoding="utf-8")
    return file


def test_every_kind_of_flow_takes_as_long_between_real_hosts_as_in_the_model(
    kernel: Kernel, tree: Path, tmp_path: Path, lasthop_main: Main
) -> None:
    del kernel
    elapsed, ends = {}, {}
    for engine in ("kernel", "model"):
        out = tmp_path / engine
        assert lasthop_main("run", tree, "--engine", engine, "--jobs", 1, "--out", out, "--quiet") == 0
        flows = pl.read_parquet(out / "flows.parquet")
        elapsed[engine] = dict(flows.select("flow", "elapsed_s").iter_rows())
        ends[engine] = flows.select("flow", "host", "peer", "outcome").sort("flow").rows()
    assert ends["kernel"] == ends["model"]
    assert ("share", "laptop", "tv", "closed") in ends["kernel"]
    assert elapsed["kernel"] == pytest.approx(elapsed["model"], rel=5e-3)


def test_a_packet_crosses_the_hops_on_its_way_once_or_is_dropped_at_one(kernel: Kernel, tree: Path) -> None:
    (cell,) = _core.load(str(tree)).cells
    facts = Facts.of(cell)
    trace = traced(cell, 1, 1, 1, engine=KernelEngine(kernel))
    applications = trace.flows["application"]
    crossed: dict[int, list[int]] = {}
    ended: Counter[int] = Counter()
    sent = {}
    for row in rows(trace.packets):
        serial = row["serial"]
        if row["event"] == "sent":
            sent[serial] = facts.applications[applications[row["flow"]]].routes[row["direction"]]
        elif row["event"] == "enqueued":
            crossed.setdefault(serial, []).append(row["place"])
        ended[serial] += row["event"] == "delivered" or row["event"].startswith("dropped")
    assert len(sent) > 500
    assert {ended[serial] for serial in sent} == {1}
    dropped = {row["serial"] for row in rows(trace.packets) if row["event"].startswith("dropped")}
    for serial, route in sent.items():
        places = crossed.get(serial, [])
        assert places == list(route[: len(places)])
        assert len(places) == len(route) or serial in dropped


def test_a_host_has_a_tcp_of_its_own(kernel: Kernel, tmp_path: Path, lasthop_main: Main) -> None:
    del kernel
    file, out = tmp_path / "own.toml", tmp_path / "out"
    flow = '[[flow]]\nkind = "bulk-tcp"\nname = "{0}"\nhost = "{0}"\nbytes = "100 kB"\ndirection = "up"\n'
    own = TREE + "tcp.sack = false\ntcp.dsack = false\n" + flow.format("tv") + flow.format("laptop")
    file.write_text(own.replace("60 packets", "8 packets"), encoding="utf-8")
    assert lasthop_main("run", file, "--engine", "kernel", "--jobs", 1, "--out", out, "--quiet") == 0
    blocks = dict(pl.read_parquet(out / "flows.parquet").select("flow", "sack_blocks").iter_rows())
    assert blocks["tv"] == 0
    assert blocks["laptop"] > 0


@pytest.mark.usefixtures("kernel")
def test_programs_talk_from_host_to_host_over_the_hops_between_them(tmp_path: Path) -> None:
    file, data, packets = tmp_path / "tree.toml", tmp_path / "data", tmp_path / "packets"
    file.write_text(TREE, encoding="utf-8")
    data.mkdir()
    (data / "file").write_bytes(bytes(300_000))
    serve = f"cd {data}; exec {sys.executable} -m http.server 80 2>/dev/null"
    fetch = 'curl -s -o /dev/null -w "%{{time_total}}\\n" http://{0}/file'
    done = run_shell(
        *("--engine", "kernel", "--link", str(file), "--quiet", "--host", f"tv={serve}", "--server", serve),
        *("--pcap", str(packets), "--host", "laptop", "--", "sh", "-c"),
        f"sleep 5; {fetch.format('tv')}; {fetch.format('server')}",
        timeout_s=180.0,
    )
    assert done.returncode == 0, done.stderr
    between, from_server = (float(line) for line in done.stdout.splitlines() if line[0].isdigit())
    # The Wi-Fi's 3 Mbit/s are slower than the cable's 5, which only the server's data cross.
    assert 300_000 * 8 / 3e6 < between < 1.2
    assert between + 2 * 8e-3 < from_server < 1.5

    def carried(point: str) -> dict[str, int]:
        """The payload that each host has sent past a point."""
        sent: Counter[str] = Counter()
        for source, length in tshark(packets / f"{point}.pcapng", ("ip.src", "tcp.len"), "-Y", "tcp"):
            sent[source] += int(length)
        return {source: length for source, length in sent.items() if length > 1000}

    server, tv = "10.0.0.1", "10.0.2.1"
    files = {name: carried(name) for name in ("server", "laptop", "tv", "cable-down-in", "wifi-down-out")}
    assert [set(files[name]) for name in files] == [{server}, {server, tv}, {tv}, {server}, {server, tv}]
    assert all(length > 300_000 for lengths in files.values() for length in lengths.values())
    assert not carried("cable-up-out")


@pytest.mark.usefixtures("kernel")
def test_without_a_command_the_run_ends_with_the_last_program_of_a_host(tmp_path: Path) -> None:
    file = tmp_path / "tree.toml"
    file.write_text(TREE, encoding="utf-8")
    done = run_shell(
        *("--engine", "kernel", "--link", str(file), "--quiet"),
        *("--host", "laptop=sleep 2; echo laptop", "--host", "tv=sleep 1; echo tv; exit 3"),
        timeout_s=180.0,
    )
    assert (done.stdout, done.returncode) == ("tv\nlaptop\n", 3), done.stderr


@pytest.mark.usefixtures("kernel")
def test_connections_of_repeated_programs_are_flows_between_their_hosts(
    tmp_path: Path, lasthop_main: Main
) -> None:
    file, out, data = tmp_path / "tree.toml", tmp_path / "out", tmp_path / "data"
    file.write_text(TREE, encoding="utf-8")
    data.mkdir()
    (data / "file").write_bytes(bytes(60_000))
    serve = f"cd {data}; exec {sys.executable} -m http.server 80"
    get = "curl -s --retry 9 --retry-delay 1 --retry-connrefused -o /dev/null http://{0}/file"
    arguments = ("repeat", "--link", file, "--jobs", 1, "--quiet", "--out", out, "--server", serve)
    hosts = ("--host", f"tv={get.format('server')}", "--host", f"laptop={get.format('server')}")
    assert lasthop_main(*arguments, *hosts) == 0
    flows = pl.read_parquet(out / "flows.parquet").filter(pl.col("sent_bytes") >= 60_000)
    assert sorted(flows.select("host", "peer", "direction").rows()) == [
        ("laptop", "server", "down"),
        ("tv", "server", "down"),
    ]
    (run,) = pl.read_parquet(out / "runs.parquet").rows(named=True)
    assert run["exit_code"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "laptp=true"), "no host 'laptp'; did you mean 'laptop'?"),
        (("--host", "laptop="), "the command is empty"),
        (("--", "true"), "choose the host that runs the command, one of laptop, tv"),
        (("--host", "tv", "--host", "laptop", "--", "true"), "COMMAND already runs on tv"),
        (("--server", "tv=true", "--host", "tv", "--", "true"), "a host tv already exists"),
        (("--host", "tv", "--down", __file__, "--", "true"), "this scenario has no [down]"),
    ],
)
def test_scenarios_that_hosts_cannot_run_are_errors(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "tree.toml"
    file.write_text(TREE, encoding="utf-8")
    done = run_shell("--link", str(file), *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_a_link_within_a_tree_that_duplicates_packets_is_refused(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tree.toml"
    flow = '[[flow]]\nkind = "bulk-tcp"\nhost = "tv"\nbytes = "1 kB"\n'
    duplicating = TREE.replace('rate = "3 Mbit/s"', 'rate = "3 Mbit/s", duplicate = 0.1')
    file.write_text(duplicating + flow, encoding="utf-8")
    assert lasthop_main("run", file, "--engine", "live", "--out", tmp_path / "out") == 2
    assert "hop.wifi.down.link.duplicate" in capsys.readouterr().err
