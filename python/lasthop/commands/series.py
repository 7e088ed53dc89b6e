"""The command `lasthop series`."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from lasthop.campaign.plan import ChosenRun
from lasthop.commands.options import OneRunOptions, one_run_options, quiet_option
from lasthop.errors import InputError, nearest


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
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The new file: .parquet or .csv. Nothing is overwritten.",
)
@quiet_option
@click.pass_context
def series_command(context: click.Context, /, *, step_ns: int, out: Path, quiet: bool, **_: object) -> None:
    """Write what happens over time as a table.

    SOURCE is a scenario file, the name of a study, or a folder of results, whose seed and engine are taken then. One
    replication of each cell is simulated again, or of each cell that --only chooses. The table begins with the factors,
    the set and the replication. For each step it has a row for every flow that is active in it, and two rows for the
    hop, down and up, in which 'flow' is missing:

    \b
      goodput_Bps         payload that arrived for the first time
      lost_packets        packets lost, whatever the cause
      queue_mean_packets  what waited in the router queue
      cwnd, srtt_s        window and smoothed round-trip time of the flow's sender
      fairness_jain       of the hop: Jain's index over the flows that had data to send
      capacity_Bps        of the hop: what it could have carried

    'lasthop metrics series' defines every column. Memory does not grow with the length of the run. 'lasthop plot' draws
    the same with '--kind stack,fairness'.

    Example: lasthop series examples/two-flows.toml --step 100ms --out series.parquet
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.campaign.series import FORMATS, write_series
    from lasthop.results.folder import is_results

    if out.suffix not in FORMATS:
        meant = out.with_suffix(nearest(out.suffix, FORMATS)).name
        raise InputError(f"--out {out}: the suffix says the format, {' or '.join(FORMATS)}; did you mean '{meant}'?")
    if out.exists():
        raise InputError(f"{out} exists, and nothing is overwritten: name a file that does not.")
    options = OneRunOptions.of(context)
    runs = _of_results(context, options) if is_results(Path(options.scenario)) else options.choose_all()
    rows = write_series(runs, step_ns, out)
    if not quiet:
        named = runs[0].title if len(runs) == 1 else f"{len(runs)} cells of {runs[0].plan.study.name}"
        click.echo(f"{named}:\n  {out}, {rows} rows")


def _of_results(context: click.Context, options: OneRunOptions) -> list[ChosenRun]:
    """Choose among the runs of a folder of results, which knows how they were made."""
    from lasthop.campaign.again import runs_of

    for name in ("points", "replications", "seed", "engine", "kernel"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(
                f"--{name}: {options.scenario} is a folder of results, which says that itself; leave it out."
            )
    if options.key is not None:
        raise InputError("--cell names a cell of a scenario file; choose among those of results with --only.")
    return runs_of(Path(options.scenario), options.only, options.replication, options.set_number, options.limits)
