"""`import lasthop`: scenarios in code, runs, and results as data frames, pictures and text."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lasthop
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.results.store import Store
from lasthop.campaign.runner import Work
from lasthop.engines.engine import Observation, Outcome, SeriesTarget, Stop
from lasthop.engines.kernel.store import Kernel
from lasthop.present.answer.paired import Request, compare_results
from observing import observe

ROOT = Path(__file__).resolve().parents[3]
KEYS: dict[str, Any] = {
    "name": "built",
    "replications": 3,
    "down": {"link": {"rate": "1 Mbit/s", "delay": "20 ms"}},
    "flow": [{"kind": "bulk-tcp", "name": "download", "bytes": "60 kB"}],
    "factor": {
        "queue": {
            "short": {"down": {"queue": {"limit": "5 packets"}}},
            "long": {"down": {"queue": {"limit": "50 packets"}}},
        }
    },
}


@pytest.fixture(scope="module")
def results() -> lasthop.Results:
    return lasthop.run(lasthop.Scenario(KEYS), progress=False)


def test_the_import_loads_nothing_that_takes_time() -> None:
    code = (
        "import sys, lasthop; print([name for name in ('polars', 'numpy', 'lasthop._core') if name in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_offers_what_it_lists() -> None:
    assert {name for name in lasthop.__all__ if not hasattr(lasthop, name)} == set()
    assert set(lasthop.__all__) <= set(dir(lasthop))
    assert lasthop.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="no attribute 'Scenery'"):
        _ = lasthop.Scenery  # type: ignore[attr-defined]


def test_a_scenario_in_code_is_that_of_its_text(tmp_path: Path) -> None:
    built = lasthop.Scenario(KEYS)
    file = tmp_path / "built.toml"
    file.write_text(built.text, encoding="utf-8")
    loaded = lasthop.Scenario.load(file)
    assert built.study.digest == loaded.study.digest == lasthop.Scenario.parse(built.text).study.digest
    assert (built.name, built.seed, built.replications) == ("built", 1, 3)
    assert built.factors == {"queue": ["short", "long"]}
    assert built.cells == ["queue=short", "queue=long"]
    assert repr(built) == "<Scenario built: 2 cells, replications=3, seed=1>"


def test_keyword_arguments_are_keys_too() -> None:
    rest = {key: value for key, value in KEYS.items() if key != "replications"}
    assert lasthop.Scenario(rest, replications=5).replications == 5
    with pytest.raises(lasthop.InputError, match="'name' is both in the mapping and a keyword argument"):
        lasthop.Scenario(KEYS, name="other")
    with pytest.raises(lasthop.InputError, match=r"not a mapping of keys; lasthop\.Scenario\.load"):
        lasthop.Scenario("queue.toml")  # type: ignore[arg-type]


def test_a_study_is_loaded_by_its_name() -> None:
    assert lasthop.Scenario.load("kulve2003").name == "kulve2003"
    with pytest.raises(lasthop.InputError, match="did you mean 'kulve2003'"):
        lasthop.Scenario.load("kulve2004")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"down": {"link": {"rate": "1 Mbit", "delay": "20 ms"}}}, ["scenario:", "`down.link.rate`"]),
        ({"down": {"link": {"rat": "1 Mbit/s"}}}, ["did you mean", "rate"]),
    ],
)
def test_errors_are_those_of_a_file(keys: dict[str, object], message: list[str]) -> None:
    with pytest.raises(lasthop.ScenarioError) as error:
        lasthop.Scenario(KEYS | keys)
    for word in message:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"seed": None}, "seed: None is of the type NoneType"),
        ({"flow": [{"kind": "bulk-tcp", "bytes": b"1"}]}, r"flow\[0\].bytes: b'1' is of the type bytes"),
        ({"seed": float("nan")}, "seed: nan is of the type float"),
        ({"down": {1: 2}}, "down: the key 1 is of the type int"),
    ],
)
def test_values_that_no_file_can_have_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(lasthop.InputError, match=message):
        lasthop.Scenario(KEYS | keys)


def test_results_are_those_of_the_command_line(
    results: lasthop.Results, tmp_path: Path, lasthop_main: Callable[..., object]
) -> None:
    file, out = tmp_path / "built.toml", tmp_path / "out"
    file.write_text(results.scenario.text, encoding="utf-8")
    lasthop_main("run", str(file), "--out", str(out), "--quiet")
    for table, frame in (("flows", results.flows), ("runs", results.runs)):
        assert_frame_equal(frame, pl.read_parquet(out / f"{table}.parquet"))
    results.summary.write_csv(tmp_path / "summary.csv")
    assert (tmp_path / "summary.csv").read_bytes() == (out / "summary.csv").read_bytes()
    compared = compare_results(out, Request("queue=short", "elapsed_s"))
    assert_frame_equal(results.compare("queue=short", "elapsed_s"), compared.table())


def test_frames_become_those_of_pandas(results: lasthop.Results) -> None:
    frame = results.flows.to_pandas()
    assert list(frame.columns) == results.flows.columns
    assert len(frame) == 6


def test_a_single_replication_is_repeated(results: lasthop.Results, tmp_path: Path) -> None:
    trace = results.trace(2, only="queue=short")
    drops = trace.packets.filter(pl.col("event") == "dropped-queue")
    record = results.flows.filter(pl.col("queue") == "short", pl.col("replication") == 2)
    assert drops.height == record["data_drops_queue"].item()
    assert trace.packets["time_s"].max() == pytest.approx(trace.packets["time_ns"].max() / 1e9)  # type: ignore[operator]
    assert trace.flows["flow"].to_list() == ["download"]
    series = results.series(2, step="50ms")
    assert series["queue"].unique().sort().to_list() == ["long", "short"]
    assert "download" in results.explain(2, only="queue=short")
    files = results.capture(tmp_path / "captures", 2, only="queue=short")
    assert files[0].name == "server.pcapng"
    with pytest.raises(lasthop.InputError, match="replication=4 is not between 1 and 3"):
        results.trace(4, only="queue=short")
    with pytest.raises(lasthop.InputError, match="2 cells match"):
        results.trace(1)


def test_series_over_replications_have_a_median_for_each_step(results: lasthop.Results) -> None:
    folded = results.series(step="1 s", over="replications")
    assert folded["queue"].unique(maintain_order=True).to_list() == ["short", "long"]
    whole = folded.filter(
        pl.col("flow").is_null(), metric="goodput_Bps", direction="down", queue="long", time_s=0.0
    )
    singles = [
        results.series(number, step="1 s", only="queue=long").filter(
            pl.col("flow").is_null(), direction="down", time_s=0.0
        )["goodput_Bps"][0]
        for number in (1, 2, 3)
    ]
    assert whole["median"].to_list() == [sorted(singles)[1]]


def test_pictures_show_themselves_and_are_saved(results: lasthop.Results, tmp_path: Path) -> None:
    for drawing in (
        results.plot.box("elapsed_s"),
        results.plot.cdf("elapsed_s"),
        results.plot.forest("queue=short", "elapsed_s"),
        results.plot.over_time(["cwnd", "queue"], 2, only="queue=short"),
    ):
        assert drawing._repr_png_().startswith(b"\x89PNG")
        assert drawing.figure.axes
    [levels] = [axes.get_legend() for axes in results.plot.over_replications("queue").figure.axes]
    assert [text.get_text() for text in levels.get_texts()] == ["queue = short", "queue = long"]
    apart = results.plot.over_replications("cwnd", only="queue=long", width="column")
    apart.save(tmp_path / "apart.png", caption=tmp_path / "apart.txt")
    assert "3 replications of set 1, seed 1" in " ".join(
        (tmp_path / "apart.txt").read_text(encoding="utf-8").split()
    )
    assert apart.figure.texts
    file = drawing.save(tmp_path / "run.svg")
    assert file.read_text(encoding="utf-8").startswith("<?xml")
    with pytest.raises(lasthop.InputError, match="is not overwritten"):
        drawing.save(file)
    with pytest.raises(lasthop.InputError, match="did you mean 'cwnd'"):
        results.plot.over_time("cwmd", only="queue=short")


def test_changes_of_a_figure_are_displayed_and_saved(results: lasthop.Results, tmp_path: Path) -> None:
    for number, drawing in enumerate(
        (
            results.plot.box("elapsed_s"),
            results.plot.over_time("cwnd", 2, only="queue=short"),
        )
    ):
        assert drawing.figure is drawing.figure
        bare = drawing.save(tmp_path / f"bare-{number}.png", caption=tmp_path / "bare.txt").read_bytes()
        (tmp_path / "bare.txt").unlink()
        image = drawing._repr_png_()
        axes = drawing.figure.axes[0]
        axes.axhline(1.5, color="#123456")
        axes.set_yscale("log")
        assert all(label.get_parse_math() for label in axes.get_yticklabels(which="both"))
        changed = drawing.save(tmp_path / f"changed-{number}.svg").read_text(encoding="utf-8")
        assert "#123456" in changed
        assert "mathdefault" not in changed
        labels = [label.get_text() for label in axes.get_yticklabels(which="both") if label.get_text()]
        assert labels
        assert all(float(label) > 0 for label in labels)
        assert drawing._repr_png_() != image
        apart = drawing.save(tmp_path / f"apart-{number}.png", caption=tmp_path / "bare.txt").read_bytes()
        (tmp_path / "bare.txt").unlink()
        assert apart[:24] == bare[:24]  # the same size: without the notes
        assert apart != bare
        assert drawing._repr_png_()[:24] == image[:24]  # with the notes again


def test_results_show_themselves(results: lasthop.Results) -> None:
    assert repr(results) == "<Results built: 6 runs on the model engine>"
    assert "median of 3 replications" in results._repr_html_()
    assert "<td>queue</td>" in results.scenario._repr_html_()


def test_a_folder_keeps_what_was_run(tmp_path: Path) -> None:
    out = tmp_path / "kept"
    scenario = lasthop.Scenario(KEYS)
    lasthop.run(scenario, replications=1, out=out, progress=False)
    more = lasthop.run(scenario, replications=2, out=out, progress=False)
    assert json.loads((out / "manifest.json").read_text())["simulation"]["runs"] == 4
    assert more.report() == out / "report.html"


def test_a_temporary_folder_goes_with_its_results() -> None:
    unfinished = lasthop.run(lasthop.Scenario(KEYS), only="queue=short", replications=1, progress=False)
    folder = unfinished.folder
    assert folder.is_dir()
    del unfinished
    assert not folder.exists()


def test_a_cluster_and_another_engine_are_a_keyword_away(results: lasthop.Results, kernel: Kernel) -> None:
    def again(**options: Any) -> lasthop.Results:  # noqa: ANN401  keywords of `run`
        return lasthop.run(results.scenario, only="queue=short", replications=2, progress=False, **options)

    here = results.flows.filter(pl.col("queue") == "short", pl.col("replication") <= 2)
    assert_frame_equal(again(cluster="local:1").flows, here)
    guest = again(engine="kernel", kernel=kernel.name)
    assert guest.flows["elapsed_s"].to_list() == pytest.approx(here["elapsed_s"].to_list(), rel=0.02)
    assert guest.trace(2).packets.height > 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "modell"}, "did you mean 'model'"),
        ({"replications": 0}, "replications=0: give a number from 1"),
        ({"only": "queue=shrt"}, "did you mean 'short'"),
        ({"until": "median(elapsed_s) within 2"}, "within"),
        ({"kernel": "6.12"}, "engine kernel"),
    ],
)
def test_a_wrong_request_says_what_is_meant(options: dict[str, Any], message: str) -> None:
    with pytest.raises(lasthop.InputError, match=message):
        lasthop.run(lasthop.Scenario(KEYS), progress=False, **options)


@contextmanager
def ctrl_c_once(condition: Callable[[], bool]) -> Iterator[None]:
    """Interrupt the main thread as soon as the condition is true."""

    def press() -> None:
        while not condition():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_ctrl_c_stops_a_run_and_its_threads(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread gets its turn only if the engine works without Python's lock."""
    started = threading.Event()
    run_work = Campaign._run_work

    def say_and_run(campaign: Campaign, store: Store, work: Work, stop: Stop) -> Outcome:
        started.set()
        return run_work(campaign, store, work, stop)

    monkeypatch.setattr(Campaign, "_run_work", say_and_run)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt), ctrl_c_once(started.is_set):
        lasthop.run(endless, jobs=2, progress=False)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), "a replication goes on although nobody waits for it"


def test_ctrl_c_stops_a_replication_that_is_looked_at(endless: Path, tmp_path: Path) -> None:
    cell = lasthop.Scenario.load(endless).study.cells[0]
    file = tmp_path / "series.csv"
    with pytest.raises(KeyboardInterrupt), ctrl_c_once(file.exists):
        observe(cell, 1, 1, 1, Observation(series=SeriesTarget(file, 1_000_000_000)))
