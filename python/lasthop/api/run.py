"""Running a scenario from Python."""

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from lasthop.api.run_results import Results
from lasthop.api.scenario import Scenario
from lasthop.api.texts import texts
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.cluster import check_cluster
from lasthop.campaign.limits import COUNT_MAX, read_size
from lasthop.campaign.results.folder import check_folder, locked
from lasthop.campaign.simulate import Asked, lateness, simulate, warnings_of
from lasthop.common.errors import InputError, InterruptedCampaignError


def run(
    scenario: Scenario | str | PathLike[str],
    *,
    engine: str = "model",
    replications: int | None = None,
    cluster: str | None = None,
    only: str | Sequence[str] = (),
    until: str | Sequence[str] = (),
    sets: int = 1,
    seed: int | None = None,
    jobs: int | None = None,
    kernel: str | None = None,
    anyway: bool = False,
    limit_memory: str | None = None,
    out: str | PathLike[str] | None = None,
    progress: bool = True,
) -> Results:
    """Run a scenario, as `lasthop run` does, and return its results. Ctrl-C stops it.

    Args:
        scenario: A scenario, a scenario file, or the name of a published study.
        engine: The engine that runs the TCP of the hosts: `model`, `live` or `kernel`.
        replications: Replications per cell and set, or the maximum per cell with `until`.
        cluster: A Dask cluster, such as `tcp://HOST:8786` or `local:4`, instead of this process.
        only: Run only these cells, such as `"link=e0"`; several filters are alternatives.
        until: Run each cell until it is precise, such as `"median(elapsed_s) within 2 %"`.
        sets: Independent sets of replications.
        seed: Seed of all random streams, instead of the scenario's.
        jobs: Threads, by default one per core. They do not affect the results.
        kernel: The guest kernel of the kernel engine, by default the newest release.
        anyway: Also run cells that may send more than 1000 million packets per run.
        limit_memory: Maximum memory of a run, such as `"8 GB"`, by default half of the machine's.
        out: Folder for the results, whose stored runs are used. By default it is temporary and removed with
            the results.
        progress: Show the progress: a bar in a terminal or notebook, lines on standard error elsewhere.

    Raises:
        InputError: The request is invalid or cannot be fulfilled.
        ScenarioError: The scenario is invalid, or the engine cannot run it.
        KeyboardInterrupt: Ctrl-C; finished runs are stored in `out`.
    """
    chosen = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    memory = None if limit_memory is None else read_size(limit_memory)
    request = Asked(texts(only), replications, texts(until), sets, seed, engine, kernel, anyway, memory)
    for name, number in (("replications", replications), ("sets", sets), ("jobs", jobs)):
        if number is not None and not 1 <= number <= COUNT_MAX:
            raise InputError(f"{name}={number}: give a number from 1 to {COUNT_MAX}.")
    plan, stopping = request.plan(chosen.study, chosen.file)
    if cluster is not None:
        check_cluster(cluster, engine=plan.engine, jobs=jobs, captures=False, code=plan.code)
    for note in chosen.study.notes:
        warnings.warn(note, stacklevel=2)
    folder = Path(out or tempfile.mkdtemp(prefix="lasthop-"))
    try:
        check_folder(folder)
        with locked(folder):
            campaign = Campaign(plan, folder, None, stopping)
            simulate(campaign, jobs=jobs, cluster=cluster, quiet=not progress, say=lambda _: None)
    except BaseException as error:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, InterruptedCampaignError):
            raise KeyboardInterrupt("" if out is None else str(error)) from None
        if isinstance(error, OSError):
            raise InputError(f"Cannot write results to {folder}: {error}.") from error
        raise
    for warning in (*warnings_of(campaign), lateness(campaign)):
        if warning is not None:
            warnings.warn(warning, stacklevel=2)
    results = Results(chosen, campaign)
    if out is None:
        weakref.finalize(results, shutil.rmtree, folder, ignore_errors=True)
    return results
