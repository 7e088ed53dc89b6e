"""The command `lasthop summary`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from lasthop.options import quiet_option, table_out_option

_ROWS = 24
_SENTENCES = 4
"""How much of an answer a run prints."""


@click.command("summary")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Show this column, for example rtt_median_s. Repeat for more.  [default: the metrics that matter most for the "
    "kind of traffic]",
)
@click.option(
    "--by",
    multiple=True,
    metavar="FACTOR",
    help="Show one row per level of this factor instead of one per cell. Repeat for more. A replication's value is "
    "then its mean over the other factors.",
)
@click.option(
    "--stat",
    "statistic",
    default="median",
    show_default=True,
    metavar="NAME",
    help="Statistic over the replications: min, p25, median, p75, p95, p99, max or mean.",
)
@table_out_option
@quiet_option
def summary_command(
    *, folder: Path, metrics: tuple[str, ...], by: tuple[str, ...], statistic: str, out: Path | None, quiet: bool
) -> None:
    """Print the results of a finished run.

    DIR is a results folder. The tables have a row per cell and flow. It shows a statistic over the replications, with
    its 95 % interval in brackets: from order statistics for a percentile, Student's for a mean. A question mark means
    that there are too few replications to bound that end.

    Below the tables, lasthop says which levels of a factor differ significantly from the first one. It compares
    replications of the same number, because they met the same conditions: mean difference, Student's interval, paired
    t test, p values corrected after Holm.

    Example: lasthop summary results/my --metric throughput_Bps --by variant --stat p95
    """
    from lasthop import analyze as captures
    from lasthop.answer.folder import check_statistic, columns_of, read_sections, whole_table
    from lasthop.answer.show import Shown, answer_lines

    if out is not None:
        captures.check_output(out)
    check_statistic(statistic)
    sections = read_sections(folder, metrics)
    shown = Shown(statistic, columns_of(by, sections) or None)
    if out is not None:
        captures.write_output(whole_table(sections, shown), out)
    if not quiet:
        for line in answer_lines(sections, shown):
            click.echo(line)


def short_answer(folder: Path, *, study: bool) -> list[str]:
    """Return what to print after a run: the start of the answer. A study's is the comparison with what it printed."""
    from lasthop.answer.folder import read_sections
    from lasthop.answer.show import Shown, answer_lines

    command = f"lasthop summary {shlex.quote(str(folder))}"
    if study:
        return [f"Medians of every cell, with intervals: {command}"]
    return ["", *answer_lines(read_sections(folder), Shown(rows=_ROWS, sentences=_SENTENCES, rest=command)), ""]
