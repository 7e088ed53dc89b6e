"""The command `lasthop anova`."""

from pathlib import Path

import click

from lasthop.commands.basic import only_option
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output


@click.command("anova")
@click.argument("source", metavar="DIR|FILE.csv", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--response",
    required=True,
    metavar="METRIC",
    help="The column to explain. It needs a number in every row.",
)
@click.option(
    "--factors",
    required=True,
    metavar="FACTOR,...",
    help="The factors to explain it by. Every combination of levels must be there.",
)
@only_option(
    "Use only these rows. Choose one level of every factor that you do not analyse, for example --only "
    "link=wan. In a table you may name any column."
)
@click.option(
    "--role",
    metavar="ROLE",
    help="Take METRIC from the flows with this role, from this page load or from the short flows of these "
    "hosts.  [default: the mean over all of a run]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.90,
    show_default=True,
    metavar="C",
    help="Confidence level of the intervals.",
)
@table_out_option
@quiet_option
def anova_command(
    *,
    source: Path,
    response: str,
    factors: str,
    only: tuple[str, ...],
    role: str | None,
    confidence: float,
    out: Path | None,
    quiet: bool,
) -> None:
    """Say how much of a metric's variation each factor explains.

    DIR is a results folder. METRIC is a column of runs.parquet, or else of pages.parquet, shorts.parquet or
    flows.parquet; then a run's value is the mean over its page loads, short flows or flows. FILE.csv is any
    table with a line per value and columns for the factors and METRIC. Columns named set and replication tell
    the replications of a cell apart. Every combination of the factors' levels must occur equally often.

    The variation is the sum of squares about the overall mean. It is divided among the factors, the pairs of
    factors (how much the effect of one depends on the level of the other), and the rest. The rest is the
    error between replications; without replications it is the interactions of three and more factors. F, p
    and the intervals are relative to it. The effect of a level is the difference of its mean from the overall
    mean. If its interval contains 0, the effect may be chance. After 'lasthop run --until', p and the
    intervals hold over all looks. After Jain, The Art of Computer Systems Performance Analysis, chapters 20
    to 23.

    Example: lasthop anova results/my --response duration_s --factors link,variant --out anova.csv
    """
    from lasthop.analysis.statistics import anova

    if out is not None:
        check_output(out)
    table = anova.read_table(source, response, only, role)
    analysis = anova.analyse(
        anova.full_factorial(table, [factor.strip() for factor in factors.split(",")]), confidence
    )
    if out is not None:
        write_output(analysis.frame(), out)
    if not quiet:
        anova.show(analysis)
