"""Pictures of the results in a folder: which values they show, and the files they become."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from conftest import STUDY, write_manifest
from lasthop.commands.cli import main
from lasthop.common.errors import InputError
from lasthop.present.pictures.charts import chart_figure
from lasthop.present.pictures.marks import FLOW_COLORS
from lasthop.present.pictures.of_results import Chart, ResultRequest, read_chart
from lasthop.present.pictures.static import STYLE
from lasthop.scenario import levels

EXAMPLES = STUDY.parents[1] / "examples"
Main = Callable[..., int]

WINDOWS = """
extends = "{base}"
name = "windows"
replications = 4
[factor.iw."10"]
tcp.initial_window = 10
[factor.iw."3"]
tcp.initial_window = 3
[factor.iw."4"]
tcp.initial_window = 4
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return finished results of three factors; the levels of `iw` are numbers, and not in their order."""
    place = tmp_path_factory.mktemp("windows")
    file = place / "windows.toml"
    file.write_text(WINDOWS.format(base=EXAMPLES / "modern.toml"), encoding="utf-8")
    assert main(["run", str(file), "--out", str(place / "out"), "--quiet"]) == 0
    return place / "out"


@pytest.fixture(scope="module")
def flows(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "flows.parquet")


def values(chart: Chart, panel: int = 0) -> dict[tuple[str, str], list[float]]:
    return {(group.x, group.hue): list(group.values) for group in chart.panels[panel].groups}


def test_the_caption_of_results_stands_apart(folder: Path, lasthop_main: Main) -> None:
    assert lasthop_main("plot", folder, "--only", "control=cubic", "--out", "a.png") == 0
    assert (
        lasthop_main("plot", folder, "--only", "control=cubic", "--out", "b.png", "--caption", "b.txt") == 0
    )
    assert Path("a.png").read_bytes() != Path("b.png").read_bytes()
    told = " ".join(Path("b.txt").read_text(encoding="utf-8").split())
    assert told.startswith(
        "Means of elapsed time (s) against iw, for each link. windows, control=cubic, seed 1, model"
    )
    assert told.endswith("Means of 4 replications with 95 % confidence intervals (Student's t).")


def test_numeric_levels_are_a_line_in_their_order_with_a_panel_for_each_combination_left(
    folder: Path, flows: pl.DataFrame
) -> None:
    chart = read_chart(folder, ResultRequest())
    assert (chart.name, chart.kind, chart.y, chart.x, chart.hue) == (
        "windows",
        "line",
        "elapsed_s",
        "iw",
        "link",
    )
    assert chart.x_levels == ["3", "4", "10"]
    assert chart.hue_levels == ["clean", "lossy"]
    assert [panel.title.replace("\u00a0", " ") for panel in chart.panels] == [
        "control = reno",
        "control = cubic",
    ]
    for panel, control in enumerate(("reno", "cubic")):
        for (iw, link), found in values(chart, panel).items():
            rows = flows.filter(pl.col("iw") == iw, pl.col("link") == link, pl.col("control") == control)
            assert found == rows["elapsed_s"].to_list()
    assert chart.notes == ["Means of 4 replications with 95 % confidence intervals (Student's t)."]


def test_a_line_shows_means_at_the_levels_numbers_with_students_intervals(
    folder: Path, flows: pl.DataFrame
) -> None:
    chart = read_chart(folder, ResultRequest(y="throughput_Bps", only=("control=cubic",)))
    assert chart.scale.unit == "kbit/s"
    figure = chart_figure(chart, "page")
    (axes,) = figure.axes
    assert axes.get_ylabel() == "throughput (kbit/s)"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3", "4", "10"]
    assert list(axes.get_xticks()) == [3, 4, 10]
    for container, link, color in zip(axes.containers, ("clean", "lossy"), FLOW_COLORS[:2], strict=True):
        line, _, (bars,) = container
        assert line.get_color() == color
        for place, segment in enumerate(bars.get_segments()):
            iw = ("3", "4", "10")[place]
            own = flows.filter(pl.col("iw") == iw, pl.col("link") == link, pl.col("control") == "cubic")
            rates = own["throughput_Bps"].to_numpy() * 8 / 1000
            assert (line.get_xdata()[place], line.get_ydata()[place]) == pytest.approx(
                (int(iw), rates.mean())
            )
            half = rates.std(ddof=1) / math.sqrt(4) * stats.t.ppf(0.975, 3)
            assert [y for _, y in segment] == pytest.approx([rates.mean() - half, rates.mean() + half])


def test_boxes_stand_beside_each_other_and_name_what_they_show(folder: Path) -> None:
    chart = read_chart(folder, ResultRequest(x="link", hue="control", kind="box", only=("iw=3,iw=10",)))
    assert len(chart.panels) == 2
    figure = chart_figure(chart, "page")
    assert [axes.get_title().replace("\u00a0", " ") for axes in figure.axes] == ["iw = 3", "iw = 10"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()  # a row shares its axis
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["control:", "reno", "cubic"]
    assert "quartiles and median of 4 replications" in chart.notes[0]


@pytest.mark.parametrize("whiskers", [None, "iqr", "extremes"])
def test_whiskers_end_at_the_extremes_if_asked_to(tmp_path: Path, whiskers: str | None) -> None:
    times = [1.0, 2.0, 3.0, 4.0, 100.0]
    runs = [
        {"set": 1, "replication": r, "elapsed_s": t, "throughput_Bps": 5.0} for r, t in enumerate(times, 1)
    ]
    chart = read_chart(results_of(tmp_path, runs), ResultRequest(kind="box", whiskers=whiskers))
    (axes,) = chart_figure(chart, "column").axes
    ends = {y for line in axes.lines for y in line.get_ydata() if line.get_linestyle() != "None"}
    circles = [y for line in axes.lines for y in line.get_ydata() if line.get_linestyle() == "None"]
    if whiskers == "extremes":
        assert (min(ends), max(ends), circles) == (1, 100, [])
        assert chart.notes[0].endswith("whiskers: minimum and maximum.")
    else:
        assert (min(ends), max(ends), circles) == (1, 4, [100])
        assert "1.5 interquartile ranges" in chart.notes[0]


def test_bars_are_medians_with_quartiles(tmp_path: Path) -> None:
    times = [1.0, 2.0, 4.0, 10.0, 100.0]
    runs = [
        {"set": 1, "replication": r, "elapsed_s": t, "throughput_Bps": 5.0} for r, t in enumerate(times, 1)
    ]
    chart = read_chart(results_of(tmp_path, runs), ResultRequest(kind="bar"))
    (axes,) = chart_figure(chart, "column").axes
    (bar,) = axes.patches
    assert (bar.get_y(), bar.get_height()) == (0, 4)
    (quartiles,) = axes.collections
    assert quartiles.get_segments()[0].tolist() == [[0, 2], [0, 10]]
    assert axes.get_ylim()[1] >= 10
    assert chart.notes[0] == "Bars: medians of 5 replications; lines on them: quartiles."


def test_levels_of_several_factors_stand_in_groups_with_their_names(
    folder: Path, flows: pl.DataFrame
) -> None:
    chart = read_chart(folder, ResultRequest(x="control,link,iw", kind="bar"))
    assert (chart.x, len(chart.panels), len(chart.x_levels)) == ("control · link · iw", 1, 12)
    assert chart.x_levels[:4] == [
        "reno · clean · 3",
        "reno · clean · 4",
        "reno · clean · 10",
        "reno · lossy · 3",
    ]
    for (level, _), found in values(chart).items():
        control, link, iw = chart.split(level)
        assert found == flows.filter(control=control, link=link, iw=iw)["elapsed_s"].to_list()
    (axes,) = chart_figure(chart, "page").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3", "4", "10"] * 4
    apart = [b - a for a, b in itertools.pairwise(axes.get_xticks())]
    assert {place for place, gap in enumerate(apart, 1) if gap > 1} == {
        3,
        6,
        9,
    }  # where link or control changes
    names = [text.get_text() for text in axes.texts]
    assert names == ["clean", "lossy", "clean", "lossy", "reno", "cubic", "control · link · iw"]
    centre = dict(zip(names[4:6], (text.get_position()[0] for text in axes.texts[4:6]), strict=True))
    assert centre["reno"] == pytest.approx(sum(axes.get_xticks()[:6]) / 6)


def test_a_line_ends_with_its_group(folder: Path) -> None:
    chart = read_chart(folder, ResultRequest(x="link,iw", hue="control", kind="line"))
    (axes,) = chart_figure(chart, "page").axes
    assert [len(container.lines[0].get_xdata()) for container in axes.containers] == [3, 3, 3, 3]


@pytest.mark.parametrize("kind", ["line", "box", "bar"])
def test_a_second_metric_has_an_axis_on_the_right(folder: Path, flows: pl.DataFrame, kind: str) -> None:
    chart = read_chart(
        folder, ResultRequest(y="elapsed_s", y2="retransmitted_packets", kind=kind, hue="link")
    )
    figure = chart_figure(chart, "page")
    left, right = figure.axes[:2], figure.axes[2:]
    assert [axes.get_ylabel() for axes in left] == ["elapsed time (s)", ""]
    assert [axes.get_ylabel() for axes in right] == ["", "retransmissions"]
    assert right[0].get_ylim() == right[1].get_ylim()
    assert chart.file_name == "windows-elapsed_s-retransmitted_packets"
    assert "elapsed time (s) and retransmissions against iw" in chart.caption
    for axes, control in zip(right, ("reno", "cubic"), strict=True):
        own = flows.filter(control=control)["link", "iw", "retransmitted_packets"]
        by_level = own.group_by("link", "iw", maintain_order=True).agg(
            pl.col("retransmitted_packets").mean()
            if kind == "line"
            else pl.col("retransmitted_packets").median()
        )
        hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
        assert sorted(y for line in hollow for y in line.get_ydata()) == sorted(
            by_level["retransmitted_packets"]
        )


def test_a_metric_of_runs_stands_beside_one_of_flows_where_flows_are_not_told_apart(tmp_path: Path) -> None:
    runs = [
        {
            "a": f"a{a}",
            "set": 1,
            "replication": r,
            "elapsed_s": 2.0,
            "throughput_Bps": 5.0,
            "fairness_jain": a / 10,
        }
        for a in (1, 2)
        for r in (1, 2, 3)
    ]
    folder = results_of(tmp_path, runs)
    frame = pl.read_parquet(folder / "flows.parquet").drop("fairness_jain")
    frame.with_columns(role=pl.Series(["one", "two"] * (len(frame) // 2))).write_parquet(
        folder / "flows.parquet"
    )
    write_manifest(folder)
    chart = read_chart(
        folder, ResultRequest(y="elapsed_s", y2="fairness_jain", x="a", role="one", kind="line")
    )
    assert chart.second is not None
    assert [list(group.values) for group in chart.second.panels[0].groups] == [[0.1] * 3, [0.2] * 3]
    with pytest.raises(InputError, match="no table contains this metric together with a and role"):
        read_chart(folder, ResultRequest(y="elapsed_s", y2="fairness_jain", x="a", kind="line"))


def test_a_distribution_function_takes_every_value(folder: Path, flows: pl.DataFrame) -> None:
    chart = read_chart(
        folder, ResultRequest(y="rtt_p95_s", hue="link", kind="cdf", only=("iw=3,control=reno",))
    )
    assert (chart.x, chart.x_levels) == ("", [""])
    assert (
        values(chart)["", "lossy"]
        == flows.filter(pl.col("iw") == "3", pl.col("control") == "reno", pl.col("link") == "lossy")[
            "rtt_p95_s"
        ].to_list()
    )
    figure = chart_figure(chart, "column")
    assert figure.axes[0].get_ylabel() == "share of values"
    assert figure.axes[0].get_xlabel().endswith("round-trip time (ms)")


def test_the_share_of_packets_lost_is_drawn_as_the_summary_has_it(folder: Path, flows: pl.DataFrame) -> None:
    chart = read_chart(folder, ResultRequest(y="lost_per_packet", only=("control=reno,link=lossy",)))
    assert chart.scale.unit == "%"
    own = flows.filter(pl.col("control") == "reno", pl.col("link") == "lossy", pl.col("iw") == "10")
    lost = own.select(pl.sum_horizontal("data_drops_queue", "data_drops_error") / pl.col("sent_packets"))
    assert values(chart)["10", ""] == pytest.approx(lost.to_series().to_list())


@pytest.mark.parametrize("width", ["column", "page"])
@pytest.mark.parametrize(
    ("kind", "x"),
    [("box", None), ("cdf", None), ("line", None), ("bar", "control,link,iw"), ("box", "iw,control")],
)
def test_nothing_is_cut_off(folder: Path, kind: str, x: str | None, width: str) -> None:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = chart_figure(read_chart(folder, ResultRequest(x=x, kind=kind)), width)
        figure.draw_without_rendering()  # lays it out
        drawn = figure.get_tightbbox()
    right, top = figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) >= 0
    assert (drawn.x1 <= right, drawn.y1 <= top) == (True, True)


def test_the_picture_is_called_after_scenario_and_metric_and_overwrites_nothing(
    folder: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("plot", folder) == 0
    assert capsys.readouterr().out.splitlines()[0] == "windows-elapsed_s.png"
    assert lasthop_main("plot", folder, "--width", "column", "--format", "pdf", "--y", "timeouts") == 0
    data = Path("windows-timeouts.pdf").read_bytes()
    assert b"/FontFile2" in data
    assert b"/Type3" not in data
    assert lasthop_main("plot", folder, "--quiet") == 0
    assert lasthop_main("plot", folder, "--out", "windows-elapsed_s.png") == 2
    names = {"windows-elapsed_s.png", "windows-elapsed_s-2.png", "windows-timeouts.pdf"}
    assert {path.name for path in Path().iterdir()} == names


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--y", "elapsd_s"), ["--y elapsd_s", "did you mean 'elapsed_s'"]),
        (("--x", "lnk"), ["--x lnk", "did you mean 'link'", "control, link, iw, role"]),
        (("--hue", "iv"), ["--hue iv", "did you mean 'iw'"]),
        (("--x", "link", "--hue", "link"), ["--hue link", "already"]),
        (("--x", "iw,link", "--hue", "link"), ["--hue link", "already"]),
        (("--x", "iw,lnk"), ["--x lnk", "did you mean 'link'"]),
        (("--x", "iw,link,iw"), ["--x iw,link,iw", "twice"]),
        (("--only", "iw=5"), ["has no level '5'", "Levels: 3, 4, 10"]),
        (("--role", "tpc"), ["--role tpc", "Roles: download"]),
        (("--kind", "boxes"), ["did you mean 'box'"]),
        (("--kind", "classes"), ["a single run", "scenario file"]),
        (("--kind", "queue"), ["a single run", "scenario file", "--over replications"]),
        (("--kind", "cdf", "--x", "link"), ["--x link", "--hue"]),
        (("--whiskers", "extremes"), ["--whiskers extremes", "--kind box"]),
        (("--y2", "timeuts"), ["--y2 timeuts", "did you mean 'timeouts'"]),
        (("--y", "timeouts", "--y2", "timeouts"), ["--y2 timeouts", "on the left axis"]),
        (("--y2", "timeouts", "--kind", "cdf"), ["--y2 timeouts", "the kind cdf has no second axis"]),
        (("--ratio", "link"), ["--ratio link", "FACTOR=LEVEL/LEVEL"]),
        (("--ratio", "lnk=clean/lossy"), ["no factor 'lnk'", "did you mean 'link'"]),
        (("--ratio", "link=clean/clean"), ["not a pair of different levels", "link=clean/lossy"]),
        (("--ratio", "link=clean/lossy", "--x", "link"), ["--x link", "choose another factor"]),
        (("--y", "jitter_p50_ms"), ["none of the selected rows"]),
        (("--replication", "1"), ["--replication", "results folder"]),
        (("--flow", "download"), ["--flow", "results folder"]),
        (("--out", "pictures"), ["--out pictures", ".png, .svg, .pdf"]),
    ],
)
def test_what_cannot_be_drawn_is_said(
    folder: Path,
    options: Sequence[str],
    words: Sequence[str],
    lasthop_main: Main,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lasthop_main("plot", folder, *options) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert "Traceback" not in error
    assert list(Path().iterdir()) == []


def test_options_of_results_are_refused_for_one_run(
    lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lasthop_main("plot", EXAMPLES / "modern.toml", "--hue", "link") == 2
    assert "--hue is for results" in capsys.readouterr().err


def test_an_unfinished_folder_is_refused_with_the_remedy(
    folder: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    assert lasthop_main("plot", unfinished) == 2
    assert "To finish a run that was stopped, repeat its command" in capsys.readouterr().err


def test_a_folder_of_results_goes_before_a_study_of_its_name(folder: Path, lasthop_main: Main) -> None:
    Path("kulve2003").symlink_to(folder)
    assert lasthop_main("plot", "kulve2003") == 0
    assert Path("windows-elapsed_s.png").exists()
    Path("kulve2003").unlink()
    Path("kulve2003").mkdir()  # such as the source of the study
    only = "link=e0,workload=2tcp0udp,variant=eifel"
    assert lasthop_main("plot", "kulve2003", "--only", only, "--kind", "queue") == 0
    assert Path("kulve2003.png").exists()


@pytest.mark.parametrize(
    ("file", "metric", "who"),
    [("web-page", "response_time_s", "page"), ("short-flows", "fct_mean_s", "application")],
)
def test_page_loads_and_short_flows_have_their_own_headline(
    file: str, metric: str, who: str, tmp_path: Path, lasthop_main: Main
) -> None:
    out = tmp_path / "out"
    assert lasthop_main("run", EXAMPLES / f"{file}.toml", "--replications", 2, "--out", out, "--quiet") == 0
    chart = read_chart(out, ResultRequest())
    assert chart.y == metric
    assert all(len(group.values) == 2 for panel in chart.panels for group in panel.groups)
    of_runs = read_chart(out, ResultRequest(y="utilisation"))
    assert of_runs.scale.unit == "%"
    assert who not in (of_runs.x, of_runs.hue)
    assert lasthop_main("plot", out, "--out", tmp_path / "a.png") == 0


def test_a_factor_called_like_a_column_is_the_factor(tmp_path: Path, lasthop_main: Main) -> None:
    out = tmp_path / "out"
    assert lasthop_main("run", EXAMPLES / "web-page.toml", "--replications", 1, "--out", out, "--quiet") == 0
    chart = read_chart(out, ResultRequest(y="elapsed_s", x="protocol", hue="window", role="main"))
    assert chart.x_levels == ["http1.0"]  # only there the main object has a connection of its own
    assert chart.notes[0] == "Values of 1 replication, without intervals."


def results_of(folder: Path, runs: Sequence[Mapping[str, object]]) -> Path:
    """Write results by hand: runs with their factors, and their flows, of which there are two equal ones."""
    frame = pl.DataFrame(runs)
    frame.write_parquet(folder / "runs.parquet")
    names = {
        "role": pl.lit("tcp"),
        "protocol": pl.lit("tcp"),
        "flow": pl.lit("tcp-1"),
        "application": pl.lit("tcp"),
    }
    names["sent_packets"] = pl.lit(1)
    flows = pl.concat([frame.with_columns(**names)] * 2)
    flows.write_parquet(folder / "flows.parquet")
    write_manifest(folder)
    return folder


def test_of_many_combinations_some_have_a_panel_and_it_is_said(tmp_path: Path) -> None:
    runs = [
        {
            "a": f"a{a}",
            "b": f"b{b}",
            "c": f"c{c}",
            "set": 1,
            "replication": r,
            "elapsed_s": 1.0 * r,
            "throughput_Bps": 5.0,
        }
        for a in range(20)
        for b in range(2)
        for c in range(2)
        for r in range(1, 4)
    ]
    chart = read_chart(results_of(tmp_path, runs), ResultRequest())
    assert (chart.x, chart.hue, len(chart.panels)) == ("c", "b", 12)
    assert chart.notes[1:] == [
        "A replication's value is the mean over its flows of the same role.",
        "The first 12 of 20 combinations of a are shown; select others with --only.",
    ]
    assert values(chart)["c0", "b0"] == [1, 2, 3]  # two flows of a replication count as one value
    each = read_chart(tmp_path, ResultRequest(kind="cdf", only=("a=a0,b=b0",)))
    assert sorted(values(each)["", "c0"]) == [1, 1, 2, 2, 3, 3]


def two_levels(count: int) -> list[dict[str, object]]:
    """Return runs whose value doubles from a = 4/s to a = 8/s, but in the last replication."""
    return [
        {"a": a, "b": b, "set": 1, "replication": r, "elapsed_s": value, "throughput_Bps": 5.0}
        for a, factor in (("4/s", 1.0), ("8/s", 2.0))
        for b in ("x", "y")
        for r in range(1, count + 1)
        for value in [r * factor if r < count else 0.0]
    ]


@pytest.mark.parametrize("kind", ["box", "line", "cdf"])
def test_a_ratio_is_of_equal_replications(tmp_path: Path, kind: str) -> None:
    request = ResultRequest(y="elapsed_s", ratio="a=8/s/4/s", kind=kind, hue="b" if kind == "cdf" else None)
    chart = read_chart(results_of(tmp_path, two_levels(5)), request)
    assert set(values(chart)) == ({("", "x"), ("", "y")} if kind == "cdf" else {("x", ""), ("y", "")})
    assert all(own == [2, 2, 2, 2] for own in values(chart).values())
    assert (chart.title, chart.file_name) == (
        "ratio of elapsed time, a 8/s\u00a0/\u00a04/s",
        "made-elapsed_s-ratio",
    )
    assert "4 values are omitted because their partner is missing or 0." in chart.notes
    (axes, *_) = chart_figure(chart, "column").axes
    assert (axes.get_xlabel() if kind == "cdf" else axes.get_ylabel().replace("\n", " ")) == chart.title


def test_a_ratio_agrees_with_its_records(folder: Path, flows: pl.DataFrame) -> None:
    chart = read_chart(folder, ResultRequest(ratio="control=cubic/reno", only=("link=lossy",)))
    for (iw, _), found in values(chart).items():
        cubic, reno = (
            flows.filter(pl.col("iw") == iw, pl.col("link") == "lossy", pl.col("control") == control)[
                "elapsed_s"
            ]
            for control in ("cubic", "reno")
        )
        assert found == (cubic / reno).to_list()


def test_a_factor_that_follows_from_those_on_the_axes_has_no_panels(tmp_path: Path) -> None:
    runs = [
        {
            "window": w,
            "sender": f"of {w}",
            "side": s,
            "set": 1,
            "replication": 1,
            "elapsed_s": 1.0,
            "throughput_Bps": 5.0,
        }
        for w in ("iw3", "iw10")
        for s in ("left", "right")
    ]
    folder = results_of(tmp_path, runs)
    chart = read_chart(folder, ResultRequest(x="side", hue="window"))
    assert [panel.title for panel in chart.panels] == [""]
    by_window = read_chart(folder, ResultRequest(x="window", kind="bar"))
    assert (by_window.hue, [panel.title for panel in by_window.panels]) == ("side", [""])


def test_missing_values_are_counted(tmp_path: Path) -> None:
    runs = [
        {
            "a": f"{a}k",
            "set": 1,
            "replication": r,
            "elapsed_s": None if r == 1 else 2.0,
            "throughput_Bps": 5.0,
        }
        for a in (1000, 64, 128)
        for r in (1, 2, 3)
    ]
    folder = results_of(tmp_path, runs)
    assert read_chart(folder, ResultRequest()).y == "throughput_Bps"  # of those that are cut there is no time
    chart = read_chart(folder, ResultRequest(y="elapsed_s"))
    assert chart.x_levels == ["64k", "128k", "1000k"]
    assert "6 of 18 rows have no elapsed time and are omitted." in chart.notes


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["3", "10", "64k"], [3, 10, 64000]),
        (["1m", "64k"], [1e6, 64e3]),
        (["iw10", "iw3"], [10, 3]),
        (["1 s", "20 ms", "5 min"], [1, 0.02, 300]),
        (["128 kbit/s", "1 Mbit/s"], [128e3, 1e6]),
        (["0.5", "2"], [0.5, 2]),
        (["10", "20 ms"], None),
        (["60", "tcp"], None),
        (["s+2s", "m+8m"], None),
        (["iw3", "q10"], None),
        (["1k", "1000"], None),
        (["none"], None),
    ],
)
def test_levels_that_are_numbers(names: list[str], numbers: list[float] | None) -> None:
    found = levels.numbers(names)
    assert found == (None if numbers is None else pytest.approx(numbers))


@given(st.lists(st.integers(0, 10**6), min_size=1, unique=True))
def test_numbers_are_ordered_by_value(found: list[int]) -> None:
    assert levels.in_order([f"q{value}" for value in found]) == [f"q{value}" for value in sorted(found)]
