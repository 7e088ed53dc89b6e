"""Running a scenario up to finished records: the common part of `lasthop run` and `lasthop.run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _core
from lasthop.campaign.campaign import Campaign, Simulated
from lasthop.campaign.cluster import opened
from lasthop.campaign.limits import Limits
from lasthop.campaign.plan import Plan
from lasthop.campaign.progress import progress
from lasthop.campaign.provenance import usable_cores
from lasthop.campaign.results.folder import TRACES
from lasthop.campaign.results.store import STORE
from lasthop.campaign.runner import Place, Threads
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.units import counted
from lasthop.engines.registry import ENGINES
from lasthop.scenario.selection import all_levels, select_cells

if TYPE_CHECKING:
    from lasthop.campaign.until.stopping import Stopping


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to run a scenario; `None` selects the scenario's own value."""

    only: tuple[str, ...]
    replications: int | None
    until: tuple[str, ...]
    sets: int
    seed: int | None
    engine: str
    kernel: str | None
    anyway: bool
    limit_memory: float | None

    def plan(self, study: _core.Study, file: Path | None) -> tuple[Plan, Stopping | None]:
        """Return the plan and its stopping rule, if any; raise `InputError` if it cannot be run."""
        if self.engine not in ENGINES:
            raise InputError(
                f"There is no engine '{self.engine}'; did you mean '{nearest(self.engine, ENGINES)}'? "
                f"Engines: {', '.join(ENGINES)}."
            )
        cells = select_cells(study.cells, all_levels(study), self.only)
        stopping = self._stopping(cells)
        plan = Plan(
            study=study,
            cells=cells,
            seed=study.seed if self.seed is None else self.seed,
            replications=self.replications or study.replications if stopping is None else stopping.looks[-1],
            sets=self.sets,
            engine=ENGINES[self.engine].choose(self.kernel),
            until=() if stopping is None else [condition.text for condition in stopping.conditions],
            file=file,
            limits=Limits(self.anyway, self.limit_memory),
        )
        plan.engine.check(study, plan.cells)
        return plan, stopping

    def _stopping(self, cells: Sequence[_core.Cell]) -> Stopping | None:
        if not self.until:
            return None
        from lasthop.campaign.until.language import parse
        from lasthop.campaign.until.stopping import CAP, Stopping

        if self.sets > 1:
            raise InputError(
                "--sets needs a fixed number of replications, and --until chooses that number: omit one of "
                "them."
            )
        return Stopping([parse(text) for text in self.until], cells, self.replications or CAP)


def asked_of(parameters: Mapping[str, Any]) -> Asked:
    """Return the request in a command's parameters, by default for all cells."""
    own = {field.name: parameters[field.name] for field in fields(Asked) if field.name in parameters}
    return Asked(**{"only": (), "replications": None, "until": (), "sets": 1, **own})


def simulate(
    campaign: Campaign, *, jobs: int | None, cluster: str | None, quiet: bool, say: Callable[[str], object]
) -> None:
    """Run the rest of a campaign, here or on a cluster; pass lines about it to `say`."""
    for line in _outlook_lines(campaign):
        say(line)
    if campaign.lacks_store:
        say(f"{campaign.out / STORE} is missing: these results cannot be extended with more runs.")
    complete = campaign.complete and not campaign.pending()
    with place_of(None if complete else cluster, jobs, say) as place:
        simulated = simulate_at(place, campaign, quiet=quiet)
    for line in place.summary():
        say(line)
    if campaign.damaged:
        say(f"{campaign.damaged} runs in the store were damaged and were run again.")
    if simulated.runs:
        done = "ran" if campaign.plan.engine.real_tcp else "simulated"
        say(f"{done} {counted(simulated.runs, 'run')} in {simulated.wall_s:.2f} s")
    for warning in warnings_of(campaign):
        say(warning)
    if campaign.snap_length is not None:
        say(f"captures: {campaign.out / TRACES}, {campaign.finished.traces_bytes() / 1e6:.1f} MB")


@contextmanager
def place_of(cluster: str | None, jobs: int | None, say: Callable[[str], object]) -> Iterator[Place]:
    """Yield the place where campaigns run: a cluster, or threads of this process."""
    if cluster is None:
        yield Threads(jobs or usable_cores())
        return
    with opened(cluster, say) as place:
        yield place


def simulate_at(place: Place, campaign: Campaign, *, quiet: bool) -> Simulated:
    """Run the rest of a campaign at a place, with a progress display."""
    pending = sum(work.count for work in campaign.pending())
    what = "runs" if campaign.stopping is None else "runs up to the next look"
    done = campaign.runs - pending
    with progress(
        lambda: done + max(pending, campaign.assigned), done, quiet=quiet, what=what, detail=place.detail
    ) as advance:
        return campaign.run(place, advance)


def warnings_of(campaign: Campaign) -> list[str]:
    """Return warnings about finished records."""
    finished = campaign.finished
    return [warning for warning in (finished.silent(), finished.failed()) if warning is not None]


def lateness(campaign: Campaign) -> str | None:
    """Return a warning with the number of runs that are invalid because packets were late, or `None`."""
    if campaign.plan.repeatable or not (late := campaign.finished.late_runs()):
        return None
    return (
        f"INVALID: in {late} of {campaign.runs} runs more than 0.1 % of the packets were over 1 ms late. The "
        "column 'valid' of runs.parquet marks these runs. Run again with fewer --jobs, or on a less busy "
        "machine."
    )


def _outlook_lines(campaign: Campaign) -> Iterator[str]:
    """Yield lines about the stored results before anything runs."""
    out, runs, outlook = campaign.out, campaign.runs, campaign.outlook()
    if changed := campaign.inventory.changed_inputs():
        yield (
            f"These files have changed since the results in {out}: {', '.join(changed)}. Runs that use them "
            "are run again."
        )
    captures = sum(work.count for work in campaign.pending() if not work.record)
    if campaign.complete and captures:
        yield f"{out} has the records of {runs} runs; {captures} are run again to capture their packets."
    elif campaign.complete:
        yield f"{out} is complete: {runs} runs. Only the report is written again."
    elif outlook.stored:
        yield f"Resuming {out}: {outlook.stored} of {campaign.runs_text} are stored."
    if outlook.again:
        yield (
            f"{outlook.again} of them are run again because missing runs depend on them (cached metrics, or "
            "runs in one boot of a guest kernel)."
        )
    if outlook.others:
        yield (
            f"The store contains {outlook.others} more runs, which are not part of this command and not in "
            f"its tables. 'lasthop results gc {out}' removes them."
        )
