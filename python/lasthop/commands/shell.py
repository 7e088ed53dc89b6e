"""The command `lasthop shell`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lasthop import _core
from lasthop.commands.completion import complete_links, complete_only
from lasthop.commands.programs import SERVER, cpu_cost_option, named_servers, servers_option, write_option
from lasthop.engines.live.presets import find_link, presets
from lasthop.engines.live.process import SPIN_US, child_arguments
from lasthop.errors import InputError
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import all_levels, select_cell

if TYPE_CHECKING:
    from lasthop.engines.kernel.programs import Outcome, Request
    from lasthop.engines.kernel.store import Kernel

_SPIN_MAX_US = 1000
_SNAP_LENGTH = 65_535
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@click.command("shell", context_settings={"allow_interspersed_args": False})
@click.option(
    "--engine",
    type=click.Choice(["live", "kernel"]),
    default="live",
    show_default=True,
    help="What runs the programs. live: this machine's kernel, in real time. kernel: a guest kernel in virtual time; "
    "the same seed gives the same run.",
)
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
@servers_option
@click.option(
    "--pcap",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Capture the packets at both hosts and at both ends of the router queue, into this new folder.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    metavar="N",
    help="Seed of all random streams.  [default: the scenario's]",
)
@click.option("--kernel", metavar="NAME", help="For --engine kernel: the guest kernel.  [default: the newest release]")
@write_option
@cpu_cost_option
@click.option(
    "--spin",
    "spin_us",
    type=click.IntRange(min=0, max=_SPIN_MAX_US),
    metavar="MICROSECONDS",
    help="For --engine live: before each delivery, spend this long in a busy loop. Deliveries are more punctual but "
    f"cost processor time.  [default: {SPIN_US}]",
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
    engine: str,
    link: str | None,
    key: str | None,
    only: tuple[str, ...],
    down: Path | None,
    up: Path | None,
    servers: tuple[str, ...],
    pcap: Path | None,
    seed: int | None,
    kernel: str | None,
    write: tuple[Path, ...],
    cpu_cost: float,
    spin_us: int | None,
    status: bool,
    quiet: bool,
    list_presets: bool,
    command: tuple[str, ...],
) -> None:
    """Run a program behind an emulated last hop.

    COMMAND, or a shell if you give none, runs on the client, a network namespace whose only way out is the last hop. At
    the far end is the server, another namespace, called 'server' or 10.0.0.1 (fd00::1). --server starts a program
    there. The client can reach nothing else.

    Everything ends when COMMAND ends, and lasthop returns its exit code. COMMAND begins at the first word that is not
    an option, or after --.

    With --engine live, programs use this machine's own TCP in real time. You need Linux, and either root or permission
    to create user namespaces. With --engine kernel, they run in a guest kernel whose clock stands still while anything
    computes: a transfer of minutes takes seconds, and the same seed gives the same packets. You need a guest kernel
    ('lasthop kernel build'), but no rights.

    Example: lasthop shell --link gprs --server 'nginx -g "daemon off;"' -- curl http://server/
    """
    if list_presets:
        _list()
        return
    if link is None:
        raise InputError("Which last hop? Give --link PRESET or --link FILE; --list lists the presets.")
    if status and quiet:
        raise InputError("--status and --quiet contradict each other: give one of them.")
    _check_options(engine, kernel=kernel, write=write, cpu_cost=cpu_cost, spin_us=spin_us)
    if pcap is not None and pcap.exists():
        raise InputError(f"--pcap {pcap}: this is there already; name a new folder.")
    study = read_study(find_link(link))
    cell = select_cell(study.cells, all_levels(study), key, only)
    if not (quiet or command):
        click.echo(
            f"{study.title}. This shell is the client, 10.0.1.1; the server is 10.0.0.1. Leave with exit.", err=True
        )
    commands: dict[str, str | None] = {**named_servers(servers)} or {SERVER: None}
    common: dict[str, Any] = {
        "seed": study.seed if seed is None else seed,
        "down": down,
        "up": up,
        "command": list(command) or [os.environ.get("SHELL", "/bin/sh")],
        "servers": [{"name": name, "command": line} for name, line in commands.items()],
        "status": _style(status, quiet, interactive=not command),
        "summary": not quiet,
    }
    if engine == "live":
        _become_emulator(_live_request(cell, common, SPIN_US if spin_us is None else spin_us, pcap))
    from lasthop.engines.kernel.programs import Request, Server
    from lasthop.engines.kernel.store import find_kernel

    common["servers"] = [Server(**server) for server in common["servers"]]
    request = Request(cell=cell, **common, write=write, cpu_cost=cpu_cost)
    outcome = _run_in_guest(find_kernel(kernel), request, pcap)
    for line in _notes(outcome, cpu_cost, quiet):
        click.echo(line, err=True)
    sys.exit(outcome.code)


def _check_options(
    engine: str, *, kernel: str | None, write: tuple[Path, ...], cpu_cost: float, spin_us: int | None
) -> None:
    """Refuse options of the other engine."""
    of_kernel = {"--kernel": kernel is not None, "--write": bool(write), "--cpu-cost": cpu_cost > 0}
    foreign = of_kernel if engine == "live" else {"--spin": spin_us is not None}
    given = next((option for option, is_given in foreign.items() if is_given), None)
    if given is not None:
        other = "kernel" if engine == "live" else "live"
        raise InputError(f"{given} is an option of --engine {other}; leave it out, or choose that engine.")


def _live_request(cell: _core.Cell, common: dict[str, Any], spin_us: int, pcap: Path | None) -> dict[str, Any]:
    if pcap is not None:
        pcap.mkdir(parents=True)
    capture = pcap and {"folder": str(pcap.resolve()), "comment": cell.key, "snap_length": _SNAP_LENGTH}
    paths = {way: common[way] and str(common[way]) for way in ("down", "up")}
    return {**common, **paths, "scenario": json.loads(cell.scenario), "capture": capture, "spin_us": spin_us}


def _run_in_guest(kernel: Kernel, request: Request, pcap: Path | None) -> Outcome:
    """Run the command to its end and pass signals on to it."""
    from lasthop.engines.kernel.cores import claimed_cores
    from lasthop.engines.kernel.programs import start_guest

    sys.stdout.flush()
    sys.stderr.flush()
    core = next(iter(cores := claimed_cores(1)))
    with start_guest(kernel, request, core=core, capture=pcap is not None) as guest:
        for number in _FORWARDED:
            signal.signal(number, lambda number, _frame: guest.signal(number))
        outcome = guest.wait()
        if pcap is not None:
            pcap.mkdir(parents=True)
            guest.write_captures(pcap)
    cores[core].close()
    return outcome


def _notes(outcome: Outcome, cpu_cost: float, quiet: bool) -> list[str]:
    """Return what the user is told beside the guest's own summary; what spoils a run even with --quiet."""
    notes = []
    if not quiet:
        notes.append(f"time  {outcome.virtual_s:.3f} s of virtual time in {outcome.wall_s:.1f} s")
        if cpu_cost > 0:
            notes.append(f"      not repeatable: a second of computing took {cpu_cost:g} s (--cpu-cost)")
    if outcome.overlay_full:
        notes.append(
            "Warning: what the programs wrote has filled the guest's memory for files; use --write DIR for large files."
        )
    if outcome.out_of_memory:
        notes.append(f"Warning: the guest ran out of memory and ended {outcome.out_of_memory} of the programs.")
    return notes


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
