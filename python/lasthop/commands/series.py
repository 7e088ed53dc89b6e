"""The command `lasthop series`."""

from pathlib import Path

import click

from lasthop.commands.basic import PATH
from lasthop.commands.options import one_run_options, over_option, quiet_option, runs_of_source
from lasthop.common.errors import InputError


class _Step(click.ParamType[int]):
    """A length of time with its unit, in nanoseconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read `100ms` or `0.5 s`."""
        if isinstance(value, int):
            return value
        from lasthop.campaign.series import read_step

        try:
            return read_step(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


@click.command("series")
@one_run_options("SOURCE", many=True)
@click.option(
    "--step",
    "step_ns",
    type=_Step(),
    default="100ms",
    show_default=True,
    metavar="TIME",
    help="Length of a step, with its unit: s, ms or us.",
)
@click.option(
    "--out",
    type=PATH,
    required=True,
    metavar="FILE",
    help="The new file: .parquet or .csv. Nothing is overwritten.",
)
@over_option
@click.option(
    "--course",
    "place",
    metavar="PLACE",
    help="In place of a run, write the course of a link as a CSV file that a scenario can name: 'down', 'up' "
    "or, of a hop with a name, 'HOP-down'.",
)
@quiet_option
@click.pass_context
def series_command(
    context: click.Context,
    /,
    *,
    step_ns: int,
    out: Path,
    over: str | None,
    place: str | None,
    quiet: bool,
    **_: object,
) -> None:
    """Write what happens over time as a table.

    SOURCE is a scenario file, the name of a study, or a folder of results, which gives its seed and engine.
    One replication of each cell is simulated again, or of each cell that --only chooses. The table begins
    with the factors, the set and the replication. For each step it has a row for every flow that is active in
    it, and two rows for the hop, down and up, in which 'flow' is missing:

    \b
      goodput_Bps         payload that arrived for the first time
      lost_packets        packets lost, whatever the cause
      queue_mean_packets  mean number of packets in the router queue
      cwnd, srtt_s        window and smoothed round-trip time of the flow's sender
      fairness_jain       for the hop: Jain's index over the flows that had data to send
      capacity_Bps        for the hop: what it could have carried

    'lasthop metrics series' defines every column. Memory does not grow with the length of the run. 'lasthop
    plot' draws the same with '--kind stack,fairness'.

    With '--over replications' the table has a row for each step and metric: the 'median' over the
    replications that have a value, and the band from 'low' to 'high'.

    With '--course down' nothing is simulated. The file has the course that the replication draws for the
    link, as 'time_s,rate_bps,delay_s'.

    Example: lasthop series two-flows.toml --step 100ms --out series.parquet
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.campaign.course import write_course
    from lasthop.campaign.folded import write_folded
    from lasthop.campaign.series import FORMATS, write_series
    from lasthop.commands.table_file import check_output

    if place is not None and over is not None:
        raise InputError("--course writes that of one replication; leave out --over replications.")
    check_output(out, FORMATS if place is None else (".csv",))
    runs = runs_of_source(context)
    if place is not None:
        if len(runs) > 1:
            raise InputError(
                f"--course writes that of one cell, and there are {len(runs)}; choose by --only."
            )
        rows = write_course(runs[0], place, out)
    else:
        rows = (write_series if over is None else write_folded)(runs, step_ns, out)
    if not quiet:
        named = runs[0].title if len(runs) == 1 else f"{len(runs)} cells of {runs[0].plan.study.name}"
        click.echo(f"{named}:\n  {out}, {rows} rows")
