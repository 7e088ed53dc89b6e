"""Logarithmic axes: `--log`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from conftest import STUDY
from lasthop.commands.cli import main
from lasthop.present.pictures.charts import chart_figure
from lasthop.present.pictures.logarithmic import make_logarithmic
from lasthop.present.pictures.of_results import ResultRequest, read_chart
from lasthop.present.pictures.static import STYLE, figure_of
from test_phases import picture_of, run_of

EXAMPLES = STUDY.parents[1] / "examples"
Main = Callable[..., int]
RATES = """
replications = 3
down.link = { rate = "1 Mbit/s", delay = "25 ms", loss = "1 %" }
flow = [{ kind = "bulk-tcp", name = "download", bytes = "100 kB" }]
[factor.delay]
"10ms".down.link.delay = "10 ms"
"30ms".down.link.delay = "30 ms"
"100ms".down.link.delay = "100 ms"
[factor.queue]
short.down.queue.limit = "10 packets"
long.down.queue.limit = "20 packets"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("logarithmic")
    (place / "delays.toml").write_text(RATES, encoding="utf-8")
    assert main(["run", str(place / "delays.toml"), "--out", str(place / "out"), "--quiet"]) == 0
    return place / "out"


def scales(figure: Figure) -> tuple[str, str]:
    axes = figure.axes[0]
    return axes.get_xscale(), axes.get_yscale()


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((1.0, 1000.0), ["1", "10", "100", "1000"]),
        ((0.02, 0.5), ["0.02", "0.05", "0.1", "0.2", "0.5"]),
        ((2.1, 4.4), ["2.5", "3", "3.5", "4"]),
        ((1e-7, 1e7), ["1e-06", "0.001", "1", "1000", "1e+06"]),
    ],
)
def test_ticks_are_plain_numbers(ends: tuple[float, float], labels: list[str]) -> None:
    with mpl.rc_context(STYLE):
        axes = Figure(figsize=(3, 1.5)).subplots()
        make_logarithmic(axes.yaxis, ends)
        axes.figure.draw_without_rendering()
        low, high = ends
        visible = [
            label.get_text()
            for place, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
            if low <= place <= high
        ]
    assert visible == labels


@pytest.mark.parametrize(
    ("kind", "log", "expected"),
    [
        ("line", "x", ("log", "linear")),
        ("line", "xy", ("log", "log")),
        ("box", "y", ("linear", "log")),
        ("bar", "y", ("linear", "log")),
        ("cdf", "x", ("log", "linear")),
        ("line", None, ("linear", "linear")),
    ],
)
def test_results(results: Path, kind: str, log: str | None, expected: tuple[str, str]) -> None:
    x = None if kind == "cdf" else "delay"
    chart = read_chart(results, ResultRequest(x=x, y="elapsed_s", kind=kind, log=log))
    figure = chart_figure(chart, "column")
    figure.draw_without_rendering()
    assert scales(figure) == expected
    texts = [
        label.get_text() for label in (*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels())
    ]
    assert all(re.fullmatch(r"[\d.e+\u2212-]*( ?ms)?", text) for text in texts), texts


def test_numeric_levels_are_at_their_logarithms(results: Path) -> None:
    chart = read_chart(results, ResultRequest(x="delay", y="elapsed_s", kind="line", log="x"))
    axes = chart_figure(chart, "column").axes[0]
    assert [float(tick) for tick in axes.get_xticks()] == pytest.approx([0.01, 0.03, 0.1])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["10ms", "30ms", "100ms"]


def test_a_run() -> None:
    shown = picture_of(run_of(str(EXAMPLES / "modern.toml"), "control=reno,link=clean"), log="xy")
    figure = figure_of(shown.of(shown.panels), "page")
    axes = figure.axes[0]
    assert scales(figure) == ("log", "log")
    assert axes.get_xlim() == pytest.approx((shown.span[1] / 1000, shown.span[1]))
    least, most = axes.get_ylim()
    assert 0 < least < 10  # the initial window
    assert most > 57  # at the end of slow start


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--log", "z"), ["--log z", "Axes: x, y, xy"]),
        (("--log", "x", "--kind", "box"), ["side by side", "--kind line"]),
        (("--log", "x", "--kind", "line", "--x", "queue"), ["levels of queue", "--x"]),
        (("--log", "y", "--kind", "cdf"), ["use --log x"]),
        (("--log", "xy", "--kind", "heatmap", "--x", "delay", "--hue", "queue"), ["omit --log"]),
        (("--log", "y", "--y", "timeouts", "--only", "delay=10ms"), ["is above 0"]),
    ],
)
def test_axes_without_logarithms_are_named(
    results: Path,
    options: tuple[str, ...],
    words: list[str],
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lasthop_main("plot", results, *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error


def test_a_ladder_has_no_axes(lasthop_main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    assert lasthop_main("plot", EXAMPLES / "first.toml", "--kind", "ladder", "--log", "y") == 2
    assert "--kind ladder has no axes with numbers" in capsys.readouterr().err
