"""What a capture shows without simulation: the course of a rate, traffic of others, stalls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import CUBIC_LINE, captured, is_udp, without

from lasthop.fit import sharing
from lasthop.fit.course import LEAST_COVERED
from lasthop.fit.fit import fit, ways_of
from lasthop.fit.line import Model, Setting, line_keys, simulate
from lasthop.fit.measurement import Delays, End, Measurement, Transfer
from lasthop.fit.observed import Observed, parameters_of
from lasthop.fit.oneway import waits
from lasthop.fit.output import files_of, text_of
from lasthop.fit.posterior import Fit, Source
from lasthop.fit.sources import read
from lasthop.scenario.points import read_study
from long_tests import ENGINE

ENDS = ("server", "client")
HOST = "10.0.1.1"
STEPS = 'change = [{ at = "3 s", rate = "4 Mbit/s" }, { at = "6 s", rate = "10 Mbit/s" }]'
WALK = 'course = { kind = "walk", mean = "8 Mbit/s", spread = 0.4, time_constant = "2 s" }'
JITTER = 'jitter = { distribution = "uniform", min = "0 ms", max = "4 ms" }'
ARQ = """errors = { good = { distribution = "exponential", mean = "1 s" }, bad = "10 ms",
packet_error_probability = 1.0, arq = { retransmissions = 3, delay = "200 ms" } }"""
OTHERS = """
[[flow]]
kind = "constant-udp"
name = "others"
rate = "4 Mbit/s"
payload = "1000 B"
start = "3 s"
duration = "3 s"
"""


def seen(folder: Path, end: str, link: str = "", more: str = "") -> tuple[Measurement, Observed]:
    """Ten seconds of a download over 8 Mbit/s, unless the link says otherwise, captured without UDP."""
    folder.mkdir(exist_ok=True)
    file = captured(folder / "made", CUBIC_LINE.format(link=link) + more, end)
    measurement = read(without(file, is_udp), HOST)
    return measurement, ways_of([measurement])[0].observed


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("link", ["", JITTER, 'loss = "0.1 %"'])
def test_a_line_of_one_rate_has_no_course_no_others_and_no_stalls(
    tmp_path: Path, end: str, link: str
) -> None:
    _, found = seen(tmp_path, end, link)
    assert (found.course, found.cross, found.stalls, found.verdict) == (None, None, None, None)
    assert not found.varied


@pytest.mark.parametrize("end", ENDS)
def test_steps_of_the_rate_are_found_in_place_and_height(tmp_path: Path, end: str) -> None:
    _, found = seen(tmp_path, end, STEPS)
    assert found.course is not None
    assert found.verdict == "link"
    assert found.course.rate == pytest.approx([8, 4, 10], rel=0.01)
    # At the receiver, times are those of the first data: three ways after the SYN, and one from the link.
    later = 0.04 if end == "client" else 0.0
    assert found.course.time_s + later == pytest.approx([later, 3, 6], abs=0.03)


@pytest.mark.parametrize("end", ENDS)
def test_a_walk_of_the_rate_is_followed(tmp_path: Path, end: str) -> None:
    text = CUBIC_LINE.format(link=WALK)
    measurement, found = seen(tmp_path, end, WALK)
    assert found.course is not None
    true = np.array(drawn_course(tmp_path, text))
    times = np.arange(1, 9, 0.1)
    later = 0.04 if end == "client" else 0.0
    truth = true[np.searchsorted(true[:, 0], times, "right") - 1, 1]
    steps = found.course.rate[np.searchsorted(found.course.time_s + later, times, "right") - 1]
    errors = np.abs(np.log(steps / truth))
    assert np.median(errors) < 0.08
    assert np.median(np.abs(np.log(truth / truth.mean()))) > 0.15
    assert measurement.transfers[0].direction == "down"


def drawn_course(folder: Path, text: str) -> list[list[float]]:
    """Times and Mbit/s of what the replication drew."""
    from lasthop.commands.cli import main

    (folder / "walk.toml").write_text(text, encoding="utf-8")
    out = folder / "walk.csv"
    words = ["series", str(folder / "walk.toml"), "--course", "down", "--out", str(out), "--seed", "1"]
    assert main(words) == 0
    rows = [line.split(",") for line in out.read_text(encoding="utf-8").splitlines()[1:]]
    return [[float(row[0]), float(row[1]) / 1e6] for row in rows]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("link", ["", JITTER])
def test_traffic_of_others_is_told_from_a_slower_link(tmp_path: Path, end: str, link: str) -> None:
    _, found = seen(tmp_path, end, link, OTHERS)
    assert found.verdict == "others"
    assert found.course is None
    assert found.cross is not None
    assert found.cross.line == pytest.approx(8, rel=0.01)
    length = found.cross.end_s - found.cross.start_s
    # 1000 bytes have 28 of headers. What the queue drops is missing, and a sender sees repairs, not arrivals.
    assert length @ found.cross.rate / length.sum() == pytest.approx(4.1, rel=0.06)
    assert length.sum() == pytest.approx(3, rel=0.4 if end == "server" else 0.05)


@pytest.mark.parametrize("end", ENDS)
def test_what_nothing_tells_apart_is_called_what_was_left(tmp_path: Path, end: str) -> None:
    # Jitter of several packets hides neighbours; without losses in the slow part, the waits say nothing.
    slow = f'{JITTER}\nchange = [{{ at = "4 s", rate = "5 Mbit/s" }}]'
    text = CUBIC_LINE.format(link=slow).replace("60 packets", "1000 packets")
    found = ways_of([read(captured(tmp_path / "made", text, end), HOST)])[0].observed
    assert found.verdict == "unknown"
    assert found.course is not None
    (course, cross, *_) = parameters_of(found, "down", Source(Path("a"), "capture"), {})
    assert str(course.value).startswith("2 steps from 5 to ")
    assert "the remaining rate" in str(cross.reason)


@pytest.mark.parametrize("end", ENDS)
def test_stalls_of_a_link_that_repeats_are_counted_and_measured(tmp_path: Path, end: str) -> None:
    _, found = seen(tmp_path, end, ARQ)
    assert found.stalls is not None
    assert found.course is None
    assert np.median(found.stalls.length_s) == pytest.approx(0.2015, abs=0.004)
    drawn = found.stalls.draw(2000, np.random.default_rng(1))
    low, high = np.percentile(drawn["stall_every"], [5, 95])
    assert low < 1.0 < high


def test_without_a_queue_the_course_is_refused(tmp_path: Path) -> None:
    text = CUBIC_LINE.format(link=STEPS).replace('limit = "60 packets"', 'limit = "6 packets"')
    found = ways_of([read(captured(tmp_path / "made", text), HOST)])[0].observed
    assert found.course is None
    assert "there was a standing queue in" in found.refused["course"]


ON_OFF = """
[[flow]]
kind = "on-off"
name = "others"
rate = "4 Mbit/s"
payload = "1000 B"
on = "1 s"
off = "1 s"
duration = "10 s"
"""


@pytest.mark.parametrize("end", ENDS)
def test_a_rate_that_varies_is_noticed_although_a_queue_seldom_stood(tmp_path: Path, end: str) -> None:
    text = CUBIC_LINE.format(link="").replace('limit = "60 packets"', 'limit = "24 packets"') + ON_OFF
    file = without(captured(tmp_path / "made", text, end), is_udp)
    found = ways_of([read(file, HOST)])[0].observed
    assert found.covered_share < LEAST_COVERED
    assert found.course is None
    assert found.varied


@pytest.mark.parametrize(("at", "end"), [("sender", "server"), ("receiver", "client")])
def test_a_run_of_the_course_shows_the_same_course(tmp_path: Path, at: End, end: str) -> None:
    _, found = seen(tmp_path, end, STEPS)
    whole = Transfer(
        "whole", "down", np.array([0.0, 10.0]), np.array([0.0, 1e6]), mss=1448, overhead=52, initial_window=10
    )
    setting = Setting((whole,), "down", at, 10.0, found)
    values = found.values() | {"rtt": 40.0, "buffer": 60.0}
    made = simulate(setting, values, Model("cubic", "drop-tail"), 5)
    again = ways_of([replace(made, seen_at=at)])[0].observed
    assert found.course is not None
    assert again.course is not None
    assert again.course.rate == pytest.approx(found.course.rate, rel=0.01)
    assert again.course.time_s == pytest.approx(found.course.time_s, abs=0.03)


def test_the_course_lies_beside_the_scenario_and_others_stand_in_it(tmp_path: Path) -> None:
    _, steps = seen(tmp_path / "a", "client", STEPS)
    _, shared = seen(tmp_path / "b", "client", "", OTHERS)
    model = Model("cubic", "drop-tail")
    best = line_keys({"rtt": 40.0, "buffer": 60.0, "rate": 7.0}, model, "down", steps)
    assert steps.course is not None
    made = Fit((), (), best, (best,), courses={"down": steps.course}, others=tuple(shared.flows("down", 0.0)))
    (tmp_path / "my-line.toml").write_text(text_of(made, "my-line"), encoding="utf-8")
    for name, text in files_of(made, "my-line").items():
        assert name == "my-line-down.csv"
        (tmp_path / name).write_text(text, encoding="utf-8")
    study = read_study(tmp_path / "my-line.toml")
    assert len(study.cells) == 2


TWO = """
[[flow]]
kind = "bulk-tcp"
name = "second"
start = "1 s"
duration = "9 s"
tcp.congestion_control = "{control}"
"""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("queue", "control", "expected"),
    [
        ("", "bbr", ["one"]),
        ('discipline = "sfq"', "bbr", ["own"]),
        # Both queues are full for most of the time, so as long as each other.
        ('discipline = "sfq"', "cubic", ["own", None]),
        # All queues are short.
        ('discipline = "fq_codel"\necn = false', "bbr", ["own", None]),
    ],
)
def test_flows_show_whether_each_has_a_queue_of_its_own(
    tmp_path: Path, end: str, queue: str, control: str, expected: list[str | None]
) -> None:
    text = (CUBIC_LINE.format(link="") + TWO.format(control=control)).replace(
        'limit = "60 packets"', f'limit = "200 packets"\n{queue}'
    )
    found = ways_of([read(captured(tmp_path / "made", text, end), HOST)])[0].observed
    assert found.queues in expected


def test_many_losses_say_nothing_about_queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (CUBIC_LINE.format(link="") + TWO.format(control="bbr")).replace("60 packets", "12 packets")
    text = text.replace("[tcp]", '[tcp]\ncongestion_control = "bbr"')
    measurement = read(captured(tmp_path / "made", text, "server"), HOST)
    assert ways_of([measurement])[0].observed.queues is None
    # Round trips of repairs differ from those of the other transfer, although both share the queue.
    monkeypatch.setattr(sharing, "MOST_LOST", 1.0)
    assert ways_of([measurement])[0].observed.queues == "own"


@pytest.mark.parametrize(("waits", "expected"), [(True, "one"), (False, "own")])
def test_probes_beside_a_transfer_show_it_too(tmp_path: Path, waits: bool, expected: str) -> None:
    measurement, _ = seen(tmp_path, "server")
    delays = measurement.delays
    assert delays is not None
    assert measurement.start_s is not None
    # A ping whose clock started three seconds before the capture's; its time is when it was sent.
    at = np.arange(0.5, 9.5, 0.2)
    rtt = np.interp(at, delays.time_s, delays.rtt_ms) if waits else np.full(len(at), 41.0)
    probes = Delays(at - rtt / 1e3 + 3, rtt)
    ping = Measurement(Path("ping.txt"), "ping", delays=probes, start_s=measurement.start_s - 3)
    found = ways_of([measurement, ping])[0].observed
    assert found.queues == expected
    # Without its time of day nothing says that it ran beside the transfer.
    assert ways_of([measurement, replace(ping, start_s=None)])[0].observed.queues is None
    keys = line_keys({"rtt": 40.0, "buffer": 60.0, "rate": 8.0}, Model("cubic", "drop-tail"), "down", found)
    assert keys["down"]["queue"].get("discipline") == (None if waits else "sfq")


def test_waits_of_each_direction_do_not_depend_on_the_clocks() -> None:
    wait = np.linspace(0, 60, 101)
    for offset in (0.0, 500.0):
        delays = Delays(
            np.arange(101.0), 40 + wait, down_ms=20 + wait + offset, up_ms=np.full(101, 20 - offset)
        )
        said = waits(Measurement(Path("irtt.json"), "irtt", delays=delays))
        assert said is not None
        assert "57 ms towards the user and 0 ms in the other direction" in said
    assert waits(Measurement(Path("ping.txt"), "ping", delays=Delays(wait, wait))) is None


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=16)
def test_a_line_with_a_course_is_fitted(tmp_path: Path) -> None:
    measurement, _ = seen(tmp_path, "server", STEPS)
    found = fit([measurement], jobs=2)
    for name, true in (("rate", 7.6), ("delay", 40.0), ("buffer", 60.0)):
        one = found.parameter(name)
        assert one is not None
        assert one.low is not None
        assert one.high is not None
        assert one.low <= true <= one.high
    assert found.parameter("queue").value == "drop-tail"  # type: ignore[union-attr]
    assert [*found.courses] == ["down"]
