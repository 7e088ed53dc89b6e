"""An engine's description of itself reaches the store, the manifest and the command line."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

import fake_core
from lasthop import _core
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.cluster import check_cluster
from lasthop.campaign.inventory import Outlook
from lasthop.campaign.plan import FORMAT, ChosenRun, Plan
from lasthop.campaign.results.folder import MANIFEST
from lasthop.campaign.runner import Threads
from lasthop.common.errors import InputError
from lasthop.engines.engine import Engine
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.kernel.store import Info, Kernel
from lasthop.engines.live.live_engine import LiveEngine
from lasthop.engines.model_engine import ModelEngine
from lasthop.engines.registry import ENGINES
from test_campaign import ignore, make_plan


@dataclasses.dataclass(frozen=True)
class Twin(ModelEngine):
    """Another engine: the model's runs, with another build."""

    name = "twin"
    build: str = "a"

    @property
    def identity(self) -> dict[str, str]:
        return {"build": self.build}

    @property
    def guest(self) -> str:
        return "a twin"

    def stretch(self, cell: _core.Cell) -> int:
        del cell
        return 4


def a_kernel(folder: Path) -> Kernel:
    (folder / "linux").write_bytes(b"a program")
    return Kernel("6.12", folder, Info("6.12.1", "", None, "", "", 1.0, seccomp=True))


def key(plan: Plan, engine: Engine) -> str:
    return dataclasses.replace(plan, engine=engine).source("d1", 7)


def test_folders_of_earlier_versions_stay_readable(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    plan = make_plan(engine, scenario_file, seed=5)

    def before(*parts: str | int | None) -> str:
        return hashlib.sha256(json.dumps([FORMAT, _core.VERSION, _core.RULES, *parts]).encode()).hexdigest()

    assert key(plan, ModelEngine()) == before("model", None, "d1", 5, 7)
    assert key(plan, LiveEngine()) == before("live", None, "d1", 5, 7)
    kernel = a_kernel(tmp_path)
    assert key(plan, KernelEngine(kernel)) == before("kernel", kernel.digest, "d1", 5, 7)


def test_every_engine_has_a_key_of_its_own(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    plan = make_plan(engine, scenario_file)
    engines: list[Engine] = [ModelEngine(), LiveEngine(), KernelEngine(a_kernel(tmp_path)), Twin(), Twin("b")]
    assert len({key(plan, each) for each in engines}) == len(engines)
    assert [engine.name for engine in ENGINES.values()] == list(ENGINES) == ["model", "live", "kernel"]


def test_a_new_engine_needs_only_what_it_says_of_itself(
    engine: fake_core.Engine, scenario_file: Path, tmp_path: Path
) -> None:
    plan = dataclasses.replace(make_plan(engine, scenario_file), engine=Twin())
    campaign = Campaign(plan, tmp_path / "out")
    campaign.run(Threads(1), ignore)
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert (manifest["identity"]["engine"], manifest["identity"]["build"]) == ("twin", "a")
    assert manifest["host"]["guest"] == "a twin"
    assert ChosenRun(plan, plan.cells[0], 1, 3).provenance().startswith(f"lasthop {_core.VERSION} ")
    # A fourth replication depends on the three before it, a fifth on none.
    longer = dataclasses.replace(plan, replications=5)
    campaign = Campaign(longer, tmp_path / "out")
    assert campaign.outlook() == Outlook(stored=6, missing=4, again=6, others=0)
    assert [(work.first, work.count) for work in campaign.pending()] == [(1, 4), (5, 1)] * 2
    campaign.run(Threads(1), ignore)
    shorter = Campaign(plan, tmp_path / "out")
    assert shorter.outlook() == Outlook(stored=6, missing=0, again=0, others=4)
    with pytest.raises(InputError, match=r"contains results of the build a, not of b; .*--overwrite"):
        Campaign(dataclasses.replace(plan, engine=Twin("b")), tmp_path / "out")


@pytest.mark.parametrize("name", ["model", "live"])
def test_only_the_kernel_engine_takes_a_kernel(name: str) -> None:
    with pytest.raises(InputError, match="--kernel selects the guest kernel of the kernel engine"):
        ENGINES[name].choose("6.12")


def test_an_engine_whose_results_depend_on_the_machine_runs_on_no_cluster(tmp_path: Path) -> None:
    for each in (ModelEngine(), KernelEngine(a_kernel(tmp_path))):
        check_cluster("local:2", engine=each, jobs=None, captures=False)
    with pytest.raises(InputError, match="--engine live does not run on a cluster"):
        check_cluster("local:2", engine=LiveEngine(), jobs=None, captures=False)
