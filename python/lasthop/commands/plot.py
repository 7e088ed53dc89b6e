"""The command `lasthop plot`."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop.campaign.results.folder import is_results
from lasthop.commands.basic import PATH, Choice, list_option
from lasthop.commands.one_run import OneRunOptions, list_files, one_run_options, runs_of_source
from lasthop.commands.options import REPLICATIONS, is_given, quiet_option
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import counted
from lasthop.studies.catalogue import find_scenario

if TYPE_CHECKING:
    from lasthop.present.pictures.files import PictureRequest
    from lasthop.present.pictures.over import OverPicture

_OF_ONE_RUN = {
    "key": "--cell",
    "replication": "--replication",
    "set_number": "--set",
    "replications": "--replications",
    "seed": "--seed",
    "engine": "--engine",
    "kernel": "--kernel",
    "flows": "--flow",
    "start": "--from",
    "stop": "--to",
}
_OF_RESULTS = {name: f"--{name}" for name in ("x", "y", "y2", "hue", "role", "ratio", "whiskers")}


@click.command("plot")
@one_run_options("SOURCE")
@list_option(
    "--kind",
    "kinds",
    "Kinds of plots. One run: any of waterfall, sequence, cwnd, rtt, queue, goodput, stack, fairness, delay; "
    "or one of ladder, sizes, classes, network.  [default: the first six]  Results: band, bar, box, cdf, "
    "heatmap or line.  [default: band over a range, line over three or more numeric levels, otherwise box]",
)
@list_option(
    "--flow",
    "flows",
    "One run: show only these flows or page loads, for as long as they last; stack and delay draw the others "
    "in grey.  [default: all]",
)
@click.option(
    "--from",
    "start",
    type=click.FloatRange(min=0),
    metavar="T",
    help="One run: start the time axis at T seconds.",
)
@click.option(
    "--to", "stop", type=click.FloatRange(min=0), metavar="T", help="One run: end the time axis at T seconds."
)
@click.option(
    "--y",
    metavar="METRIC",
    help="Results: column to draw.  [default: the duration of page loads, short flows or transfers]",
)
@click.option(
    "--y2",
    metavar="METRIC",
    help="Results (bar, box and line): second column to draw, with an axis on the right.",
)
@list_option(
    "--x",
    "x",
    "Results: factors on the horizontal axis, which may include role (a flow's name in the scenario). The "
    "levels of the last factor are grouped by those of the others.  [default: the first range, or else the "
    "last factor with several levels]",
    metavar="FACTOR",
)
@click.option(
    "--hue",
    metavar="FACTOR",
    help="Results: factor shown by colour, or by the rows of a heat map. Each combination of the remaining "
    "factors gets a panel.  [default: role, or the last remaining factor with several levels]",
)
@click.option("--role", metavar="ROLE", help="Results: draw only flows with this role.  [default: all]")
@click.option(
    "--ratio",
    metavar="FACTOR=LEVEL/LEVEL",
    help="Results: draw the ratio of the metric between two levels of a factor, at equal replications.",
)
@click.option(
    "--whiskers",
    type=Choice(["iqr", "extremes"]),
    help="Results (box): ends of the whiskers: the furthest values within 1.5 interquartile ranges, or the "
    "minimum and maximum.  [default: iqr]",
)
@click.option(
    "--log",
    metavar="x|y|xy",
    help="Make these axes logarithmic. Of results, x needs numeric levels (line, band) or a cdf.",
)
@click.option(
    "--theory",
    metavar="NAME",
    help="Also draw what theory predicts. mathis: throughput over a loss probability, of results. aimd: the "
    "sawtooth of Reno in the cwnd of one run. max-min: fair shares in the goodput of one run or in the "
    "throughput of results.",
)
@click.option(
    "--format",
    "file_format",
    type=Choice(["png", "svg", "pdf"]),
    help="File format, unless --out has a suffix.  [default: png]",
)
@click.option(
    "--width",
    type=Choice(["column", "page"]),
    default="page",
    show_default=True,
    help="Width of the plot: a column of a two-column paper (3.5 in, 89 mm) or a page (7.2 in, 183 mm).",
)
@click.option(
    "--over",
    metavar="FACTOR=LEVEL,...",
    help="One run at each of these levels, or with each of these values of a key such as tcp.initial_window. "
    "Or replications: all of each selected cell, as the median and the band from the 10th to the 90th "
    "percentile at each time step.",
)
@click.option(
    "--caption",
    type=PATH,
    metavar="FILE",
    help="New text file for the caption: what the plot shows, of which runs, and how to read it. It is then "
    "left out of the plot.",
)
@click.option(
    "--out",
    type=PATH,
    metavar="FILE|DIR",
    help="New .png, .svg or .pdf file, or for one run a new folder with a file per panel. Nothing is "
    "overwritten.  [default: NAME.png in the working folder, or NAME-METRIC.png for results; NAME-2.png if "
    "that exists]",
)
@quiet_option
@click.pass_context
def plot_command(
    context: click.Context, /, *, scenario: str, over: str | None, quiet: bool, **_: object
) -> None:
    """Draw results, or one run over time, for a paper.

    SOURCE is a results folder, a scenario file, or the name of a study.

    Kinds of plots of results, which show a metric against a factor:

    \b
      band        runs, running median, and 10th to 90th percentile over a range of values
      line        means with 95 % intervals
      bar         medians, with lines between the quartiles
      box         quartiles over the replications at each level, and whiskers
      cdf         distribution functions of all values
      heatmap     means over two factors, a number and a colour in each field

    Kinds of plots of one run of a scenario, which is simulated again:

    \b
      waterfall   page loads: when each object was connecting, waiting, receiving
      sequence    segments, ACKs, retransmissions by kind, drops by cause
      cwnd        congestion window, ssthresh, phases of a single TCP flow
      rtt         samples, timeout, expiries
      queue       router queue by class, RED's average, drops, marks
      goodput     goodput of each flow
      stack       goodput of the flows, stacked, and capacity of the link
      fairness    Jain's index of the flows that had data to send
      delay       distribution of each flow's one-way delays
      ladder      each packet as an arrow between the hosts, time downwards
      sizes       histogram of packet sizes
      classes     the router's classes as a tree; needs no run
      network     hops, hosts, and flows as arrows; needs no run

    For transfers by QUIC stacks that write logs (qlog), sequence, cwnd and rtt show what the stack believes
    next to what happened on the network.

    With --over FACTOR=LEVEL,..., each level has a line, which is one run. With --over replications, each
    selected cell (combination of factor levels) has a line through the medians of its replications, and a
    band around it. Kinds: cwnd, rtt, queue, goodput, fairness; by default the last three. SOURCE may also be
    a results folder.

    Bad periods of the link are shaded, and in cwnd the phases of a single TCP flow. With many flows, only
    those with the most losses and timeouts get colours and panels; the plot states how many it leaves out.

    Example: lasthop plot results/kulve2003 --y throughput_Bps --x variant --only link=r6

    Example: lasthop plot kulve2003 --only link=r6,workload=2tcp0udp,variant=frto --replication 12
    --out frto.pdf

    Example: lasthop plot examples/first.toml --kind ladder --to 0.5

    Example: lasthop plot examples/modern.toml --only link=lossy --kind cwnd --over control=reno,cubic

    Example: lasthop plot examples/queue.toml --kind queue --over replications --width column
    --caption queue.txt
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    if over is not None:
        _plot_over(context, over, quiet=quiet)
        return
    folder = Path(scenario)
    if folder.is_dir() and (is_results(folder) or not _is_study(scenario)):
        _refuse(context, _OF_ONE_RUN, f"is for one run, and {folder} is a results folder")
        files, notes = _plot_results(context)
        if not quiet:
            click.echo("\n".join([*map(str, files), *notes]))
        return
    _refuse(
        context,
        _OF_RESULTS,
        f"is for results, and {scenario} is a scenario: give a results folder, written by 'lasthop run'",
    )
    _plot_run(context, quiet=quiet)


def _plot_run(context: click.Context, *, quiet: bool) -> None:
    from lasthop.present.pictures.files import picture_run, write_pictures
    from lasthop.present.pictures.over import OVER_KINDS

    request = _request(context)
    can_be_over = set(context.params["kinds"]) <= set(OVER_KINDS)
    run = OneRunOptions.of(context).choose(
        ", or draw several over each other with --over FACTOR=LEVEL,... or --over replications"
        if can_be_over
        else ""
    )
    files, notes = write_pictures(lambda: picture_run(run, request), request, run.plan.study.name)
    if not quiet:
        list_files(run.title, files, notes)


def _plot_over(context: click.Context, over: str, *, quiet: bool) -> None:
    """Draw runs of a scenario or results folder, which are simulated again, over each other."""
    from lasthop.present.pictures.files import write_pictures
    from lasthop.present.pictures.logarithmic import check_log
    from lasthop.present.pictures.over import check_kinds, picture_over
    from lasthop.present.pictures.over_levels import picture_levels, read_over, runs_over

    _refuse(context, _OF_RESULTS, "is for plots of results, and --over draws runs over time")
    _refuse(context, {"theory": "--theory"}, "is for one run or for results; omit --over")
    request = _request(context)
    check_kinds(request.kinds)
    runs = runs_of_source(context)
    name, log, span = runs[0].plan.study.name, check_log(request.log), (request.start, request.stop)
    if over == REPLICATIONS:
        cells = runs[0].cell.key or "its only cell" if len(runs) == 1 else f"{len(runs)} cells"
        replications = counted(runs[0].plan.replications, "replication")
        title = f"{cells}, {replications} of set {runs[0].set_number}"
    else:
        levels = read_over(over)
        runs = runs_over(runs, levels, runs[0].plan.file or find_scenario(context.params["scenario"]))
        title = f"{levels.option}, replication {runs[0].replication} of set {runs[0].set_number}"

    def make() -> OverPicture:
        drawn = (
            picture_over(runs, request.kinds, request.flows, span)
            if over == REPLICATIONS
            else picture_levels(runs, levels, request.kinds, request.flows, span)
        )
        return replace(drawn, log=log)

    files, notes = write_pictures(make, request, name)
    if not quiet:
        list_files(f"{name}, {title}", files, notes)


def _request(context: click.Context) -> PictureRequest:
    from lasthop.present.pictures.files import PictureRequest

    options = {field.name: context.params[field.name] for field in fields(PictureRequest)}
    return PictureRequest(**{**options, "kinds": _joined(options["kinds"])})


def _plot_results(context: click.Context) -> tuple[list[Path], list[str]]:
    from lasthop.present.pictures.files import write_chart
    from lasthop.present.pictures.of_results import ResultRequest, result_kind

    options = context.params
    chosen = {name: options[name] for name in ("only", "log", "theory", *_OF_RESULTS)}
    chosen["x"] = _joined(options["x"])
    request = ResultRequest(**chosen, kind=result_kind(_joined(options["kinds"])))
    return write_chart(Path(options["scenario"]), request, _request(context))


def _joined(values: tuple[str, ...]) -> str | None:
    return ",".join(values) or None


def _is_study(name: str) -> bool:
    from lasthop.studies.catalogue import list_studies

    return name in list_studies()


def _refuse(context: click.Context, options: dict[str, str], why: str) -> None:
    """Raise `InputError` if the command line contains one of these options."""
    for parameter, option in options.items():
        if is_given(context, parameter):
            raise InputError(f"{option} {why}.")
