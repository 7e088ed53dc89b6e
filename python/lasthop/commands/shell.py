"""The command `lasthop shell`."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lasthop import _core
from lasthop.commands.basic import FILE, PATH, only_option, seed_option
from lasthop.commands.completion import complete_links
from lasthop.commands.programs import (
    SERVER,
    cpu_cost_option,
    host_programs,
    hosts_option,
    named_servers,
    servers_option,
    write_option,
)
from lasthop.common.errors import InputError
from lasthop.engines.live.child import SPIN_US, child_arguments
from lasthop.engines.live.presets import find_link, presets
from lasthop.engines.programs import HostProgram, ShellRequest
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import all_levels, select_cell
from lasthop.scenario.transports import profiles

if TYPE_CHECKING:
    from lasthop.engines.kernel.guest_programs import GuestRequest, Outcome
    from lasthop.engines.kernel.store import Kernel

_SPIN_MAX_US = 1000
_TIME_RULE = (
    "Time is virtual: it leaps while programs run, and goes no faster than your clock while they wait for a "
    "key."
)
# A guest boots with less memory, but programs hardly run.
_MEMORY_MIN = "128M"
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@click.command("shell", context_settings={"allow_interspersed_args": False})
@click.option(
    "--engine",
    type=click.Choice(["live", "kernel"]),
    default="live",
    show_default=True,
    help="What runs the programs. live: this machine's kernel, in real time. kernel: a guest kernel in "
    "virtual time; the same seed gives the same run.",
)
@click.option(
    "--link",
    metavar="PRESET|FILE",
    shell_complete=complete_links,
    help="The last hop: a preset (see --list) or a scenario file, which needs no flows.",
)
@click.option(
    "--cell",
    "key",
    metavar="KEY",
    help="Choose the cell of FILE by its full key. A preset has only one cell.",
)
@only_option("Choose the cell of FILE by enough of its levels to identify it.")
@click.option(
    "--down",
    type=FILE,
    metavar="TRACE",
    help="Replace the rate of the link to the client by a Mahimahi trace. Delay, queue and errors stay.",
)
@click.option("--up", type=FILE, metavar="TRACE", help="The same for the link to the server.")
@servers_option
@hosts_option
@click.option(
    "--pcap",
    type=PATH,
    metavar="DIR",
    help="Capture the packets at both hosts and at both ends of the router queue, into this new folder.",
)
@seed_option
@click.option(
    "--kernel", metavar="NAME", help="For --engine kernel: the guest kernel.  [default: the newest release]"
)
@write_option
@click.option(
    "--memory",
    metavar="SIZE",
    help="For --engine kernel: memory of the guest, such as 512M or 4G, half of which is for files. This "
    "machine gives only what programs use.  [default: 2G]",
)
@cpu_cost_option
@click.option(
    "--spin",
    "spin_us",
    type=click.IntRange(min=0, max=_SPIN_MAX_US),
    metavar="MICROSECONDS",
    help="For --engine live: before each delivery, spend this long in a busy loop. Deliveries are more "
    f"punctual but cost processor time.  [default: {SPIN_US}]",
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
    hosts: tuple[str, ...],
    pcap: Path | None,
    seed: int | None,
    kernel: str | None,
    write: tuple[Path, ...],
    memory: str | None,
    cpu_cost: float,
    spin_us: int | None,
    status: bool,
    quiet: bool,
    list_presets: bool,
    command: tuple[str, ...],
) -> None:
    """Run a program behind an emulated last hop.

    COMMAND, or a shell if you give none, runs on the client, a network namespace whose only way out is the
    last hop. At the far end is the server, another namespace, called 'server' or 10.0.0.1 (fd00::1). --server
    starts a program there. The client can reach nothing else.

    Everything ends when COMMAND ends, and lasthop returns its exit code. COMMAND begins at the first word
    that is not an option, or after --.

    With --engine live, programs use this machine's own TCP in real time. You need Linux, and either root or
    permission to create user namespaces. With --engine kernel, they run in a guest kernel whose clock stands
    still while anything computes: a transfer of minutes takes seconds, and the same seed gives the same
    packets. You need a guest kernel ('lasthop kernel build'), but no rights. A shell without COMMAND has a
    terminal there. Its time leaps while programs run, and goes no faster than your clock while they wait for
    a key.

    Example: lasthop shell --link gprs --server 'nginx -g "daemon off;"' -- curl http://server/
    """
    if list_presets:
        _list()
        return
    if link is None:
        raise InputError("Which last hop? Give --link PRESET or --link FILE; --list lists the presets.")
    if status and quiet:
        raise InputError("--status and --quiet contradict each other: give one of them.")
    of_kernel: dict[str, object] = {
        "--kernel": kernel,
        "--write": write,
        "--memory": memory,
        "--cpu-cost": cpu_cost or None,
    }
    _refuse_given(of_kernel if engine == "live" else {"--spin": spin_us}, engine)
    if pcap is not None and pcap.exists():
        raise InputError(f"--pcap {pcap}: this is there already; name a new folder.")
    for trace in filter(None, (down, up)):
        _core.read_file(str(trace))  # refuses a pipe or a device, for which the emulator would wait
    study = read_study(find_link(link), for_link=True)
    cell = select_cell(study.cells, all_levels(study), key, only)
    on_hosts = host_programs(hosts, cell, command)
    # Without a command, programs of hosts take its place, unless --host NAME asks for a shell.
    asks = not command and (not on_hosts.others or on_hosts.main in hosts)
    main = list(command) or ([os.environ.get("SHELL", "/bin/sh")] if asks else [])
    if asks and not quiet:
        own = "the client, 10.0.1.1" if on_hosts.known == ["client"] else on_hosts.main
        click.echo(f"{study.title}. This shell is {own}; the server is 10.0.0.1. Leave with exit.", err=True)
        if engine == "kernel":
            click.echo(_TIME_RULE, err=True)
    common: dict[str, Any] = {
        "cell": cell,
        "seed": study.seed if seed is None else seed,
        "down": down,
        "up": up,
        "command": main,
        "host": on_hosts.main,
        "servers": [HostProgram(name, line) for name, line in named_servers(servers, on_hosts.known).items()]
        or [HostProgram(SERVER, None)],
        "hosts": on_hosts.others,
        "status": _style(status, quiet, interactive=asks),
        "summary": not quiet,
    }
    if engine == "live":
        _become_emulator(ShellRequest(**common), SPIN_US if spin_us is None else spin_us, pcap)
    from lasthop.engines.kernel.guest_programs import MEMORY, GuestRequest, terminal_settings
    from lasthop.engines.kernel.store import find_kernel

    has_terminal = asks and sys.stdin.isatty() and sys.stdout.isatty()
    request = GuestRequest(
        **common,
        write=write,
        cpu_cost=cpu_cost,
        memory=_memory(memory or MEMORY),
        terminal=terminal_settings(sys.stdin.fileno()) if has_terminal else None,
    )
    outcome = _run_in_guest(find_kernel(kernel), request, pcap)
    for line in _notes(outcome, cpu_cost, quiet):
        click.echo(line, err=True)
    sys.exit(outcome.code)


def _refuse_given(foreign: dict[str, object], engine: str) -> None:
    given = next((option for option, value in foreign.items() if value not in (None, ())), None)
    if given is not None:
        other = "kernel" if engine == "live" else "live"
        raise InputError(f"{given} is an option of --engine {other}; leave it out, or choose that engine.")


def _memory(size: str) -> str:
    from lasthop.engines.kernel.boot import memory_bytes

    if not re.fullmatch(r"[0-9]{1,6}[MG]", size) or memory_bytes(size) < memory_bytes(_MEMORY_MIN):
        raise InputError(f"--memory {size}: write a size of at least {_MEMORY_MIN}, such as 512M or 4G.")
    return size


def _run_in_guest(kernel: Kernel, request: GuestRequest, pcap: Path | None) -> Outcome:
    """Run the command to its end and pass signals on to it."""
    from lasthop.engines.kernel.boot import claimed_cores
    from lasthop.engines.kernel.guest_programs import start_guest, untreated

    sys.stdout.flush()
    sys.stderr.flush()
    core = next(iter(cores := claimed_cores(1)))
    with ExitStack() as stack:
        guest = stack.enter_context(
            start_guest(kernel, request, core=core, captured=() if pcap is None else (1,))
        )
        for number in _FORWARDED if request.terminal is None else (*_FORWARDED, signal.SIGWINCH):
            signal.signal(number, lambda number, _frame: guest.signal(number))
        if request.terminal is not None:
            stack.enter_context(untreated(sys.stdin.fileno()))
        outcome = guest.wait()
        if pcap is not None:
            pcap.mkdir(parents=True)
            guest.write_captures(pcap, 1)
    cores[core].close()
    return outcome


def _notes(outcome: Outcome, cpu_cost: float, quiet: bool) -> list[str]:
    """Return remarks beside the guest's own summary; with --quiet, only what spoils a run."""
    notes = []
    if not quiet:
        notes.append(f"time  {outcome.virtual_s:.3f} s of virtual time in {outcome.wall_s:.1f} s")
        if cpu_cost > 0:
            notes.append(f"      not repeatable: a second of computing took {cpu_cost:g} s (--cpu-cost)")
    if outcome.overlay_full:
        notes.append(
            "Warning: what the programs wrote has filled the guest's memory for files. Name a folder for "
            "large files with --write DIR, or give the guest more memory with --memory."
        )
    if outcome.out_of_memory:
        notes.append(
            f"Warning: the guest ran out of memory and ended {', '.join(outcome.out_of_memory)}. Give it "
            "more with --memory 4G, say."
        )
    return notes


def _list() -> None:
    studies = {name: read_study(file) for name, file in presets().items()}
    width = max(map(len, studies))
    for name, study in studies.items():
        click.echo(f"{name:<{width}}  {study.title}")
    if old := profiles([cell for study in studies.values() for cell in study.cells]):
        click.echo(
            f"\nIn a scenario that extends one, the TCP of the model is {old}; write tcp.profile to choose."
        )


def _style(status: bool, quiet: bool, *, interactive: bool) -> str:
    if quiet:
        return "none"
    if sys.stderr.isatty():
        return "title" if interactive else "overwrite"
    return "lines" if status else "none"


def _become_emulator(request: ShellRequest, spin_us: int, pcap: Path | None) -> NoReturn:
    """Replace this process: signals, the terminal and the exit code are the emulator's own."""
    if pcap is not None:
        pcap.mkdir(parents=True)
    arguments, _ = child_arguments(
        {"shell": request.specification(spin_us=spin_us, captures=pcap and pcap.resolve())}
    )
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(arguments[0], arguments)
    except OSError as error:
        raise InputError(f"Cannot start {arguments[0]}: {error}.") from error
