"""Pictures of a run: what they show, checked on a trace made by hand and on real ones, and the files they
become.
"""

from __future__ import annotations

import itertools
import math
import statistics
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import STUDY
from lasthop import _core
from lasthop.present.pictures import marks, static
from lasthop.present.pictures.cast import MOST_COLOURS, MOST_PANELS, Cast
from lasthop.present.pictures.files import draw
from lasthop.present.pictures.marks import Mark, Shape
from lasthop.present.pictures.panels import (
    KINDS,
    OF_EVERY_PACKET,
    USUAL_KINDS,
    panels,
    rate_window_s,
    sliding_rate,
)
from lasthop.present.pictures.shapes import BadPeriod, Layer, Panel, Picture
from lasthop.present.pictures.static import STYLE, figure_of
from lasthop.present.pictures.trace_tables import TraceTables
from lasthop.present.pictures.waterfall import waterfall_panels
from lasthop.present.report.trace import picture_figure, trace_figure
from lasthop.scenario.facts import Facts
from made_facts import one_hop
from observing import overviewed, traced

EXAMPLES = STUDY.parents[1] / "examples"
EXAMPLE = EXAMPLES / "two-flows.toml"
ONE_RUN = ("kulve2003", "--only", "link=e0,workload=2tcp1udp,variant=eifel+red", "--replication", 1)
MSS = 1000
MS = 1_000_000
WHOLE: dict[str, Any] = {
    "left_out": {"points": 0, "marks": 0, "flows": 0},
    "series": {
        name: [] for name in ("time_s", "flow", "direction", "goodput_Bps", "sending_flows", "step_s")
    },
    "delays": {"flow": [], "share": [], "delay_s": []},
}
OF_OVERVIEW = [kind for kind in KINDS if kind not in OF_EVERY_PACKET]
GOOD: dict[str, list[Any]] = {"start_s": [], "end_s": [], "hop": [], "direction": []}


def packet(ms: int, event: str, direction: str = "down", seq: int = 0, **values: object) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "time_ns": ms * MS,
        "event": event,
        "flow": 0,
        "direction": direction,
        "place": int(direction == "up"),
        "seq": seq,
        "end": seq + MSS if direction == "down" else seq,
        "payload_bytes": MSS if direction == "down" else 0,
        "ack": None,
        "sack": "",
        "window_bytes": 8000,
        "queue_packets": None,
        "queue_average": None,
        "fresh_bytes": MSS if event == "delivered" and direction == "down" else 0,
    }
    return plain | values


def tcp(ms: int, event: str, host: str = "server", **values: object) -> dict[str, Any]:
    names = ("seq", "cwnd", "ssthresh", "rtt_ns", "rto_ns")
    return {"time_ns": ms * MS, "flow": 0, "host": host, "event": event, **dict.fromkeys(names), **values}


def table(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.fixture
def by_hand() -> TraceTables:
    """Three segments: the second finds the queue full, the third makes a SACK, then the second goes again."""
    packets = [
        packet(0, "sent", seq=1),
        packet(0, "enqueued", seq=1, queue_packets=1, queue_average=0.5),
        packet(10, "sent", seq=1001),
        packet(11, "dropped-queue", seq=1001),
        packet(20, "sent", seq=2001),
        packet(20, "enqueued", seq=2001, queue_packets=2, queue_average=0.75),
        packet(30, "delivered", seq=1),
        packet(40, "delivered", "up", ack=1001, window_bytes=7000),
        packet(50, "delivered", seq=2001),
        packet(60, "delivered", "up", ack=1001, window_bytes=7000, sack="2001-3001"),
        packet(60, "sent", seq=1001),
        packet(70, "sent", seq=1001),
        packet(90, "delivered", seq=1001),
        packet(95, "delivered", seq=1001, fresh_bytes=0),
        packet(100, "delivered", "up", ack=3001, window_bytes=6000),
    ]
    events = [
        tcp(0, "window", cwnd=3),
        tcp(40, "rtt-sample", rtt_ns=40 * MS, rto_ns=200 * MS),
        tcp(60, "retransmitted-fast", seq=1001),
        tcp(60, "window", cwnd=2, ssthresh=2),
        tcp(70, "timeout", seq=1001),
        tcp(70, "retransmitted-timeout", seq=1001),
        tcp(70, "retransmitted-timeout", "client", seq=1),
        tcp(80, "window", cwnd=1, ssthresh=2),
        tcp(100, "undone-frto"),
    ]
    flows = {"flow": ["web"], "application": ["web"], "protocol": ["tcp"], "direction": ["down"]}
    states = {"start_s": [0.05, 5.0], "end_s": [0.08, 6.0], "hop": ["last-hop"] * 2, "direction": ["", ""]}
    none: dict[str, list[Any]] = {"flow": [], "object": []}
    trace: Any = SimpleNamespace(
        packets=table(packets),
        transport=table(events),
        objects=none,
        flows=flows,
        bad_periods=states,
        **WHOLE,
    )
    return TraceTables.of(trace, one_hop(*flows["application"]))


def rounded(values: Sequence[float | None]) -> list[Any]:
    return [None if value is None else round(value, 6) for value in values]


def layers(tables: TraceTables, kind: str) -> dict[str, Layer]:
    (panel,) = panels(tables, [kind])
    return {layer.mark.name: replace(layer, x=rounded(layer.x), y=rounded(layer.y)) for layer in panel.layers}


def test_sequence_panel_tells_the_story_of_a_loss(by_hand: TraceTables) -> None:
    shown = layers(by_hand, "sequence")
    bars = {
        name: list(zip(shown[name].x, shown[name].y, rounded(shown[name].far or ()), strict=True))
        for name in shown
        if shown[name].far
    }
    assert bars == {
        "segment sent": [(0.0, 0.001, 1.001), (0.01, 1.001, 2.001), (0.02, 2.001, 3.001)],
        "segment arrived": [
            (0.03, 0.001, 1.001),
            (0.05, 2.001, 3.001),
            (0.09, 1.001, 2.001),
            (0.095, 1.001, 2.001),
        ],
        "SACK block": [(0.06, 2.001, 3.001)],
        "fast retransmission": [(0.06, 1.001, 2.001)],
        "retransmission after timeout": [(0.07, 1.001, 2.001)],
        "dropped: router queue full": [(0.011, 1.001, 2.001)],
    }
    assert shown["segment sent"].labels == ["1:1001 (1000)", "1001:2001 (1000)", "2001:3001 (1000)"]
    assert (shown["acknowledged"].x, shown["acknowledged"].y) == ([0.04, 0.06, 0.1], [1.001, 1.001, 3.001])
    assert shown["advertised window"].y == [8.001, 8.001, 9.001]
    assert (shown["timer expired"].x, shown["timer expired"].y) == ([0.07], [1.001])


def test_window_time_queue_and_goodput_panels(by_hand: TraceTables) -> None:
    windows = layers(by_hand, "cwnd")
    assert windows["cwnd of web"].y == [3, 2, 1]
    assert windows["ssthresh of web"].y == [None, 2, 2]
    assert (windows["reduction undone"].x, windows["reduction undone"].y) == ([0.1], [1])

    times = layers(by_hand, "rtt")
    assert (times["RTT of web"].y, times["RTO of web"].y, times["timer expired"].y) == ([40], [200], [200])
    assert [panel.unit for panel in panels(by_hand)] == ["kB", "segments", "ms", "packets", "Mbit/s"]

    queue = layers(by_hand, "queue")
    assert (queue["packets in the router queue"].x, queue["packets in the router queue"].y) == (
        [0, 0.02],
        [1, 2],
    )
    assert queue["RED's average queue"].y == [0.5, 0.75]
    assert (queue["dropped: router queue full"].x, queue["dropped: router queue full"].y) == ([0.011], [1])

    # 0.1 s: about a thirtieth is 5 ms (of 1, 2, 5 and 10). The second copy of a segment brings nothing new.
    goodput = layers(by_hand, "goodput")["goodput of web"]
    assert goodput.x == [0.03, 0.035, 0.05, 0.055, 0.09, 0.095]
    assert goodput.y == [1.6, 0, 1.6, 0, 1.6, 0]


def test_an_average_over_bytes_stands_apart_from_packets(tmp_path: Path) -> None:
    red = 'min = "2000 B", max = "6000 B", max_probability = 0.1, weight = 0.1, idle_packet_time = "70 ms"'
    file = tmp_path / "bytes.toml"
    file.write_text(
        f'extends = "{EXAMPLE}"\n[down.queue]\nlimit = "11520 B"\nred = {{ {red} }}\n', encoding="utf-8"
    )
    cell = _core.load(str(file)).cells[0]
    queue, average = panels(TraceTables.of(overviewed(cell, 1, 1, 1), Facts.of(cell)), ["queue"])
    names = [layer.mark.name for layer in queue.layers]
    assert (queue.unit, average.unit) == ("packets", "kB")
    assert marks.RED_AVERAGE.name not in names
    assert max(value or 0 for value in queue.layers[0].y) > 9
    (line,) = average.layers
    assert 3 < max(value or 0 for value in line.y) < 11.52


def test_a_picture_shades_the_bad_periods_it_covers(by_hand: TraceTables) -> None:
    assert by_hand.picture([]).bad_periods == [BadPeriod(0.05, 0.08, "")]
    assert by_hand.picture([], 0.06, 0.07).bad_periods == [BadPeriod(0.06, 0.07, "")]
    assert by_hand.picture([], 0.08, 0.1).bad_periods == []


def test_a_bad_period_as_long_as_the_run_is_said_and_shades_nothing(by_hand: TraceTables) -> None:
    always = replace(by_hand, bad_periods=[BadPeriod(0.0, 1000.0, "")])
    picture = always.picture(panels(always))
    assert picture.bad_periods == []
    assert picture.notes == ["The whole run is a bad period of the link."]


@pytest.mark.parametrize(
    "key", ["link=r1,workload=2tcp1udp,variant=eifel+red", "link=r6,workload=2tcp0udp,variant=frto"]
)
def test_panels_agree_with_the_metrics_of_the_same_run(key: str) -> None:
    study = _core.load(str(STUDY / "study.toml"))
    (cell,) = [cell for cell in study.cells if cell.key == key]
    trace = overviewed(cell, study.seed, 1, 12)
    tables = TraceTables.of(trace, Facts.of(cell))
    found = panels(tables)
    metrics = pl.DataFrame(traced(cell, study.seed, 1, 12).flows, strict=False)
    again_marks = {mark.name for mark in marks.RETRANSMISSIONS.values()}
    for flow, panel in zip(tables.flows[:2], found[:2], strict=True):
        row = metrics.row(flow.number, named=True)
        count = {layer.mark.name: len(layer.x) for layer in panel.layers}
        again = sum(number for name, number in count.items() if name in again_marks)
        assert again == row["retransmitted_packets"] > 0
        # The SYN takes a sequence number and has no data; the FIN goes with the last data.
        assert count["segment sent"] == row["sent_packets"] - again + 1
        assert count.get("dropped: router queue full", 0) == row["data_drops_queue"]
        assert count.get("dropped: RED", 0) == row["data_drops_red"]
        on_the_link = count.get("dropped: link error", 0) + count.get("dropped: ARQ gave up", 0)
        assert on_the_link == row["data_drops_error"]
        assert count.get("timer expired", 0) == row["timeouts"]


def test_tail_loss_probes_are_no_fast_retransmissions(by_hand: TraceTables) -> None:
    fast = pl.col("event") == "retransmitted-fast"
    probe = pl.when(fast).then(pl.lit("retransmitted-probe")).otherwise("event").alias("event")
    new = by_hand.transport.filter(event="retransmitted-fast").with_columns(
        event=pl.lit("tail-loss-probe"), time_ns=pl.lit(20 * MS, pl.Int64), seq=pl.lit(2001, pl.Int64)
    )
    shown = layers(
        replace(by_hand, transport=pl.concat([by_hand.transport.with_columns(probe), new])), "sequence"
    )
    assert "fast retransmission" not in shown
    assert (shown["tail loss probe"].x, shown["tail loss probe"].y) == ([0.06], [1.001])
    assert (shown["tail loss probe with new data"].x, shown["tail loss probe with new data"].y) == (
        [0.02],
        [2.001],
    )


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 1500))), st.integers(1, 8))
def test_sliding_rate_is_the_sum_over_the_window_before(arrivals: list[tuple[int, int]], window: int) -> None:
    x, y = sliding_rate(arrivals, window)
    assert x == sorted(set(x))
    for time in range(70):
        at_once = [rate for start, rate in zip(x, y, strict=True) if start <= time]
        summed = sum(size for arrived, size in arrivals if time - window < arrived <= time)
        assert (at_once[-1] if at_once else 0) == summed / window


@given(st.floats(0.001, 1e6))
def test_rate_window_is_round_and_about_a_thirtieth(duration: float) -> None:
    window = rate_window_s(duration)
    assert f"{window:.0e}"[0] in "125"
    assert 0.6 < window / (duration / 30) < 1.7


def height_at(layer: Layer, time: float) -> float | None:
    before = [y for x, y in zip(layer.x, layer.y, strict=True) if x <= time]
    return before[-1] if before else None


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1),
    st.integers(0, 20),
    st.integers(1, 20),
)
def test_cutting_steps_keeps_their_height(points: list[tuple[int, int]], start: int, length: int) -> None:
    points.sort()
    steps = Layer(marks.CWND, [x for x, _ in points], [y for _, y in points])
    cut = steps.within(start, start + length)
    assert all(start <= x <= start + length for x in cut.x)
    # Between steps: at a step, heights of the same time may stand above each other.
    for time in range(start, start + length):
        assert height_at(cut, time + 0.5) == height_at(steps, time + 0.5)


def luminance(color: str) -> float:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_what_shares_a_panel_differs_in_more_than_colour() -> None:
    sequence = [
        *(marks.SEGMENT, marks.ACKNOWLEDGED, marks.ADVERTISED, marks.SACK, marks.TIMER),
        *marks.RETRANSMISSIONS.values(),
        *marks.DROPS.values(),
    ]

    def look(mark: Mark) -> object:
        return mark.shape, mark.symbol, mark.dash, mark.size > 3

    assert len({look(mark) for mark in sequence}) == len(sequence)
    first, second, third = (luminance(color) for color in marks.FLOW_COLORS[:3])
    assert abs(first - second) > 40
    assert abs(second - third) > 30


def test_every_drop_retransmission_and_undo_of_the_engine_has_a_mark() -> None:
    kinds = {kind["name"]: kind["role"] for kind in _core.EVENT_KINDS}
    assert {name for name, role in kinds.items() if role == "retransmission"} == set(marks.RETRANSMISSIONS)
    assert {name for name, role in kinds.items() if role == "undo"} == set(marks.UNDOS)
    assert {cause["event"] for cause in _core.DROP_CAUSES} == set(marks.DROPS)


def test_paper_plots_have_every_symbol_of_the_engine() -> None:
    named = [*_core.EVENT_KINDS, *_core.DROP_CAUSES]
    assert {row["symbol"] for row in named} - {""} <= set(static.SYMBOLS)


# Files


def png_size(path: Path) -> tuple[int, int]:
    """Width and height in pixels; every chunk's checksum is checked on the way."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    position, kinds = 8, []
    while position < len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        body = data[position + 8 : position + 8 + length]
        assert struct.unpack_from(">I", data, position + 8 + length) == (zlib.crc32(kind + body),)
        kinds.append(kind)
        position += 12 + length
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def test_a_folder_gets_a_picture_of_each_kind(tmp_path: Path, lasthop_main: Callable[..., int]) -> None:
    out = tmp_path / "pictures"
    assert lasthop_main("plot", *ONE_RUN, "--width", "column", "--out", out) == 0
    names = ["sequence-tcp-1", "sequence-tcp-2", "cwnd", "rtt", "queue", "goodput"]
    assert sorted(file.name for file in out.iterdir()) == sorted(f"{name}.png" for name in names)
    for file in out.iterdir():
        width, height = png_size(file)
        assert width == 1050  # 3.5 inches at 300 dots per inch
        assert 400 < height < 1200


def test_svg_holds_every_panel_as_vectors_and_the_same_bytes_every_time(
    tmp_path: Path, lasthop_main: Callable[..., int]
) -> None:
    files = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for file in files:
        assert lasthop_main("plot", *ONE_RUN, "--out", file, "--quiet") == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    root = ElementTree.parse(files[0]).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{svg}svg"
    assert root.get("width") == "518.4pt"  # 7.2 inches
    assert sum(group.get("id", "").startswith("axes_") for group in root.iter(f"{svg}g")) == 6
    assert not list(root.iter(f"{svg}image"))


def test_pdf_has_embedded_truetype_fonts(tmp_path: Path, lasthop_main: Callable[..., int]) -> None:
    file = tmp_path / "new" / "queue.PDF"
    assert lasthop_main("plot", *ONE_RUN, "--kind", "queue,goodput", "--out", file) == 0
    data = file.read_bytes()
    assert data.startswith(b"%PDF-1.")
    assert data.rstrip().endswith(b"%%EOF")
    assert b"/FontFile2" in data
    assert b"/Type3" not in data
    assert b"/Subtype /Image" not in data


def test_chosen_kind_flow_and_times(tmp_path: Path, lasthop_main: Callable[..., int]) -> None:
    chosen = ("--kind", "sequence,rtt", "--flow", "tcp-2", "--from", 5, "--to", 12.5)
    assert lasthop_main("plot", *ONE_RUN, *chosen, "--format", "svg", "--out", tmp_path / "out") == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["rtt.svg", "sequence-tcp-2.svg"]


def test_udp_alone_has_no_pictures_of_tcp(tmp_path: Path, lasthop_main: Callable[..., int]) -> None:
    assert lasthop_main("plot", *ONE_RUN, "--flow", "udp", "--out", tmp_path / "out") == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["goodput.png", "queue.png"]


def test_without_options_a_run_becomes_a_file_of_the_scenarios_name(
    lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    one_cell = (EXAMPLE, "--only", "memory=none", "--kind", "queue")
    assert lasthop_main("plot", *one_cell) == 0
    assert capsys.readouterr().out == "two-flows, memory=none, replication 1 of set 1:\n  two-flows.png\n"
    first = Path("two-flows.png").read_bytes()
    assert lasthop_main("plot", *one_cell, "--replication", 1) == 0
    assert Path("two-flows.png").read_bytes() == Path("two-flows-2.png").read_bytes() == first
    assert lasthop_main("plot", *one_cell, "--format", "svg") == 0
    assert sorted(path.name for path in Path().iterdir()) == [
        "two-flows-2.png",
        "two-flows.png",
        "two-flows.svg",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--out", "a.jpg"), ["png, svg, pdf", "'a.png'"]),
        (("--out", "a.svg", "--format", "pdf"), ["--format pdf", "already determines the format"]),
        (("--out", "a.svg", "--kind", "queue,cwn"), ["'cwn'", "did you mean 'cwnd'", "sequence, cwnd, rtt"]),
        (("--out", "a.svg", "--kind", "box"), ["'box' is a picture of results", "folder"]),
        (("--out", "a.svg", "--flow", "tcp2"), ["did you mean 'tcp-2'", "tcp-1, tcp-2, udp"]),
        (("--out", "a.svg", "--kind", "waterfall"), ["'waterfall' shows page loads", "tcp-1, tcp-2, udp"]),
        (("--out", "a.svg", "--flow", "udp", "--kind", "queue,rtt"), ["'rtt' shows TCP", "udp is UDP"]),
        (("--out", "a.svg", "--from", "500"), ["--from 500", "the run ends at"]),
        (("--out", "a.svg", "--from", "9", "--to", "8"), ["--from 9 --to 8"]),
        (("--out", "a.svg", "--width", "3"), ["--width", "'column', 'page'"]),
        (("--out", "there"), ["there already exists", "--out"]),
        (("--out", "there.svg"), ["there.svg already exists"]),
        (("--out", "there.svg/x/y.svg"), ["Cannot write to there.svg/x/y.svg"]),
        (("--out", "a.svg", "--set", "0"), ["--set"]),
    ],
)
def test_what_cannot_be_drawn_is_said_and_leaves_nothing(
    options: tuple[str, ...],
    words: list[str],
    lasthop_main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("there").mkdir()
    Path("there.svg").touch()
    assert lasthop_main("plot", *ONE_RUN, *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert "Traceback" not in error
    assert sorted(str(path) for path in Path().iterdir()) == ["there", "there.svg"]


def test_a_failure_while_drawing_leaves_no_folder(
    tmp_path: Path,
    lasthop_main: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(picture: Picture, *rest: object) -> None:
        if picture.panels[0].kind == "rtt":
            raise OSError("No space left on device")
        draw(picture, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("lasthop.present.pictures.files.draw", full)
    assert lasthop_main("plot", *ONE_RUN, "--kind", "cwnd,rtt", "--out", tmp_path / "out") == 2
    assert "No space left" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_users_matplotlib_settings_change_nothing(by_hand: TraceTables, tmp_path: Path) -> None:
    import matplotlib as mpl

    picture = by_hand.picture(panels(by_hand))
    draw(picture, tmp_path / "plain.png", "png", "column")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        draw(picture, tmp_path / "set.png", "png", "column")
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "set.png").read_bytes()


# Page loads

PAGE = pl.DataFrame(
    [
        ("p1", "inline-1", 1, 0.0, 2.25, 2.9, 3.6, 3.6),
        ("p1", "main", 1, 0.0, 0.5, 1.25, 2.25, 2.25),
        ("p1", "inline-2", 2, 2.25, 2.75, 3.5, None, None),
        ("p0", "main", 1, 9.0, None, None, None, None),
    ],
    schema=[
        "page",
        "object",
        "connection",
        "t_connect_s",
        "t_request_s",
        "t_first_byte_s",
        "t_last_byte_s",
        "t_end_s",
    ],
    orient="row",
)


def test_a_waterfall_has_a_row_per_object_in_the_order_of_requests() -> None:
    empty, page = waterfall_panels(PAGE)
    assert (empty.subject, empty.rows, empty.layers) == ("p0", ["main, connection 1"], [])
    assert page.rows == ["main, connection 1", "inline-1, connection 1", "inline-2, connection 2"]
    spans = {
        layer.mark.name: list(zip(layer.y, layer.x, layer.far or (), strict=True)) for layer in page.layers
    }
    assert spans == {
        "connecting": [(0, 0.0, 0.5), (2, 2.25, 2.75)],  # inline-1 uses the connection of main
        "waiting for the first byte": [(0, 0.5, 1.25), (1, 2.25, 2.9), (2, 2.75, 3.5)],
        "receiving": [(0, 1.25, 2.25), (1, 2.9, 3.6)],
        "ending": [(0, 2.25, 2.25), (1, 3.6, 3.6)],
    }
    assert all(layer.mark.shape is Shape.SPANS for layer in page.layers)


def test_without_objects_there_is_no_waterfall(by_hand: TraceTables) -> None:
    assert waterfall_panels(PAGE.clear()) == []
    assert panels(by_hand, ["waterfall"]) == []


def test_a_waterfall_is_drawn_on_paper_and_on_screen(tmp_path: Path) -> None:
    picture = Picture(waterfall_panels(PAGE), 0.0, 10.0, [])
    draw(picture, tmp_path / "page.png", "png", "page")
    assert png_size(tmp_path / "page.png")[0] == 2160
    figure = picture_figure(picture)
    bars = [trace for trace in figure["data"] if trace["name"] == "receiving"]
    assert [(bar["base"], bar["x"], bar["y"]) for bar in bars] == [([1.25, 2.9], [1.0, 0.7], [0.0, 1.0])]
    assert figure["layout"]["yaxis2"]["ticktext"] == [
        "main, connection 1",
        "inline-1, connection 1",
        "inline-2, connection 2",
    ]


def test_a_page_of_a_thousand_objects_fits_on_a_page(tmp_path: Path) -> None:
    times = {
        "t_connect_s": 0.0,
        "t_request_s": 0.5,
        "t_first_byte_s": 1.0,
        "t_last_byte_s": 2.0,
        "t_end_s": None,
    }
    rows = [{"page": "p", "object": f"inline-{i}", "connection": i, **times} for i in range(1500)]
    picture = Picture(waterfall_panels(pl.DataFrame(rows, schema=PAGE.schema)), 0.0, 10.0, [])
    draw(picture, tmp_path / "page.png", "png", "column")
    assert png_size(tmp_path / "page.png")[1] < 300 * 10


def test_a_page_load_is_put_together_from_objects_and_packets() -> None:
    """Two objects over one connection; a third over another one, whose server never answers."""
    packets = [
        packet(0, "sent", "up", flow=1, seq=0, end=1, flags=2),
        packet(300, "delivered", flow=1, seq=0, end=1, flags=18),
        packet(300, "sent", "up", flow=1, seq=1, end=101, ack=1, flags=16),
        packet(900, "delivered", flow=1, seq=1, end=2001, flags=16),
        packet(900, "sent", "up", flow=2, seq=0, end=1, flags=2),
        packet(1500, "delivered", flow=1, seq=2001, end=3002, flags=17),
        packet(1500, "sent", "up", flow=1, seq=101, end=101, ack=2001, flags=16),
        packet(1600, "sent", "up", flow=1, seq=101, end=101, ack=3002, flags=16),
    ]
    objects = {
        "flow": [1, 1, 2],
        "object": [0, 1, 2],
        "request_ns": [0, 900 * MS, 900 * MS],
        "first_byte_ns": [900 * MS, 1200 * MS, None],
        "last_byte_ns": [1000 * MS, 1500 * MS, None],
    }
    flows = {
        "flow": ["tcp-1", "p/connection-1", "p/connection-2"],
        "application": ["tcp-1", "p", "p"],
        "protocol": ["tcp"] * 3,
        "direction": ["down"] * 3,
    }
    trace: Any = SimpleNamespace(
        packets=table(packets),
        transport=table([tcp(0, "window")]),
        objects=objects,
        flows=flows,
        bad_periods=GOOD,
        **WHOLE,
    )
    tables = TraceTables.of(trace, one_hop(*flows["application"]))
    times = ["t_connect_s", "t_request_s", "t_first_byte_s", "t_last_byte_s", "t_end_s"]
    assert tables.objects.select("page", "object", "connection", pl.col(times).round(6)).rows() == [
        ("p", "main", 1, 0.0, 0.3, 0.9, 1.0, None),  # asked for once connected
        ("p", "inline-1", 1, 0.0, 0.9, 1.2, 1.5, 1.6),
        ("p", "inline-2", 2, 0.9, 0.9, None, None, None),
    ]
    (page,) = panels(tables, ["waterfall"])
    assert (page.kind, page.label, len(page.rows)) == ("waterfall", "p", 3)
    assert panels(tables, ["waterfall"], Cast.of(tables, tables.flows[:1])) == []
    figure, said = trace_figure(trace, one_hop(*flows["application"]))
    assert said == ""
    assert figure["data"][0]["type"] == "bar"


def test_a_router_with_classes_has_a_line_for_each() -> None:
    def queued(
        ms: int, event: str, flow: int, queue_class: int | None, length: int | None, **more: float
    ) -> dict[str, Any]:
        return packet(ms, event, flow=flow, queue_class=queue_class, queue_class_packets=length, **more)

    packets = [
        queued(0, "enqueued", 0, 1, 1, queue_packets=1, queue_average=0.5),
        queued(10, "enqueued", 1, 0, 1, queue_packets=2),
        queued(20, "enqueued", 0, 1, 2, queue_packets=3, queue_average=0.75),
        queued(30, "dropped-queue", 0, None, None),
        queued(40, "dequeued", 1, 0, 0, queue_packets=2),
    ]
    names = ["web", "voice"]
    flows = {"flow": names, "application": names, "protocol": ["tcp", "udp"], "direction": ["down"] * 2}
    trace: Any = SimpleNamespace(
        packets=table(packets),
        transport=table([tcp(0, "window")]),
        objects={"flow": [], "object": []},
        flows=flows,
        bad_periods=GOOD,
        **WHOLE,
    )
    queue = layers(TraceTables.of(trace, one_hop(*names, queues=["ef", "be"])), "queue")
    drawn = {name: (layer.x, layer.y) for name, layer in queue.items()}
    assert drawn == {
        "packets in the router queue of class ef": ([0.01, 0.04], [1, 0]),
        "packets in the router queue of class be": ([0, 0.02], [1, 2]),
        "RED's average queue of class be": ([0, 0.02], [0.5, 0.75]),
        "dropped: router queue full": ([0.03], [2]),  # at the length of its own class
    }
    one = layers(TraceTables.of(trace, one_hop(*names, queues=["all"])), "queue")
    assert one["packets in the router queue"].y == [1, 2, 3, 2]


def test_every_kind_has_a_panel(by_hand: TraceTables) -> None:
    assert ["waterfall", *(panel.kind for panel in panels(by_hand))] == list(USUAL_KINDS)
    quiet = replace(by_hand, packets=by_hand.packets.clear(), transport=by_hand.transport.clear())
    assert all(isinstance(panel, Panel) and panel.layers == [] for panel in panels(quiet))


@pytest.fixture(scope="module")
def many() -> TraceTables:
    """Return a run of hundreds of short flows."""
    study = _core.load(str(EXAMPLES / "short-flows.toml"))
    return TraceTables.of(overviewed(study.cells[1], study.seed, 1, 1), Facts.of(study.cells[1]))


def colours(drawn: Sequence[Panel]) -> dict[str, set[str]]:
    """Return the colours in which each flow is drawn, in any panel."""
    found: dict[str, set[str]] = {}
    for mark in (layer.mark for panel in drawn for layer in panel.layers):
        if mark.owner:
            found.setdefault(mark.owner.removeprefix("class "), set()).add(mark.color)
    return found


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("diffserv", "router=classes,queue=red"),
        ("two-flows", "memory=none"),
        ("modern", "control=cubic,link=lossy"),
    ],
)
def test_a_flow_has_one_colour_in_all_panels(file: str, key: str) -> None:
    study = _core.load(str(EXAMPLES / f"{file}.toml"))
    (cell,) = [cell for cell in study.cells if cell.key == key]
    trace = overviewed(cell, study.seed, 1, 1)
    tables = TraceTables.of(trace, Facts.of(cell))
    drawn = colours(panels(tables))
    assert drawn == {flow.name: {marks.FLOW_COLORS[flow.number]} for flow in tables.flows}
    for number, flow in enumerate(tables.flows):  # also where it is drawn alone
        assert colours(panels(tables, OF_OVERVIEW, Cast.of(tables, [flow])))[flow.name] == {
            marks.FLOW_COLORS[number]
        }
    figure, _ = trace_figure(trace, Facts.of(cell))
    for entry in figure["data"]:
        flow_name = entry["name"].rpartition(" of ")[2].removeprefix("class ")
        if flow_name in drawn:
            color = entry["line"]["color"] if "line" in entry else entry["marker"]["color"]
            assert {color} == drawn[flow_name], entry["name"]


def test_expiries_of_the_timer_have_the_colour_of_their_flow() -> None:
    study = _core.load(str(STUDY / "study.toml"))
    (cell,) = [cell for cell in study.cells if cell.key == "link=r6,workload=2tcp0udp,variant=frto"]
    tables = TraceTables.of(overviewed(cell, study.seed, 1, 12), Facts.of(cell))
    (panel,) = panels(tables, ["rtt"])
    expired = [layer.mark for layer in panel.layers if layer.mark.name == "timer expired"]
    assert [mark.color for mark in expired] == list(marks.FLOW_COLORS[:2])
    assert {mark.symbol for mark in expired} == {"circle-open"}


def test_what_happened_to_a_flow_has_a_colour_that_no_flow_has() -> None:
    events = [
        *marks.RETRANSMISSIONS.values(),
        *marks.DROPS.values(),
        marks.ECN_MARK,
        marks.SACK,
        marks.ACKNOWLEDGED,
    ]
    queues = [marks.QUEUE.color, marks.RED_AVERAGE.color, *marks.CLASS_COLORS]
    phases = [mark.color for mark in (marks.CONNECTING, marks.WAITING, marks.RECEIVING, marks.ENDING)]
    assert not {*(mark.color for mark in events), *queues, *phases} & {*marks.FLOW_COLORS}


def test_of_many_flows_those_that_tell_most_have_colours_and_panels(many: TraceTables) -> None:
    cast = Cast.of(many)
    assert len(cast.looks) == MOST_COLOURS == len({look.color for look in cast.looks.values()})
    assert cast.others.name == f"{len(many.flows) - MOST_COLOURS} other flows"
    assert cast.others.color not in marks.FLOW_COLORS

    def retransmitted(number: int) -> int:
        events = many.transport.filter(pl.col("flow") == number)
        return events["event"].str.starts_with("retransmitted").sum()

    least = min(map(retransmitted, cast.looks))
    assert least > 5
    assert statistics.mean(retransmitted(flow.number) for flow in many.flows) < 1
    drawn = panels(many)
    assert [panel.kind for panel in drawn].count("sequence") == MOST_PANELS
    assert len(drawn) == MOST_PANELS + 4
    names = {layer.mark.owner for panel in drawn for layer in panel.layers}
    assert len(names - {""}) == MOST_COLOURS + 2  # the others, and the others together
    first, second = cast.notes(drawn)
    assert f"{MOST_PANELS} of {len(many.flows)} TCP flows have a panel" in first
    assert f"{MOST_COLOURS} of {len(many.flows)} flows have a colour" in second


def test_flows_asked_for_have_panels_and_colours_and_no_others_are_drawn(many: TraceTables) -> None:
    named = many.flows[10:16]
    cast = Cast.of(many, named)
    drawn = panels(many, ["sequence", "cwnd"], cast)
    assert [panel.subject for panel in drawn] == [*(flow.name for flow in named), ""]
    assert {layer.mark.owner for layer in drawn[-1].layers} == {flow.name for flow in named}
    assert cast.notes(drawn) == []


def test_goodput_of_flows_without_a_colour_is_their_sum(many: TraceTables) -> None:
    (panel,) = panels(many, ["goodput"])
    assert panel.unit == "kbit/s"
    together = next(layer for layer in panel.layers if layer.mark.color == marks.OTHERS_COLOR)
    assert together.mark.owner.endswith("other flows together")
    assert 60 < together.peak() < 128  # of a link of 128 kbit/s at 85 % load


def test_hundreds_of_flows_take_a_bounded_picture(
    tmp_path: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.png"
    assert lasthop_main("plot", EXAMPLES / "short-flows.toml", "--only", "load=busy", "--out", out) == 0
    said = capsys.readouterr().out
    assert "4 of 458 TCP flows have a panel" in said
    assert "7 of 458 flows have a colour" in said
    assert "--flow" in said
    width, height = png_size(out)
    assert (width, height < 4 * width) == (2160, True)


def assert_nothing_is_cut_off(picture: Picture, width: str) -> None:
    """Hold what is drawn, legends and notes too, to the figure's edges; in inches."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = figure_of(picture, width)
        drawn = figure.get_tightbbox()
        for axes in figure.axes:
            assert axes.yaxis.label.get_window_extent().height <= axes.get_window_extent().height
    right, top = figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) >= 0
    assert (drawn.x1 <= right, drawn.y1 <= top) == (True, True)


@pytest.mark.parametrize(
    ("file", "number", "width"),
    [
        ("web-page", 1, "column"),
        ("diffserv", 3, "column"),
        ("handover", 2, "page"),
        ("short-flows", 1, "page"),
        ("modern", 3, "column"),
    ],
)
def test_nothing_is_cut_off(file: str, number: int, width: str) -> None:
    study = _core.load(str(EXAMPLES / f"{file}.toml"))
    cell = study.cells[number]
    tables = TraceTables.of(overviewed(cell, study.seed, 1, 1), Facts.of(cell))
    cast = Cast.of(tables)
    drawn = panels(tables, OF_OVERVIEW, cast)
    assert_nothing_is_cut_off(tables.picture(drawn, notes=cast.notes(drawn)), width)


def test_a_long_name_is_shortened_to_fit(by_hand: TraceTables) -> None:
    flow = replace(by_hand.flows[0], name="a-name-that-nobody-would-want-to-read-in-a-legend" * 3)
    assert_nothing_is_cut_off(by_hand.picture(panels(replace(by_hand, flows=[flow]))), "column")


def seen_by(matrix: Sequence[Sequence[float]], color: str) -> tuple[float, ...]:
    """Return a colour in CIE Lab as it is after a linear transform of its light."""
    light = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in light]

    def times(rows: Sequence[Sequence[float]], vector: Sequence[float]) -> list[float]:
        return [max(0.0, sum(a * b for a, b in zip(row, vector, strict=True))) for row in rows]

    xyz = times(
        [(0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)], times(matrix, linear)
    )
    x, y, z = (
        value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116
        for value in (xyz[0] / 0.9505, xyz[1], xyz[2] / 1.089)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize(
    "matrix",
    [  # Machado, Oliveira and Fernandes (2009), severity 1: protanopia, deuteranopia, tritanopia
        [(0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)],
        [(0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)],
        [(1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)],
    ],
)
def test_colour_blind_readers_tell_flows_apart(matrix: Sequence[Sequence[float]]) -> None:
    seen = [seen_by(matrix, color) for color in (*marks.FLOW_COLORS, marks.OTHERS_COLOR)]
    assert min(math.dist(one, other) for one, other in itertools.combinations(seen, 2)) > 12


SHARED = """
[down.link]
rate = "2 Mbit/s"
delay = "20 ms"
errors = { good = { distribution = "exponential", mean = "1 s" }, bad = "200 ms", \
packet_error_probability = 0.2 }
[up.link]
rate = "2 Mbit/s"
errors = { good = { distribution = "exponential", mean = "1 s" }, bad = "100 ms", \
packet_error_probability = 0.2 }
[[down.link.change]]
at = "2 s"
rate = "1 Mbit/s"
"""
BULK = '[[flow]]\nkind = "bulk-tcp"\nname = "bulk-{}"\nbytes = "100 kB"\n'


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> TraceTables:
    """Ten flows over a link whose rate changes, which has errors of its own, and the same up."""
    file = tmp_path_factory.mktemp("shared") / "shared.toml"
    file.write_text(SHARED + "".join(BULK.format(number) for number in range(10)), encoding="utf-8")
    cell = _core.load(str(file)).cells[0]
    return TraceTables.of(overviewed(cell, 1, 1, 1), Facts.of(cell))


def test_a_stack_ends_at_the_goodput_of_all_below_the_capacity(shared: TraceTables) -> None:
    (panel,) = panels(shared, ["stack"])
    *bands, capacity = panel.layers
    assert len(bands) == MOST_COLOURS + 1
    assert bands[-1].mark.owner == "3 other flows together"
    for below, above in itertools.pairwise(bands):
        assert list(above.y) == list(below.far or ())
    step = shared.series["step_s"][0]
    sent = sum((high or 0) for high in list(bands[-1].far or ())[:-1]) * 1e6 / 8 * step
    assert sent == pytest.approx(10 * 100_000)
    assert {round(value or 0, 9) for value in capacity.y} == {2.0, 1.0}
    # What was under way when the rate fell arrives later, so sums are compared.
    brought, could = (
        list(itertools.accumulate(v or 0 for v in line)) for line in (bands[-1].far or (), capacity.y)
    )
    assert all(a <= b for a, b in zip(brought, could, strict=True))


def test_a_stack_of_a_named_flow_has_the_others_in_grey(shared: TraceTables) -> None:
    cast = Cast.of(shared, shared.flows[3:4])
    (panel,) = panels(shared, ["stack"], cast)
    assert [layer.mark.owner for layer in panel.layers] == ["bulk-3", "9 other flows together", ""]
    (delays,) = panels(shared, ["delay"], cast)
    colors = [layer.mark.color for layer in delays.layers]
    assert colors == [marks.OTHERS_COLOR] * 9 + [marks.FLOW_COLORS[0]]


def test_delays_are_distribution_functions_over_an_axis_of_their_own(shared: TraceTables) -> None:
    (panel,) = panels(shared, ["delay"])
    assert panel.across == "one-way delay (ms)"
    assert panel.within(1.0, 1.1) is panel
    for layer in panel.layers:
        assert list(layer.x) == sorted(layer.x)
        assert (layer.y[0], layer.y[-1]) == (0.0, 1.0)
        assert min(layer.x) > 20.0  # the link's delay


def test_fairness_is_drawn_where_several_flows_have_data(shared: TraceTables) -> None:
    (panel,) = panels(shared, ["fairness"])
    (layer,) = panel.layers
    assert all(value is None or 0.1 <= value <= 1.0 for value in layer.y)
    one = replace(shared, series=shared.series.with_columns(sending_flows=pl.lit(1)))
    assert panels(one, ["fairness"]) == []


def test_errors_of_a_direction_of_its_own_are_shaded(shared: TraceTables) -> None:
    directions = {period.direction for period in shared.bad_periods}
    assert directions == {"down", "up"}
    picture = shared.picture(panels(shared, ["stack"]))
    fills = {shape["fillcolor"] for shape in picture_figure(picture)["layout"]["shapes"]}
    assert fills == {marks.BAD_PERIODS[direction].color for direction in directions}
    axes = figure_of(picture, "page").axes[0]
    assert len(axes.get_legend().get_texts()) >= MOST_COLOURS + len(directions)


@pytest.mark.parametrize("kind", ["stack", "fairness", "delay"])
def test_kinds_on_request_become_files(
    lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    assert lasthop_main("plot", EXAMPLE, "--only", "memory=none", "--kind", kind, "--out", "picture.svg") == 0
    assert ElementTree.parse("picture.svg").getroot().tag.endswith("svg")
    assert "left out" not in capsys.readouterr().out
    assert lasthop_main("plot", EXAMPLES / "first.toml", "--kind", kind) == (2 if kind == "fairness" else 0)
