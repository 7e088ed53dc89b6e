"""Captures that lack packets or parts of them, or contain more than one transfer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import CUBIC_LINE, LINE, captured, without

from lasthop.common.errors import InputError
from lasthop.fit.fit import ways_of
from lasthop.fit.measurement import Delays, Measurement
from lasthop.fit.observed import parameters_of
from lasthop.fit.output import files_of, text_of
from lasthop.fit.posterior import Fit, Source
from lasthop.fit.sources import read
from lasthop.fit.sources.missing import missing
from lasthop.scenario.points import read_study

ENDS = ("server", "client")
HOST = "10.0.1.1"
SIX = LINE + 'duration = "6 s"\n'


def delays_of(measurement: Measurement) -> Delays:
    assert measurement.delays is not None
    return measurement.delays


def test_acknowledged_data_that_the_capture_lacks_fill_its_gap_evenly() -> None:
    # Packets 2, 3 and 4 of seven are missing. An ACK of another flow at 1.5 s ends the gap of the capture.
    begin, size = np.array([0, 100, 500, 600]), np.full(4, 100)
    time, every = np.array([0.0, 0.1, 1.6, 1.7]), np.array([0.0, 0.1, 0.3, 1.5, 1.6, 1.7])
    found = missing(every, time, begin, size, acked=700, mss=100)
    assert found.begin.tolist() == [200, 300, 400]
    assert found.size.tolist() == [100, 100, 100]
    assert found.time == pytest.approx([0.6, 0.9, 1.2])
    assert (found.start.tolist(), found.end.tolist()) == ([0.3], [1.5])
    # Data that nobody acknowledged were lost on the way.
    assert not len(missing(every, time, begin, size, acked=200, mss=100).time)


@pytest.mark.parametrize("end", ENDS)
def test_a_gap_of_the_capture_is_no_loss_no_pause_and_no_shorter_round_trip(tmp_path: Path, end: str) -> None:
    whole = read(captured(tmp_path / "whole", SIX, end), HOST)
    gaps = [(400, 460), (900, 960), (1500, 1560)]
    file = captured(tmp_path / "gaps", SIX, end)
    found = read(without(file, lambda number, _: any(a <= number < b for a, b in gaps)), HOST)
    (one,), (other,) = whole.transfers, found.transfers
    assert other.bytes[-1] == one.bytes[-1]
    assert other.sent == one.sent
    assert abs(len(other.lost_s) - len(one.lost_s)) <= 2
    assert np.diff(other.time_s).max() < np.diff(one.time_s).max() + 0.005
    assert delays_of(found).rtt_ms.min() == pytest.approx(delays_of(whole).rtt_ms.min(), abs=0.1)
    (note,) = found.notes
    assert "Missing packets" in note
    assert not whole.notes


@pytest.mark.parametrize("end", ENDS)
def test_a_snap_length_that_cuts_options_is_reported(tmp_path: Path, end: str) -> None:
    # The headers of IP and TCP without options have 40 bytes; the options of data packets, 12.
    file = captured(tmp_path / "made", SIX, end, snaplen=44)
    found = read(file, HOST)
    assert any(note.startswith("Headers: the snap length cuts") for note in found.notes)
    assert (found.transfers[0].packet, found.transfers[0].payload) == (1500, 1448)
    if end == "client":
        with pytest.raises(InputError, match="the snap length cuts"):
            ways_of([found])
    cut = captured(tmp_path / "short", SIX, end, snaplen=36)
    with pytest.raises(InputError, match="the snap length cuts"):
        read(cut, HOST)


TWO_HOSTS = """
[hop.line]
down = { link = { rate = "5 Mbit/s", delay = "20 ms" }, queue.limit = "30 packets" }
up.link = { rate = "5 Mbit/s", delay = "20 ms" }
[host.one]
behind = "line"
[host.two]
behind = "line"
[tcp]
profile = "linux-6"
[[flow]]
kind = "bulk-tcp"
name = "first"
host = "one"
duration = "3 s"
[[flow]]
kind = "bulk-tcp"
name = "second"
host = "two"
direction = "{direction}"
duration = "3 s"
"""


@pytest.mark.parametrize("host", [None, "10.0.2.1"])
@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_second_host_is_on_the_side_of_the_first(tmp_path: Path, direction: str, host: str | None) -> None:
    file = captured(tmp_path / "made", TWO_HOSTS.replace("{direction}", direction), "server")
    ways = {transfer.name: transfer.direction for transfer in read(file, host).transfers}
    assert len(ways) == 2
    assert {name: way for name, way in ways.items() if "10.0.1.1" in name}.popitem()[1] == "down"
    assert {name: way for name, way in ways.items() if "10.0.2.1" in name}.popitem()[1] == direction


CALL = """
[[flow]]
kind = "constant-udp"
name = "others"
rate = "4 Mbit/s"
payload = "1000 B"
start = "3 s"
duration = "3 s"
"""


@pytest.mark.parametrize("end", ENDS)
def test_datagrams_in_the_capture_are_cross_traffic_of_each_run(tmp_path: Path, end: str) -> None:
    file = captured(tmp_path / "made", CUBIC_LINE.format(link="") + CALL, end)
    (way,) = ways_of([read(file, HOST)])
    found = way.observed
    assert (found.course, found.cross, found.verdict) == (None, None, None)
    assert found.known is not None
    assert way.first.rate == pytest.approx(8, rel=0.05)
    (cross,) = (one for one in parameters_of(found, "down", Source(file, "capture"), {}) if one.key == "flow")
    assert str(cross.value).endswith("packets of the capture")
    flow = found.known.flow("down", 0.04, "")
    link = {"rate": "8 Mbit/s", "delay": "20 ms"}
    best = {"down": {"link": link, "queue": {"limit": "60 packets"}}, "up": {"link": link}}
    made = Fit((), (), best, (best,), recordings={"down": (found.known, flow)})
    (tmp_path / "my-line.toml").write_text(text_of(made, "my-line"), encoding="utf-8")
    for name, text in files_of(made, "my-line").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert len(read_study(tmp_path / "my-line.toml").cells) == 2


def test_what_is_no_end_of_a_transfer_is_not_cross_traffic(tmp_path: Path) -> None:
    file = captured(tmp_path / "made", CUBIC_LINE.format(link="") + CALL, "server")
    whole = read(file, HOST)
    assert set(whole.others) == {"down"}
    # 3 s of 500 datagrams a second.
    assert len(whole.others["down"].time_s) == pytest.approx(1500, rel=0.02)
    assert set(whole.others["down"].bytes) == {1028.0}
    assert ways_of([replace(whole, others={})])[0].observed.known is None
