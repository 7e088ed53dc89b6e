"""The command `lasthop shell`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from lasthop.commands.completion import complete_links, complete_only
from lasthop.engines.live.presets import find_link, presets
from lasthop.engines.live.process import SPIN_US, child_arguments
from lasthop.errors import InputError
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import all_levels, select_cell

_SPIN_MAX_US = 1000


@click.command("shell", context_settings={"allow_interspersed_args": False})
@click.option(
    "--link",
    metavar="PRESET|FILE",
    shell_complete=complete_links,
    help="The last hop: a preset (see --list) or a scenario file.",
)
@click.option(
    "--cell", "key", metavar="KEY", help="Choose the cell of FILE by its full key. A preset has only one cell."
)
@click.option(
    "--only",
    multiple=True,
    metavar="FACTOR=LEVEL,...",
    shell_complete=complete_only,
    help="Choose the cell of FILE by enough of its levels to identify it.",
)
@click.option(
    "--down",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="TRACE",
    help="Replace the rate of the link to the client by a Mahimahi trace. Delay, queue and errors stay.",
)
@click.option(
    "--up",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="TRACE",
    help="The same for the link to the server.",
)
@click.option("--server", metavar="COMMAND", help="Run this shell command line on the server.")
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    metavar="N",
    help="Seed of all random streams.  [default: the scenario's]",
)
@click.option(
    "--spin",
    "spin_us",
    type=click.IntRange(min=0, max=_SPIN_MAX_US),
    default=SPIN_US,
    show_default=True,
    metavar="MICROSECONDS",
    help="Before each delivery, spend this long in a busy loop. Deliveries are more punctual but cost processor time.",
)
@click.option(
    "--status",
    is_flag=True,
    help="Print rate, queue, drops and lateness every second, even if standard error is not a terminal.",
)
@click.option("--quiet", is_flag=True, help="Print only errors: no status, no summary.")
@click.option("--list", "list_presets", is_flag=True, help="List the presets.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell_command(
    *,
    link: str | None,
    key: str | None,
    only: tuple[str, ...],
    down: Path | None,
    up: Path | None,
    server: str | None,
    seed: int | None,
    spin_us: int,
    status: bool,
    quiet: bool,
    list_presets: bool,
    command: tuple[str, ...],
) -> None:
    """Run a program behind an emulated last hop.

    COMMAND, or a shell if you give none, runs on the client. It uses this machine's own TCP. The client is a network
    namespace whose only way out is the last hop. At the far end is the server, another namespace, called 'server' or
    10.0.0.1 (fd00::1). --server starts a program there. The client can reach nothing else.

    Everything ends when COMMAND ends, and lasthop returns its exit code. COMMAND begins at the first word that is not
    an option, or after --. You need Linux, and either root or permission to create user namespaces.

    Example: lasthop shell --link gprs --server 'nginx -g "daemon off;"' -- curl http://server/
    """
    if list_presets:
        _list()
        return
    if link is None:
        raise InputError("Which last hop? Give --link PRESET or --link FILE; --list lists the presets.")
    if status and quiet:
        raise InputError("--status and --quiet contradict each other: give one of them.")
    study = read_study(find_link(link))
    cell = select_cell(study.cells, all_levels(study), key, only)
    request = {
        "scenario": json.loads(cell.scenario),
        "seed": study.seed if seed is None else seed,
        "down": None if down is None else str(down),
        "up": None if up is None else str(up),
        "command": list(command) or [os.environ.get("SHELL", "/bin/sh")],
        "server": server,
        "status": _style(status, quiet, interactive=not command),
        "summary": not quiet,
        "spin_us": spin_us,
    }
    if not (quiet or command):
        click.echo(
            f"{study.title}. This shell is the client, 10.0.1.1; the server is 10.0.0.1. Leave with exit.", err=True
        )
    _become_emulator(request)


def _list() -> None:
    files = presets()
    width = max(map(len, files))
    for name, file in files.items():
        click.echo(f"{name:<{width}}  {read_study(file).title}")


def _style(status: bool, quiet: bool, *, interactive: bool) -> str:
    if quiet:
        return "none"
    if sys.stderr.isatty():
        return "title" if interactive else "overwrite"
    return "lines" if status else "none"


def _become_emulator(request: dict[str, Any]) -> NoReturn:
    """Replace this process: signals, the terminal and the exit code are the emulator's own."""
    arguments, _ = child_arguments({"shell": request})
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(arguments[0], arguments)
    except OSError as error:
        raise InputError(f"Cannot start {arguments[0]}: {error}.") from error
