"""Results of several engines in one report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from test_live_run import DOWNLOAD, SCENARIO, STREAM

Main = Callable[..., int]
STUDY = ("study", "run", "kulve2003", "--only", "link=e0,workload=2tcp0udp,variant=baseline", "--quiet")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(SCENARIO + DOWNLOAD + STREAM, encoding="utf-8")
    return file


def test_the_model_stands_beside_a_live_run(small: Path, tmp_path: Path, lasthop_main: Main) -> None:
    model, live = tmp_path / "model", tmp_path / "live"
    assert lasthop_main("run", small, "--out", model, "--quiet") == 0
    assert "What Linux does otherwise" not in (model / "report.html").read_text()
    options = ("run", small, "--engine", "live", "--beside", model, "--out", live, "--quiet")
    code = lasthop_main(*options)
    assert code == (0 if pl.read_parquet(live / "runs.parquet")["valid"].all() else 3)
    numbers = pl.read_csv(live / "engines.csv")
    for column, folder in (("live", live), ("model", model)):
        own = pl.read_csv(folder / "summary.csv").select(
            "flow", "metric", "statistic", pl.col("value").alias("own")
        )
        joined = numbers.join(own, on=["flow", "metric", "statistic"], how="inner")
        assert joined.height > 50
        assert joined[column].to_list() == joined["own"].to_list()
    report = (live / "report.html").read_text()
    section = report[report.index('<section id="engines">') :]
    section = section[: section.index("</section>")]
    linux = ("Linux marks lost segments by RFC 6675", "One recovery repairs all losses")
    for text in (*linux, str(model), "of 2</td>", "throughput (kbit/s)"):
        assert text in section, text


def test_a_study_has_a_column_per_folder_beside_the_published_numbers(
    tmp_path: Path, lasthop_main: Main
) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    assert lasthop_main(*STUDY, "--out", other, "--seed", 7) == 0
    assert lasthop_main(*STUDY, "--out", first, "--beside", other) == 0
    numbers = pl.read_csv(first / "engines.csv")
    named = [f"model ({folder})" for folder in (first, other)]
    assert numbers.columns[-3:] == ["published", *named]
    for name, folder in zip(named, (first, other), strict=True):
        comparison = pl.read_csv(folder / "comparison.csv").drop("note")
        keys = comparison.columns[: comparison.columns.index("published")]
        joined = comparison.join(numbers, on=keys, how="left", nulls_equal=True)
        assert joined["measured"].to_list() == joined[name].to_list()
        assert joined["published"].to_list() == joined["published_right"].to_list()
    report = (first / "report.html").read_text()
    assert "Agreement by engine" in report
    assert "published numbers reproduced" in report


def test_what_cannot_stand_beside_is_refused_before_the_run(
    small: Path, tmp_path: Path, lasthop_main: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    other, empty, out = tmp_path / "other", tmp_path / "empty", tmp_path / "out"
    empty.mkdir()
    assert lasthop_main(*STUDY, "--replications", 1, "--out", other) == 0
    capsys.readouterr()
    assert lasthop_main("run", small, "--beside", empty, "--out", out) == 2
    assert "contains no manifest.json" in capsys.readouterr().err
    assert lasthop_main("run", small, "--beside", other, "--out", out) == 2
    assert "another scenario, 'kulve2003', or an older version of 'small'" in capsys.readouterr().err
    only = ("--only", "link=r1,workload=2tcp0udp,variant=baseline", "--out", out, "--beside", other)
    assert lasthop_main("study", "run", "kulve2003", *only) == 2
    assert "none of the selected cells" in capsys.readouterr().err
    assert not out.exists()
