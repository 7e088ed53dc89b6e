"""Heat maps, in the report and on paper, and the share of the throughput that they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from lasthop.campaign.results.tables import with_computed
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import scale_of
from lasthop.present.pictures import heatmap
from lasthop.present.pictures.charts import draw_chart
from lasthop.present.pictures.of_results import HEATMAP, ResultRequest, read_chart
from lasthop.studies.presentation.read import read_presentation
from test_report import read

Main = Callable[..., int]

SCENARIO = """
replications = 2
time_limit = "10 s"
down.link = { rate = "1 Mbit/s", delay = "5 ms" }
flow = [
    { kind = "bulk-tcp", name = "one", bytes = "20 kB" },
    { kind = "bulk-tcp", name = "other", bytes = "20 kB", start = "50 ms" },
    { kind = "bulk-tcp", name = "back", bytes = "20 kB", direction = "up" },
    { kind = "constant-udp", name = "udp", rate = "100 kbit/s", payload = "100 B", duration = "1 s" },
]

[factor.first]
reno.flow.one.tcp.congestion_control = "reno"
cubic.flow.one.tcp.congestion_control = "cubic"

[factor.second]
short.flow.other.bytes = "10 kB"
long.flow.other.bytes = "40 kB"

[factor.size]
small.down.queue.limit = "10 packets"
large.down.queue.limit = "50 packets"

[[matrix]]
size = ["large"]

[[matrix]]
first = ["reno"]
size = ["small"]
"""
REPORT = """
[[heatmap]]
title = "Shares"
caption = "Of the link."
rows = "first"
columns = "second"
metric = "throughput_share"
flow = "one"

[[heatmap]]
title = "Fairness"
rows = "first"
columns = "second"
metric = "fairness_jain"
where = { size = ["small"] }

[[heatmap]]
title = "Of another scenario"
rows = "first"
columns = "third"
metric = "fairness_jain"
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from lasthop.commands.cli import main

    folder = tmp_path_factory.mktemp("heatmap")
    (folder / "small.toml").write_text(SCENARIO, encoding="utf-8")
    (folder / "report.toml").write_text(REPORT, encoding="utf-8")
    assert main(["run", str(folder / "small.toml"), "--out", str(folder / "out"), "--quiet"]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def flows(out: Path) -> pl.DataFrame:
    return with_computed(pl.scan_parquet(out / "flows.parquet")).collect()


def test_shares_are_those_of_the_transfers_that_go_the_same_way(flows: pl.DataFrame) -> None:
    run = flows.filter(first="reno", second="short", size="small", replication=1)
    share = {row["flow"]: row["throughput_share"] for row in run.iter_rows(named=True)}
    rate = {row["flow"]: row["throughput_Bps"] for row in run.iter_rows(named=True)}
    assert share["one"] == pytest.approx(rate["one"] / (rate["one"] + rate["other"]))
    assert share["one"] + share["other"] == pytest.approx(1)
    assert share["back"] == 1
    assert share["udp"] is None


def test_the_report_has_a_map_for_each_combination_of_the_other_factors(
    out: Path, flows: pl.DataFrame
) -> None:
    page = read(out / "report.html")
    text = " ".join(" ".join(page.text).split())
    assert "Shares Of the link." in text
    assert "Of another scenario" not in text
    first, large, small, fairness = (cast("dict[str, Any]", figure["data"][0]) for figure in page.figures)
    assert first == large
    assert "Shares: size = large" in text
    assert (large["y"], large["x"]) == (["reno", "cubic"], ["short", "long"])
    assert (small["y"], small["x"]) == (["reno"], ["short", "long"])
    cell = flows.filter(first="cubic", second="long", size="large", role="one")
    mean = 100 * cast("float", cell["throughput_share"].mean())
    assert large["z"][1][1] == pytest.approx(mean, abs=1e-4)
    assert large["text"][1][1] == f"{mean:.0f}"
    assert (large["zmin"], large["zmax"]) == (0, 100)
    assert fairness["zmin"] == 0
    assert all(0 < value <= 1 for value in fairness["z"][0])


def test_lasthop_plot_draws_it_on_paper(
    out: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (
        "--kind",
        "heatmap",
        "--x",
        "second",
        "--hue",
        "first",
        "--y",
        "throughput_share",
        "--role",
        "one",
    )
    assert lasthop_main("plot", out, *options, "--out", "map.svg") == 0
    assert "Means of 2 replications." in capsys.readouterr().out
    assert Path("map.svg").stat().st_size > 1000
    chart = read_chart(out, ResultRequest("second", "throughput_share", "first", HEATMAP, (), "one"))
    draw_chart(chart, Path("again.svg"), "svg", "page")
    assert Path("again.svg").read_bytes() == Path("map.svg").read_bytes()
    figure = heatmap.heatmap_figure(chart, "column")
    large, small = (axes for axes in figure.axes if axes.get_visible())
    assert [label.get_text() for label in small.get_yticklabels()] == ["reno"]
    assert len(large.texts) == 4
    with pytest.raises(InputError, match="two factors"):
        read_chart(out, ResultRequest(kind=HEATMAP, only=("first=reno,second=long,size=large",), role="one"))


def test_numbers_have_at_most_three_digits_and_the_greatest_decides_the_decimals() -> None:
    share, times = scale_of("throughput_share", [0.5]), scale_of("rtt_min_s", [0.0034])
    assert heatmap.number(share, 0.4567, 1.0) == "46"
    assert heatmap.number(times, 0.00123, 0.0034) == "1.2"
    assert heatmap.number(times, float("nan"), 0.0034) == ""
    assert heatmap.limits("throughput_share", [0.2, 0.3]) == (0, 1)
    assert heatmap.limits("rtt_min_s", [0.2, 0.3]) == (0, 0.3)
    assert heatmap.limits("rtt_min_s", []) == (0, 1)


def test_a_metric_that_is_not_there_is_named_with_the_nearest_one() -> None:
    text = '[[heatmap]]\ntitle = "x"\nrows = "a"\ncolumns = "b"\nmetric = "throughput_shares"\nflow = "one"\n'
    with pytest.raises(InputError, match=r"report.toml:5: heatmap.metric: .*did you mean 'throughput_share'"):
        read_presentation(text)
    with pytest.raises(InputError, match="did you mean 'fairness_jain'"):
        read_presentation(text.replace("throughput_shares", "fairnes_jain").replace('flow = "one"\n', ""))
