"""The command `lasthop fit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop.commands.basic import PATH
from lasthop.commands.options import is_given, jobs_option, quiet_option
from lasthop.common.errors import InputError

if TYPE_CHECKING:
    from lasthop.exchange.readers.reading import Source


@click.command("fit")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@click.option("--out", type=PATH, required=True, metavar="FILE", help="Scenario to write: a new .toml file.")
@click.option(
    "--report",
    type=PATH,
    metavar="FILE",
    help="Also write a page that compares simulated transfers with the measured one: a new .html file.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="IP address of the user's end in captures.  [default: the end that opened most connections, or "
    "lasthop's client]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**31 - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of all random streams.",
)
@jobs_option
@quiet_option
@click.pass_context
def fit_command(
    context: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    out: Path,
    report: Path | None,
    host: str | None,
    seed: int,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Fit a scenario to measurements, or read another tool's link.

    FILE is a packet capture of a transfer, from either end, or the output of iperf3 -J, flent, irtt or ping.
    lasthop estimates rate, delay, queue, loss and jitter, each with a 90 % interval, and identifies the
    congestion control and the queue discipline. If the data cannot determine one of them, it states why. The
    scenario has a factor 'line', whose levels are the best estimate and draws from the posterior
    distribution. A varying rate is written to a CSV file next to the scenario.

    FILE may also describe a link: a Mahimahi trace for each direction, a script with commands of Mahimahi or
    tc, a test of Pantheon, a configuration of rattan, or a trace and delays of LeoReplayer. Such a link is
    taken as it is, and what has no counterpart is noted. If its name does not state what a file is, write
    down=FILE, up=FILE or delay=FILE, and for a device of tc down:DEVICE=FILE.

    Example: lasthop fit download.pcapng --out my-line.toml --report my-line.html

    Example: lasthop fit lte.down lte.up --out lte.toml
    """
    from lasthop.campaign.progress import progress
    from lasthop.campaign.provenance import usable_cores
    from lasthop.common.files import write_text, writing
    from lasthop.exchange.readers.reading import is_line, source
    from lasthop.fit.fit import fit, runs_of_a_fit, ways_of
    from lasthop.fit.output import course_name, files_of, recording_name, text_of
    from lasthop.fit.output import said as value_text
    from lasthop.fit.sources import read

    _check(out, ".toml", "--out")
    sources = [source(str(file)) for file in files]
    if any(is_line(each) for each in sources):
        _read_line(context, sources, out, quiet=quiet)
        return
    if report is not None:
        _check(report, ".html", "--report")
    for way in ("down", "up"):
        for named in (course_name, recording_name):
            _check_new(out.with_name(named(out.stem, way)))
    measurements = [read(each.file, host) for each in sources]
    total = runs_of_a_fit(len(ways_of(measurements)))
    with progress(total, 0, quiet=quiet, doing="fitting", most=True) as advance:
        result = fit(measurements, seed=seed, jobs=jobs or usable_cores(), advance=advance)
    texts = {out.with_name(name): text for name, text in files_of(result, out.stem).items()}
    texts[out] = text_of(result, out.stem)
    if report is not None:
        from lasthop.fit.page import page

        texts[report] = page(result, out)
    for path, text in texts.items():
        with writing(path):
            write_text(path, text)
    if not quiet:
        for parameter in result.parameters:
            click.echo(f"{parameter.key:24}  {value_text(parameter)}")
        for note in result.notes:
            click.echo(f"Note: {note}")
        click.echo(f"{out}: {result.runs} runs, {len(result.draws)} draws. Next: lasthop run {out}")


def _read_line(context: click.Context, sources: Sequence[Source], out: Path, *, quiet: bool) -> None:
    """Write the scenario of a link that another tool's files describe."""
    from lasthop.common.files import write_text, writing
    from lasthop.exchange.line import described, files_of
    from lasthop.exchange.readers.reading import read

    for parameter in ("report", "host", "seed", "jobs"):
        if is_given(context, parameter):
            raise InputError(
                f"--{parameter} is for measurements, and these files describe a link; leave it out."
            )
    line = read(sources)
    files = files_of(line, out, [each.file for each in sources])
    for file in files:
        _check_new(file)
    for file, text in files.items():
        with writing(file):
            write_text(file, text)
    if not quiet:
        for text in described(line):
            click.echo(text)
        for note in line.notes:
            click.echo(f"Note: {note}")
        click.echo(f"{out}: from {line.source}. Next: lasthop run {out}")


def _check(out: Path, suffix: str, option: str) -> None:
    """Raise `InputError` if the file cannot be written, before the work starts."""
    if out.suffix != suffix:
        suggestion = f"{out.stem or 'my-line'}{suffix}"
        raise InputError(f"{option} {out}: the name must end in {suffix}; did you mean '{suggestion}'?")
    _check_new(out)
    if not out.absolute().parent.is_dir():
        raise InputError(f"{option} {out}: the folder {out.absolute().parent} does not exist.")


def _check_new(file: Path) -> None:
    if file.exists():
        raise InputError(f"{file} already exists; choose another file.")
