"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from click.core import ParameterSource

from lasthop import _core
from lasthop.campaign.limits import COUNT_MAX, read_size
from lasthop.commands.basic import FOLDER, PATH, only_option, seed_option
from lasthop.common.errors import InputError
from lasthop.engines.registry import ABOUT, ENGINES

F = TypeVar("F", bound=Callable[..., object])

COUNT = click.IntRange(min=1, max=COUNT_MAX)


class _Size(click.ParamType[float]):
    """A size with its unit, in bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read `8 GB`."""
        try:
            return read_size(str(value))
        except InputError as error:
            self.fail(str(error), param, ctx)


anyway_option = click.option(
    "--anyway",
    is_flag=True,
    help="Also run cells that may send more than 1000 million packets a run, which take some ten minutes.",
)
limit_memory_option = click.option(
    "--limit-memory",
    type=_Size(),
    metavar="SIZE",
    help="Most memory that a run may take, with its unit: MB or GB. lasthop estimates it beforehand, rather "
    "too high.  [default: half of the machine's]",
)
points_option = click.option(
    "--points",
    type=COUNT,
    metavar="N",
    help="Number of points at which factors with a range are sampled.  [default: the scenario's, or 64]",
)
engine_option = click.option(
    "--engine",
    type=click.Choice(list(ENGINES)),
    default="model",
    show_default=True,
    help=" ".join(
        [
            "What runs the TCP of the hosts; the last hop is the same.",
            *(f"{name}: {about}" for name, about in ABOUT.items()),
        ]
    ),
)
kernel_option = click.option(
    "--kernel",
    metavar="NAME",
    help="For --engine kernel: the guest kernel, by its name in 'lasthop kernel list', or the folder of a "
    "kernel's source, such as ./linux, which is built once.  [default: the newest release]",
)
table_out_option = click.option(
    "--out",
    type=PATH,
    metavar="FILE",
    help="Also write every column, unrounded, to this new file: .csv, .json or .parquet.",
)
jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads. They do not change the results.  [default: one per core]",
)
cluster_option = click.option(
    "--cluster",
    metavar="WHERE",
    help="Run on a Dask cluster: tcp://HOST:8786 (a scheduler that runs), local:N (N processes here) "
    "or slurm:FILE, pbs:FILE, sge:FILE, lsf:FILE (jobs of a batch system). docs/guides/cluster.md tells "
    "more.",
)
junit_option = click.option(
    "--junit",
    "junit_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the verdicts to this file in JUnit's format.",
)
quiet_option = click.option("--quiet", is_flag=True, help="Print only errors.")
over_option = click.option(
    "--over",
    type=click.Choice(["replications"]),
    metavar="replications",
    help="Take all replications of each chosen cell: for each step their median, and the band from their "
    "10th to their 90th percentile.",
)
snaplen_option = click.option(
    "--snaplen",
    type=click.IntRange(min=1, max=_core.SNAP_LENGTH),
    metavar="N",
    help="Keep only the first N bytes of each captured packet. Headers take up to 80.  [default: all]",
)
pcap_option = click.option(
    "--pcap",
    is_flag=True,
    help="Also capture every run, to DIR/traces/CELL/set-S/replication-N: the files of 'lasthop export'. A "
    "run of kulve2003 takes 2 to 5 MB, or a quarter of that with --snaplen 96.",
)


def run_options(
    engine: Callable[..., object] = engine_option, pcap: Callable[..., object] = pcap_option
) -> Callable[[F], F]:
    """Return a decorator that adds the options of `RunOptions`, with these for the engine and captures."""
    return each_of(
        only_option(
            "Run only these cells, for example --only link=e0,workload=2tcp0udp. You may name several "
            "levels of a factor. Repeat the option to add more cells."
        ),
        points_option,
        click.option(
            "--replications",
            type=COUNT,
            metavar="N",
            help="Replications per cell and set; with --until the most per cell.  [default: the scenario's, "
            "or 1000 with --until]",
        ),
        click.option(
            "--until",
            multiple=True,
            metavar="CONDITION",
            help="Run each cell until it is precise, for example --until 'median(elapsed_s) within 2 %'. The "
            "form is STATISTIC(METRIC) [of FLOW] within NUMBER UNIT [at LEVEL %]. STATISTIC is median, mean, "
            "p25, p75, p95 or p99. UNIT is %, or a unit of the metric, as in 'within 5 ms'. Repeat the "
            "option for more conditions: a cell must meet them all. lasthop looks after 10, 16, 25, 40, 63, "
            "100, ... replications. The confidence, 95 % by default, covers all looks: see "
            "docs/guides/precision.md.",
        ),
        click.option(
            "--sets",
            type=COUNT,
            default=1,
            show_default=True,
            metavar="N",
            help="Independent sets of R replications. Summaries show the mean of the sets' statistics. Set s "
            "has replications (s-1)*R+1 to s*R.",
        ),
        seed_option,
        jobs_option,
        click.option(
            "--out",
            type=PATH,
            metavar="DIR",
            help="Folder for the results. lasthop keeps the runs it holds and adds what is missing; it never "
            "touches other files there.  [default: results/NAME]",
        ),
        click.option("--overwrite", is_flag=True, help="First remove the results in the folder."),
        pcap,
        snaplen_option,
        engine,
        kernel_option,
        cluster_option,
        click.option(
            "--dry-run",
            is_flag=True,
            help="Show the job script that --cluster would submit, and run nothing.",
        ),
        click.option(
            "--beside",
            multiple=True,
            type=FOLDER,
            metavar="DIR",
            help="Compare with finished results in DIR, of the same scenario on another engine: in the "
            "report and in engines.csv. Repeat the option for more.",
        ),
        anyway_option,
        limit_memory_option,
        quiet_option,
    )


def each_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that gives a command these options, in this order."""

    def give(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return give


def is_given(context: click.Context, name: str) -> bool:
    """Tell whether the user gave an option, by the name of its parameter."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
