"""Flows over QUIC, from the command line."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

Main = Callable[..., int]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_the_example_runs_and_tshark_reads_its_datagrams(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ("--replications", "1", "--only", "neighbour=tcp", "--pcap", "--out", tmp_path / "out", "--quiet")
    assert lasthop_main("run", EXAMPLES / "quic.toml", *arguments) == 0
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    assert dict(zip(flows["flow"], flows["protocol"], strict=True)) == {"quic": "quic", "neighbour": "tcp"}
    assert set(flows["outcome"]) == {"closed"}
    assert flows["sent_bytes"].min() >= 2_000_000  # type: ignore[operator]
    for capture in sorted((tmp_path / "out").rglob("*.pcapng")):
        fields = ["-T", "fields", "-e", "frame.protocols", "-e", "_ws.malformed"]
        done = subprocess.run(["tshark", "-r", capture, *fields], capture_output=True, text=True, check=True)
        datagrams = [line for line in done.stdout.splitlines() if ":udp" in line]
        assert len(datagrams) > 1000
        assert {line.partition(":udp")[2].split(":")[1].split("\t")[0] for line in datagrams} == {"quic"}
        assert "alformed" not in done.stdout
    assert lasthop_main("explain", EXAMPLES / "quic.toml", "--only", "neighbour=tcp", "--flow", "quic") == 0
    assert "stories of QUIC are not told yet" in " ".join(capsys.readouterr().out.split())


def test_engines_with_real_hosts_refuse_it_by_name(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert lasthop_main("run", EXAMPLES / "quic.toml", "--engine", "live", "--out", tmp_path / "out") != 0
    assert 'flow[0].stack = "quic" runs on the model engine only' in " ".join(capsys.readouterr().err.split())
