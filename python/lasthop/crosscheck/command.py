"""The command `lasthop crosscheck`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from lasthop import _core
from lasthop.campaign import MODEL, ChosenRun, Plan
from lasthop.catalogue import find_scenario
from lasthop.crosscheck.compare import FlowComparison
from lasthop.kernel.engine import KERNEL
from lasthop.kernel.store import Kernel, find_kernel
from lasthop.live.engine import LIVE
from lasthop.selection import select_cells


@click.command("crosscheck")
@click.argument("scenario", metavar="FILE")
@click.option("--only", multiple=True, metavar="FACTOR=LEVEL,...", help="Only these cells, as for 'lasthop run'.")
@click.option(
    "--replications", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Runs of each cell."
)
@click.option("--seed", type=click.IntRange(min=0, max=2**64 - 1), metavar="N", help="Seed of all random streams.")
@click.option("--kernel", metavar="NAME", help="The guest kernel.  [default: the newest release]")
@click.option("--live", is_flag=True, help="Run it live, too, with this machine's TCP and in real time.")
@click.option("--no-model", is_flag=True, help="Leave the model out: only kernel and live.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a row per flow into this new file: .csv, .json or .parquet.",
)
@click.option("--quiet", is_flag=True, help="Print the sum only, not each flow.")
def crosscheck_command(
    *,
    scenario: str,
    only: tuple[str, ...],
    replications: int,
    seed: int | None,
    kernel: str | None,
    live: bool,
    no_model: bool,
    out: Path | None,
    quiet: bool,
) -> None:
    """Run a scenario on several engines and say where they part.

    FILE is a scenario file or the name of a study. The guest kernel is the reference. Each flow's sender is compared
    at every ACK - what was acknowledged, cwnd, ssthresh, what it sent - and the first difference is told with both
    stories, beside the distance of every metric. For the model of that kernel's TCP, set [tcp] profile = "linux-6".

    Example: lasthop crosscheck examples/two-flows.toml --live
    """
    import polars as pl

    from lasthop.analyze import check_output, write_output
    from lasthop.crosscheck.tell import tell_all, tell_flow
    from lasthop.errors import InputError

    if out is not None:
        check_output(out)
    others = ([] if no_model else [MODEL]) + ([LIVE] if live else [])
    if not others:
        raise InputError("--no-model leaves nothing to compare with: give --live too.")
    study = _core.load(str(find_scenario(scenario)))
    plan = Plan(
        study=study,
        cells=select_cells(study.cells, study.factors, only),
        seed=study.seed if seed is None else seed,
        replications=replications,
    )
    found = []
    for comparison in _comparisons(plan, others, find_kernel(kernel)):
        found.append(comparison)
        if not quiet:
            click.echo("\n".join(tell_flow(comparison)))
    click.echo("\n".join(tell_all(found)))
    if out is not None:
        write_output(pl.DataFrame([comparison.row() for comparison in found], infer_schema_length=None), out)


def _comparisons(plan: Plan, others: Sequence[str], kernel: Kernel) -> Iterator[FlowComparison]:
    from dataclasses import replace

    from lasthop.crosscheck.compare import compare

    plans = {
        KERNEL: replace(plan, engine=KERNEL, kernel=kernel),
        **{name: replace(plan, engine=name) for name in others},
    }
    for cell in plan.cells:
        if MODEL in others:
            cell.needs_model()
        for replication in range(1, plan.replications + 1):
            traces = {name: ChosenRun(each, cell, 1, replication).trace() for name, each in plans.items()}
            for other in others:
                yield from compare(cell.key, replication, (KERNEL, other), (traces[KERNEL], traces[other]))
