"""The command `lasthop export`."""

from pathlib import Path

import click

from lasthop import _core
from lasthop.campaign.plan import ChosenRun
from lasthop.commands.basic import PATH, Choice
from lasthop.commands.one_run import OneRunOptions, list_files, one_run_options, runs_of_source
from lasthop.commands.options import is_given, over_option, quiet_option, snaplen_option
from lasthop.common.errors import InputError

_PACKETS = "pcapng"
_LIVE_TOOLS = ("tc", "mahimahi", "containerlab")
_OF_CAPTURES = (".pcap", ".pcapng", ".cap")
_OF_TABLES = {"step_ns": "--step", "over": "--over", "place": "--course"}


class _Step(click.ParamType[int]):
    """A length of time with its unit, in nanoseconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from lasthop.campaign.series import read_step

        try:
            return read_step(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


@click.command("export")
@one_run_options("SOURCE", many=True)
@click.option(
    "--as",
    "style",
    type=Choice([_PACKETS, "csv", "parquet", *_LIVE_TOOLS]),
    help="Format. pcapng: packets of one run; csv, parquet: table of time series; tc, mahimahi, "
    "containerlab: the link, for live tools.  [default: by the suffix of --out, else pcapng]",
)
@click.option(
    "--out",
    type=PATH,
    metavar="DIR|FILE",
    help="New folder for packets and for Mahimahi, or new file. Nothing is overwritten.  [default: "
    "NAME-pcapng, NAME.csv, NAME.parquet, NAME-tc.sh, NAME-mahimahi or NAME.clab.yml in the working folder]",
)
@snaplen_option
@click.option(
    "--step",
    "step_ns",
    type=_Step(),
    default="100ms",
    show_default=True,
    metavar="TIME",
    help="Tables: length of a time step, with its unit: s, ms or us.",
)
@over_option
@click.option(
    "--course",
    "place",
    metavar="DIRECTION",
    help="csv: instead of time series, write the rate and delay of a link over time, as a file for use in "
    "scenarios: 'down', 'up' or, for a named hop, 'HOP-down'.",
)
@quiet_option
@click.pass_context
def export_command(
    context: click.Context,
    /,
    *,
    style: str | None,
    out: Path | None,
    quiet: bool,
    **_: object,
) -> None:
    """Write packets, time series or the link of a run to files.

    SOURCE is a scenario file, the name of a study, or a results folder, which determines seed and engine. The
    runs are simulated again.

    '--as pcapng' writes one run, for Wireshark, tshark and tcptrace:

    \b
      server.pcapng, client.pcapng  packets that the host sent and received
      router-in.pcapng              arrivals at the router queue; comments mark drops and marks
      router-out.pcapng             departures into the link
      HOST.pcapng                   with named hops: packets that each host sent and received
      HOP-down-in.pcapng, -out      with named hops: arrivals at a hop's queue, and departures from
                                    its link; -up-in and -up-out likewise
      drops.csv                     every drop with its cause; ip_id is the packet's IP identification
      flow-0.server.sqlog, ...      logs of both ends of each QUIC connection, for qvis; of transfers by
                                    real programs those that their stacks wrote

    '--as csv' and '--as parquet' write one replication of each cell (combination of factor levels), or of the
    cells that --only selects. The first columns are the factors, the set and the replication. Each time step
    has a row per active flow, and two rows for the hop, down and up, in which 'flow' is missing:

    \b
      goodput_Bps         payload that arrived for the first time
      lost_packets        packets lost, whatever the cause
      queue_mean_packets  mean number of packets in the router queue
      cwnd, srtt_s        window and smoothed round-trip time of the flow's sender
      fairness_jain       for the hop: Jain's index over the flows that had data to send
      capacity_Bps        for the hop: bytes per second that it could have carried

    Of transfers by real programs, rows state their 'source': what the network did, or what the flow's stack
    says (docs/guides/stacks.md).

    'lasthop results metrics series' describes every column. With '--over replications', the table has a row
    per time step and metric: the 'median' over the replications that have a value, and the band from 'low' to
    'high'. 'lasthop plot' draws the same with '--kind stack,fairness'.

    '--as tc', '--as mahimahi' and '--as containerlab' write a hop with the directions down and up as a script
    of tc in network namespaces, as a script of Mahimahi's shells with traces, or as a topology of containers.
    What the tool cannot express is listed on standard error and at the beginning of the file.

    Example: lasthop export kulve2003 --as pcapng --only link=r1,workload=2tcp0udp,variant=dsack
    --replication 3 --out /tmp/r1

    Example: lasthop export two-flows.toml --as parquet --step 100ms
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    if style is None:
        style = {".csv": "csv", ".parquet": "parquet"}.get(out.suffix if out is not None else "", _PACKETS)
    if style == _PACKETS:
        _export_packets(context, out, quiet=quiet)
    elif style in _LIVE_TOOLS:
        _export_line(context, style, out, quiet=quiet)
    else:
        _export_table(context, style, out, quiet=quiet)


def _export_packets(context: click.Context, out: Path | None, *, quiet: bool) -> None:
    from lasthop.campaign.capture import write_captures
    from lasthop.campaign.results.folder import is_results

    for parameter, option in _OF_TABLES.items():
        if is_given(context, parameter):
            raise InputError(
                f"{option} is for tables: choose --as csv or --as parquet, or leave out {option}."
            )
    if out is not None and out.suffix in _OF_CAPTURES:
        raise InputError(
            f"--out {out}: packets go to several .pcapng files in a new folder; did you mean "
            f"'{out.with_suffix('')}'?"
        )
    options = OneRunOptions.of(context)
    from_results = is_results(Path(options.scenario))
    run = _only_run(runs_of_source(context)) if from_results else options.choose()
    files = write_captures(
        run, out or Path(f"{run.plan.study.name}-pcapng"), context.params["snaplen"] or _core.SNAP_LENGTH
    )
    if not quiet:
        list_files(run.title, files)


def _export_line(context: click.Context, style: str, out: Path | None, *, quiet: bool) -> None:
    from lasthop.campaign.results.folder import is_results
    from lasthop.exchange.writers.files import write_line

    for parameter, option in (_OF_TABLES | {"snaplen": "--snaplen"}).items():
        if is_given(context, parameter):
            raise InputError(f"{option} is for packets or tables: leave out {option}.")
    options = OneRunOptions.of(context)
    from_results = is_results(Path(options.scenario))
    run = _only_run(runs_of_source(context)) if from_results else options.choose(for_link=True)
    files, missing = write_line(run, style, out)
    for text in missing:
        click.echo(f"Not expressed: {text}", err=True)
    if not quiet:
        list_files(run.title, files)


def _export_table(context: click.Context, style: str, out: Path | None, *, quiet: bool) -> None:
    from lasthop.campaign.course import write_course
    from lasthop.campaign.folded import write_folded
    from lasthop.campaign.series import write_series
    from lasthop.commands.table_file import check_output

    over, place = context.params["over"], context.params["place"]
    if context.params["snaplen"] is not None:
        raise InputError("--snaplen is for packets: choose --as pcapng, or leave out --snaplen.")
    if place is not None and over is not None:
        raise InputError("--course is for one replication; leave out --over replications.")
    if place is not None and style != "csv":
        raise InputError("--course writes a CSV file: choose --as csv.")
    if out is not None:
        check_output(out, (f".{style}",))
    runs = runs_of_source(context)
    if out is None:
        out = Path(f"{runs[0].plan.study.name}.{style}")
        check_output(out, (f".{style}",))
    if place is not None:
        rows = write_course(_only_run(runs), place, out)
    else:
        rows = (write_series if over is None else write_folded)(runs, context.params["step_ns"], out)
    if not quiet:
        title = runs[0].title if len(runs) == 1 else f"{len(runs)} cells of {runs[0].plan.study.name}"
        click.echo(f"{title}:\n  {out}, {rows} rows")


def _only_run(runs: list[ChosenRun]) -> ChosenRun:
    if len(runs) > 1:
        raise InputError(f"This writes one run, and there are {len(runs)} cells; choose one with --only.")
    return runs[0]
