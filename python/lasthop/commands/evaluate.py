"""The command `lasthop evaluate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop.campaign.cluster import check_cluster
from lasthop.campaign.simulate import place_of
from lasthop.commands.basic import PATH, Choice, list_option
from lasthop.commands.judging import asked_of_judge, judging_options
from lasthop.commands.options import cluster_option, is_given
from lasthop.common.algorithms import PREFIX
from lasthop.common.errors import InputError
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.model_engine import ModelEngine
from lasthop.engines.registry import ENGINES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lasthop.campaign.simulate import Asked
    from lasthop.evaluate.dossier import Judgement, Subject
    from lasthop.evaluate.rows import Set


@click.command("evaluate")
@click.argument("control", metavar="CONTROL", required=False)
@list_option(
    "--against", "against", "Congestion controls to compare with.", metavar="NAME", default="reno,cubic"
)
@click.option(
    "--stack",
    metavar="NAME",
    help="Instead of CONTROL: evaluate an implementation of a transport protocol, on the kernel engine. NAME "
    "is in 'lasthop stack list', or an adapter's .toml file.",
)
@click.option(
    "--set",
    "set_name",
    type=Choice(["quick", "whole"]),
    default="quick",
    show_default=True,
    help="Size of the set of scenarios. quick: few levels and replications; whole: more of both.",
)
@cluster_option
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="Folder for the dossier; runs in it are reused.  [default: dossiers/NAME]",
)
@judging_options
@click.pass_context
def evaluate_command(
    context: click.Context,
    /,
    *,
    control: str | None,
    against: tuple[str, ...],
    stack: str | None,
    set_name: str,
    module: Path | None,
    jobs: int | None,
    cluster: str | None,
    out: Path | None,
    quiet: bool,
    **_: object,
) -> int:
    """Evaluate a congestion control according to RFC 9743.

    CONTROL is a value of tcp.congestion_control, such as bbr3, or a Python class: FILE.py:CLASS. It runs
    through a fixed set of scenarios, and so do the controls of --against. For each section of RFC 9743,
    lasthop prints the measured number and, if the section has a criterion, a verdict. The folder of --out
    contains:

    \b
      dossier.html  criteria, verdicts, numbers with intervals, figures
      dossier.csv   the numbers: a row per section, scenario, cell, control and metric
      scenarios/    the scenarios, for 'lasthop run', 'plot' and 'explain'
      results/      their results

    To evaluate a control written in C, build it into the guest kernel with --module tcp_NAME.c. NAME must be
    a congestion control that scenarios accept; CONTROL defaults to it.

    --stack evaluates a stack with its own congestion control next to Linux' TCP, in the scenarios of the set
    that transfers can express. The others are listed.

    After Ctrl-C, the same command continues. docs/reference/evaluate.md states the requirements of each
    section and the sources of its limits. Exit codes are those of 'lasthop check': 4 if a section is not
    upheld, 5 if one is undecided.

    Example: lasthop evaluate my_control.py:Mine --set whole
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.evaluate import tell
    from lasthop.evaluate.controls import Control, built_in
    from lasthop.evaluate.dossier import build
    from lasthop.evaluate.page import write_page

    references = list(dict.fromkeys(map(built_in, against)))
    if not references:
        raise InputError("--against: missing a congestion control; write for example --against reno,cubic.")
    if stack is not None:
        if control is not None or module is not None:
            other = "CONTROL" if module is None else "--module"
            raise InputError(f"--stack and {other}: evaluate one at a time; leave out one of them.")
        asked, tested, levels, chosen = _of_stack(context, stack, references, set_name)
    else:
        asked, tested, levels, chosen = _of_control(context, control, references, set_name)
    engine = asked.engine
    name = tested.name if engine == ModelEngine.name or stack else f"{tested.name}-{engine}"
    if module is not None:
        name = f"{tested.name}-{asked.kernel}"
    folder = out or Path("dossiers") / name
    if cluster is not None:
        code = [tested.name] if isinstance(tested, Control) and tested.key.startswith(PREFIX) else []
        run_by = ENGINES[engine].choose(asked.kernel)
        check_cluster(cluster, engine=run_by, jobs=jobs, captures=False, code=code)
    write = (lambda _: None) if quiet else click.echo
    others = " and ".join(references)
    given = control or stack or tested.name
    write(f"{given} against {others}: {set_name} set, version {chosen.version}, engine {engine}")

    def report(judgement: Judgement) -> None:
        write("\n".join(tell.lines(judgement)))

    with place_of(cluster, jobs, write) as place:
        dossier = build(tested, levels, chosen, asked, out=folder, place=place, quiet=quiet, say=report)
    tell.write_csv(dossier, folder / "dossier.csv")
    write_page(dossier, folder / "dossier.html")
    if dossier.late is not None:
        click.echo(dossier.late, err=True)
    for line in (*place.summary(), f"dossier: {folder / 'dossier.html'}"):
        write(line)
    return dossier.exit_code


def _of_control(
    context: click.Context, control: str | None, references: list[str], set_name: str
) -> tuple[Asked, Subject, Mapping[str, Mapping[str, object]], Set]:
    """Return the request, what is tested, the levels of the factor `control`, and the set."""
    from lasthop.evaluate.controls import Control, read_control
    from lasthop.evaluate.rows import TESTED, read_set

    asked = asked_of_judge(context)
    module: Path | None = context.params["module"]
    if module is not None:
        control = control or module.stem.removeprefix("tcp_")
    if control is None:
        raise InputError(
            "Missing CONTROL: give for example bbr3 or my_control.py:Mine, or give --module or --stack."
        )
    tested = read_control(control)
    levels = {TESTED: tested.level, **{name: Control(name, name).level for name in references}}
    return asked, tested, levels, read_set(set_name)


def _of_stack(
    context: click.Context, stack: str, references: list[str], set_name: str
) -> tuple[Asked, Subject, Mapping[str, Mapping[str, object]], Set]:
    """Return the same for a stack."""
    from lasthop.evaluate.rows import TESTED
    from lasthop.evaluate.transfers import EvaluatedStack, level_of, level_of_control, read_set_of_stacks
    from lasthop.stacks.adapter import adapter_of, check_installed

    asked = asked_of_judge(context)
    if is_given(context, "engine") and asked.engine == ModelEngine.name:
        raise InputError(
            "--stack runs real programs, which the model engine cannot; leave out --engine model."
        )
    if not is_given(context, "engine"):
        asked = replace(asked, engine=KernelEngine.name)
    adapter = adapter_of(stack)
    check_installed(adapter, stack)
    name = str(adapter.file) if stack.endswith(".toml") else stack
    levels = {TESTED: level_of(name), **{own: level_of_control(own) for own in references}}
    return asked, EvaluatedStack(adapter.name, control=adapter.control), levels, read_set_of_stacks(set_name)
