"""The commands `lasthop study`."""

import click

from lasthop.commands.completion import complete_studies
from lasthop.commands.options import run_options
from lasthop.commands.run import RunOptions, run
from lasthop.common.errors import InputError
from lasthop.scenario.points import read_study
from lasthop.studies.catalogue import SCENARIO_FILE, find_study, list_studies


@click.group("study")
def study_group() -> None:
    """List, show and run published studies.

    lasthop compares its results with the published numbers.

    Example: lasthop study list
    """


@study_group.command("list")
def study_list() -> None:
    """List the studies: name, cells (combinations of factor levels) x replications, title.

    Example: lasthop study list
    """
    studies = list_studies()
    if not studies:
        raise InputError("This installation contains no studies.")
    width = max(map(len, studies))
    for name, folder in studies.items():
        study = read_study(folder / SCENARIO_FILE)
        click.echo(f"{name:<{width}}  {len(study.cells):>4} cells x {study.replications:>3}  {study.title}")


@study_group.command("show")
@click.argument("name", shell_complete=complete_studies)
def study_show(name: str) -> None:
    """Show the factors of study NAME and how to run it.

    Example: lasthop study show kulve2003
    """
    folder = find_study(name)
    study = read_study(folder / SCENARIO_FILE)
    click.echo(study.title)
    if study.description:
        click.echo(click.wrap_text(study.description, width=100, preserve_paragraphs=True))
    click.echo()
    for factor, levels in study.factors.items():
        click.echo(f"{factor:<14}{', '.join(levels)}")
    click.echo(f"{'cells':<14}{len(study.cells)}")
    click.echo(f"{'replications':<14}{study.replications} per cell")
    click.echo(f"{'seed':<14}{study.seed}")
    click.echo(f"{'scenario':<14}{folder / SCENARIO_FILE}")
    click.echo(f"\nRun it with: lasthop study run {name}")


@study_group.command("run")
@click.argument("name", shell_complete=complete_studies)
@run_options()
@click.pass_context
def study_run(context: click.Context, /, name: str, **_: object) -> None:
    """Run study NAME and compare it with its published numbers.

    It prints how many numbers agree and how many of the study's claims hold, and writes a report. In the
    files, times are in seconds (_s) or milliseconds (_ms) and rates in bytes per second (_Bps).

    Example: lasthop study run kulve2003 --sets 10 --out results/kulve2003-10
    """
    run(find_study(name) / SCENARIO_FILE, RunOptions.of(context))
