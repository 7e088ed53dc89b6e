"""The states of congestion controls in traces: BBR's against the transitions of draft-ietf-ccwg-bbr."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import lasthop
from lasthop import _core
from observing import traced

LINK = """
down.link.rate = "10 Mbit/s"
down.link.delay = "20 ms"
up.link.rate = "10 Mbit/s"
up.link.delay = "20 ms"
down.queue.limit = "67 packets"
tcp.congestion_control = "{control}"
{more}
[[flow]]
kind = "bulk-tcp"
name = "flow"
duration = "{length} s"
"""
DOWN, CRUISE, REFILL, UP = (f"ProbeBW_{phase}" for phase in ("DOWN", "CRUISE", "REFILL", "UP"))
# The draft's state transition diagram; Startup and REFILL may also come back when a loss was spurious.
# ProbeRTT ends in DOWN, which changes to CRUISE at once. A path with nothing to drain skips Drain.
AFTER = {
    "Startup": {"Drain", DOWN, "ProbeRTT"},
    "Drain": {DOWN, CRUISE, "ProbeRTT", "Startup"},
    DOWN: {CRUISE, REFILL, "ProbeRTT", "Startup"},
    CRUISE: {REFILL, "ProbeRTT", "Startup"},
    REFILL: {UP, DOWN, "ProbeRTT"},
    UP: {DOWN, CRUISE, "ProbeRTT"},
    "ProbeRTT": {DOWN, CRUISE, "Startup"},
}
CASES = {
    "plain": "",
    "policer": 'down.policer = { rate = "5 Mbit/s", burst = "30 kB" }',
    "aggregation": 'up.link.slots = { every = "30 ms" }',
    "loss": "down.link.loss = 0.01",
    "reordering": 'down.link.reorder = true\ndown.link.jitter = { distribution = "uniform", min = "0 ms", '
    'max = "20 ms" }',
}


def states(tmp_path: Path, control: str, more: str = "", length: int = 15) -> list[tuple[float, str]]:
    """Return when the sender entered which state, in seconds."""
    file = tmp_path / "states.toml"
    file.write_text(LINK.format(control=control, more=more, length=length), encoding="utf-8")
    (cell,) = _core.load(str(file)).cells
    events = traced(cell, 1, 1, 1).transport
    rows = zip(events["time_ns"], events["host"], events["event"], events["state"], strict=True)
    return [(at / 1e9, state) for at, host, event, state in rows if (host, event) == ("server", "state")]


@pytest.mark.parametrize("more", CASES.values(), ids=CASES)
def test_bbr3_goes_only_where_the_draft_lets_it(tmp_path: Path, more: str) -> None:
    names = [state for _, state in states(tmp_path, "bbr3", more)]
    assert names[0] == "Startup"
    assert {after for before, after in pairwise(names) if after not in AFTER[before]} == set()
    assert {UP, REFILL, CRUISE} <= set(names)


def test_bbr3_starts_drains_probes_and_measures(tmp_path: Path) -> None:
    visited = states(tmp_path, "bbr3")
    assert [state for _, state in visited[:2]] == ["Startup", "Drain"]
    assert visited[2][1] in {DOWN, CRUISE}
    times = {state: [at for at, name in visited if name == state] for _, state in visited}
    assert times["Drain"][0] < 1
    # ProbeRTTInterval is 5 s; ProbeRTT lasts 200 ms and a round trip or a little more.
    assert times["ProbeRTT"]
    ends = [after - at for (at, name), (after, _) in pairwise(visited) if name == "ProbeRTT"]
    assert all(0.2 <= length < 0.5 for length in ends)
    # A probe for bandwidth comes 2 to 3 s after the last one began, or earlier, as Reno's would.
    ups = [at for at, name in visited if name == REFILL]
    assert all(after - at < 4 for at, after in pairwise(ups))


def test_bbr_measures_the_round_trip_after_ten_seconds_for_200_ms(tmp_path: Path) -> None:
    visited = states(tmp_path, "bbr")
    assert [state for _, state in visited] == ["Startup", "Drain", "ProbeBW", "ProbeRTT", "ProbeBW"]
    assert 10 < visited[3][0] < 11.5
    assert 0.2 <= visited[4][0] - visited[3][0] < 0.5


def test_an_application_that_sends_little_keeps_bbr3_in_startup(tmp_path: Path) -> None:
    file = tmp_path / "little.toml"
    file.write_text(
        'tcp.congestion_control = "bbr3"\n'
        'down.link = { rate = "10 Mbit/s", delay = "20 ms" }\n'
        '[[flow]]\nkind = "request-response"\nname = "flow"\nresponse = "5 kB"\nrequests = 20\n'
        'think = { distribution = "uniform", min = "150 ms", max = "250 ms" }\n',
        encoding="utf-8",
    )
    (cell,) = _core.load(str(file)).cells
    events = traced(cell, 1, 1, 1).transport
    rows = zip(events["host"], events["state"], strict=True)
    assert [state for host, state in rows if host == "server" and state] == ["Startup"]


# bbr measures the round trip after ten seconds, bbr3 after five.
@pytest.mark.parametrize(("control", "think"), [("bbr", 11), ("bbr3", 6)])
def test_a_pause_takes_the_place_of_a_measurement(tmp_path: Path, control: str, think: int) -> None:
    more = """
[[flow]]
kind = "request-response"
name = "asks"
response = "2 MB"
requests = 3
"""
    file = tmp_path / "pause.toml"
    text = LINK.partition("{more}")[0].format(control=control)
    file.write_text(f'{text}{more}think = "{think} s"\n', encoding="utf-8")
    (cell,) = _core.load(str(file)).cells
    events = traced(cell, 1, 1, 1).transport
    names = {state for host, state in zip(events["host"], events["state"], strict=True) if host == "server"}
    assert "Drain" in names
    assert "ProbeRTT" not in names
    if control == "bbr":
        # Measuring the round trip after each pause would take a tenth longer.
        model, linux = (
            lasthop.run(file, engine=engine, replications=1, progress=False).flows["completion_mean_s"][0]
            for engine in ("model", "kernel")
        )
        assert model == pytest.approx(linux, rel=1e-3)


def test_a_control_of_ones_own_names_its_states(tmp_path: Path) -> None:
    names = [state for _, state in states(tmp_path, "python:user_algorithms.Stateful")]
    assert names[:2] == ["slow start", "avoidance"]
    assert all(before != after for before, after in pairwise(names))


def test_a_control_without_states_has_no_such_events(tmp_path: Path) -> None:
    assert states(tmp_path, "cubic", length=3) == []


def test_a_state_that_is_no_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="state = 3 is not a name"):
        states(tmp_path, "python:user_algorithms.Numbered", length=1)
