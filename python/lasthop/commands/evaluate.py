"""The command `lasthop evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop.campaign.cluster import check_cluster
from lasthop.campaign.simulate import place_of
from lasthop.commands.basic import PATH
from lasthop.commands.judging import asked_of_judge, judging_options
from lasthop.commands.options import cluster_option
from lasthop.common.algorithms import PREFIX
from lasthop.common.errors import InputError
from lasthop.engines.model_engine import ModelEngine
from lasthop.engines.registry import ENGINES

if TYPE_CHECKING:
    from lasthop.evaluate.dossier import Judgement


@click.command("evaluate")
@click.argument("control", metavar="CONTROL", required=False)
@click.option(
    "--against",
    default="reno,cubic",
    show_default=True,
    metavar="NAME,...",
    help="The controls with which CONTROL is compared.",
)
@click.option(
    "--set",
    "set_name",
    type=click.Choice(["quick", "whole"]),
    default="quick",
    show_default=True,
    help="quick: a few levels and replications. whole: more of both.",
)
@cluster_option
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="Folder for the dossier, which keeps the runs it holds.  [default: dossiers/NAME]",
)
@judging_options
@click.pass_context
def evaluate_command(
    context: click.Context,
    /,
    *,
    control: str | None,
    against: str,
    set_name: str,
    module: Path | None,
    jobs: int | None,
    cluster: str | None,
    out: Path | None,
    quiet: bool,
    **_: object,
) -> int:
    """Evaluate a congestion control as RFC 9743 asks.

    CONTROL is a name of tcp.congestion_control, such as bbr3, or a class of your own: FILE.py:CLASS. It runs
    through a fixed set of scenarios, and so do Reno and CUBIC. For each section of RFC 9743 the command
    prints a verdict, where the section has a criterion, and the number behind it. The folder then has:

    \b
      dossier.html  criteria, verdicts, numbers with intervals, pictures
      dossier.csv   the numbers: a row per section, scenario, cell, control and metric
      scenarios/    the scenarios, which 'lasthop run', plot and explain take, too
      results/      their results

    A control of your own in C goes into a kernel with --module FILE, which is called tcp_NAME.c. NAME must be
    one that scenarios know; it is CONTROL if you leave that out.

    After Ctrl-C, the same command continues. docs/reference/evaluate.md states what each section asks, and
    the source of its limits. Exit codes are those of 'lasthop check': 4 if a section is not upheld, 5 if one
    is undecided.

    Example: lasthop evaluate my_control.py:Mine --set whole
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.evaluate import tell
    from lasthop.evaluate.controls import built_in, read_control
    from lasthop.evaluate.dossier import build
    from lasthop.evaluate.page import write_page
    from lasthop.evaluate.rows import read_set

    asked = asked_of_judge(context)
    if module is not None:
        control = control or module.stem.removeprefix("tcp_")
    if control is None:
        raise InputError("Name a congestion control, such as bbr3 or my_control.py:Mine, or give --module.")
    tested = read_control(control)
    references = list(dict.fromkeys(built_in(name.strip()) for name in against.split(",") if name.strip()))
    if not references:
        raise InputError("--against names no control; write for example --against reno,cubic.")
    engine = asked.engine
    name = tested.name if engine == ModelEngine.name else f"{tested.name}-{engine}"
    if module is not None:
        name = f"{tested.name}-{asked.kernel}"
    folder = out or Path("dossiers") / name
    chosen = read_set(set_name)
    if cluster is not None:
        code = [tested.name] if tested.key.startswith(PREFIX) else []
        run_by = ENGINES[engine].choose(asked.kernel)
        check_cluster(cluster, engine=run_by, jobs=jobs, captures=False, code=code)
    write = (lambda _: None) if quiet else click.echo
    beside = " and ".join(references)
    write(f"{control} beside {beside}: {set_name} set, version {chosen.version}, engine {engine}")

    def say(judgement: Judgement) -> None:
        write("\n".join(tell.lines(judgement)))

    with place_of(cluster, jobs, write) as place:
        dossier = build(tested, references, chosen, asked, out=folder, place=place, quiet=quiet, say=say)
    tell.write_csv(dossier, folder / "dossier.csv")
    write_page(dossier, folder / "dossier.html")
    if dossier.late is not None:
        click.echo(dossier.late, err=True)
    for line in (*place.summary(), f"dossier: {folder / 'dossier.html'}"):
        write(line)
    return dossier.exit_code
