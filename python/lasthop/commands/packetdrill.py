"""The command `lasthop packetdrill`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from lasthop.errors import InputError
from lasthop.packetdrill.on_model import STACKS, run_on_model
from lasthop.packetdrill.verdict import State, Verdict, junit

EXIT_FAILED = 4


@click.command("packetdrill")
@click.argument(
    "paths", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--stack",
    type=click.Choice(STACKS),
    required=True,
    help="The model's TCP that is tested, as in [tcp] profile.",
)
@click.option(
    "--tolerance",
    "tolerance_us",
    type=click.IntRange(min=0),
    metavar="MICROSECONDS",
    help="How far times may be off. 0: not at all.  [default: what each script grants, or packetdrill's 4 ms "
    "and an eighth of the time since the event before]",
)
@click.option(
    "--junit",
    "junit_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the verdicts to this file in JUnit's format.",
)
def packetdrill_command(
    *, paths: Sequence[Path], stack: str, tolerance_us: int | None, junit_file: Path | None
) -> int:
    """Run scripts of packetdrill on the model's TCP.

    A script injects packets and system calls at stated times, and says what must follow. FILE is a script,
    and FOLDER stands for the scripts (.pkt) in it and below. lasthop says which scripts pass, where the
    others fail, and what the model lacks for those that it does not run. Python code in a script runs, too,
    so run only scripts that you trust. The exit code is 4 if a script fails.

    Example: lasthop packetdrill gtests/net/tcp/slow_start --stack linux-6
    """
    verdicts = []
    for script in _scripts(paths):
        verdict = run_on_model(script, stack, tolerance_us)
        click.echo(_line(verdict))
        verdicts.append(verdict)
    counts = Counter(verdict.state for verdict in verdicts)
    click.echo(", ".join(f"{counts[state]} {state.value}" for state in State) + f", on {stack}.")
    if junit_file is not None:
        junit_file.write_bytes(junit(verdicts, f"packetdrill on {stack}"))
    return EXIT_FAILED if counts[State.FAILED] else 0


def _scripts(paths: Sequence[Path]) -> list[Path]:
    """Return the scripts, in the order of the paths, those of a folder by name."""
    scripts = [
        script for path in paths for script in (sorted(path.rglob("*.pkt")) if path.is_dir() else [path])
    ]
    if not scripts:
        raise InputError(f"There is no script in {', '.join(map(str, paths))}: their names end in .pkt.")
    return scripts


def _line(verdict: Verdict) -> str:
    place = str(verdict.script) if verdict.line is None else f"{verdict.script}:{verdict.line}"
    said = f"{verdict.state.value:<12}  {place}"
    return f"{said}: {verdict.message}" if verdict.message else said
