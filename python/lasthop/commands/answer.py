"""The commands `lasthop results show` and `lasthop results compare`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop.campaign.results.manifest import UNTIL, finished
from lasthop.campaign.results.space import space_lines
from lasthop.campaign.results.tables import Tables
from lasthop.commands.basic import FOLDER, PATH, Choice, list_option, only_option
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output

if TYPE_CHECKING:
    from lasthop.campaign.results.sections import Section
    from lasthop.present.answer.blocks import Block

_LINES = 35
"""Most lines of the answer after a run: with the other lines of a run it fits on a screen of 40."""


@click.command("show")
@click.argument("folder", metavar="DIR", type=FOLDER)
@list_option(
    "--metric",
    "metrics",
    "Show these columns, for example rtt_median_s,rtt_p95_s.  [default: the main metrics of the kind of "
    "traffic]",
)
@list_option(
    "--by",
    "factors",
    "Show one row per level of these factors instead of one per cell; values are first averaged over the "
    "other factors, per replication.",
)
@only_option("Show only these cells, for example --only link=e0. Repeat the option to add more cells.")
@click.option(
    "--stat",
    "statistic",
    default="median",
    show_default=True,
    metavar="NAME",
    help="Statistic over the replications: min, p25, median, p75, p95, p99, max, mean, or iqr (interquartile "
    "range: how steady a metric is).",
)
@table_out_option
@quiet_option
def show_command(
    *,
    folder: Path,
    metrics: tuple[str, ...],
    factors: tuple[str, ...],
    only: tuple[str, ...],
    statistic: str,
    out: Path | None,
    quiet: bool,
) -> None:
    """Print the results of a finished run.

    DIR is a results folder. The tables have a row per flow in each cell (combination of factor levels), with
    a statistic over the replications and its 95 % interval in brackets: from order statistics for
    percentiles, Student's for means. A question mark means that there are too few replications to bound that
    end. After 'lasthop run --until', intervals hold over all looks, and a table shows the precision of each
    cell.

    Below the tables, lasthop lists the levels of a factor that differ significantly from the first level: the
    main metric of a call first, if there is a call, then the largest differences. Replications with the same
    number met the same conditions, so they are compared in pairs: mean difference, Student's interval, paired
    t test (of logarithms for times and rates), p values with Holm's correction. Numeric levels are also
    tested for a trend. See docs/guides/results.md.

    Example: lasthop results show results/queue --metric throughput_Bps --by queue --stat p95
    """
    from lasthop.present.answer.blocks import all_lines
    from lasthop.present.answer.folder import (
        check_statistic,
        columns_of,
        only_cells,
        read_sections,
        whole_table,
    )
    from lasthop.present.answer.show import Shown, answer_blocks

    if out is not None:
        check_output(out)
    check_statistic(statistic)
    sections = only_cells(read_sections(folder, metrics), only)
    shown = Shown(statistic, columns_of(factors, sections) or None)
    if out is not None:
        write_output(whole_table(sections, shown), out)
    if not quiet:
        for line in all_lines([*answer_blocks(sections, shown), *_notes(folder)]):
            click.echo(line)


@click.command("compare")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option(
    "--reference",
    required=True,
    metavar="FACTOR=LEVEL",
    help="Reference level to compare the factor's other levels with, for example variant=baseline.",
)
@click.option("--metric", required=True, metavar="NAME", help="Column to compare, for example elapsed_s.")
@only_option(
    "Compare only these cells, for example --only link=e0. Several levels of one factor are alternatives. "
    "Repeat the option to add more cells."
)
@click.option("--role", metavar="ROLE", help="Compare only flows with this role.  [default: all]")
@click.option(
    "--correction",
    type=Choice(["holm", "none"]),
    default="holm",
    show_default=True,
    help="Correction of p values for the number of comparisons in the table.",
)
@click.option(
    "--plot",
    type=PATH,
    metavar="FILE",
    help="Also draw a forest plot of the differences and their intervals to this new file (.png, .svg or "
    ".pdf).",
)
@table_out_option
@quiet_option
def compare_command(
    *,
    folder: Path,
    reference: str,
    metric: str,
    only: tuple[str, ...],
    role: str | None,
    correction: str,
    plot: Path | None,
    out: Path | None,
    quiet: bool,
) -> None:
    """Compare the levels of a factor with a reference level, in pairs.

    DIR is a results folder. Replications with the same set and number met the same link states and start
    times at every level, so lasthop compares them in pairs. The table has a row for each level other than the
    reference, combination of the other factors, and role (a flow's name in the scenario):

    \b
      difference  mean of level minus reference over the pairs, with Student's 95 % interval
      change      the difference as a share of the reference's mean; omitted for scores such as MOS
      median      of the pairs, with a 95 % percentile bootstrap interval (2000 resamples)
      d_z         Cohen's effect size for pairs: mean over standard deviation
      p           of the paired t test, for the mean
      rank p      of Wilcoxon's signed-rank test, for pairs that are far from normal

    Times and rates are compared by their ratio: means are geometric, and interval, d_z and p are computed
    from logarithms. The column 'means' of --out states the kind of mean.

    Among many p values, some are small by chance. Holm's correction limits the probability of any false
    positive in the table to 5 %. It cannot account for tables that you looked at and discarded, so choose
    metric, cells and flows before you look at the results.

    Replications without a partner are left out and counted, and so are pairs with a missing value: a flow
    that did not finish has no elapsed time. Its rates and counts up to the time it was cut off are compared.

    After 'lasthop run --until', intervals and p values hold over all looks.

    --out adds columns, in the units of the records: uncorrected p values, the matched-pairs rank-biserial
    correlation, and the numbers of pairs left out.

    Example: lasthop results compare results/kulve2003 --reference variant=eifel --metric elapsed_s
    --plot forest.pdf
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.present.answer.paired import Request, compare_results
    from lasthop.present.answer.paired_show import compare_lines
    from lasthop.present.pictures.files import picture_file, write_forest

    if out is not None:
        check_output(out)
    if plot is not None:
        picture_file(plot)
    compared = compare_results(folder, Request(reference, metric, only, role, correction))
    if out is not None:
        write_output(compared.table(), out)
    if plot is not None:
        write_forest(compared, plot)
    if not quiet:
        for line in [*compare_lines(compared), *space_lines(folder)]:
            click.echo(line)


def short_answer(folder: Path, sections: Sequence[Section] | None, verdicts: Sequence[Block]) -> list[str]:
    """Return the lines printed after a run; `sections` is `None` for a study with published numbers."""
    from lasthop.present.answer.blocks import Block, shortened
    from lasthop.present.answer.show import Shown, answer_blocks

    command = f"lasthop results show {shlex.quote(str(folder))}"
    if sections is None:
        every = Block([f"Medians of every cell, with intervals: {command}"])
        return shortened([*verdicts, *_precision(folder), every], _LINES, command)
    answer = [*answer_blocks(sections, Shown()), *_notes(folder)]
    return ["", *shortened([*answer, Block([""]), *verdicts], _LINES, command)]


def _notes(folder: Path) -> list[Block]:
    """Return what applies to all results of a folder: sampled points and precision."""
    from lasthop.present.answer.blocks import Block

    return [Block(space_lines(folder)), *_precision(folder)]


def _precision(folder: Path) -> list[Block]:
    """Return how precise results are; nothing if they were run without --until."""
    manifest = finished(folder)
    if UNTIL not in manifest:
        return []
    from lasthop.present.answer.precision import precision_blocks

    return list(precision_blocks(Tables.read_points(folder), manifest))
