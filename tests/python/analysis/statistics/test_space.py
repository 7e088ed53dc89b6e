"""Factors that are ranges: their points, their cells and columns, and what the commands make of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasthop import _core
from lasthop.campaign.results.space import read_space
from lasthop.campaign.results.tables import Tables
from lasthop.commands.cli import main
from lasthop.common.errors import InputError
from lasthop.present.answer.folder import read_sections
from lasthop.present.pictures.charts import chart_figure
from lasthop.present.pictures.of_results import ResultRequest, read_chart
from lasthop.scenario.points import draw, read_study

Main = Callable[..., int]
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "space.toml"
SPACE = """[down.link]
rate = "1 Mbit/s"
delay = "10 ms"
[[flow]]
kind = "bulk-tcp"
bytes = "20 kB"
start = { distribution = "uniform", min = "0 s", max = "100 ms" }
[factor.rate]
from = "100 kbit/s"
to = "10 Mbit/s"
scale = "log"
sets = "down.link.rate"
[factor.cc]
cubic.tcp.congestion_control = "cubic"
reno.tcp.congestion_control = "reno"
[factor.window]
from = 2
to = 10
sets = "tcp.initial_window"
[factor.role]
from = "1 ms"
to = "50 ms"
sets = "down.link.delay"
[sample]
points = 8
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("space") / "space.toml"
    file.write_text(SPACE, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def results(file: Path) -> Path:
    folder = file.parent / "results"
    assert main(["run", str(file), "--replications", "2", "--out", str(folder), "--quiet"]) == 0
    return folder


@given(st.integers(1, 5), st.integers(0, 2**64 - 1), st.integers(0, 5))
def test_more_points_of_a_sobol_sequence_keep_those_there_are(dimensions: int, seed: int, power: int) -> None:
    few, many = (np.array(draw("sobol", 2**p, dimensions, seed)) for p in (power, power + 2))
    assert few.shape == (2**power, dimensions)
    assert np.array_equal(few, many[: len(few)])
    # The property that makes the sequence even: each of as many slices has one point.
    assert all(len(set(np.floor(column * len(many)))) == len(many) for column in many.T)


def test_a_latin_hypercube_has_a_point_in_every_slice_and_its_seed_decides_it() -> None:
    points = np.array(draw("latin-hypercube", 10, 3, 7))
    assert all(sorted(np.floor(column * 10)) == list(range(10)) for column in points.T)
    assert (
        draw("latin-hypercube", 10, 3, 7)
        == draw("latin-hypercube", 10, 3, 7)
        != draw("latin-hypercube", 10, 3, 8)
    )


def test_the_key_of_a_cell_says_exactly_what_it_runs(file: Path) -> None:
    study = read_study(file, 64)
    assert len(study.cells) == 128
    for cell in study.cells:
        scenario = json.loads(cell.scenario)
        value, unit = scenario["down"]["link"]["rate"].split()
        assert cell.point["rate"] == int(value) * {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6}[unit]
        assert cell.point["window"] == scenario["tcp"]["initial_window"] == int(cell.levels["window"])
        assert cell.key == ",".join(
            f"{name}={cell.levels[name]}" for name in ("rate", "cc", "window", "role")
        )


def test_levels_lie_where_the_points_are(results: Path, file: Path) -> None:
    study, ranges = read_study(file), read_space(results).ranges
    points = np.repeat(draw("sobol", 8, 3, study.seed), 2, axis=0)
    for column, name in zip(points.T, ("rate", "window", "factor_role"), strict=True):
        levels = pl.Series([cell.point[ranges[name].name] for cell in study.cells])
        step = 0.5 / 9 if name == "window" else 1e-5
        assert np.abs(ranges[name].shares(levels) - column).max() <= step


def test_a_file_that_extends_another_may_narrow_its_ranges(file: Path, tmp_path: Path) -> None:
    narrow = tmp_path / "narrow.toml"
    narrow.write_text(f'extends = "{file}"\n[factor.rate]\nto = "200 kbit/s"\n', encoding="utf-8")
    study = read_study(narrow)
    assert study.space is not None
    assert study.space["ranges"]["rate"]["to"] == 200_000
    assert max(cell.point["rate"] for cell in study.cells) <= 200_000
    narrow.write_text(f'extends = "{file}"\n[factor.rate.slow]\nmtu = "576 B"\n', encoding="utf-8")
    with pytest.raises(
        _core.ScenarioError,
        match=r"narrow.toml:2: `factor.rate`: a range has no named levels; leave out slow",
    ):
        read_study(narrow)


def test_columns_of_ranges_hold_numbers(results: Path) -> None:
    runs = pl.read_parquet(results / "runs.parquet")
    kinds = [runs.schema[name] for name in ("rate", "cc", "window", "factor_role")]
    assert kinds == [pl.Int64, pl.String, pl.Int64, pl.Float64]
    assert runs.height == 32
    assert runs["rate"].is_between(100_000, 10_000_000).all()
    assert runs["factor_role"].is_between(0.001, 0.05).all()
    summary = pl.read_csv(results / "summary.csv")
    assert summary.schema["rate"] == pl.Int64
    assert summary.select("rate", "cc", "window", "role").n_unique() == 16
    manifest = json.loads((results / "manifest.json").read_text())
    rate = manifest["space"]["ranges"]["rate"]
    assert (rate["unit"], rate["scale"], rate["sets"]) == ("bit/s", "log", ["down.link.rate"])
    assert set(rate["levels"].values()) == set(runs["rate"])


def test_more_points_run_only_the_new_ones(file: Path, tmp_path: Path, lasthop_main: Main) -> None:
    out = tmp_path / "results"
    assert lasthop_main("run", file, "--points", 4, "--out", out, "--quiet") == 0
    few = pl.read_parquet(out / "flows.parquet")
    assert lasthop_main("run", file, "--out", out, "--quiet") == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["simulation"]["runs"] == 16
    assert pl.read_parquet(out / "flows.parquet").head(few.height).equals(few)


def test_points_are_replications_where_named_levels_are_compared(results: Path) -> None:
    tables, points = Tables.read(results), Tables.read_points(results)
    runs = tables.runs.collect()
    assert runs.columns[0] == "cc"
    assert sorted(runs.filter(cc="reno")["replication"]) == list(range(1, 17))
    # Replications of a number met the same point.
    folded = tables.flows.collect()["replication"]
    rates = points.flows.select("rate", "replication").collect().with_columns(folded=folded)
    assert rates.group_by("folded").agg(pl.col("rate").n_unique())["rate"].max() == 1
    assert rates.group_by("rate", "replication").agg(pl.col("folded").n_unique())["folded"].max() == 1
    section, *_ = read_sections(results)
    assert list(section.factors) == ["cc"]


def test_commands_work_on_a_space(
    results: Path, file: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: object) -> str:
        code = lasthop_main(*words)
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    assert "8 points" in " ".join(said("results", "show", results).split())
    assert "16 pairs" in said(
        "results", "compare", results, "--reference", "cc=cubic", "--metric", "elapsed_s"
    ).replace("\n", " ")
    assert "16 cells" in said("results", "size", results)
    assert "rate" in said(
        "query", results, "SELECT rate, median(elapsed_s) FROM flows GROUP BY rate ORDER BY rate"
    )
    assert "16 replications" in said(
        "results", "factors", results, "--metric", "elapsed_s", "--factors", "cc"
    )
    validated = said("validate", file, "--points", 16)
    assert "32 cells x 1 replication" in validated
    assert (
        "8 points of rate, window, role by sobol; every point counts" in (results / "report.html").read_text()
    )
    assert "rate from 100.0 kbit/s to 10.0 Mbit/s, log, sets down.link.rate" in validated
    level = read_study(file).cells[3].levels["rate"]
    assert "bulk-tcp" in said("explain", file, "--only", f"cc=reno,rate={level}")
    again = file.parent / "some"
    said("run", file, "--only", f"rate={level}", "--out", again, "--quiet")
    assert pl.read_parquet(again / "runs.parquet")["rate"].unique().to_list() == [
        read_study(file).cells[3].point["rate"]
    ]


def test_cells_of_a_space_run_until_they_are_precise(file: Path, tmp_path: Path, lasthop_main: Main) -> None:
    out = tmp_path / "until"
    words = ("--points", 2, "--until", "median(elapsed_s) within 50 %", "--out", out, "--quiet")
    assert lasthop_main("run", file, *words) == 0
    precision = pl.read_csv(out / "precision.csv")
    assert precision.height == 4
    assert precision["met"].all()
    assert sorted(precision["rate"].unique()) == sorted(
        pl.read_parquet(out / "runs.parquet")["rate"].unique()
    )
    assert lasthop_main("results", "show", out) == 0


def test_a_band_shows_every_run_at_its_level(results: Path) -> None:
    chart = read_chart(results, ResultRequest(x="rate", y="elapsed_s", hue="cc"))
    assert (chart.kind, chart.x, chart.hue_levels) == ("band", "rate", ["cubic", "reno"])
    assert chart.window == 5
    assert "5 neighbours" in chart.notes[0]
    flows = pl.read_parquet(results / "flows.parquet")
    (panel,) = chart.panels
    for group in panel.groups:
        own = flows.filter(cc=group.hue)
        assert list(group.at) == sorted(own["rate"])
        assert set(zip(group.at, group.values, strict=True)) == set(
            own.select("rate", "elapsed_s").iter_rows()
        )
    figure = chart_figure(chart, "page")
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "rate (Mbit/s)")
    lines = [line for line in axes.lines if line.get_linestyle() != "None"]
    assert [len(line.get_xdata()) for line in lines] == [12, 12]
    # The first point of a line is the median of the first five runs.
    reno = next(group for group in panel.groups if group.hue == "reno")
    first = np.median(reno.values[:5]) * chart.scale.factor
    assert lines[1].get_ydata()[0] == pytest.approx(first)
    delay = chart_figure(read_chart(results, ResultRequest(x="role", y="elapsed_s")), "column").axes[0]
    assert (delay.get_xscale(), delay.get_xlabel()) == ("linear", "role (ms)")
    assert read_chart(results, ResultRequest(y="elapsed_s")).x == "rate"
    with pytest.raises(InputError, match="rate is a range, which needs band"):
        read_chart(results, ResultRequest(x="rate", kind="box"))
    with pytest.raises(InputError, match="the kind band needs a range; choose one of rate, window, role"):
        read_chart(results, ResultRequest(x="cc", kind="band"))


def test_what_is_wrong_is_told(
    results: Path, file: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "plain.toml"
    plain.write_text(SPACE.split("[factor", maxsplit=1)[0], encoding="utf-8")
    without = tmp_path / "without"
    assert lasthop_main("run", plain, "--out", without, "--quiet") == 0
    for words, part in [
        (("run", plain, "--points", 4), "no factor of"),
        (("run", file, "--only", "rate=1kbit/s"), "factor 'rate' has no level '1kbit/s'; did you mean"),
        (("run", file, "--points", 9000), "more than 10000 cells"),
        (
            ("results", "factors", results, "--metric", "elapsed_s"),
            "8 points, which is too few for Sobol indices: run the scenario with --points",
        ),
        (("results", "factors", results, "--metric", "elapsed"), "--metric elapsed: "),
        (
            ("results", "factors", results, "--metric", "elapsed_s", "--factors", "rate"),
            "'rate' is a range and has no levels to compare; without --factors",
        ),
    ]:
        assert lasthop_main(*words) == 2, words
        assert part in " ".join(capsys.readouterr().err.split()), words
    plain.write_text(SPACE.replace('sets = "down.link.rate"', 'sets = "down.link.rat"'), encoding="utf-8")
    assert lasthop_main("validate", plain) == 2
    assert "plain.toml:12: unknown key `down.link.rat`; did you mean `rate`?" in capsys.readouterr().err


def test_the_example_finds_that_the_rate_matters_and_the_lan_does_not(
    tmp_path: Path, lasthop_main: Main
) -> None:
    out, indices = tmp_path / "space", tmp_path / "sobol.json"
    assert lasthop_main("run", EXAMPLE, "--out", out, "--quiet") == 0
    assert lasthop_main("results", "factors", out, "--metric", "elapsed_s", "--out", indices, "--quiet") == 0
    found = {row["factor"]: row for row in json.loads(indices.read_text())}
    assert set(found) == {"rate", "delay", "lan", "cc"}
    assert found["rate"]["predicted"] > 0.99
    # Over such rates the time is that of sending the bytes. The delay adds some round trips, the LAN nothing.
    assert 0.97 < found["rate"]["first_ci_low"] <= found["rate"]["first"] <= found["rate"]["total"]
    assert 0.001 < found["delay"]["total_ci_low"] < found["delay"]["total_ci_high"] < 0.02
    assert found["lan"]["total_ci_high"] < 0.001
