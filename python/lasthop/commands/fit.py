"""The command `lasthop fit`."""

from pathlib import Path

import click

from lasthop.commands.basic import PATH
from lasthop.commands.options import jobs_option, quiet_option
from lasthop.common.errors import InputError


@click.command("fit")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--out", type=PATH, required=True, metavar="FILE", help="The scenario, a new file that ends in .toml."
)
@click.option(
    "--report",
    type=PATH,
    metavar="FILE",
    help="Also write a page that lays simulated transfers over the measured one: a new file .html.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="Address of the user's end in captures.  [default: the end that opened the connection, or lasthop's "
    "client]",
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
def fit_command(
    *,
    files: tuple[Path, ...],
    out: Path,
    report: Path | None,
    host: str | None,
    seed: int,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Fit a scenario to a measured line.

    FILE is a packet capture of a transfer, from either end, or what iperf3 -J, flent, irtt or ping wrote. The
    command estimates rate, delay, queue, loss and jitter, each with a 90 % interval, and names the congestion
    control and the queue discipline. It says of each which data do not identify it, and why. The scenario
    has a factor 'line' with the best estimate and draws of what else the data allow. If the rate varies, its
    course is a CSV file beside the scenario.

    Example: lasthop fit download.pcapng --out my-line.toml --report my-line.html
    """
    from lasthop.campaign.progress import progress
    from lasthop.campaign.provenance import usable_cores
    from lasthop.common.files import write_text, writing
    from lasthop.fit.fit import fit, runs_of_a_fit, ways_of
    from lasthop.fit.output import course_name, courses_of, said, text_of
    from lasthop.fit.sources import read

    _check(out, ".toml", "--out")
    if report is not None:
        _check(report, ".html", "--report")
    for way in ("down", "up"):
        _check_new(out.with_name(course_name(out.stem, way)))
    measurements = [read(file, host) for file in files]
    total = runs_of_a_fit(len(ways_of(measurements)))
    with progress(total, 0, quiet=quiet, doing="fitting") as advance:
        found = fit(measurements, seed=seed, jobs=jobs or usable_cores(), advance=advance)
    texts = {out.with_name(name): text for name, text in courses_of(found, out.stem).items()}
    texts[out] = text_of(found, out.stem)
    if report is not None:
        from lasthop.fit.page import page

        texts[report] = page(found, out)
    for path, text in texts.items():
        with writing(path):
            write_text(path, text)
    if not quiet:
        for parameter in found.parameters:
            click.echo(f"{parameter.key:24}  {said(parameter)}")
        for note in found.notes:
            click.echo(f"Note: {note}")
        click.echo(f"{out}: {found.runs} runs, {len(found.draws)} draws. Next: lasthop run {out}")


def _check(out: Path, suffix: str, option: str) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    if out.suffix != suffix:
        meant = f"{out.stem or 'my-line'}{suffix}"
        raise InputError(f"{option} {out}: the name must end in {suffix}; did you mean '{meant}'?")
    _check_new(out)
    if not out.absolute().parent.is_dir():
        raise InputError(f"{option} {out}: there is no folder {out.absolute().parent}.")


def _check_new(file: Path) -> None:
    if file.exists():
        raise InputError(f"{file} exists, and nothing is overwritten: name a file that does not.")
