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
from lasthop.commands.basic import FOLDER, PATH, list_option, only_option
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output

if TYPE_CHECKING:
    from lasthop.campaign.results.sections import Section

_ROWS = 24
_SENTENCES = 4
"""Number of lines of an answer that a run prints."""


@click.command("show")
@click.argument("folder", metavar="DIR", type=FOLDER)
@list_option(
    "--metric",
    "metrics",
    "Show these columns, for example rtt_median_s,rtt_p95_s.  [default: the metrics that matter most for the "
    "kind of traffic]",
)
@list_option(
    "--by",
    "factors",
    "Show one row per level of these factors instead of one per cell. A replication's value is then its mean "
    "over the other factors.",
)
@click.option(
    "--stat",
    "statistic",
    default="median",
    show_default=True,
    metavar="NAME",
    help="Statistic over the replications: min, p25, median, p75, p95, p99, max, mean, or iqr, the distance "
    "between the quartiles: how steady a metric is.",
)
@table_out_option
@quiet_option
def show_command(
    *,
    folder: Path,
    metrics: tuple[str, ...],
    factors: tuple[str, ...],
    statistic: str,
    out: Path | None,
    quiet: bool,
) -> None:
    """Print the results of a finished run.

    DIR is a results folder. The tables have a row per cell and flow. It shows a statistic over the
    replications, with its 95 % interval in brackets: from order statistics for percentiles, Student's for a
    mean. A question mark means that there are too few replications to bound that end. After 'lasthop run
    --until', intervals hold over all looks, and a table shows how precise each cell is.

    Below the tables, lasthop says which levels of a factor differ significantly from the first one. The main
    metric of a call comes first, if there is a call, then the largest differences. lasthop results compares
    replications of the same number, because they met the same conditions: mean difference, Student's
    interval, paired t test (of logarithms for times and rates), p values corrected after Holm. Levels that
    are numbers are also tested for a trend. See docs/guides/results.md.

    Example: lasthop results show results/queue --metric throughput_Bps --by queue --stat p95
    """
    from lasthop.present.answer.folder import check_statistic, columns_of, read_sections, whole_table
    from lasthop.present.answer.show import Shown, answer_lines

    if out is not None:
        check_output(out)
    check_statistic(statistic)
    sections = read_sections(folder, metrics)
    shown = Shown(statistic, columns_of(factors, sections) or None)
    if out is not None:
        write_output(whole_table(sections, shown), out)
    if not quiet:
        for line in [*answer_lines(sections, shown), *space_lines(folder), *_precision(folder)]:
            click.echo(line)


@click.command("compare")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option(
    "--reference",
    required=True,
    metavar="FACTOR=LEVEL",
    help="Compare the other levels of this factor with this one, for example --reference variant=baseline.",
)
@click.option("--metric", required=True, metavar="NAME", help="The column to compare, for example elapsed_s.")
@only_option(
    "Compare only in these cells, for example --only link=e0. You may name several levels of a factor. "
    "Repeat the option to add more cells."
)
@click.option("--role", metavar="ROLE", help="Compare only flows with this role.  [default: all]")
@click.option(
    "--correction",
    type=click.Choice(["holm", "none"]),
    default="holm",
    show_default=True,
    help="How p values account for the number of comparisons in the table.",
)
@click.option(
    "--plot",
    type=PATH,
    metavar="FILE",
    help="Also draw the differences and their intervals as a forest plot, into this new file: .png, .svg or "
    ".pdf.",
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
    """Compare the levels of a factor with a reference, in pairs.

    DIR is a results folder. A cell's replications of the same set and number met the same link states and
    start times at every level, so lasthop subtracts them in pairs. There is a comparison for each other level
    of the factor, in each combination of the other factors and flow role. It shows:

    \b
      difference  mean of the pairs, level less reference, with Student's 95 % interval
      change      the difference as a share of the reference's mean; not given for scores such as MOS
      median      of the pairs, with a 95 % interval by percentile bootstrap (2000 resamples)
      d_z         Cohen's effect size for pairs: mean over standard deviation
      p           of the paired t test, for the mean
      rank p      of Wilcoxon's signed-rank test, for pairs that are far from normal

    Times and rates are compared by their ratio: means are geometric, and interval, d_z and p come from
    Student's interval and test of the logarithms. The column 'means' of --out tells which means these are.

    Among many p values some are small by chance. Holm's correction covers all comparisons in the table: the
    probability that it calls any of them significant by chance is at most 5 %. It cannot cover tables that
    you looked at and discarded, so choose metric, cells and flows before you look at the results.

    Replications without a partner are left out and counted. So are pairs with a missing value: a flow that
    did not finish has no elapsed time. Its rates and counts are those up to the time it was cut, and they are
    compared.

    After 'lasthop run --until', intervals and p values hold over all looks.

    --out writes more columns: p values before the correction, the matched-pairs rank-biserial correlation,
    and what was left out. They are in the units of the records.

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


def short_answer(folder: Path, sections: Sequence[Section] | None) -> list[str]:
    """Return the start of the answer, printed after a run.

    It is `None` for a study, which printed its comparison.
    """
    from lasthop.present.answer.show import Shown, answer_lines

    command = f"lasthop results show {shlex.quote(str(folder))}"
    precision = _precision(folder, _ROWS, command)
    if sections is None:
        return [*precision, f"Medians of every cell, with intervals: {command}"]
    shown = Shown(rows=_ROWS, sentences=_SENTENCES, rest=command)
    return ["", *answer_lines(sections, shown), *space_lines(folder), *precision, ""]


def _precision(folder: Path, rows: int | None = None, rest: str = "") -> list[str]:
    """Say how precise results are if precision ended them; say nothing for a given number of replications."""
    manifest = finished(folder)
    if UNTIL not in manifest:
        return []
    from lasthop.present.answer.precision import precision_lines

    return precision_lines(Tables.read_points(folder), manifest, rows=rows, rest=rest)
