"""Options that commands share if they run real programs: servers, files and computing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from lasthop.errors import InputError

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
write_option = click.option(
    "--write",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
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


def named_servers(options: Sequence[str]) -> dict[str, str]:
    """Return the servers' command lines by their names, in the order of the servers' addresses."""
    servers: dict[str, str] = {}
    for option in options:
        named = re.match(r"([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)=(.*)", option, re.DOTALL)
        if named is None and servers:
            raise InputError(f"--server {option!r}: with several servers, each needs a name: NAME=COMMAND.")
        name, command = named.groups() if named else (SERVER, option)
        if name == "client" or name in servers:
            raise InputError(
                f"--server {option!r}: there is a host called {name} already; choose another name."
            )
        servers[name] = command
    if len(servers) > _SERVERS_MAX:
        raise InputError(f"There may be {_SERVERS_MAX} servers at most, not {len(servers)}.")
    return servers
