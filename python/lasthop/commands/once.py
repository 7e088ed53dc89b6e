"""Single runs of `lasthop shell`."""

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
from lasthop.commands.programs import SERVER, host_programs, named_servers
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

_TIME_RULE = (
    "Time is virtual: it passes faster than real time while programs run, but not while they wait for input."
)
# A guest boots with less memory, but can hardly run programs.
_MEMORY_MIN = "128M"
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_once(
    *,
    engine: str,
    link: str,
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
    command: tuple[str, ...],
    **_: object,
) -> NoReturn:
    """Run a command, or a shell, and exit with its code; parameters are options of `lasthop shell`."""
    if status and quiet:
        raise InputError("--status and --quiet contradict each other; give only one of them.")
    of_kernel: dict[str, object] = {
        "--kernel": kernel,
        "--write": write,
        "--memory": memory,
        "--cpu-cost": cpu_cost or None,
    }
    _refuse_given(of_kernel if engine == "live" else {"--spin": spin_us}, engine)
    if pcap is not None and pcap.exists():
        raise InputError(f"--pcap {pcap}: this path already exists; name a new folder.")
    for trace in filter(None, (down, up)):
        _core.read_file(str(trace))  # rejects pipes and devices, on which the emulator would block
    study = read_study(find_link(link), for_link=True)
    cell = select_cell(study.cells, all_levels(study), key, only)
    on_hosts = host_programs(hosts, cell, command)
    # Without a command, the programs of hosts replace it, unless --host NAME requests a shell.
    asks = not command and (not on_hosts.others or on_hosts.main in hosts)
    main = list(command) or ([os.environ.get("SHELL", "/bin/sh")] if asks else [])
    if asks and not quiet:
        own = "the client, 10.0.1.1" if on_hosts.known == ["client"] else on_hosts.main
        click.echo(
            f"{study.title}. This shell is {own}; the server is 10.0.0.1. Type exit to leave.", err=True
        )
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
        raise InputError(f"{given} needs --engine {other}; leave out {given}, or choose that engine.")


def _memory(size: str) -> str:
    from lasthop.engines.kernel.boot import memory_bytes

    if not re.fullmatch(r"[0-9]{1,6}[MG]", size) or memory_bytes(size) < memory_bytes(_MEMORY_MIN):
        raise InputError(f"--memory {size}: give a size of at least {_MEMORY_MIN}, such as 512M or 4G.")
    return size


def _run_in_guest(kernel: Kernel, request: GuestRequest, pcap: Path | None) -> Outcome:
    """Run the command to its end, and forward signals to it."""
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
            _add_secrets(pcap)
    cores[core].close()
    return outcome


def _add_secrets(folder: Path) -> None:
    """Put the keys that programs have written to SSLKEYLOGFILE, if that is set, into the captures."""
    from lasthop.common.captures import add_secrets_to_all

    key_log = Path(os.environ.get("SSLKEYLOGFILE", ""))
    if key_log.is_file():
        add_secrets_to_all(folder, key_log.read_bytes())


def _notes(outcome: Outcome, cpu_cost: float, quiet: bool) -> list[str]:
    """Return remarks in addition to the guest's summary; with --quiet, only warnings."""
    notes = []
    if not quiet:
        notes.append(f"time  {outcome.virtual_s:.3f} s of virtual time in {outcome.wall_s:.1f} s")
        if cpu_cost > 0:
            notes.append(f"      not repeatable: a second of computation took {cpu_cost:g} s (--cpu-cost)")
    if outcome.overlay_full:
        notes.append(
            "Warning: the files written by the programs have filled the guest's memory for files. Write "
            "large files to a folder given with --write DIR, or give the guest more memory with --memory."
        )
    if outcome.out_of_memory:
        notes.append(
            f"Warning: the guest ran out of memory and killed {', '.join(outcome.out_of_memory)}. Give it "
            "more, for example with --memory 4G."
        )
    return notes


def list_presets() -> None:
    studies = {name: read_study(file) for name, file in presets().items()}
    width = max(map(len, studies))
    for name, study in studies.items():
        click.echo(f"{name:<{width}}  {study.title}")
    if old := profiles([cell for study in studies.values() for cell in study.cells]):
        click.echo(
            f"\nScenarios that extend a preset: the TCP of the model is {old}; set tcp.profile to choose."
        )


def _style(status: bool, quiet: bool, *, interactive: bool) -> str:
    if quiet:
        return "none"
    if sys.stderr.isatty():
        return "title" if interactive else "overwrite"
    return "lines" if status else "none"


def _become_emulator(request: ShellRequest, spin_us: int, pcap: Path | None) -> NoReturn:
    """Replace this process, so that signals, terminal and exit code are those of the emulator."""
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
