"""`measure`: metrics of a window of time, in tables, claims and reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lasthop
from lasthop._core import ScenarioError

Main = Callable[..., int]
SCENARIO = """
time_limit = "30 s"
{measure}

[hop.line]
down.link = {{ rate = "4 Mbit/s", delay = "30 ms", loss = 0.005 }}
up.link = {{ rate = "1 Mbit/s", delay = "30 ms" }}

[hop.wifi]
behind = "line"
down.link = {{ rate = "20 Mbit/s", delay = "1 ms" }}

[host.laptop]
behind = "wifi"

[[flow]]
kind = "bulk-tcp"
name = "download"
host = "laptop"
duration = "28 s"

[[flow]]
kind = "constant-udp"
name = "stream"
host = "laptop"
rate = "500 kbit/s"
payload = "1000 B"
duration = "25 s"
start = "2 s"
"""
COUNTS = [
    "sent_packets",
    "received_packets",
    "retransmitted_packets",
    "timeouts",
    "fast_retransmits",
    "data_drops_queue",
    "data_drops_error",
    "duplicate_acks",
]
OF_HOPS = ["packets_in", "packets_out", "bytes_out", "drops_queue", "drops_error"]


def tables(measure: str) -> lasthop.Results:
    return lasthop.run(lasthop.Scenario.parse(SCENARIO.format(measure=measure)))


def test_windows_that_cover_a_run_add_up_to_it() -> None:
    whole = tables("")
    windows = [
        tables(f'measure = {{ from = "{a} s", until = "{b} s" }}') for a, b in ((0, 7), (7, 19), (19, 30))
    ]
    for counts, rows in ((COUNTS, lambda own: own.flows), (OF_HOPS, lambda own: own.hops)):
        parts = [rows(own).select(counts) for own in windows]
        assert_frame_equal(parts[0] + parts[1] + parts[2], rows(whole).select(counts))
    facts = ["outcome", "start_s", "elapsed_s"]
    for own in windows:
        assert_frame_equal(own.flows.select(facts), whole.flows.select(facts))


def test_a_rate_is_that_of_the_window() -> None:
    within = tables('measure = { from = "10 s", until = "20 s" }')
    stream = within.flows.filter(pl.col("role") == "stream")
    # 62.5 datagrams of 1000 bytes a second, each with a header of 8 bytes; a few are lost.
    assert stream["throughput_Bps"][0] == pytest.approx(62.5 * 1008, rel=0.02)
    assert stream["sent_packets"][0] in (625, 626)
    line = within.hops.filter((pl.col("hop") == "line") & (pl.col("direction") == "down"))
    assert line["utilisation"][0] == pytest.approx(line["bytes_out"][0] * 8 / 4e6 / 10)


def test_times_may_count_from_a_flow() -> None:
    absolute = tables('measure = { from = "5 s", until = "15 s" }')
    relative = tables('measure = { from = "3 s", until = "13 s", flow = "stream" }')
    assert_frame_equal(absolute.flows, relative.flows)


def test_answer_and_report_state_the_window(
    tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "window.toml"
    file.write_text(SCENARIO.format(measure='measure = { from = "10 s" }'), encoding="utf-8")
    assert lasthop_main("run", file, "--out", tmp_path / "out") == 0
    assert "Metrics count only the time from 10 s to the end of the run." in capsys.readouterr().out
    assert "from 10 s to the end of the run" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        ('{ from = "10 s", until = "5 s" }', "`measure.until`: the window ends at"),
        ('{ from = "31 s" }', "`measure.from`: the window begins at"),
        ('{ from = "1 s", flow = "streem" }', "did you mean `stream`?"),
    ],
)
def test_a_window_without_time_is_refused(measure: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason.replace("?", r"\?")):
        tables(f"measure = {measure}")
