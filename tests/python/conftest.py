"""Shared fixtures: a stand-in for the engine, and a copy of the study kulve2003 that it runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

import fake_core
from lasthop import _core
from lasthop.cli import main
from lasthop.engines.kernel.store import Kernel, find_kernel
from lasthop.errors import InputError

# A slow machine is no failure.
settings.register_profile("lasthop", deadline=None)
settings.load_profile("lasthop")

# Several processes share the tests. They start the longest files first, so that none is left with one at the end.
LONGEST_FIRST = ("guests", "test_live_run", "test_analyze", "test_browser", "test_live", "test_iip2004")
# These files look for guests that are left over. Side by side, they would find each other's.
GUESTS = ("test_kernel", "test_crosscheck", "test_linux_router")

STUDY = Path(__file__).resolve().parents[2] / "studies" / "kulve2003"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "two-flows.toml"


def _room(file: str) -> str:
    """Return what the tests of a file share a process with: the file, or all that count guests."""
    stem = Path(file).stem
    return "guests" if stem in GUESTS else stem


class Rooms(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a file in one process: they share the results of a study, say."""

    def _split_scope(self, nodeid: str) -> str:
        return _room(nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Rooms:
    """Share the files out to the processes of `--numprocesses`."""
    return Rooms(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that take longest."""
    order = {room: place for place, room in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(_room(item.path.name), len(order)))


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
    text = EXAMPLE.read_text(encoding="utf-8").replace("64 kbit/s", "100000 kbit/s").replace('"10 min"', '"6000 min"')
    file.write_text(text.replace('"188640 B"', '"90000 MB"'), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Return the guest kernel. `make test` builds it before; without it these tests fail, and say how to get it."""
    try:
        return find_kernel(None)
    except InputError as error:
        pytest.fail(f"the tests of the kernel engine need a guest kernel: run `make kernel` ({error})")


@pytest.fixture
def lasthop_main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Return the command line, run in an empty working folder."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return lambda *arguments: main([str(argument) for argument in arguments])


# What a module's own fixture `results`, a finished study's folder, holds.


@pytest.fixture(scope="module")
def summary(results: Path) -> pl.DataFrame:
    return pl.read_csv(results / "summary.csv", infer_schema_length=None)


@pytest.fixture(scope="module")
def comparison(results: Path) -> pl.DataFrame:
    return pl.read_csv(results / "comparison.csv", infer_schema_length=None)


@pytest.fixture(scope="module")
def flows(results: Path) -> pl.DataFrame:
    return pl.read_parquet(results / "flows.parquet")
