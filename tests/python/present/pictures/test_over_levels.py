"""Pictures of one run at several levels of a factor, or with several values of a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import lasthop
from conftest import STUDY
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.common.errors import InputError
from lasthop.present.pictures.files import PictureRequest, picture_run
from lasthop.present.pictures.marks import Shape
from lasthop.present.pictures.over import OverPicture
from lasthop.present.pictures.over_levels import picture_levels, read_over, runs_over
from lasthop.scenario.facts import Facts
from lasthop.scenario.points import read_study
from test_plot import assert_nothing_is_cut_off

EXAMPLES = STUDY.parents[1] / "examples"
MODERN = EXAMPLES / "modern.toml"
Main = Callable[..., int]


def one_of_each(file: Path, **levels: str) -> list[ChosenRun]:
    study = read_study(file)
    cells = [cell for cell in study.cells if levels.items() <= cell.levels.items()]
    plan = Plan(study, cells, study.seed, study.replications)
    return [ChosenRun(plan, cell, 1, 1) for cell in cells]


def drawn(file: Path, over: str, kinds: str, flows: Sequence[str] = (), **levels: str) -> OverPicture:
    read = read_over(over)
    runs = runs_over(one_of_each(file, **levels), read, file)
    return picture_levels(runs, read, kinds, flows, (None, None))


def test_each_line_is_the_run_of_a_cell() -> None:
    (panel,) = drawn(MODERN, "control=cubic,reno", "cwnd", link="lossy").panels
    assert [layer.mark.owner for layer in panel.layers] == ["control = cubic", "control = reno"]
    for control, layer in zip(("cubic", "reno"), panel.layers, strict=True):
        (run,) = one_of_each(MODERN, link="lossy", control=control)
        (alone,) = picture_run(run, PictureRequest(kinds="cwnd")).panels
        (cwnd,) = [own for own in alone.layers if own.mark.quantity == "cwnd"]
        assert (layer.x, layer.y) == (cwnd.x, cwnd.y)


def test_a_key_is_varied_like_a_factor() -> None:
    key = drawn(MODERN, "tcp.congestion_control=cubic,reno", "cwnd,queue", link="clean", control="reno")
    factor = drawn(MODERN, "control=cubic,reno", "cwnd,queue", link="clean")
    for mine, other in zip(key.panels, factor.panels, strict=True):
        assert [(own.x, own.y) for own in mine.layers] == [(own.x, own.y) for own in other.layers]
    assert "modern, control=reno,link=clean,tcp.congestion_control=cubic" in key.caption(key.panels)


def test_values_of_a_key_may_be_numbers_quantities_and_truth_values() -> None:
    first = EXAMPLES / "first.toml"
    delays, windows, sacks = (
        drawn(first, over, "rtt,cwnd").panels
        for over in ("down.link.delay=20 ms,100 ms", "tcp.initial_window=2,10", "tcp.sack=true,false")
    )
    assert delays[0].unit == "ms"
    low, high = (min(y for y in layer.y if y) for layer in delays[0].layers)
    assert high - low == pytest.approx(160, abs=1)  # both ways
    assert [layer.y[0] for layer in windows[1].layers] == [2, 10]
    assert len(sacks[1].layers) == 2


def test_several_flows_have_a_panel_each_and_their_goodput_is_summed() -> None:
    file = EXAMPLES / "two-flows.toml"
    found = drawn(file, "memory=none,cbi", "cwnd,goodput")
    assert [(panel.kind, panel.subject) for panel in found.panels] == [
        ("cwnd", "tcp-1"),
        ("cwnd", "tcp-2"),
        ("goodput", ""),
    ]
    chosen = drawn(file, "memory=none,cbi", "goodput,queue", ("tcp-2",))
    assert [(panel.kind, panel.subject) for panel in chosen.panels] == [("goodput", "tcp-2"), ("queue", "")]
    for width in ("column", "page"):
        assert_nothing_is_cut_off(found.of(found.panels), width)


def test_each_class_of_a_router_has_a_panel_of_its_queue() -> None:
    (run, *_) = one_of_each(EXAMPLES / "classes.toml")
    found = drawn(EXAMPLES / "classes.toml", "tcp.congestion_control=reno,cubic", "queue", **run.cell.levels)
    classes = [queue["name"] for queue in Facts.of(run.cell).sides[0]["queues"]]
    assert len(classes) > 1
    down = [panel for panel in found.panels if "class" in panel.subject]
    assert {panel.subject.rpartition(" ")[2] for panel in down} <= set(classes)
    for panel in down:
        lines = [layer for layer in panel.layers if layer.mark.shape is Shape.STEPS]
        assert [layer.mark.owner.rpartition(" ")[2] for layer in lines] == ["reno", "cubic"]


def test_equal_bad_periods_are_shaded_and_others_are_mentioned(tmp_path: Path) -> None:
    text = """
down.link = { rate = "1 Mbit/s", delay = "50 ms" }
flow = [{ kind = "bulk-tcp", bytes = "500 kB" }]
errors = { good = "1 s", bad = "500 ms", packet_error_probability = 0.1 }
[factor.bad]
short = {}
long.errors.bad = "800 ms"
"""
    file = tmp_path / "bad.toml"
    file.write_text(text, encoding="utf-8")
    same = drawn(file, "tcp.congestion_control=reno,cubic", "queue", bad="short")
    assert same.bad_periods
    other = drawn(file, "bad=short,long", "queue")
    assert not other.bad_periods
    assert "Bad periods of the link differ and are not shaded." in other.notes
    whole = drawn(MODERN, "control=cubic,reno", "cwnd", link="lossy")
    assert "The whole run is a bad period of the link." in whole.notes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--over", "control"), ["several distinct levels", "--over tcp.congestion_control=reno,cubic"]),
        (("--over", "control=reno,reno"), ["distinct"]),
        (("--over", "control=reno,cubik"), ["did you mean 'cubic'"]),
        (("--over", "contrl=reno,cubic"), ["there is no factor 'contrl'", "'control'"]),
        (("--over", "control=reno,cubic"), ["2 cells match at each level", "--only link=clean"]),
        (
            ("--over", "link=lossy,clean", "--only", "control=reno,link=clean"),
            ["--only selects no cell with link=lossy"],
        ),
        (("--over", "tcp.initial_window=3,10"), ["4 cells match"]),
        (("--over", "control=a,b,c,d,e,f,g,h"), ["at most 7 levels"]),
        (("--over", "link=lossy,clean", "--y", "elapsed_s"), ["--y is for plots of results"]),
        (("--over", "link=lossy,clean", "--kind", "stack"), ["'stack' cannot be drawn over"]),
        (
            ("--over", "tcp.congestion_control=reno,cubik", "--only", "control=reno,link=clean"),
            [
                "Error: --over tcp.congestion_control=reno,cubik: `tcp.congestion_control`",
                "did you mean `cubic`",
            ],
        ),
        (
            ("--over", "tcp.congestion_contrl=reno,cubic", "--only", "control=reno,link=clean"),
            ["unknown key `tcp.congestion_contrl`", "did you mean `congestion_control`"],
        ),
    ],
)
def test_what_cannot_be_drawn_over_levels_is_said(
    options: tuple[str, ...], words: list[str], lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("plot", MODERN, *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert not list(Path().iterdir())


def test_results_and_python_draw_the_same_levels(lasthop_main: Main) -> None:
    chosen = ("--only", "link=clean", "--replications", 2)
    assert lasthop_main("run", MODERN, *chosen, "--out", "out", "--quiet") == 0
    over = ("--over", "control=reno,cubic", "--kind", "cwnd", "--replication", 2)
    assert lasthop_main("plot", "out", *over, "--out", "folder.png") == 0
    assert lasthop_main("plot", MODERN, *chosen, *over, "--out", "file.png") == 0
    assert Path("folder.png").read_bytes() == Path("file.png").read_bytes()
    results = lasthop.run(lasthop.Scenario.load(MODERN), only="link=clean", replications=2, progress=False)
    results.plot.over_time("cwnd", 2, over="control=reno,cubic").save("python.png")
    assert Path("python.png").read_bytes() == Path("file.png").read_bytes()
    with pytest.raises(InputError, match="2 cells match"):
        results.plot.over_time("cwnd", over="tcp.initial_window=3,10")
