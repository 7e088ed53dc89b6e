"""The answer for hundreds of flows: a row per entry of the scenario, a screen of text, small tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

Main = Callable[..., int]

BEAM = """
time_limit = "40 s"
down.link = { rate = "40 Mbit/s", delay = "250 ms" }
up.link = { rate = "10 Mbit/s", delay = "250 ms" }
http = { protocol = "http1.1", connections = 2, request = "300 B", response_header = "300 B" }

[[flow]]
kind = "http-page"
name = "web"
count = 30
main = "20 kB"
inline = "10 kB"
inline_count = 2
start = { distribution = "uniform", min = "0 s", max = "20 s" }

[[flow]]
kind = "voip"
name = "call"
count = 12
duration = "10 s"

[[flow]]
kind = "bulk-tcp"
name = "download"
count = 8
bytes = "1 MB"

[factor.queue]
"""
QUEUES = [f'q{number}.down.queue.limit = "{number}0 packets"\n' for number in range(1, 25)]


@pytest.fixture(scope="module")
def beam(shared_folder: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    from lasthop.commands.cli import main

    def run(folder: Path) -> None:
        folder.mkdir()
        file = folder / "beam.toml"
        file.write_text(BEAM + "".join(QUEUES[:2]), encoding="utf-8")
        assert main(["run", str(file), "--replications", "2", "--out", str(folder / "out"), "--quiet"]) == 0

    return shared_folder("beam", run) / "out"


def test_flows_of_an_entry_share_a_row(
    beam: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("results", beam) == 0
    text = capsys.readouterr().out
    assert "web-1" not in text
    flows = pl.read_csv(beam / "summary.csv", infer_schema_length=None)["flow"].unique().to_list()
    assert {"web", "web/connection-1", "call", "download"} <= {*flows}
    assert len(flows) < 12
    pages = pl.read_parquet(beam / "pages.parquet")
    assert pages["page"].n_unique() == 30
    assert pages["role"].unique().to_list() == ["web"]
    assert pages.height == 30 * 2 * 2


def test_the_metric_of_a_kind_comes_first(
    beam: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("results", beam) == 0
    flows = capsys.readouterr().out.partition("Flows (group means):")[2]
    assert flows.index("speech") < flows.index("elapsed")


def test_a_row_of_several_flows_has_their_distribution(
    beam: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("results", "show", beam, "--only", "queue=q2") == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("download"))
    flows = pl.read_parquet(beam / "flows.parquet").filter(queue="q2", role="download")["elapsed_s"]
    low, high = (flows.quantile(share, "linear") for share in (0.1, 0.9))
    assert f"{low:.1f}..{high:.1f} s" in row


def test_sizes_rates_and_delays_are_not_compared_with_each_other(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = """
        down.link = { rate = "2 Mbit/s", delay = "50 ms" }
        flow = [{ kind = "bulk-tcp", name = "file", bytes = "100 kB" }]
        [factor.size]
        small.flow.file.bytes = "100 kB"
        large.flow.file.bytes = "400 kB"
        [factor.width]
        narrow = { down.link.rate = "1 Mbit/s", down.queue.limit = "10 packets" }
        wide = {}
        [factor.window]
        iw2.tcp.initial_window = 2
        iw10.tcp.initial_window = 10
    """
    file = tmp_path / "task.toml"
    file.write_text(scenario, encoding="utf-8")
    assert lasthop_main("run", file, "--replications", 3, "--out", tmp_path / "both") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Differences between levels, within each size and width (means" in out
    assert "window=iw10" in out
    assert "size=large takes" not in out
    assert "size=small has" not in out
    # A user who varies nothing else asks for these differences.
    only = ("--only", "width=wide,window=iw10", "--replications", 3)
    assert lasthop_main("run", file, *only, "--out", tmp_path / "one") == 0
    assert "size=large has" in (one := " ".join(capsys.readouterr().out.split())) or "size=large takes" in one


def test_only_shows_the_cells_that_are_named(
    beam: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("results", "show", beam, "--only", "queue=q2", "--metric", "mos,throughput_Bps") == 0
    text = capsys.readouterr().out
    assert "speech quality" in text
    assert "throughput" in text
    assert "q1" not in text
    assert lasthop_main("results", "show", beam, "--only", "queue=q3") == 2
    assert "no level 'q3'; did you mean" in capsys.readouterr().err


def test_the_answer_fits_on_a_screen_and_names_what_it_leaves_out(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(BEAM.replace("count = 30", "count = 2") + "".join(QUEUES), encoding="utf-8")
    assert lasthop_main("run", file, "--replications", 2, "--out", tmp_path / "out") == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 40
    assert f"more rows: lasthop results show {tmp_path / 'out'}" in text
