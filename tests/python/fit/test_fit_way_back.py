"""The rate of the ACKs' way: one transfer does not tell it, but it is part of each round trip."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from made import LINE, captured

from lasthop.fit.fit import fit
from lasthop.fit.measurement import Direction, Measurement
from lasthop.fit.output import text_of
from lasthop.fit.sources import read
from lasthop.fit.way_back import ANY, delay_with, draw, of_run
from long_tests import ENGINE

UP = """
[up.link]
rate = "1 Mbit/s"
delay = "20 ms"
[up.queue]
limit = "30 packets"
"""


def transfer(folder: Path, direction: Direction) -> Measurement:
    """A transfer of four seconds, 5 Mbit/s down or 1 Mbit/s up, captured where it was sent."""
    text = f'{LINE}direction = "{direction}"\nduration = "4 s"\n{UP}'
    sender = {"down": "server", "up": "client"}[direction]
    return read(captured(folder / direction, text, sender), "10.0.1.1")


def test_an_ack_takes_its_time_on_the_way_back() -> None:
    # 52 bytes take 0.0832 ms at 5 Mbit/s, 0.416 ms at 1 Mbit/s, and next to nothing at 1 Gbit/s.
    found = delay_with(np.full(3, 40.0), np.full(3, 5.0), np.array([5.0, 1.0, 1000.0]))
    assert found == pytest.approx([40.0, 40.0832 - 0.416, 40.0832], abs=0.001)


def test_the_way_up_may_be_slow_and_the_way_down_fast() -> None:
    rates = np.full(1000, 10.0)
    up, down = draw(rates, ANY["down"], 1), draw(rates, ANY["up"], 1)
    assert (up.min(), up.max()) == pytest.approx((0.5, 20.0), rel=0.02)
    assert (down.min(), down.max()) == pytest.approx((5.0, 200.0), rel=0.02)


def test_runs_have_other_ways_back_but_the_same_round_trips() -> None:
    line = {"rate": 5.0, "rtt": 40.0}
    runs = [of_run(line, ANY["down"], number) for number in range(200)]
    back, rtt = (np.array([run[name] for run in runs]) for name in ("back", "rtt"))
    assert rtt + 0.416 / back == pytest.approx(np.full(200, 40.0832))
    halves = np.histogram(np.log(back), np.log([0.25, 0.5, 1.0, 2.0, 4.0, 8.0]))[0]
    assert halves == pytest.approx(np.full(5, 200 * np.log(2) / np.log(40)), abs=2)


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=7)
def test_the_interval_of_the_delay_allows_for_a_slow_way_back(tmp_path: Path) -> None:
    found = fit([transfer(tmp_path, "down")], jobs=2, exact=True)
    delay = found.parameter("delay")
    assert delay is not None
    assert delay.value == pytest.approx(40.0 + 0.416 - 0.0832, abs=0.01)  # as if both ways were as fast
    assert delay.low is not None
    assert delay.high is not None
    assert 38.9 < delay.low < 40.0 < delay.high < 40.42
    levels = tomllib.loads(text_of(found, "line"))["factor"]["line"]
    rates = [float(level["up"]["link"]["rate"].removesuffix(" kbit/s")) for level in levels.values()]
    assert rates[0] == pytest.approx(5000, rel=0.001)
    assert min(rates) < 1000
    assert "intervals include this range" in "\n".join(found.notes)


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=10)
def test_transfers_of_both_directions_tell_each_other_the_rate_of_their_acks(tmp_path: Path) -> None:
    found = fit([transfer(tmp_path, "down"), transfer(tmp_path, "up")], jobs=2, exact=True)
    for delay in (one for one in found.parameters if one.name == "delay"):
        assert delay.low is not None
        assert delay.high is not None
        assert delay.low < 40.0 < delay.high < delay.low + 0.1
