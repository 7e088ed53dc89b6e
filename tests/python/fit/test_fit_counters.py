"""Files of counters, as iperf3 and flent write them, fitted to the end.

They were measured behind the live engine: 8 Mbit/s with 60 kB of queue, 20 ms each way. `iperf3 -J -R
--get-server-output -C cubic -t 8` ran after a `ping` of the idle line.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made import LINE, captured

from lasthop.common.errors import InputError
from lasthop.fit.fit import fit, ways_of
from lasthop.fit.posterior import Fit
from lasthop.fit.sources import read
from lasthop.fit.summary import View, summarise
from long_tests import ENGINE

FILES = Path(__file__).parent / "measured"
RATE, DELAY_MS, PACKETS = 8.0, 40.0, 40


def number(found: Fit, name: str) -> tuple[float, float, float]:
    one = found.parameter(name)
    assert one is not None
    assert isinstance(one.value, float)
    assert one.low is not None
    assert one.high is not None
    return one.low, one.value, one.high


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=8)
def test_iperf3_with_the_servers_counts_and_a_ping_tells_the_line() -> None:
    found = fit([read(FILES / "iperf3-down-server.json"), read(FILES / "ping-idle.txt")], jobs=2)
    low, rate, high = number(found, "rate")
    assert low <= RATE <= high
    assert rate == pytest.approx(RATE, rel=0.02)
    assert number(found, "delay")[1] == pytest.approx(DELAY_MS, rel=0.06)
    # Eight smoothed round trips tell the queue badly: docs/validation/fit.md.
    assert number(found, "buffer")[1] == pytest.approx(PACKETS, rel=0.25)
    control, queue = found.parameter("control"), found.parameter("queue")
    assert control is not None
    assert queue is not None
    # The hosts here are real, and few simulated runs resemble them, so neither is identified any more.
    assert (control.value, queue.value) == (None, None)


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=13)
def test_a_file_of_flent_tells_the_line() -> None:
    found = fit([read(FILES / "tcp-download.flent.gz")], jobs=2)
    assert number(found, "rate")[1] == pytest.approx(RATE, rel=0.05)
    assert number(found, "delay")[1] == pytest.approx(DELAY_MS, rel=0.06)
    control = found.parameter("control")
    assert control is not None
    assert control.value == "bbr"


def test_the_idle_round_trip_comes_from_the_ping() -> None:
    transfer, ping = read(FILES / "iperf3-down-server.json"), read(FILES / "ping-idle.txt")
    alone, both = ways_of([transfer])[0].first, ways_of([transfer, ping])[0].first
    assert alone.loaded
    assert alone.rtt > 1.5 * DELAY_MS
    assert not both.loaded
    assert both.rtt == pytest.approx(DELAY_MS, rel=0.03)


def test_a_download_that_its_receiver_counted_has_no_round_trips() -> None:
    with pytest.raises(InputError, match="no round trips"):
        ways_of([read(FILES / "iperf3-down.json")])


def test_losses_of_counters_are_compared_by_interval() -> None:
    """The same number of losses at other times of an interval makes the same summary."""
    measured = read(FILES / "iperf3-down-server.json")
    (transfer,) = measured.transfers
    view = View.of((transfer,), None, 8.0, fine=False)
    early = np.floor(transfer.lost_s) + 0.01
    moved = type(transfer)(**{**vars(transfer), "lost_s": early})
    assert len(early) == 7
    assert np.array_equal(summarise((moved,), None, view), summarise((transfer,), None, view))


def test_the_first_flight_is_counted_at_the_receiver_of_a_slow_line(tmp_path: Path) -> None:
    text = LINE.replace("5 Mbit/s", "1 Mbit/s").replace("20 ms", "10 ms").replace("30 packets", "8 packets")
    (transfer,) = read(captured(tmp_path / "made", text + 'duration = "6 s"\n')).transfers
    # Ten packets take 120 ms, six round trips, and the queue drops the last of them.
    assert transfer.initial_window == 10
