"""The command `lasthop repeat`: it writes the scenario of a program behind a last hop, and runs it."""

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from lasthop.campaign.results.folder import check_folder
from lasthop.commands.completion import complete_links
from lasthop.commands.programs import (
    HostPrograms,
    cpu_cost_option,
    host_programs,
    hosts_option,
    named_servers,
    servers_option,
    write_option,
)
from lasthop.commands.run import RunOptions, run, run_options
from lasthop.common.errors import InputError
from lasthop.common.files import write_text, writing
from lasthop.engines.kernel.kernel_engine import KernelEngine
from lasthop.engines.live.presets import find_link
from lasthop.engines.registry import ENGINES
from lasthop.scenario.points import read_study
from lasthop.scenario.toml import to_toml

EXIT_FAILED = 4
_MADE_BY = "# Written by 'lasthop repeat'. 'lasthop run' takes it, too."
_FACTOR = "command"
_TITLE_MAX = 80

_engine_option = click.option(
    "--engine",
    type=click.Choice([name for name, engine in ENGINES.items() if engine.real_tcp]),
    default=KernelEngine.name,
    show_default=True,
    help="What runs the programs.",
)


@click.command("repeat", context_settings={"allow_interspersed_args": False})
@click.option(
    "--link",
    metavar="PRESET|FILE",
    required=True,
    shell_complete=complete_links,
    help="The last hop: a preset ('lasthop shell --list') or a scenario file, whose factors are varied.",
)
@servers_option
@hosts_option
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="NAME=COMMAND",
    help="Compare several commands, each a shell command line: levels of the factor 'command'. It replaces "
    "COMMAND.",
)
@click.option(
    "--json",
    "prints_json",
    is_flag=True,
    help="The command prints JSON: its numbers become columns of runs.parquet.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE|DIR",
    help="A file or folder that decides the results, beside the programs and files that the command lines "
    "name: when it changes, all runs are made anew. Repeat the option for more.",
)
@write_option
@cpu_cost_option
@click.option(
    "--keep-servers",
    type=click.IntRange(min=1, max=1000),
    metavar="N",
    help="For --engine kernel: start the servers once for N replications. It helps if they are slow "
    "to start.",
)
@click.option(
    "--fail", is_flag=True, help=f"Return exit code {EXIT_FAILED} if the program failed in any run."
)
@run_options(_engine_option)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def repeat_command(
    context: click.Context,
    /,
    *,
    link: str,
    servers: tuple[str, ...],
    hosts: tuple[str, ...],
    commands: tuple[str, ...],
    prints_json: bool,
    inputs: tuple[Path, ...],
    write: tuple[Path, ...],
    cpu_cost: float,
    keep_servers: int | None,
    fail: bool,
    command: tuple[str, ...],
    **_: object,
) -> None:
    """Run a program many times behind an emulated last hop.

    Each replication does what 'lasthop shell' does, with other random numbers. Its TCP connections are flows
    of the results, and so are datagrams between two ports. Besides, runs.parquet has the program's exit code
    and how long it took. The results are those of 'lasthop run': look at them with summary, compare, plot,
    explain or query.

    COMMAND begins at the first word that is not an option, or after --.

    Example: lasthop repeat --link gprs --replications 20 --server 'python3 -m http.server 80'
    -- curl -s http://server/

    Example: lasthop repeat --link umts --json --server 'iperf3 -s' -- iperf3 -J -c server -t 5
    """
    options = RunOptions.of(context)
    if options.cluster is not None:
        raise InputError("--cluster: programs run on this machine; leave it out.")
    file = find_link(link)
    study = read_study(file, for_link=True)
    cell = study.cells[0]
    on_hosts = host_programs(hosts, cell, command or commands)
    levels = _levels(command, commands, on_hosts)
    if len(levels) > 1 and _FACTOR in study.factors:
        raise InputError(
            f"{file} has a factor '{_FACTOR}' itself: rename it, or repeat one command at a time."
        )
    name = f"{file.stem}-{'-'.join(levels)}"
    out = options.out or Path("results") / name
    check_folder(out)
    common = {
        "host": on_hosts.main if on_hosts.known != ["client"] else "",
        "hosts": [other._asdict() for other in on_hosts.others],
        "servers": [
            {"name": server, "command": line}
            for server, line in named_servers(servers, on_hosts.known).items()
        ],
        "json": prints_json,
        "input": [str(path.resolve()) for path in inputs],
        "write": [str(folder.resolve()) for folder in write],
        "cpu_cost": cpu_cost,
        "keep_servers": keep_servers,
    }
    what = (
        " and ".join(levels)
        if not command
        else textwrap.shorten(shlex.join(command), _TITLE_MAX, placeholder=" ...")
    )
    head = {"extends": str(file.resolve()), "name": name, "title": f"{what} behind {study.title}"}
    scenario = out.with_name(f"{out.name}.toml")
    _write(scenario, head | _flows(levels, {key: value for key, value in common.items() if value}))
    campaign = run(scenario, options)
    if fail and campaign is not None and (failed := campaign.finished.failed()) is not None:
        if options.quiet:  # without --quiet, this was already said
            click.echo(failed, err=True)
        raise click.exceptions.Exit(EXIT_FAILED)


def _levels(command: Sequence[str], commands: Sequence[str], on_hosts: HostPrograms) -> dict[str, list[str]]:
    """Return the programs, each with its arguments, by their names.

    If only hosts have programs, these are one program without a command of its own.
    """
    if command and commands:
        raise InputError(
            "--command names the commands to compare: leave out the one at the end, or --command."
        )
    if command:
        return {Path(command[0]).name: list(command)}
    if not commands and on_hosts.others:
        return {"-".join(dict.fromkeys(other.name for other in on_hosts.others)): []}
    if not commands:
        raise InputError(
            "What is to be repeated? Give the command behind --, for example: -- curl http://server/"
        )
    levels = {}
    for text in commands:
        name, equals, line = text.partition("=")
        if not (name and equals and line.strip()):
            raise InputError(
                f"--command {shlex.quote(text)}: write NAME=COMMAND, for example --command get='curl server'."
            )
        if name in levels:
            raise InputError(f"--command {name}=...: two commands are called {name}; give each its own name.")
        levels[name] = ["/bin/sh", "-c", line]
    return levels


def _flows(levels: Mapping[str, Sequence[str]], common: Mapping[str, object]) -> dict[str, object]:
    """Return the part of a scenario for one program, or for several, each a level of a factor."""
    flows = {
        name: [{"kind": "program", "name": name, **({"command": command} if command else {}), **common}]
        for name, command in levels.items()
    }
    first: dict[str, object] = {"flow": next(iter(flows.values()))}
    if len(flows) == 1:
        return first
    return {**first, "factor": {_FACTOR: {name: {"flow": flow} for name, flow in flows.items()}}}


def _write(file: Path, scenario: Mapping[str, object]) -> None:
    """Write a scenario; it may replace only one that this command wrote."""
    if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(_MADE_BY):
        raise InputError(
            f"{file} is not of 'lasthop repeat', which would write it; choose another place with --out DIR."
        )
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, f"{_MADE_BY}\n\n{to_toml(scenario)}")
