"""The command `lasthop crosscheck`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import click

from lasthop import _core
from lasthop.campaign.limits import Limits
from lasthop.campaign.plan import ChosenRun, Plan
from lasthop.campaign.provenance import usable_cores
from lasthop.commands.basic import PATH, Choice, only_option, seed_option
from lasthop.commands.completion import complete_scenarios
from lasthop.commands.options import COUNT, anyway_option, limit_memory_option
from lasthop.commands.table_file import check_output, write_output
from lasthop.crosscheck.compare import FlowComparison
from lasthop.engines.engine import Engine
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.live.live_engine import LiveEngine
from lasthop.engines.model_engine import ModelEngine
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import all_levels, select_cells
from lasthop.scenario.toml import to_toml
from lasthop.studies.catalogue import find_scenario

Cells: TypeAlias = Mapping[tuple[str, str], _core.Cell]
"""Cells by engine and key."""


@click.command("crosscheck")
@click.argument("scenario", metavar="FILE", shell_complete=complete_scenarios)
@only_option("Compare only these cells (combinations of factor levels), as in 'lasthop run'.")
@click.option("--replications", type=COUNT, default=1, show_default=True, metavar="N", help="Runs per cell.")
@seed_option
@click.option("--kernel", metavar="NAME", help="Guest kernel.  [default: the newest release]")
@click.option("--live", is_flag=True, help="Also compare this machine's TCP, in real time.")
@click.option(
    "--router",
    type=Choice(["linux"]),
    help="Use Linux's own queue disciplines in the guest, as router.implementation does, and lasthop's "
    "versions of them in the model. The model has no netem and keeps its drop-tail queues.",
)
@click.option("--no-model", is_flag=True, help="Leave out the model; compare only kernel and live.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of parallel runs. Live runs mostly wait, so N may exceed the cores.  [default: one per "
    "core]",
)
@click.option(
    "--out",
    type=PATH,
    metavar="FILE",
    help="Also write a row per flow to this new file (.csv, .json or .parquet).",
)
@anyway_option
@limit_memory_option
@click.option("--quiet", is_flag=True, help="Print only the totals, not each flow.")
def crosscheck_command(
    *,
    scenario: str,
    only: tuple[str, ...],
    replications: int,
    seed: int | None,
    kernel: str | None,
    live: bool,
    router: str | None,
    no_model: bool,
    jobs: int | None,
    out: Path | None,
    anyway: bool,
    limit_memory: float | None,
    quiet: bool,
) -> None:
    """Compare engines on a scenario, ACK by ACK.

    FILE is a scenario file or the name of a study. The guest kernel is the reference. At every ACK, lasthop
    compares the acknowledged data, cwnd and ssthresh of each flow's sender, and the packets that it sent. It
    reports the first difference, with both histories and the cause, and the difference in every metric. To
    model that kernel's TCP, set [tcp] profile = "linux-6".

    Example: lasthop crosscheck two-flows.toml --live
    """
    import polars as pl

    from lasthop.campaign.progress import progress
    from lasthop.common.errors import InputError
    from lasthop.crosscheck.tell import tell_all, tell_flow

    if out is not None:
        check_output(out)
    others = [*([] if no_model else [ModelEngine()]), *([LiveEngine()] if live else [])]
    if not others:
        raise InputError("--no-model leaves no engine to compare with the guest kernel: add --live.")
    path = find_scenario(scenario)
    study = read_study(path)
    plan = Plan(
        study=study,
        cells=select_cells(study.cells, all_levels(study), only),
        seed=study.seed if seed is None else seed,
        replications=replications,
        limits=Limits(anyway, limit_memory),
    )
    guest = KernelEngine.choose(kernel)
    other_cells = {} if router is None else _with_router(path, router)
    results: list[FlowComparison] = []
    with progress(plan.runs, 0, quiet=quiet, doing="comparing") as advance:
        for comparisons in _comparisons(plan, guest, other_cells, others, jobs or usable_cores()):
            advance(1)
            results += comparisons
            if not quiet:
                click.echo("\n".join(line for each in comparisons for line in tell_flow(each)))
    click.echo("\n".join(tell_all(results)))
    if out is not None:
        write_output(
            pl.DataFrame([comparison.row() for comparison in results], infer_schema_length=None), out
        )


def _with_router(path: Path, router: str) -> Cells:
    """Read a scenario with another router, for the guest and, if the model supports it, for the model."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        text = to_toml({"extends": path.resolve(), "router": {"implementation": router}})
        file.write_text(text, encoding="utf-8")
        study = read_study(file)
    cells = {(KernelEngine.name, cell.key): cell for cell in study.cells}
    for cell in study.cells:
        with suppress(_core.ScenarioError):
            ModelEngine.check(study, [cell])
            cells[ModelEngine.name, cell.key] = cell
    return cells


def _comparisons(
    plan: Plan, guest: Engine, other_cells: Cells, others: Sequence[Engine], jobs: int
) -> Iterator[list[FlowComparison]]:
    """Yield the flows of each run, in order; `other_cells` replace the plan's cells on some engines."""
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace

    from lasthop.crosscheck.compare import compare

    plans = {engine.name: replace(plan, engine=engine) for engine in (guest, *others)}

    def compare_run(cell: _core.Cell, replication: int) -> list[FlowComparison]:
        cells = {name: other_cells.get((name, cell.key), cell) for name in plans}
        traces = {name: ChosenRun(each, cells[name], 1, replication).trace() for name, each in plans.items()}
        pairs = [((guest.name, other.name), (traces[guest.name], traces[other.name])) for other in others]
        return [each for names, two in pairs for each in compare(cell, replication, names, two)]

    for other in others:
        if not other.real_tcp:
            other.check(plan.study, plan.cells)
    runs = [(cell, replication) for cell in plan.cells for replication in range(1, plan.replications + 1)]
    pool = ThreadPoolExecutor(max_workers=jobs)
    try:
        yield from pool.map(compare_run, *zip(*runs, strict=True))
    finally:
        pool.shutdown(cancel_futures=True)
