"""The commands `lasthop check baseline save`, `list` and `remove`."""

from pathlib import Path

import click

from lasthop.analysis.checks import baselines
from lasthop.commands.basic import FOLDER
from lasthop.commands.options import quiet_option

_folder_option = click.option(
    "--in",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=baselines.FOLDER,
    show_default=True,
    metavar="DIR",
    help="Folder that holds the baselines.",
)


@click.group("baseline")
def baseline_group() -> None:
    """Save, list and remove baseline results.

    A baseline is a small folder with the tables and the manifest of finished results, without captures and
    report. Keep it in a repository or in the cache of your CI. Claims compare later versions with it:
    p95(elapsed_s) <= 1.1 * p95(elapsed_s, baseline).
    """


@baseline_group.command("save")
@click.argument("name")
@click.option(
    "--from", "results", type=FOLDER, metavar="DIR", help="Results folder to save.  [default: results/NAME]"
)
@_folder_option
@click.option("--overwrite", is_flag=True, help="Replace an existing baseline of this name.")
@quiet_option
def save_command(*, name: str, results: Path | None, folder: Path, overwrite: bool, quiet: bool) -> None:
    """Save finished results as baseline NAME.

    For each claim that compares with the baseline, this prints how far a version must exceed the limit to be
    detected by the same number of replications with other seeds, and how many replications detect 10 %.

    Example: lasthop check baseline save upload
    """
    place = baselines.save(name, results or Path("results") / name, folder, overwrite=overwrite)
    if quiet:
        return
    size = sum(file.stat().st_size for file in place.iterdir())
    click.echo(f"{place}: {size / 1000:.0f} kB")
    from lasthop.analysis.checks.power import plan_lines

    for line in plan_lines(place):
        click.echo(f"  {line}")


@baseline_group.command("list")
@_folder_option
def list_command(*, folder: Path) -> None:
    """List the saved baselines.

    Example: lasthop check baseline list
    """
    from rich.console import Console
    from rich.table import Table

    saved = list(baselines.saved(folder))
    if not saved:
        click.echo(f"There are no baselines in {folder}.")
        return
    table = Table(box=None, pad_edge=False)
    for title in ("baseline", "engine", "cells", "replications", "lasthop", "kB"):
        table.add_column(title, no_wrap=True)
    for baseline in saved:
        counts = str(baseline.cells), str(baseline.replications)
        size = f"{baseline.bytes / 1000:.0f}"
        table.add_row(baseline.folder.name, baseline.engine, *counts, baseline.version, size)
    Console(width=1000, highlight=False).print(table)


@baseline_group.command("remove")
@click.argument("name")
@_folder_option
@quiet_option
def remove_command(*, name: str, folder: Path, quiet: bool) -> None:
    """Remove baseline NAME.

    Example: lasthop check baseline remove upload
    """
    baselines.remove(name, folder)
    if not quiet:
        click.echo(f"Removed {folder / name}.")
