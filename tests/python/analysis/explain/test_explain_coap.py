"""Stories of CoAP requests, next to the numbers of the records."""

from __future__ import annotations

import re
from pathlib import Path

from lasthop import _core
from lasthop.analysis.explain import follow, stories
from lasthop.analysis.explain.coap import requests_of
from lasthop.analysis.explain.facts import table_of
from lasthop.engines.rows import rows
from lasthop.scenario.facts import Facts
from observing import traced

LINE = """
down.link = { rate = "20 kbit/s", delay = "1 s" }
up.link = { rate = "20 kbit/s", delay = "1 s" }
[[flow]]
kind = "coap"
name = "sensor"
direction = "up"
request = "400 B"
response = "20 B"
interval = "10 s"
ack_random_factor = 1
"""


def told(folder: Path, text: str) -> str:
    file = folder / "coap.toml"
    file.write_text(text, encoding="utf-8")
    study = _core.load(str(file))
    (cell,) = study.cells
    (story,) = stories(traced(cell, study.seed, 1, 1), Facts.of(cell))
    return re.sub(r"\s+", " ", str(story))


def test_each_expiry_has_its_reason(tmp_path: Path) -> None:
    patient = LINE + 'ack_timeout = "3 s"\nrequests = 3\n'
    lost_request = told(tmp_path, patient + "drop_list = [1]\n")
    assert (
        "The timer expired after 3.000 s, as the request was lost (lost due to the scenario's drop_list); "
        "sent again. The first response arrived 5.190 s later."
    ) in lost_request
    assert lost_request.count("The timer expired") == 2
    assert "1 time: 0 spurious (a response to an earlier copy was still to come) and 1 after" in lost_request
    hole = 'down.blackhole = { at = "1 s", for = "1 s" }\n'
    lost_response = told(tmp_path, hole + patient)
    assert re.search(r"as the response was lost \(.*?\); sent again\.", lost_response)
    assert "1 after a lost response" in lost_response
    early = told(tmp_path, LINE + 'requests = 1\nack_timeout = "2 s"\n')
    assert "as the response was in the link; sent again, unnecessarily. The first response" in early
    assert "The timer expired 1 time: 1 spurious" in early
    never = told(tmp_path, LINE + 'requests = 1\nmax_retransmit = 0\nack_timeout = "2 s"\n')
    assert "the client gave the request up. The first response arrived 2.190 s later." in never
    assert "0 of 1 request completed, 1 did not." in never


def test_stories_and_records_count_the_same(tmp_path: Path) -> None:
    file = tmp_path / "coap.toml"
    loss = '"1 s"', '"1 s", loss = "15 %", duplicate = "10 %"'
    text = LINE.replace(*loss).replace("ack_random_factor = 1\n", "count = 6\nnstart = 2\nrequests = 40\n")
    file.write_text(text, encoding="utf-8")
    study = _core.load(str(file))
    trace = traced(study.cells[0], study.seed, 1, 1)
    packets = follow(trace, Facts.of(study.cells[0]))
    spurious_of_all = 0
    for flow, record in enumerate(rows(trace.flows)):
        requests = requests_of(packets, table_of(trace.transport, flow), flow, down=False)
        expiries = [(request, expiry) for request in requests for expiry in request.expiries]
        spurious = sum(request.is_spurious(expiry) for request, expiry in expiries)
        again = sum(len(request.transmissions) - 1 for request in requests)
        counted = (len(requests), len(expiries), spurious, again)
        names = ("requests", "timeouts", "spurious_timeouts", "retransmitted_packets")
        assert counted == tuple(record[name] for name in names)
        spurious_of_all += spurious
    assert spurious_of_all > 20
