"""Options that commands share if they run real programs: servers, files and computing."""

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
"""Name of the first server unless the user names it."""
# The addresses of servers are 10.0.0.1 and so on.
_SERVERS_MAX = 200

servers_option = click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="[NAME=]COMMAND",
    help="Run this shell command line on the server. Repeat it for several servers: each has a name and an "
    "address.",
)
hosts_option = click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME[=COMMAND]",
    help="For a scenario with several hosts: run this shell command line on the host with this name. NAME "
    "alone says where the COMMAND at the end runs; without a COMMAND, the run ends when the programs of all "
    "hosts have. Repeat the option for more programs.",
)
write_option = click.option(
    "--write",
    multiple=True,
    type=FOLDER,
    metavar="DIR",
    help="For --engine kernel: let programs change this folder. What they write elsewhere is gone at the "
    "end.",
)
cpu_cost_option = click.option(
    "--cpu-cost",
    type=click.FloatRange(min=0, max=1000),
    default=0.0,
    show_default=True,
    metavar="FACTOR",
    help="For --engine kernel: virtual time that passes while a program computes, per processor time. Above "
    "0, no two runs are the same.",
)


@dataclass(frozen=True, slots=True)
class HostPrograms:
    known: Sequence[str]
    """The names of its hosts."""
    main: str
    """The host of the command at the end; without a command, the first host that has a program."""
    others: Sequence[HostProgram]


def host_programs(options: Sequence[str], cell: _core.Cell, command: Sequence[str]) -> HostPrograms:
    """Return what `--host` says of the hosts of a cell, beside a command that may be empty."""
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
            f"--host {main[1]}: COMMAND runs on {main[0]} already; give {main[1]} a command of its own, as "
            f"in --host {main[1]}=COMMAND."
        )
    if others and not command:
        main = main or [others[0].name]
    if not main and len(known) > 1:
        raise InputError(
            f"On which host does the command run? Give --host NAME; the hosts are {', '.join(known)}."
        )
    return HostPrograms(known, (main or known)[0], others)


def named_servers(options: Sequence[str], hosts: Sequence[str]) -> dict[str, str]:
    """Return the servers' command lines by their names, in the order of the servers' addresses.

    `hosts` are the names of the other hosts.
    """
    servers: dict[str, str] = {}
    for option in options:
        named = re.match(r"([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)=(.*)", option, re.DOTALL)
        if named is None and servers:
            raise InputError(f"--server {option!r}: with several servers, each needs a name: NAME=COMMAND.")
        name, command = named.groups() if named else (SERVER, option)
        if name in hosts or name in servers:
            raise InputError(
                f"--server {option!r}: there is a host called {name} already; choose another name."
            )
        servers[name] = command
    if len(servers) > _SERVERS_MAX:
        raise InputError(f"There may be {_SERVERS_MAX} servers at most, not {len(servers)}.")
    return servers
