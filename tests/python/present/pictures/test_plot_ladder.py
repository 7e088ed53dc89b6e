"""Ladder diagrams: every packet of a part of a run as an arrow, checked against the packets of the run."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import STUDY
from lasthop import _core
from lasthop.present.pictures import marks
from lasthop.present.pictures.cast import Cast
from lasthop.present.pictures.ladder import CLIENT, MOST_ARROWS, SERVER
from lasthop.present.pictures.ladder_figure import _Rung, _spread, ladder_figure
from lasthop.present.pictures.panels import panels
from lasthop.present.pictures.shapes import Layer
from lasthop.present.pictures.static import STYLE
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.scenario.facts import Facts
from made_facts import one_hop
from observing import traced
from test_plot import GOOD, WHOLE, packet, rounded, table, tcp

EXAMPLES = STUDY.parents[1] / "examples"
Main = Callable[..., int]
SYN, FIN, ACK = 0x02, 0x01, 0x10


def by_hand() -> TraceTables:
    """A handshake; of two segments the first is lost at the router; a SACK; the timer sends it again; FIN is
    lost.
    """
    control = {"payload_bytes": 0}
    rows = [
        packet(0, "sent", serial=0, flags=SYN, end=1, **control),
        packet(50, "delivered", serial=0, flags=SYN, end=1, **control),
        packet(50, "sent", "up", serial=1, flags=SYN | ACK, end=1, ack=1),
        packet(100, "delivered", "up", serial=1, flags=SYN | ACK, end=1, ack=1),
        packet(100, "sent", serial=2, seq=1, flags=ACK, ack=1),
        packet(100, "sent", serial=3, seq=1001, flags=ACK, ack=1),
        packet(101, "dropped-queue", serial=2, seq=1, flags=ACK, ack=1),
        packet(160, "delivered", serial=3, seq=1001, flags=ACK, ack=1, ce=True),
        packet(160, "sent", "up", serial=4, flags=ACK, ack=1, sack="1001-2001 5001-6001"),
        packet(210, "delivered", "up", serial=4, flags=ACK, ack=1, sack="1001-2001 5001-6001"),
        packet(300, "sent", serial=5, seq=1, flags=ACK, ack=1),
        packet(350, "delivered", serial=5, seq=1, flags=ACK, ack=1),
        packet(350, "sent", "up", serial=6, seq=1, end=2, flags=FIN | ACK, ack=2001),
        packet(390, "dropped-error", "up", serial=6, seq=1, end=2, flags=FIN | ACK, ack=2001),
        packet(400, "sent", serial=7, seq=2001, flags=ACK, ack=1),
    ]
    whole = [{"ce": False, **row} for row in rows]
    events = [tcp(300, "timeout", seq=1), tcp(300, "retransmitted-timeout", seq=1)]
    flows = {"flow": ["web"], "application": ["web"], "protocol": ["tcp"], "direction": ["down"]}
    none: dict[str, list[Any]] = {"flow": [], "object": []}
    trace: Any = SimpleNamespace(
        packets=table(whole), transport=table(events), objects=none, flows=flows, bad_periods=GOOD, **WHOLE
    )
    return TraceTables.of(trace, one_hop("web"))


def test_each_packet_goes_from_sending_to_its_fate() -> None:
    (panel,) = panels(by_hand(), ["ladder"])
    drawn = [
        (label, layer.mark.name, (start, round(sent, 6)), (end, round(stop, 6)))
        for layer in panel.layers
        if layer.far
        for label, sent, start, stop, end in zip(
            layer.labels or (), layer.x, layer.y, layer.far, layer.ends or (), strict=True
        )
    ]
    assert sorted(drawn, key=lambda arrow: arrow[2][1]) == [
        ("SYN 0", "no data", (SERVER, 0), (CLIENT, 0.05)),
        ("SYN 0, ACK 1", "no data", (CLIENT, 0.05), (SERVER, 0.1)),
        ("1001:2001 (1000), CE", "data", (SERVER, 0.1), (CLIENT, 0.16)),
        ("1:1001 (1000)", "dropped: router queue full", (SERVER, 0.1), (0.2, 0.101)),
        ("ACK 1, SACK 1001-2001 +1", "no data", (CLIENT, 0.16), (SERVER, 0.21)),
        ("1:1001 (1000)", "retransmission after timeout", (SERVER, 0.3), (CLIENT, 0.35)),
        ("FIN 1, ACK 2001", "dropped: link error", (CLIENT, 0.35), (0.4, 0.39)),
        ("2001:3001 (1000)", "in flight when the run ends", (SERVER, 0.4), (0.6, 0.4)),
    ]
    (expired,) = [layer for layer in panel.layers if layer.far is None]
    assert (expired.mark.name, rounded(expired.x), list(expired.y)) == ("timer expired", [0.3], [SERVER])


def test_a_part_has_the_packets_that_are_sent_in_it_until_they_arrive() -> None:
    part = by_hand().sent_between(0.1, 0.2)
    assert part.packets.filter(event="sent")["serial"].to_list() == [2, 3, 4]
    assert part.packets.filter(event="delivered")["serial"].to_list() == [3, 4]
    assert part.transport.is_empty()


@pytest.mark.parametrize(
    ("key", "flow", "span"),
    [
        (
            "link=e0,workload=2tcp0udp,variant=eifel",
            "tcp-2",
            (8.0, 11.5),
        ),  # drops at the queue, fast retransmission
        ("link=r1,workload=2tcp1udp,variant=eifel+red", "udp", (0.0, 3.0)),
        ("link=r6,workload=2tcp0udp,variant=frto", "tcp-1", (58.5, 62.5)),  # a bad period
    ],
)
@pytest.mark.parametrize("width", ["column", "page"])
def test_arrows_are_the_packets_of_the_run_and_nothing_is_cut_off(
    key: str, flow: str, span: tuple[float, float], width: str
) -> None:
    import matplotlib as mpl

    study = _core.load(str(STUDY / "study.toml"))
    (cell,) = [cell for cell in study.cells if cell.key == key]
    whole = TraceTables.of(traced(cell, study.seed, 1, 12 if "r6" in key else 1), Facts.of(cell))
    tables = whole.sent_between(*span)
    named = [one for one in tables.flows if one.name == flow]
    (panel,) = panels(tables, ["ladder"], Cast.of(tables, named))
    sent = whole.packets.filter(pl.col("event") == "sent", pl.col("flow") == named[0].number)
    times = sent.filter(pl.col("time_s").is_between(*span))["time_s"].to_list()
    arrows = [layer for layer in panel.layers if layer.far is not None]
    assert sorted(x for layer in arrows for x in layer.x) == times
    assert len(times) > 20
    assert all(a <= b for layer in arrows for a, b in zip(layer.x, layer.far or (), strict=True))
    with mpl.rc_context(STYLE):
        figure = ladder_figure(tables.picture([panel], *span), width)
        drawn = figure.get_tightbbox()
    right, top = figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) >= 0
    assert (drawn.x1 <= right, drawn.y1 <= top) == (True, True)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.5, 5))
def test_labels_keep_apart_and_stay_near(ends: list[float], apart: float) -> None:
    layer = Layer(marks.LADDER_DATA, [], [])
    rungs = [_Rung(layer, (SERVER, 0), (CLIENT, end), "") for end in sorted(ends)]
    placed = [at for _, at in _spread(rungs, apart)]
    assert all(b - a >= apart - 1e-9 for a, b in itertools.pairwise(placed))
    assert sum(placed) == pytest.approx(sum(ends))  # none is pushed down alone
    if all(b - a >= apart for a, b in itertools.pairwise(sorted(ends))):
        assert placed == pytest.approx(sorted(ends))


def test_too_many_packets_are_refused_with_a_time_that_fits(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ("plot", EXAMPLES / "first.toml", "--kind", "ladder")
    assert lasthop_main(*one) == 2
    error = capsys.readouterr().err
    assert f"holds at most {MOST_ARROWS}" in error
    assert "--from" in error
    until = error.partition("(--to ")[2].split()[0]
    assert lasthop_main(*one, "--to", until, "--out", "fits.svg") == 0
    assert lasthop_main(*one, "--to", float(until) * 1.05, "--out", "too-many.svg") == 2
    assert sorted(file.name for file in Path().iterdir()) == ["fits.svg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kind", "ladder,cwnd"), ["'ladder' cannot be combined", "draw it alone"]),
        (
            ("--kind", "ladder", "--from", "0.06", "--to", "0.08"),
            ["bulk-tcp sends no packet in this part", "--from"],
        ),
        (("--kind", "ladder", "--over", "replications"), ["'ladder' cannot be drawn over replications"]),
    ],
)
def test_what_a_ladder_cannot_show_is_said(
    options: tuple[str, ...], words: list[str], lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("plot", EXAMPLES / "first.toml", *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert list(Path().iterdir()) == []


def test_a_packet_that_the_link_duplicates_arrives_twice() -> None:
    tables = by_hand()
    twice = tables.packets.filter(serial=3, event="delivered").with_columns(time_s=pl.lit(0.17))
    (panel,) = panels(replace(tables, packets=pl.concat([tables.packets, twice])), ["ladder"])
    (data,) = [layer for layer in panel.layers if layer.mark.name == "data"]
    assert [round(time, 6) for time in data.far or ()] == [0.16, 0.17]
