"""The types of a trace's rows match traces."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from lasthop.common.metrics.labels import EVENTS
from lasthop.engines.engine import Trace
from lasthop.engines.rows import ObjectRow, PacketRow, TransportRow, object_rows, packet_rows, transport_rows
from lasthop.scenario.points import read_study
from observing import traced

ROOT = Path(__file__).resolve().parents[3]
CARRIED = {
    "window": {"cwnd", "ssthresh", "in_flight"},
    "rtt-sample": {"rtt_ns", "rto_ns"},
    "timeout": {"seq", "backoff"},
    "state": {"state"},
    "tail-loss-probe": {"seq"},
    "recovery-entered": {"seq"},
} | {name: {"seq"} for name, event in EVENTS.items() if event.role == "retransmission"}
"""Columns of a sender's events, in addition to those of all events."""
OF_EVERY_EVENT = {"order", "time_ns", "flow", "host", "event"}


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    """Runs with page loads, QUIC, losses, RED and timeouts."""
    files = ("examples/web-page.toml", "examples/quic.toml", "studies/kulve2003/study.toml")
    studies = [read_study(ROOT / file) for file in files]
    cells = [(study, cell) for study in studies[:2] for cell in study.cells[:1]]
    cells += [
        (studies[2], cell)
        for cell in studies[2].cells
        if cell.key == "link=r6,workload=2tcp0udp,variant=baseline"
    ]
    return [traced(cell, study.seed, 1, 1) for study, cell in cells]


def fits(value: object, hint: Any) -> bool:  # noqa: ANN401  a type
    return type(value) in getattr(hint, "__args__", (hint,))


def test_packets_and_objects_have_the_columns_and_types_that_their_rows_say(traces: list[Trace]) -> None:
    for kind, reader in ((PacketRow, packet_rows), (ObjectRow, object_rows)):
        hints = get_type_hints(kind)
        seen = list(chain.from_iterable(reader(trace) for trace in traces))
        assert len(seen) > 5
        for row in seen:
            assert list(row) == list(hints)
            assert [name for name, value in row.items() if not fits(value, hints[name])] == []


def test_an_event_of_a_sender_has_the_columns_that_it_carries(traces: list[Trace]) -> None:
    hints = get_type_hints(TransportRow)
    seen = set()
    for row in chain.from_iterable(transport_rows(trace.transport) for trace in traces):
        assert list(row) == list(hints)
        carried = OF_EVERY_EVENT | CARRIED.get(row["event"], set())
        wrong = [
            name
            for name, value in row.items()
            if not (fits(value, hints[name]) if name in carried else value in (None, ""))
        ]
        assert wrong == [], row
        seen.add(row["event"])
    assert {"window", "rtt-sample", "timeout", "recovery-entered", "established"} <= seen
