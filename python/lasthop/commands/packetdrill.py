"""The command `lasthop packetdrill`."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import click
from click.core import ParameterSource

from lasthop.commands.basic import Choice, list_option
from lasthop.commands.options import junit_option
from lasthop.common.errors import InputError
from lasthop.packetdrill.on_model import STACKS, run_on_model
from lasthop.packetdrill.verdict import State, Verdict, junit

EXIT_FAILED = 4


class _OfKernel(TypedDict):
    kernel: str | None
    program: Path | None
    families: Sequence[str]
    repeat: int
    jobs: int | None
    output: Path | None


@click.command("packetdrill")
@click.argument(
    "paths", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--stack",
    type=Choice(STACKS),
    help="Test this profile of lasthop's own TCP (as in [tcp] profile) instead of a kernel.",
)
@click.option(
    "--kernel",
    metavar="NAME",
    help="Guest kernel to test; see 'lasthop kernel list'.  [default: the newest with 1000 ticks per second]",
)
@click.option(
    "--packetdrill",
    "program",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    envvar="LASTHOP_PACKETDRILL",
    show_envvar=True,
    help="Path of packetdrill, or of its source folder, which is built once.  [default: the installed one]",
)
@list_option(
    "--family",
    "families",
    "Run scripts only with these address families: ipv4, ipv6 or ipv4-mapped-ipv6.  [default: all families "
    "that a script supports]",
    ("ipv4", "ipv6", "ipv4-mapped-ipv6"),
    metavar="FAMILY",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of runs per script, in guests with different random numbers.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of parallel guests.  [default: one per core]",
)
@click.option(
    "--tolerance",
    "tolerance_us",
    type=click.IntRange(min=0),
    metavar="MICROSECONDS",
    help="Tolerance of times in microseconds; 0 requires exact times.  [default: the script's, or "
    "packetdrill's 4 ms plus an eighth of the time since the previous event]",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder for two files per script that does not pass: packetdrill's output, with each packet and its "
    "time, and a packet capture for Wireshark and 'lasthop analyze'.",
)
@junit_option
@click.option("--quiet", is_flag=True, help="Print only scripts that do not pass, and errors.")
def packetdrill_command(
    *,
    paths: Sequence[Path],
    stack: str | None,
    junit_file: Path | None,
    tolerance_us: int | None,
    quiet: bool,
    **of_kernel: Unpack[_OfKernel],
) -> int:
    """Run packetdrill scripts, which test TCP.

    A script injects packets and makes system calls at given times, and states the expected reactions. It runs
    on a guest kernel or on lasthop's own TCP (--stack), in virtual time. FILE is a script, FOLDER contains
    scripts (.pkt), also in subfolders. lasthop prints which scripts pass, where others fail, and why some
    cannot run. The exit code is 4 if a script fails.

    A kernel is tested by packetdrill itself in a guest, where computation takes no time, so verdicts do not
    depend on the load of the machine. For --stack, lasthop interprets the scripts. Scripts can contain Python
    code and, in a guest, shell commands, so run only scripts that you trust.

    Example: lasthop packetdrill gtests/net/tcp/slow_start --packetdrill gtests/net/packetdrill
    """
    scripts = _scripts(paths)
    if stack is None:
        verdicts, on = _on_kernel(scripts, tolerance_us, quiet=quiet, **of_kernel)
    else:
        _refuse_given(of_kernel)
        verdicts, on = [run_on_model(script, stack, tolerance_us) for script in scripts], stack
    failed = _show(verdicts, on, quiet=quiet)
    if junit_file is not None:
        junit_file.write_bytes(junit(verdicts, f"packetdrill on {on}"))
    return EXIT_FAILED if failed else 0


def _on_kernel(
    scripts: Sequence[Path], tolerance_us: int | None, *, quiet: bool, **of_kernel: Unpack[_OfKernel]
) -> tuple[list[Verdict], str]:
    """Run scripts on a guest kernel; return the verdicts and a description of the kernel."""
    from lasthop.campaign.progress import progress
    from lasthop.engines.kernel.store import find_kernel
    from lasthop.packetdrill.on_kernel import HZ, Task, families_of, run_on_kernel
    from lasthop.packetdrill.program import find_program

    guest = find_kernel(of_kernel["kernel"], HZ)
    tool = find_program(of_kernel["program"])
    tasks = [
        Task(script, family, repetition, tolerance_us)
        for repetition in range(of_kernel["repeat"])
        for script in scripts
        for family in families_of(script)
        if not of_kernel["families"] or family in of_kernel["families"]
    ]
    jobs = of_kernel["jobs"] or os.cpu_count() or 1
    with progress(len(tasks), 0, quiet=quiet, doing="testing", what="scripts") as advance:
        results = run_on_kernel(guest, tool, tasks, jobs, advance, output=of_kernel["output"])
    return [result.verdict for result in results], f"Linux {guest.info.version} ({guest.name})"


def _refuse_given(of_kernel: _OfKernel) -> None:
    """Raise `InputError` if options for kernels are combined with --stack."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in of_kernel and source is ParameterSource.COMMANDLINE:
            raise InputError(f"{parameter.opts[0]} is for kernels; leave out {parameter.opts[0]} or --stack.")


def _scripts(paths: Sequence[Path]) -> list[Path]:
    scripts = [
        script for path in paths for script in (sorted(path.rglob("*.pkt")) if path.is_dir() else [path])
    ]
    if not scripts:
        raise InputError(f"There is no script (.pkt) in {', '.join(map(str, paths))}.")
    return scripts


def _show(verdicts: Sequence[Verdict], on: str, *, quiet: bool) -> bool:
    """Print the verdict for each script and family; return whether any run failed."""
    runs: dict[tuple[Path, str], list[Verdict]] = {}
    for verdict in verdicts:
        runs.setdefault((verdict.script, verdict.family), []).append(verdict)
    for same in runs.values():
        if not quiet or any(verdict.state is not State.PASSED for verdict in same):
            click.echo(_line(same))
    counts = Counter(verdict.state for verdict in verdicts)
    click.echo(", ".join(f"{counts[state]} {state.value}" for state in State) + f", on {on}.")
    if len(verdicts) > len(runs):
        changed = sum(len({verdict.state for verdict in same}) > 1 for same in runs.values())
        click.echo(f"The verdict differs between repetitions for {changed} of {len(runs)}.")
    return counts[State.FAILED] > 0


def _line(same: Sequence[Verdict]) -> str:
    worst = next((verdict for verdict in same if verdict.state is not State.PASSED), same[0])
    place = str(worst.script) if worst.line is None else f"{worst.script}:{worst.line}"
    line = f"{worst.state.value:<12}  {worst.family:<16}  {place}"
    counts = Counter(verdict.state for verdict in same)
    if len(counts) > 1:
        line += f" ({counts[worst.state]} of {len(same)} times)"
    return f"{line}: {worst.message}" if worst.message else line
