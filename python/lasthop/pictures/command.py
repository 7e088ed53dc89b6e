"""The command `lasthop plot`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click

from lasthop.options import OneRunOptions, list_files, one_run_options, quiet_option


@click.command("plot")
@one_run_options
@click.option(
    "--kind",
    "kinds",
    metavar="KIND,...",
    help="Any of sequence, cwnd, rtt, queue, throughput.  [default: all]",
)
@click.option("--flow", "flows", multiple=True, metavar="F", help="Only this flow; may be repeated.  [default: all]")
@click.option("--from", "start", type=click.FloatRange(min=0), metavar="T", help="Begin at T seconds.")
@click.option("--to", "stop", type=click.FloatRange(min=0), metavar="T", help="End at T seconds.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["png", "svg", "pdf"]),
    help="The format, unless the ending of --out says it.  [default: png]",
)
@click.option(
    "--columns",
    type=click.IntRange(1, 2),
    default=2,
    show_default=True,
    help="Width: one or two columns of a two-column paper.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="A new file that ends in .png, .svg or .pdf, with all panels above each other; or a new folder, with a file "
    "for each panel. Nothing is overwritten.  [default: NAME.png in the working folder; NAME-2.png if that exists]",
)
@quiet_option
@click.pass_context
def plot_command(context: click.Context, /, *, quiet: bool, **_: object) -> None:
    """Draw one replication for a paper, as PNG, SVG or PDF.

    FILE is a scenario file or the name of a study. The kinds are waterfall (page loads, a line per object: connecting,
    waiting, receiving, ending), sequence (numbers over time, a picture per TCP flow: segments, ACKs, advertised window,
    SACK blocks, retransmissions by kind, drops by cause), cwnd (with ssthresh), rtt (samples, RTO, expiries), queue
    (router queue, by class; RED's average, drops, marks) and throughput (goodput of each flow). Bad periods of the link
    are shaded.

    Example: lasthop plot kulve2003 --only link=r6,workload=2tcp0udp,variant=frto --replication 12 --out /tmp/frto.pdf
    """
    from lasthop.pictures.files import PictureRequest, write_pictures

    run = OneRunOptions.of(context).choose()
    request = PictureRequest(**{field.name: context.params[field.name] for field in fields(PictureRequest)})
    files, notes = write_pictures(run, request)
    if not quiet:
        list_files(run, files)
        for note in notes:
            click.echo(f"{note} Choose others with --flow.")
