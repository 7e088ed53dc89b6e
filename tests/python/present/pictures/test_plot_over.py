"""Pictures over replications, and captions in files of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lasthop.campaign.folded import fold
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.common.metrics.units import scale
from lasthop.present.pictures.marks import Shape
from lasthop.present.pictures.over import picture_over
from lasthop.present.pictures.static import figure_of
from lasthop.present.report.trace import picture_figure
from lasthop.scenario.points import read_study
from test_plot import MS, assert_nothing_is_cut_off, png_size

OVER = """
replications = 5
down.link = { rate = "1 Mbit/s", delay = "30 ms", loss = "1 %" }

[[flow]]
kind = "bulk-tcp"
name = "one"
bytes = "200 kB"
start = { distribution = "uniform", min = "0 s", max = "1 s" }

[[flow]]
kind = "bulk-tcp"
name = "two"
bytes = "200 kB"
start = { distribution = "uniform", min = "0 s", max = "1 s" }

[factor.queue]
short.down.queue.limit = "10 packets"
long.down.queue.limit = "100 packets"

[factor.side]
a = {}
"""


@pytest.fixture
def over(tmp_path: Path) -> Path:
    file = tmp_path / "over.toml"
    file.write_text(OVER, encoding="utf-8")
    return file


def one_of_each(file: Path, replications: int = 5) -> list[ChosenRun]:
    study = read_study(file)
    plan = Plan(study, study.cells, study.seed, replications)
    return [ChosenRun(plan, cell, 1, 1) for cell in study.cells]


def test_over_replications_each_level_has_its_median_above_the_bands(over: Path) -> None:
    runs = one_of_each(over)
    found = picture_over(runs, "goodput,cwnd,fairness", (), (None, None))
    assert [(panel.kind, panel.subject) for panel in found.panels] == [
        ("goodput", ""),
        ("cwnd", "one"),
        ("cwnd", "two"),
        ("fairness", ""),
    ]
    (step,) = {name for note in found.notes for name in ("100 ms", "200 ms") if name in note}
    tables = [fold(run, int(step.split()[0]) * MS) for run in runs]
    goodput = found.panels[0]
    shapes = [layer.mark.shape for layer in goodput.layers]
    assert shapes == sorted(shapes, key=[Shape.BANDS, Shape.STEPS].index)
    for table, level in zip(tables, ("queue = short", "queue = long"), strict=True):
        rows = table.filter(pl.col("flow").is_null(), direction="down", metric="goodput_Bps")
        (line,) = [layer for layer in goodput.layers if layer.mark.owner == level]
        (band,) = [layer for layer in goodput.layers if layer.mark.name == f"band of {level}"]
        factor = scale("B/s", [1.25e5]).factor
        for values, name in ((line.y, "median"), (band.y, "low"), (band.far, "high")):
            assert values is not None
            assert list(values)[:-1] == pytest.approx((rows[name] * factor).to_list())
        assert line.x[-1] - line.x[-2] == pytest.approx(float(step.split()[0]) / 1e3)
        few = table.filter(pl.col("metric") == "fairness_jain", pl.col("replications") < 3)[
            "time_s"
        ].to_list()
        shown = {
            round(x, 6) for layer in found.panels[3].layers if layer.mark.owner == level for x in layer.x[:-1]
        }
        assert few
        assert shown.isdisjoint(few)
    assert "medians over 5 replications" in found.notes[0]
    assert "10th to 90th percentile" in found.notes[0]


def test_over_replications_pictures_are_drawn_on_paper_and_on_screen(over: Path) -> None:
    crowded = picture_over(one_of_each(over), "cwnd,rtt", (), (None, None))
    assert_nothing_is_cut_off(crowded.of(crowded.panels), "column")
    found = picture_over(one_of_each(over), None, ("two",), (0.5, 2.0))
    assert [panel.label.partition(" over")[0] for panel in found.panels] == [
        "two router queue (packets)",
        "two goodput",
        "Jain's index",
    ]
    picture = found.of(found.panels)
    assert (picture.start, picture.stop) == (0.5, 2.0)
    for width in ("column", "page"):
        assert_nothing_is_cut_off(picture, width)
    axes = figure_of(picture, "column").axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["queue = short", "queue = long"]
    screen = picture_figure(picture)["data"]
    assert {trace["name"] for trace in screen} == {
        f"{what} of queue = {level}" for what in ("band", "median") for level in ("short", "long")
    }
    bands = [trace for trace in screen if trace.get("fill") == "toself"]
    assert {trace["fillcolor"][7:] for trace in bands} == {"33"}  # others show through


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--kind", "stack"),
            ["'stack' cannot be drawn over replications", "cwnd, rtt, queue, goodput, fairness"],
        ),
        (("--replication", 2), ["--replication chooses one run"]),
        (("--y", "elapsed_s"), ["--y is for plots of results"]),
        (("--flow", "tow"), ["did you mean 'two'"]),
        (("--from", 1000), ["--from 1000", "the run ends at"]),
        (("--caption", "there.txt"), ["there.txt already exists", "--caption"]),
        (("--caption", "a.png", "--out", "a.png"), ["a.png already exists, or is the picture"]),
    ],
)
def test_what_cannot_be_drawn_over_replications_is_said(
    over: Path, options: tuple[str, ...], words: list[str], lasthop_main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    Path("there.txt").touch()
    assert lasthop_main("plot", over, "--over", "replications", *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert [str(path) for path in Path().iterdir()] == ["there.txt"]


def test_more_lines_than_colours_and_a_flow_that_is_alone_are_refused(
    over: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    levels = "\n".join(f"l{number} = {{}}" for number in range(4))
    over.write_text(OVER + levels, encoding="utf-8")
    assert lasthop_main("plot", over, "--over", "replications") == 2
    assert "a picture can show at most 7 cells, not 10" in capsys.readouterr().err
    alone = OVER[: OVER.index('[[flow]]\nkind = "bulk-tcp"\nname = "two"')]
    over.write_text(alone, encoding="utf-8")
    assert lasthop_main("plot", over, "--over", "replications", "--kind", "fairness") == 2
    assert "no flows share the link at the same time" in capsys.readouterr().err
    assert lasthop_main("plot", over, "--over", "replications", "--out", "alone.png") == 0


@pytest.mark.parametrize(
    ("kinds", "can"), [((), True), (("--kind", "cwnd, rtt"), True), (("--kind", "ladder"), False)]
)
def test_a_picture_of_several_cells_points_to_that_over_replications(
    kinds: tuple[str, ...],
    can: bool,
    over: Path,
    lasthop_main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lasthop_main("plot", over, *kinds) == 2
    error = capsys.readouterr().err
    assert "2 cells match" in error
    assert ("--over replications" in error) == can


# Captions


def test_a_caption_stands_in_its_own_file_and_not_in_the_picture(
    over: Path, lasthop_main: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = ("plot", over, "--over", "replications", "--kind", "queue", "--width", "column")
    assert lasthop_main(*drawn, "--out", "with.png") == 0
    assert lasthop_main(*drawn, "--out", "without.png", "--caption", "new/caption.txt") == 0
    assert "  without.png\n  new/caption.txt\n" in capsys.readouterr().out
    assert png_size(Path("without.png"))[1] < png_size(Path("with.png"))[1]  # the notes' lines
    told = " ".join(Path("new/caption.txt").read_text(encoding="utf-8").split())
    for said in (
        "Router queue (packets) over time.",
        "over, queue=short,side=a; queue=long,side=a, 5 replications of set 1, seed 1, model engine, "
        "lasthop ",
        "Lines: medians over 5 replications",
        "bands: 10th to 90th percentile.",
    ):
        assert said in told
    once = (*drawn, "--replications", "1", "--out", "once.png", "--caption", "once.txt")
    assert lasthop_main(*once) == 0
    text = capsys.readouterr().out + " ".join(Path("once.txt").read_text(encoding="utf-8").split())
    assert text.count("1 replication of set 1") == 2
    assert "medians over 1 replication, " in text


def test_a_folder_of_pictures_has_one_file_of_captions(over: Path, lasthop_main: Callable[..., int]) -> None:
    one = ("--only", "queue=long", "--kind", "queue,delay", "--out", "pictures", "--caption", "captions.txt")
    assert lasthop_main("plot", over, *one) == 0
    queue, delay = Path("captions.txt").read_text(encoding="utf-8").split("\n\n")
    run = "over, queue=long,side=a, replication 1 of set 1, seed 1, model engine"
    assert queue.replace("\n", " ").startswith(f"queue.png: Router queue (packets) over time. {run}")
    assert delay.startswith("delay.png: Share of packets against one-way delay (ms).")
