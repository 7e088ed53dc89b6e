"""Stories of applications that pause, of links that change and of hosts that move."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lasthop import _core
from lasthop.analysis.explain import follow, stories
from lasthop.analysis.explain.facts import AFTER_TIMEOUT, IDLE, gather
from lasthop.engines.rows import rows
from lasthop.scenario.facts import Facts
from observing import traced


def _flat(text: str) -> str:
    return " ".join(text.split())


ASKING = """
time_limit = "20 min"
down.link = { rate = "10 Mbit/s", delay = "20 ms" }
up.link = { rate = "10 Mbit/s", delay = "20 ms" }
[[flow]]
kind = "request-response"
name = "asking"
response = "20 kB"
requests = 5
think = "10 s"
[factor.round_trip]
short = {}
[factor.round_trip.longer-than-the-timer]
down.link.delay = "600 ms"
up.link.delay = "600 ms"
[factor.stack]
tcp = {}
quic.flow.asking.stack = "quic"
"""


def test_the_time_in_which_an_application_is_idle_is_a_phase_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "asking.toml"
    file.write_text(ASKING, encoding="utf-8")
    study = _core.load(str(file))
    for cell in study.cells:
        trace = traced(cell, study.seed, 1, 1)
        packets = follow(trace, Facts.of(cell))
        (record,) = rows(trace.flows)
        (told,) = map(str, stories(trace, Facts.of(cell), packets=packets))
        said = re.search(r"nothing in flight for (\d+\.\d+) s, in 4 pauses", _flat(told))
        assert said, cell.key
        assert float(said[1]) == pytest.approx(40, abs=0.2), cell.key
        if record["protocol"] == "tcp":
            facts = gather(packets, trace.transport, record, 0, trace.bad_periods)
            shares = facts.seconds_by_phase()
            assert shares[IDLE] == pytest.approx(40, abs=0.2), cell.key
            assert shares[AFTER_TIMEOUT] == 0, cell.key
            assert len(facts.timeouts) == (cell.levels["round_trip"] != "short"), cell.key


EARLY = """
down.link = { rate = "10 Mbit/s", delay = "20 ms" }
[[flow]]
kind = "request-response"
name = "asking"
stack = "quic"
request = "200 B"
response = "20 kB"
[factor.ticket]
none = {}
known.flow.asking.quic.zero_rtt = true
"""


def test_only_data_before_the_answer_is_0_rtt(tmp_path: Path) -> None:
    """The first request leaves in the first flight, or at the end of the client's handshake."""
    file = tmp_path / "early.toml"
    file.write_text(EARLY, encoding="utf-8")
    study = _core.load(str(file))
    for cell in study.cells:
        (story,) = stories(traced(cell, study.seed, 1, 1), Facts.of(cell))
        carries = "It carries data: bytes 1-200 (0-RTT; RFC 9001, section 4.6)."
        assert (carries in _flat(str(story))) == (cell.levels["ticket"] == "known")
        assert ("0-RTT" in str(story)) == (cell.levels["ticket"] == "known")


MOVING = """
down.link = { rate = "10 Mbit/s", delay = "20 ms" }
[[flow]]
kind = "request-response"
name = "asking"
response = "100 kB"
requests = 30
[factor.network]
one.down.link.change = [{ at = "1 s", rate = "2 Mbit/s", delay = "60 ms" }]
one.up.link.change = [{ at = "1 s", delay = "60 ms" }]
same.down.link.change = [{ at = "1 s", delay = "60 ms" }]
same.up.link.change = [{ at = "1 s", delay = "60 ms" }]
[factor.stack]
tcp = {}
quic.flow.asking.stack = "quic"
migrates.flow.asking = { stack = "quic", quic.migration = true }
rebinds.flow.asking = { stack = "quic", rebind = { at = "1 s" } }
"""
TWO_WAYS = """
[hop.wifi]
down.link = { rate = "20 Mbit/s", delay = "5 ms" }
[hop.lte]
down.link = { rate = "10 Mbit/s", delay = "25 ms", change = [{ at = "500 ms", rate = "5 Mbit/s" }] }
[hop.other]
down.link = { rate = "10 Mbit/s", delay = "25 ms", change = [{ at = "500 ms", rate = "4 Mbit/s" }] }
[host.phone]
behind = ["wifi", "lte"]
[[flow]]
kind = "request-response"
name = "asking"
stack = "quic"
response = "100 kB"
requests = 30
migrate = { at = "1 s", via = "lte" }
"""


def test_changes_of_links_and_migrations_are_told(tmp_path: Path) -> None:
    told = {}
    for name, text in (("moving", MOVING), ("ways", TWO_WAYS)):
        file = tmp_path / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        study = _core.load(str(file))
        for cell in study.cells:
            trace = traced(cell, study.seed, 1, 1)
            (story,) = stories(trace, Facts.of(cell))
            told[tuple(cell.levels.values())] = _flat(str(story))
    for (network, stack), text in [(levels, text) for levels, text in told.items() if levels]:
        down = "1.000000 Link down changes to rate 2 Mbit/s and delay 60 ms."
        up = "1.000000 Link up changes to delay 60 ms."
        same = "1.000000 Link changes to delay 60 ms."
        said = (down in text, up in text, same in text)
        assert said == ((True, True, False) if network == "one" else (False, False, True)), stack
        assert ("1.000000 Migration: the client has a new address" in text) == (stack == "migrates"), stack
        assert ("1.000000 Rebinding: the client's port changes" in text) == (stack == "rebinds"), stack
        assert ("ended by the migration" in text) == (stack == "migrates"), stack
    moved = told["one", "migrates"]
    assert re.search(r"It ignores \d+ packets in flight to the old address", moved)
    window = r"cwnd \d+ -> 10, ssthresh (?:\d+|infinite) -> infinite"
    reset = re.search(rf"which validates the path and resets congestion control: {window}", moved)
    assert reset
    assert "Slow start, cwnd 10 -> " in moved[reset.end() :]
    assert "The window is unchanged, as only the port differs." in told["one", "rebinds"]
    ways = told[()]
    assert "Migration: the client has a new address, behind lte" in ways
    assert "0.500000 Link of lte changes to rate 5 Mbit/s." in ways
    assert "other" not in ways
