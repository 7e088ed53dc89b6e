"""MPTCP on the kernel engine: a flow over all ways of its host, with a row for each subflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from commands import ROOT
from lasthop.engines.kernel.store import Kernel
from long_tests import GUEST
from tools import require_tools, tshark

Main = Callable[..., int]
TWO_WAYS = """
time_limit = "20 s"
[hop.wifi]
down = { link = { rate = "20 Mbit/s", delay = "5 ms" } }
[hop.lte]
down = { link = { rate = "10 Mbit/s", delay = "25 ms" } }
[host.phone]
behind = ["wifi", "lte"]
"""
FLOW = """
[[flow]]
kind = "bulk-tcp"
name = "{name}"
direction = "{direction}"
bytes = "6 MB"
stack = "mptcp"
"""


@pytest.fixture
def flows(lasthop_main: Main, tmp_path: Path, kernel: Kernel) -> Callable[..., dict[str, dict[str, object]]]:
    """Run a scenario on the kernel engine; return its flows by name."""
    assert kernel

    def run(text: str, out: str = "results") -> dict[str, dict[str, object]]:
        file = tmp_path / "two-ways.toml"
        file.write_text(text, encoding="utf-8")
        folder = tmp_path / out
        assert lasthop_main("run", file, "--engine", "kernel", "--out", folder, "--quiet") == 0
        rows = pl.read_parquet(folder / "flows.parquet").rows(named=True)
        return {row["flow"]: row for row in rows}

    return run


@pytest.fixture
def example(lasthop_main: Main, tmp_path: Path, kernel: Kernel) -> dict[str, pl.DataFrame]:
    assert kernel
    out = tmp_path / "multipath"
    file = ROOT / "examples" / "multipath.toml"
    assert lasthop_main("run", file, "--engine", "kernel", "--out", out, "--quiet") == 0
    return {table: pl.read_parquet(out / f"{table}.parquet") for table in ("flows", "hops", "runs")}


@pytest.mark.long(covers=GUEST, seconds=5)
def test_mptcp_adds_up_both_ways_and_survives_the_loss_of_one(example: dict[str, pl.DataFrame]) -> None:
    """The claim of examples/multipath.toml."""
    flows = {
        (wifi, transport, flow): rows.row(0, named=True)
        for (wifi, transport, flow), rows in example["flows"].group_by("wifi", "transport", "flow")
    }
    both, wifi = (rate * 1e6 / 8 * 1448 / 1500 for rate in (30, 20))
    assert flows["stays", "mptcp", "photos"]["throughput_Bps"] > 0.85 * both
    assert 0.9 * wifi < flows["stays", "tcp", "photos"]["throughput_Bps"] < wifi
    assert flows["stays", "backup", "photos/lte"]["sent_packets"] == 0
    assert flows["lost", "tcp", "photos"]["outcome"] == "unfinished"
    for transport in ("mptcp", "backup"):
        lost = flows["lost", transport, "photos"]
        assert lost["outcome"] == "closed"
        assert 5 < lost["elapsed_s"] < 20
        assert flows["lost", transport, "photos/lte"]["sent_packets"] > 1000


def test_each_flow_has_its_own_subflows_and_their_sums(
    flows: Callable[..., dict[str, dict[str, object]]],
) -> None:
    text = TWO_WAYS + FLOW.format(name="up", direction="up") + FLOW.format(name="down", direction="down")
    actual = flows(text)
    assert set(actual) == {"up", "down", "up/wifi", "up/lte", "down/wifi", "down/lte"}
    for name in ("up", "down"):
        whole, parts = actual[name], [actual[f"{name}/{way}"] for way in ("wifi", "lte")]
        assert [row["part_of"] for row in (whole, *parts)] == [None, name, name]
        assert [row["role"] for row in parts] == [f"{name}/wifi", f"{name}/lte"]
        assert whole["outcome"] == "closed"
        assert whole["rtt_median_s"] is None
        for count in ("sent_packets", "sent_bytes", "retransmitted_packets", "data_drops_queue"):
            assert whole[count] == sum(part[count] for part in parts)
        # The ways have round trips of 10 and 50 ms, known to within 8 us, and short queues.
        assert 0.0099 < parts[0]["rtt_min_s"] < 0.04
        assert 0.0499 < parts[1]["rtt_min_s"] < 0.08
        assert all(part["sent_bytes"] > 0.2e6 for part in parts)
        assert 6e6 <= whole["sent_bytes"] < 6.6e6
    assert flows(text, "again") == actual, "every run gives the same bytes"


def test_captures_show_the_kernels_own_options(lasthop_main: Main, tmp_path: Path, kernel: Kernel) -> None:
    assert kernel
    require_tools()
    file = tmp_path / "two-ways.toml"
    file.write_text(TWO_WAYS + FLOW.format(name="up", direction="up"), encoding="utf-8")
    folder = tmp_path / "captures"
    assert lasthop_main("export", file, "--engine", "kernel", "--out", folder) == 0

    def fields(point: str, filter_: str) -> list[str]:
        return [source for (source,) in tshark(folder / f"{point}.pcapng", ("ip.src",), "-Y", filter_)]

    # RFC 8684, section 3.1 and 3.2: the first subflow is capable, the second one joins.
    assert fields("wifi-up-in", "tcp.flags.syn==1 && tcp.options.mptcp.subtype==0") == ["10.0.1.1"]
    assert fields("lte-up-in", "tcp.flags.syn==1 && tcp.options.mptcp.subtype==1") == ["10.0.1.102"]
    assert set(fields("lte-up-in", "tcp.len>0")) == {"10.0.1.102"}
    assert set(fields("wifi-up-in", "tcp.len>0")) == {"10.0.1.1"}


def test_a_scheduler_that_the_kernel_lacks_is_refused(
    lasthop_main: Main, tmp_path: Path, kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kernel
    file = tmp_path / "two-ways.toml"
    flow = FLOW.format(name="up", direction="up") + 'mptcp.scheduler = "roundrobin"\n'
    file.write_text(TWO_WAYS + flow, encoding="utf-8")
    assert lasthop_main("run", file, "--engine", "kernel", "--out", tmp_path / "out") == 2
    assert 'mptcp.scheduler = "roundrobin": this kernel offers default' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("engine", "wanted"),
    [("model", "the model engine has no MPTCP"), ("live", "runs on the kernel engine only")],
)
def test_other_engines_refuse_it(
    engine: str, wanted: str, lasthop_main: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two-ways.toml"
    file.write_text(TWO_WAYS + FLOW.format(name="up", direction="up"), encoding="utf-8")
    assert lasthop_main("run", file, "--engine", engine, "--out", tmp_path / "out") == 2
    assert wanted in capsys.readouterr().err
