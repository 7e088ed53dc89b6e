"""Shared fixtures: a stand-in for the engine, and a copy of the study kulve2003 that it runs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from hypothesis import settings

import fake_core
import long_tests
from lasthop import _core
from lasthop.commands.cli import main
from lasthop.common.errors import InputError
from lasthop.engines.kernel.store import Kernel, find_kernel

# Tests of one room use helpers in those of another.
sys.path.extend(sorted({str(test.parent) for test in Path(__file__).parent.glob("*/**/*.py")}))

# A slow machine is no failure.
settings.register_profile("lasthop", deadline=None)
settings.load_profile("lasthop")

# Several processes share the tests. These groups and single tests take longest. They start first, so that no
# process is left with one at the end.
LONGEST_FIRST = (
    "test_iip2004",
    "test_atmf1998",
    "test_balekaki2012",
    "test_saarto2003",
    "test_a_dossier_has_numbers_in_each_section_and_its_page_shows_them",
    "test_random_kills_of_runner_workers_and_scheduler_change_nothing",
    "test_cluster",
    "test_browser",
    "test_kulve2003",
    "test_lab",
    "test_capture",
    "test_markup",
    "test_local_processes_run_it_and_leave_nothing_behind",
    "test_counts_verdicts_and_times_equal_the_records",
    "test_killed_at_any_moment_nothing_stays",
    "test_the_same_seed_gives_the_same_records_byte_for_byte_on_one_instance_and_on_two",
    "test_the_same_seed_gives_the_same_records_byte_for_byte_with_losses_and_bbr",
    "test_the_workers_of_a_cluster_share_the_cells",
    "test_a_campaign_that_is_killed_again_and_again_ends_with_the_rows_of_an_undisturbed_one",
    "test_a_full_disk_and_a_read_only_folder_lose_nothing_that_was_done",
    "test_sigkill_of_any_process_leaves_nothing",
    "test_a_known_line_is_found_within_its_intervals",
)

# What the tests run of each study, at most once; the long tests of a study run more.
STUDIES = {
    "atmf1998": ("--replications", "1"),
    "balekaki2012": (
        *("--only", "link=64k,pattern=constant,packets=9,packets=10,congestion=60,congestion=90"),
        *("--only", "link=64k,pattern=varying,packets=9"),
        *("--replications", "3"),
    ),
    "bbr2016": (
        *("--only", "experiment=figure8,experiment=paper,control=bbr,loss=0.02,loss=0.3"),
        *("--replications", "1"),
    ),
    "coexistence": (
        *(
            "--only",
            "control=bbr,control=cubic,beside=bbr,beside=cubic,queue=0.5,queue=1,queue=4,rtt=equal,count=1+1",
        ),
        *("--replications", "2"),
    ),
    "iip2004": ("--replications", "2"),
    "kulve2003": ("--sets", "10"),
    "l4s2020": (
        *("--only", "scenario=1,rate=10,queue=dualpi2"),
        *("--only", "scenario=2,rate=50-25,queue=fq_codel,rtt=80"),
        *("--only", "scenario=2,rate=50-25,rtt=20-bursty"),
        *("--only", "scenario=6,queue=red-150000,pair=prague-reno"),
        *("--replications", "1"),
    ),
    "saarto2003": ("--replications", "2"),
    "sce2019": ("--only", "rate=1,rate=5,rtt=20,rtt=80", "--replications", "1"),
}

STUDY = Path(__file__).resolve().parents[2] / "studies" / "kulve2003"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two-flows.toml"


def _group(item: pytest.Function) -> str | None:
    """Return the group of tests that share a process with this one: they use the same module's fixture."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return item.path.stem if any(definitions[-1].scope == "module" for definitions in fixtures) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--changed-since", metavar="REV", help="long tests: only what covers a change since REV")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Group the tests, start with the longest, and spread the others.

    Neighbours in a file often wait for the same thing: side by side, they would leave the processors idle.
    """
    long_tests.select(config, items)
    order = {name: place for place, name in enumerate(LONGEST_FIRST)}
    places = {}
    for item in items:
        group = _group(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
        anywhere = hashlib.sha256((group or item.nodeid).encode()).digest()
        places[item] = order.get(group or item.originalname, len(order)), anywhere
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=places.__getitem__)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail if pytest-xdist ignores the groups: each process would make every module's fixture anew."""
    if (
        "PYTEST_XDIST_WORKER" in os.environ
        and item.get_closest_marker("xdist_group")
        and "@" not in item.nodeid
    ):
        pytest.fail("pytest-xdist does not group the tests: its version does not fit pytest's")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a process that shares the tests tell the first one which long tests it has left out."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        session.config.workeroutput["long"] = session.config.stash.get(long_tests.REPORT, [])  # type: ignore[attr-defined]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401  (a type of pytest-xdist)
    node.config.stash[long_tests.REPORT] = getattr(node, "workeroutput", {}).get("long", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the long tests that ran, and the others with the reason, if `--changed-since` chose them."""
    if report := config.stash.get(long_tests.REPORT, []):
        terminalreporter.section(
            f"long tests for what has changed since {config.getoption('--changed-since')}"
        )
        for line in report:
            terminalreporter.write_line(line)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> fake_core.Engine:
    """Replace the engine's entry point by the stand-in; return its counters."""
    control = fake_core.Engine()
    monkeypatch.setattr(_core, "load", control.load)
    return control


def copy_study(where: Path) -> Path:
    """Copy kulve2003 with the files beside it, for the stand-in to load; return the scenario file."""
    folder = where / "kulve2003"
    folder.mkdir()
    for name in ("published.csv", "tables.csv", "report.toml"):
        shutil.copy(STUDY / name, folder / name)
    file = folder / "study.toml"
    file.write_text("kulve2003\n", encoding="utf-8")
    return file


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    """Return the scenario file of a copy of kulve2003."""
    return copy_study(tmp_path)


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """Return a scenario file that is no study."""
    file = tmp_path / "small.toml"
    file.write_text("small\n", encoding="utf-8")
    return file


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Return a scenario whose runs take longer than anybody waits."""
    file = tmp_path / "endless.toml"
    text = (
        EXAMPLE.read_text(encoding="utf-8")
        .replace("64 kbit/s", "100000 kbit/s")
        .replace('"10 min"', '"6000 min"')
    )
    # Less than the limit that is checked beforehand, and still minutes.
    file.write_text(text.replace('"188640 B"', '"50000 MB"'), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Return the guest kernel.

    `make test` builds it before; without it these tests fail, and say how to get it.
    """
    try:
        return find_kernel(None)
    except InputError as error:
        pytest.fail(f"the tests of the kernel engine need a guest kernel: run `make kernel` ({error})")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Return a function that gives the folder of a name, filled.

    The processes that share the tests share the folders: the first that needs one fills it, tests only read
    it.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def filled(name: str, fill: Callable[[Path], None]) -> Path:
        folder = shared / name
        with folder.with_suffix(".lock").open("a+") as lock:  # its text says that the folder is full
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.seek(0)
            if not lock.read():
                fill(folder)
                lock.write("full")
        return folder

    return filled


@pytest.fixture(scope="session")
def study_results(shared_folder: Callable[[str, Callable[[Path], None]], Path]) -> Callable[..., Path]:
    """Return a function that makes the results of a study, with the options of `STUDIES` or others.

    It returns their folder. Beside it stands the command's output, as a `.txt`.
    """

    def results(name: str, *options: str) -> Path:
        options = options or STUDIES[name]

        def run(folder: Path) -> None:
            with folder.with_suffix(".txt").open("w", encoding="utf-8") as output, redirect_stdout(output):
                assert main(["study", "run", name, *options, "--out", str(folder)]) == 0

        return shared_folder(quote(" ".join([name, *options]), safe=" =,"), run)

    return results


@pytest.fixture
def lasthop_main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Return the command line, run in an empty working folder."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return lambda *arguments: main([str(argument) for argument in arguments])


# The folder of a finished study that a module's own fixture `results` returns.


@pytest.fixture(scope="module")
def summary(results: Path) -> pl.DataFrame:
    return pl.read_csv(results / "summary.csv", infer_schema_length=None)


@pytest.fixture(scope="module")
def comparison(results: Path) -> pl.DataFrame:
    return pl.read_csv(results / "comparison.csv", infer_schema_length=None)


@pytest.fixture(scope="module")
def flows(results: Path) -> pl.DataFrame:
    return pl.read_parquet(results / "flows.parquet")


def write_manifest(folder: Path, cells: Sequence[str] = (), seed: int = 7) -> None:
    """Write the manifest of results that a test makes by hand."""
    identity = {
        **{
            "format": 3,
            "lasthop_version": "0",
            "lasthop_rules": "0",
            "lasthop_commit": "0",
            "engine": "model",
        },
        **{"scenario": "made", "scenario_digest": "0", "seed": seed, "replications": 1, "sets": 1},
        "cells": list(cells),
    }
    files = [folder / name for name in ("flows.parquet", "runs.parquet")]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "" for file in files]
    facts = {
        "identity": identity,
        "repeatable": True,
        "assumed": [],
        "host": {"system": "", "processor": "", "cores": 1, "python": ""},
        "simulation": {"runs": 0, "wall_s": 0.0},
        "tables": {file.name: recorded for file, recorded in zip(files, digests, strict=True)},
    }
    (folder / "manifest.json").write_text(json.dumps(facts), encoding="utf-8")


def replace_table(file: Path, frame: pl.DataFrame) -> None:
    """Put another table into a results folder, and its digest into the manifest."""
    frame.write_parquet(file)
    manifest = file.with_name("manifest.json")
    facts = json.loads(manifest.read_text(encoding="utf-8"))
    facts["tables"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(facts), encoding="utf-8")
