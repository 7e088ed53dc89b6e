"""What a log adds to the story and to the steps of a flow, from small logs and captures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lasthop.analysis.explain.stacks import with_view
from lasthop.analysis.explain.words import Entry, Story
from lasthop.engines.engine import SeriesTarget
from lasthop.engines.stack_views import add_series
from lasthop.present.pictures.stack_view import loss_panel, trip_panel, window_panel
from test_view import Connection, ones

COLUMNS = "time_s,flow,direction,goodput_Bps,lost_packets,cwnd,srtt_s"


@pytest.fixture
def connection(tmp_path: Path) -> Connection:
    """Eight packets, of which 1 is lost; the stack takes 4 for lost, too."""
    own = Connection(tmp_path)
    own.log(0, "recovery:congestion_state_updated", new="slow_start")
    own.metrics(0, congestion_window=12000, bytes_in_flight=0)
    for number in range(8):
        own.send(float(number), ones(number), None if number == 1 else 20.0 + number)
    own.ack(44, 24, [[0, 0], [2, 3]])
    own.metrics(44, smoothed_rtt=40, latest_rtt=41, congestion_window=14000, bytes_in_flight=4800)
    own.lose(45, 1)
    own.lose(45.5, 4)
    own.log(46, "recovery:congestion_state_updated", new="recovery")
    own.log(46, "transport:marked_for_retransmit", frames=[])
    own.metrics(46.2, congestion_window=7000)
    own.ack(60, 30, [[0, 0], [2, 7]])
    own.metrics(60, smoothed_rtt=44, latest_rtt=53, bytes_in_flight=0)
    own.metrics(98, congestion_window=6000)
    own.metrics(98.1, congestion_window=5000)
    return own


def test_a_story_tells_declared_losses_states_and_reductions_in_order(connection: Connection) -> None:
    before = Story("mine", "mine: UDP.", [Entry(30_000_000, "Delay rises.")], ["Summary: closed."])
    story = with_view(before, connection.view())
    assert [(entry.ns // 10_000, entry.text) for entry in story.entries] == [
        (0, "The stack enters the congestion state slow start."),
        (3000, "Delay rises."),
        (
            4500,
            "The stack declares 2 packets lost within 0.5 ms, numbers 1 and 4: 1 lost on the network and 1 "
            "not lost (number 4 arrived 21.5 ms before it was declared lost). Each was sent 41.5 ms to 44 ms "
            "earlier.",
        ),
        (4600, "The stack enters the congestion state recovery; cwnd 14.0 kB -> 7.00 kB."),
        (
            6000,
            "The stack's smoothed RTT is furthest from the actual one: 44.0 ms, while a round trip takes "
            "53.0 ms.",
        ),
        (9800, "The stack reduces its window: cwnd 7.00 kB -> 5.00 kB."),
    ]
    assert story.summary[:3] == [
        "Summary: closed.",
        "Stack and network: 2 packets declared lost, 50.0 % of them lost, 1 arrived; a loss was declared "
        "44.0 ms after its packet was sent (median). The network lost 1 datagram of the sender.",
        "Round-trip time: smoothed 42.0 ms, actual 47.0 ms; error 9.7 % (smoothed RTT) and 0.0 % (RTT "
        "samples); all medians.",
    ]


def test_a_packet_on_the_way_at_the_end_is_told_as_such(tmp_path: Path) -> None:
    own = Connection(tmp_path)
    own.send(0, ones(0), 10)
    own.send(1, ones(1), None)
    own.lose(30, 1)
    (entry,) = with_view(Story("mine", "mine."), own.view()).entries
    assert entry.text == (
        "The stack declares 1 packet lost, number 1: it was on the way when the run ended. It was sent 29 ms "
        "earlier."
    )


def test_events_have_what_the_stack_marked_for_retransmission(connection: Connection) -> None:
    marked = connection.view().events().filter(pl.col("event") == "marked-for-retransmit")
    assert marked.select("time_s", "source").rows() == [(pytest.approx(0.046), "stack")]


def test_steps_are_divided_by_source(connection: Connection, tmp_path: Path) -> None:
    file = tmp_path / "steps.csv"
    rows = ["0.0,mine,down,1000.0,1,,", "0.0,tcp,down,5.0,0,10,0.02", "0.0,,down,1005.0,1,,"]
    rows += ["0.05,mine,down,90.0,0,,", "0.05,,down,90.0,0,,"]
    file.write_text("\n".join([COLUMNS, *rows, ""]), encoding="utf-8")
    add_series(SeriesTarget(file, 50_000_000), {"mine": connection.view()})
    added = "source,cwnd_bytes,in_flight_bytes,rtt_s"
    assert file.read_text(encoding="utf-8").splitlines() == [
        f"{COLUMNS},{added}",
        "0.0,mine,down,1000.0,1,,,network,,0.0,0.041",
        "0.0,mine,down,,2,,0.04,stack,7000.0,4800.0,0.041",
        "0.0,tcp,down,5.0,0,,,network,,,",
        "0.0,tcp,down,,,10,0.02,stack,,,",
        "0.0,,down,1005.0,1,,,network,,,",
        "0.05,mine,down,90.0,0,,,network,,0.0,0.053",
        "0.05,mine,down,,0,,0.044,stack,5000.0,0.0,0.053",
        "0.05,,down,90.0,0,,,network,,,",
    ]


def test_panels_show_each_source_to_the_end(connection: Connection) -> None:
    view = connection.view()
    losses = {layer.mark.name: list(zip(layer.x, layer.y, strict=True)) for layer in loss_panel(view).layers}
    assert len(losses["sent"]) == 8
    assert losses["lost on the network"] == [(pytest.approx(0.001), 1)]
    assert losses["declared lost"] == [(pytest.approx(0.045), 1)]
    assert losses["declared lost, but arrived"] == [(pytest.approx(0.0455), 4)]
    windows = {layer.mark.name: (layer.x[-1], layer.y[-1]) for layer in window_panel(view).layers}
    assert windows["cwnd, by the stack"] == (pytest.approx(0.0981), 5000)
    assert windows["on the way, by the network"] == (pytest.approx(0.06), 0)
    trips = {layer.mark.name: layer.y for layer in trip_panel(view).layers}
    assert trips["actual RTT"] == [pytest.approx(0.041), pytest.approx(0.053)]
    assert trips["smoothed RTT of the stack"] == [0.04, 0.044]
