"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from click.core import ParameterSource

from lasthop import _core
from lasthop.campaign.limits import COUNT_MAX, read_size
from lasthop.commands.basic import FOLDER, PATH, Choice, only_option, seed_option
from lasthop.common.errors import InputError
from lasthop.engines.registry import ABOUT, ENGINES

F = TypeVar("F", bound=Callable[..., object])

COUNT = click.IntRange(min=1, max=COUNT_MAX)


class _Size(click.ParamType[float]):
    """A size with its unit, in bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return read_size(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


anyway_option = click.option(
    "--anyway",
    is_flag=True,
    help="Also run cells that may send more than 1000 million packets per run (about ten minutes).",
)
limit_memory_option = click.option(
    "--limit-memory",
    type=_Size(),
    metavar="SIZE",
    help="Maximum memory per run, with a unit such as MB or GB. lasthop refuses runs with a higher estimate; "
    "estimates are on the high side.  [default: half of this machine's memory]",
)
points_option = click.option(
    "--points",
    type=COUNT,
    metavar="N",
    help="Number of sample points for factors with a range of values.  [default: the scenario's, or 64]",
)
engine_option = click.option(
    "--engine",
    type=Choice(list(ENGINES)),
    default="model",
    show_default=True,
    help=" ".join(
        [
            "TCP implementation of the hosts; the last hop is always lasthop's.",
            *(f"{name}: {about}" for name, about in ABOUT.items()),
        ]
    ),
)
kernel_option = click.option(
    "--kernel",
    metavar="NAME",
    help="For --engine kernel: a guest kernel from 'lasthop kernel list', or a folder of kernel source, "
    "such as ./linux, which is built once.  [default: the newest release]",
)
table_out_option = click.option(
    "--out",
    type=PATH,
    metavar="FILE",
    help="Also write all columns, unrounded, to this new file (.csv, .json or .parquet).",
)
jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of threads, which does not affect the results.  [default: one per core]",
)
cluster_option = click.option(
    "--cluster",
    metavar="WHERE",
    help="Run on a Dask cluster: tcp://HOST:8786 (a running scheduler), local:N (N processes here), "
    "or slurm:FILE, pbs:FILE, sge:FILE, lsf:FILE (jobs of a batch system). See docs/guides/cluster.md.",
)
junit_option = click.option(
    "--junit",
    "junit_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the verdicts to this file as JUnit XML.",
)
quiet_option = click.option("--quiet", is_flag=True, help="Print only errors.")
REPLICATIONS = "replications"
"""The value of `--over` that is no factor."""
over_option = click.option(
    "--over",
    type=Choice([REPLICATIONS]),
    metavar=REPLICATIONS,
    help="Summarize all replications of each selected cell: at each time step, the median and the band from "
    "the 10th to the 90th percentile.",
)
snaplen_option = click.option(
    "--snaplen",
    type=click.IntRange(min=1, max=_core.SNAP_LENGTH),
    metavar="N",
    help="Capture only the first N bytes of each packet. Headers take up to 80 bytes.  [default: all]",
)
pcap_option = click.option(
    "--pcap",
    is_flag=True,
    help="Also capture the packets of every run in DIR/traces/CELL/set-S/replication-N, as 'lasthop export' "
    "does. A run of kulve2003 takes 2 to 5 MB, or a quarter of that with --snaplen 96.",
)


def run_options(
    engine: Callable[..., object] = engine_option, pcap: Callable[..., object] = pcap_option
) -> Callable[[F], F]:
    """Return a decorator that adds the options of `RunOptions`."""
    return each_of(
        only_option(
            "Run only these cells (combinations of factor levels), for example --only "
            "link=e0,workload=2tcp0udp. Several levels of one factor are alternatives. Repeat the option to "
            "add more cells."
        ),
        points_option,
        click.option(
            "--replications",
            type=COUNT,
            metavar="N",
            help="Replications per cell and set; with --until, the maximum per cell.  [default: the "
            "scenario's, or 1000 with --until]",
        ),
        click.option(
            "--until",
            multiple=True,
            metavar="CONDITION",
            help="Run each cell until it is this precise, such as --until 'median(elapsed_s) within 2 %'. "
            "Syntax: STATISTIC(METRIC) [of FLOW] within NUMBER UNIT [at LEVEL %]. STATISTIC is median, mean, "
            "p25, p75, p95 or p99; UNIT is %, or a unit of the metric, as in 'within 5 ms'. Repeat the "
            "option to require several conditions. They are checked after 10, 16, 25, 40, 63, 100, ... "
            "replications, called looks; the confidence, 95 % by default, holds over all looks. See "
            "docs/guides/precision.md.",
        ),
        click.option(
            "--sets",
            type=COUNT,
            default=1,
            show_default=True,
            metavar="N",
            help="Number of independent sets of R replications. Summaries show the mean of the sets' "
            "statistics. Set s contains replications (s-1)*R+1 to s*R.",
        ),
        seed_option,
        jobs_option,
        click.option(
            "--out",
            type=PATH,
            metavar="DIR",
            help="Results folder. lasthop reuses the runs in it, adds the missing ones, and never touches "
            "other files.  [default: results/NAME]",
        ),
        click.option("--overwrite", is_flag=True, help="Delete the results in the folder first."),
        pcap,
        snaplen_option,
        engine,
        kernel_option,
        cluster_option,
        click.option(
            "--dry-run",
            is_flag=True,
            help="Print the job script that --cluster would submit, and run nothing.",
        ),
        click.option(
            "--beside",
            multiple=True,
            type=FOLDER,
            metavar="DIR",
            help="Compare with finished results of the same scenario on another engine, in the report and in "
            "engines.csv. Repeat the option for more folders.",
        ),
        anyway_option,
        limit_memory_option,
        quiet_option,
    )


def each_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds these options to a command, in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def is_given(context: click.Context, name: str) -> bool:
    """Return whether the command line contains the option with this parameter name."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
