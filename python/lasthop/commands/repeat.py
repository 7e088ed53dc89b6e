"""Repeated runs of `lasthop shell`: write a scenario with the program, and run it."""

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from lasthop.campaign.results.folder import check_folder
from lasthop.commands.programs import HostPrograms, host_programs, named_servers
from lasthop.commands.run import RunOptions, run
from lasthop.common.errors import InputError
from lasthop.common.files import write_text, writing
from lasthop.engines.live.presets import find_link
from lasthop.scenario.points import read_study
from lasthop.scenario.toml import to_toml

EXIT_FAILED = 4
_MADE_BY = "# Written by 'lasthop"
_HEADER = f"{_MADE_BY} shell'; you can also use it with 'lasthop run'."
_FACTOR = "command"
_TITLE_MAX = 80


def run_repeatedly(context: click.Context) -> None:
    """Write the scenario of a repeated program, and run it; the context contains the options."""
    options = RunOptions.of(context)
    chosen = context.params
    command: Sequence[str] = chosen["command"]
    if options.cluster is not None:
        raise InputError("Programs run on this machine; leave out --cluster.")
    file = find_link(chosen["link"])
    study = read_study(file, for_link=True)
    cell = study.cells[0]
    on_hosts = host_programs(chosen["hosts"], cell, command or chosen["commands"])
    levels = _levels(command, chosen["commands"], on_hosts)
    if len(levels) > 1 and _FACTOR in study.factors:
        raise InputError(
            f"{file} already has a factor '{_FACTOR}'; rename it, or repeat one command at a time."
        )
    name = f"{file.stem}-{'-'.join(levels)}"
    out = options.out or Path("results") / name
    check_folder(out)
    common = {
        "host": on_hosts.main if on_hosts.known != ["client"] else "",
        "hosts": [other._asdict() for other in on_hosts.others],
        "servers": [
            {"name": server, "command": line}
            for server, line in named_servers(chosen["servers"], on_hosts.known).items()
        ],
        "json": chosen["prints_json"],
        "input": [str(path.resolve()) for path in chosen["inputs"]],
        "write": [str(folder.resolve()) for folder in chosen["write"]],
        "cpu_cost": chosen["cpu_cost"],
        "keep_servers": chosen["keep_servers"],
    }
    program = (
        " and ".join(levels)
        if not command
        else textwrap.shorten(shlex.join(command), _TITLE_MAX, placeholder=" ...")
    )
    head = {"extends": str(file.resolve()), "name": name, "title": f"{program} behind {study.title}"}
    scenario = out.with_name(f"{out.name}.toml")
    _write(scenario, head | _flows(levels, {key: value for key, value in common.items() if value}))
    campaign = run(scenario, options)
    if chosen["fail"] and campaign is not None and (failed := campaign.finished.failed()) is not None:
        if options.quiet:  # otherwise it was already printed
            click.echo(failed, err=True)
        raise click.exceptions.Exit(EXIT_FAILED)


def _levels(command: Sequence[str], commands: Sequence[str], on_hosts: HostPrograms) -> dict[str, list[str]]:
    """Return the programs with their arguments by name; those of hosts alone count as one without command."""
    if command and commands:
        raise InputError("--command replaces COMMAND; leave out the command at the end, or --command.")
    if command:
        return {Path(command[0]).name: list(command)}
    if not commands and on_hosts.others:
        return {"-".join(dict.fromkeys(other.name for other in on_hosts.others)): []}
    if not commands:
        raise InputError(
            "Missing COMMAND: give the command to repeat after --, for example -- curl http://server/."
        )
    levels = {}
    for text in commands:
        name, equals, line = text.partition("=")
        if not (name and equals and line.strip()):
            raise InputError(
                f"--command {shlex.quote(text)}: write NAME=COMMAND, for example --command get='curl server'."
            )
        if name in levels:
            raise InputError(
                f"--command {name}=...: two commands are called {name}; give them different names."
            )
        levels[name] = ["/bin/sh", "-c", line]
    return levels


def _flows(levels: Mapping[str, Sequence[str]], common: Mapping[str, object]) -> dict[str, object]:
    """Return the scenario's flow for one program, or a factor with a level for each of several programs."""
    flows = {
        name: [{"kind": "program", "name": name, **({"command": command} if command else {}), **common}]
        for name, command in levels.items()
    }
    first: dict[str, object] = {"flow": next(iter(flows.values()))}
    if len(flows) == 1:
        return first
    return {**first, "factor": {_FACTOR: {name: {"flow": flow} for name, flow in flows.items()}}}


def _write(file: Path, scenario: Mapping[str, object]) -> None:
    """Write a scenario; existing files are replaced only if this command wrote them."""
    if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(_MADE_BY):
        raise InputError(
            f"{file} exists and was not written by 'lasthop shell'; choose another folder with --out DIR."
        )
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, f"{_HEADER}\n\n{to_toml(scenario)}")
