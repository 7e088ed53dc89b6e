"""What a stack says of itself in runs, stories, plots and exports, next to what its network did."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

STACK = Path(__file__).with_name("logging_stack.py")
SCENARIO = f"""
replications = 2

[down]
queue.limit = "50 packets"
link = {{ rate = "10 Mbit/s", delay = "10 ms", loss = 0.03 }}

[up.link]
rate = "10 Mbit/s"
delay = "10 ms"

[[flow]]
kind = "transfer"
name = "mine"
stack = "candid"
bytes = "60 kB"

[stack.candid]
endpoint = "exec {sys.executable} -I {STACK}"

[[claim]]
id = "one-too-many"
text = "half of the runs have at most one declared loss that was none"
holds = "median(stack_spurious_losses, flow=mine) < 2"
"""
Main = Callable[..., int]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "candid.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    return file


@pytest.mark.parametrize(("engine", "direction"), [("kernel", "down"), ("live", "down"), ("kernel", "up")])
def test_flows_and_claims_have_the_declared_and_the_real_losses(
    engine: str, direction: str, scenario: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    if direction == "up":
        turned = SCENARIO.replace("[up.link]", "[down.link]").replace("[down]", "[up]")
        scenario.write_text(turned.replace("bytes =", 'direction = "up"\nbytes ='), encoding="utf-8")
    # A live run is invalid (3) on a machine too busy to be punctual, where answers also come too late.
    assert lasthop_main("run", scenario, "--engine", engine, "--out", "out") in (0, 3 * (engine == "live"))
    assert "Note" not in capsys.readouterr().err
    flows = pl.read_parquet("out/flows.parquet")
    assert set(flows["direction"]) == {direction}
    spurious, lost = flows["stack_spurious_losses"], flows["wire_lost_datagrams"]
    assert spurious.to_list() == [1, 1] if engine == "kernel" else min(spurious) >= 1
    assert flows["stack_declared_losses"].to_list() == (spurious + lost).to_list()
    assert lost.sum() > 0
    if engine == "kernel":
        assert flows["stack_srtt_error"].max() < 0.001  # type: ignore[operator]
    assert pl.read_csv("out/claims.csv")["left"].to_list() == [spurious.median()]


def test_a_story_says_what_the_stack_declared_lost_and_whether_it_was(
    scenario: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("explain", scenario, "--engine", "kernel") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "is from the log (qlog) of its sender, candid, with the packet numbers of QUIC." in text
    assert "declares 1 packet lost, number 2: it was not lost (it arrived 10." in text
    assert ": it was lost on the network. It was sent" in text
    assert "enters the congestion state slow start." in text
    assert "enters the congestion state recovery." in text
    assert "% of them lost, 1 arrived" in text
    assert "The stack's smoothed RTT is furthest from the actual one: " in text


def test_a_plot_has_the_panels_of_the_stack(scenario: Path, lasthop_main: Main) -> None:
    assert lasthop_main("plot", scenario, "--engine", "kernel", "--out", "all.svg") == 0
    drawn = Path("all.svg").read_text(encoding="utf-8")
    for name in (
        "cwnd, by the stack",
        "in flight, by the stack",
        "on the way, by the network",
        "smoothed RTT of the stack",
        "actual RTT",
        "declared lost, but arrived",
        "lost on the network",
        "packets in the router queue",
    ):
        assert name in drawn
    assert lasthop_main("plot", scenario, "--engine", "kernel", "--kind", "rtt", "--out", "rtt.svg") == 0
    assert "cwnd" not in Path("rtt.svg").read_text(encoding="utf-8")


def test_exported_steps_have_a_row_for_stack_and_network(scenario: Path, lasthop_main: Main) -> None:
    once = ("export", scenario, "--engine", "kernel", "--step", "50ms")
    assert lasthop_main(*once, "--out", "steps.csv") == 0
    steps = pl.read_csv("steps.csv")
    own = steps.filter(pl.col("flow") == "mine")
    stack, network = (own.filter(pl.col("source") == source) for source in ("stack", "network"))
    assert stack["time_s"].to_list() == network["time_s"].to_list()
    assert set(stack["cwnd_bytes"].drop_nulls()) == {5000}
    assert network["cwnd_bytes"].null_count() == network.height
    assert stack["goodput_Bps"].null_count() == stack.height
    # One declared loss is none.
    assert stack["lost_packets"].sum() == network["lost_packets"].sum() + 1
    assert stack["rtt_s"].max() == pytest.approx(network["rtt_s"].max(), rel=0.01)
    assert set(steps.filter(pl.col("flow").is_null())["source"]) == {"network"}
    assert lasthop_main(*once, "--over", "replications", "--out", "folded.parquet") == 0
    folded = pl.read_parquet("folded.parquet").filter(pl.col("metric") == "srtt_s")
    assert set(folded["source"]) == {"stack"}


def test_exported_captures_have_the_logs_that_they_are_compared_with(
    scenario: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("export", scenario, "--engine", "kernel", "--out", "packets") == 0
    assert "packets/mine.server.sqlog" in capsys.readouterr().out
    ends = "packets/server.pcapng", "packets/client.pcapng"
    assert lasthop_main("analyze", *ends, "--qlog", "packets/mine.server.sqlog", "--table", "events") == 0
    events = capsys.readouterr().out.splitlines()
    assert sum(",stack,declared-lost,2,,true" in event for event in events) == 1


def test_a_note_counts_the_runs_without_a_log(
    scenario: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(f'{SCENARIO.partition("[[claim]]")[0]}env = {{ NO_LOG = "1" }}\n', encoding="utf-8")
    assert lasthop_main("run", scenario, "--engine", "kernel", "--out", "out") == 0
    assert (
        "Note: mine has no values of stack_... and wire_... in 2 of 2 runs: the end that sends wrote no log "
        "(qlog).\n"
    ) in capsys.readouterr().err
    assert pl.read_parquet("out/flows.parquet")["stack_log"].to_list() == ["no log", "no log"]
    assert lasthop_main("run", scenario, "--engine", "kernel", "--out", "out", "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_transfers_have_a_row_each(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    second = '[[flow]]\nkind = "transfer"\nname = "the-other"\nstack = "tcp"\nbytes = "10 kB"\n\n[stack'
    text = SCENARIO.partition("[[claim]]")[0].replace("[stack", second)
    Path("two.toml").write_text(text, encoding="utf-8")
    assert lasthop_main("run", "two.toml", "--engine", "kernel", "--out", "out") == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("Transfers: median of 2 replications, [least..greatest]; a 95 % interval needs 6")
    head, *rows = lines[start + 2 : start + 5]
    assert head.split() == ["flow", "program", "time", "(ms)", "received", "size", "(kB)", "matches"]
    assert {row.split()[0] for row in rows} == {"mine", "the-other"}
    assert lasthop_main("results", "show", "out", "--metric", "printed_the_other_program_s") == 0
    assert "the other program time (ms)" in capsys.readouterr().out


def test_packages_that_need_root_are_named(
    lasthop_main: Main, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tool = tmp_path / "apt-get"
    tool.write_text("#!/bin/sh\nexit 100\n", encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    line = "command -v /nowhere/quicd || apt-get install --yes quicd quic"
    adapter = f'title = "Q"\nclient = "quic"\nserver = "quicd"\ninstall = ["{line}"]\n'
    Path("q.toml").write_text(adapter, encoding="utf-8")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert lasthop_main("stack", "try", "q.toml", "--install") == 2
    assert "Run 'sudo apt-get install --yes quicd quic' once" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert lasthop_main("stack", "try", "q.toml", "--install") == 2
    assert "ended with exit code 100" in capsys.readouterr().err
