"""Options that commands share if they run real programs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import click

from lasthop import _core
from lasthop.commands.basic import FOLDER
from lasthop.common.errors import InputError, nearest
from lasthop.engines.programs import HostProgram
from lasthop.scenario.facts import Facts

SERVER = "server"
"""Default name of the first server."""
# Servers have the addresses 10.0.0.1, 10.0.0.2, ...
_SERVERS_MAX = 200

servers_option = click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="[NAME=]COMMAND",
    help="Run this shell command on the server. Repeat the option for several servers, each with a name and "
    "an address.",
)
hosts_option = click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME[=COMMAND]",
    help="For scenarios with several hosts: run this shell command on the host NAME. NAME alone chooses the "
    "host of the COMMAND at the end; without COMMAND, the run ends when the programs of all hosts have "
    "ended. Repeat the option for more programs.",
)
write_option = click.option(
    "--write",
    multiple=True,
    type=FOLDER,
    metavar="DIR",
    help="For --engine kernel: folder that programs may change; other changes are discarded at the end. "
    "Repeat the option for more folders.",
)
cpu_cost_option = click.option(
    "--cpu-cost",
    type=click.FloatRange(min=0, max=1000),
    default=0.0,
    show_default=True,
    metavar="FACTOR",
    help="For --engine kernel: virtual time per processor time while programs compute. With values above 0, "
    "runs are not repeatable.",
)


@dataclass(frozen=True, slots=True)
class HostPrograms:
    known: Sequence[str]
    """Names of the hosts."""
    main: str
    """The host of the command at the end; without a command, the first host that has a program."""
    others: Sequence[HostProgram]


def host_programs(options: Sequence[str], cell: _core.Cell, command: Sequence[str]) -> HostPrograms:
    """Return the programs of a cell's hosts from the values of `--host` and a command, which may be empty."""
    known = list(Facts.of(cell).hosts)
    main, others = [], []
    for option in options:
        name, equals, line = option.partition("=")
        if name not in known:
            raise InputError(
                f"--host {option!r}: the scenario has no host {name!r}; did you mean "
                f"'{nearest(name, known)}'? Hosts: {', '.join(known)}."
            )
        if not equals:
            main.append(name)
        elif line.strip():
            others.append(HostProgram(name, line))
        else:
            raise InputError(f"--host {option!r}: the command is empty; write {name}=COMMAND.")
    if len(main) > 1:
        raise InputError(
            f"--host {main[1]}: COMMAND already runs on {main[0]}; give {main[1]} another command, as in "
            f"--host {main[1]}=COMMAND."
        )
    if others and not command:
        main = main or [others[0].name]
    if not main and len(known) > 1:
        raise InputError(f"Missing --host: choose the host that runs the command, one of {', '.join(known)}.")
    return HostPrograms(known, (main or known)[0], others)


def named_servers(options: Sequence[str], hosts: Sequence[str]) -> dict[str, str]:
    """Return the commands by server, in the order of addresses; `hosts` are the names of other hosts."""
    servers: dict[str, str] = {}
    for option in options:
        named = re.match(r"([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)=(.*)", option, re.DOTALL)
        if named is None and servers:
            raise InputError(f"--server {option!r}: with several servers, each needs a name: NAME=COMMAND.")
        name, command = named.groups() if named else (SERVER, option)
        if name in hosts or name in servers:
            raise InputError(f"--server {option!r}: a host {name} already exists; choose another name.")
        servers[name] = command
    if len(servers) > _SERVERS_MAX:
        raise InputError(f"At most {_SERVERS_MAX} servers are supported, not {len(servers)}.")
    return servers
