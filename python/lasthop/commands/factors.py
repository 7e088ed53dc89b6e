"""The command `lasthop results factors`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop.commands.basic import list_option, only_option
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import counted, label

if TYPE_CHECKING:
    from lasthop.analysis.statistics.sensitivity import Sensitivity

_DOUBTFUL = 0.8
"""A polynomial that predicts a smaller share of the variation is a poor model of the response."""


@click.command("factors")
@click.argument("source", metavar="DIR|FILE.csv", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--metric",
    required=True,
    metavar="NAME",
    help="Column to explain, for example elapsed_s. Analysis of variance needs a number in every row.",
)
@list_option(
    "--factors",
    "factors",
    "Factors of the analysis of variance. Every combination of their levels must be present.  [default: all "
    "factors with several levels]",
)
@only_option(
    "Use only these rows. Choose one level of every factor that you do not analyse, for example --only "
    "link=wan. For FILE.csv, any column can be used."
)
@click.option(
    "--role",
    metavar="ROLE",
    help="Role (a flow's name in the scenario), page load or hosts with short flows to take the metric "
    "from.  [default: the mean over all of a run]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.90,
    show_default=True,
    metavar="C",
    help="Confidence level of the intervals in the analysis of variance, from 0 to 1.",
)
@table_out_option
@quiet_option
def factors_command(
    *,
    source: Path,
    metric: str,
    factors: tuple[str, ...],
    only: tuple[str, ...],
    role: str | None,
    confidence: float,
    out: Path | None,
    quiet: bool,
) -> None:
    """Compute how much of a metric's variation each factor explains.

    DIR is a results folder. The metric is a column of runs.parquet, or else of pages.parquet, shorts.parquet
    or flows.parquet; then a run's value is the mean over its page loads, short flows or flows. FILE.csv is
    any table with a line per value and columns for the factors and the metric; its columns 'set' and
    'replication' identify the replications of a cell (combination of factor levels).

    Factors with levels: analysis of variance. The sum of squares about the overall mean is divided among the
    factors, the pairs of factors (how much the effect of one factor depends on the level of the other), and
    the rest: the error between replications or, without replications, the interactions of three or more
    factors. F, p and the intervals are relative to the rest. The effect of a level is the difference of its
    mean from the overall mean; if its interval contains 0, the effect may be chance. Every combination of
    levels must occur equally often. See Jain, The Art of Computer Systems Performance Analysis, chapters 20
    to 23.

    Sampled ranges (factors with 'from' and 'to'), without --factors: Sobol indices of the metric's mean over
    the replications. The first-order index of a factor is the share of the variance that it explains alone;
    its total index adds its interactions. A factor with a total index near 0 does not matter within these
    ranges. lasthop fits a sparse polynomial to the sample, computes the indices from it, and prints how much
    of the variation the polynomial predicts at points left out of the fit. The intervals are a 95 %
    percentile bootstrap over the points.

    Example: lasthop results factors results/my --metric duration_s --factors link,variant --out anova.csv
    """
    if out is not None:
        check_output(out)
    if not factors and _samples_ranges(source):
        from lasthop.analysis.statistics.sensitivity import analyse

        sensitivity = analyse(source, metric, only, role)
        if out is not None:
            write_output(sensitivity.table(), out)
        if not quiet:
            for line in _lines(sensitivity):
                click.echo(line)
        return
    from lasthop.analysis.statistics import anova

    if not factors and not source.is_dir():
        raise InputError(f"Missing --factors: name the columns of {source} that are factors.")
    table = anova.read_table(source, metric, only, role)
    analysis = anova.analyse(anova.full_factorial(table, factors or anova.varied(table)), confidence)
    if out is not None:
        write_output(analysis.frame(), out)
    if not quiet:
        anova.show(analysis)


def _samples_ranges(source: Path) -> bool:
    from lasthop.campaign.results.manifest import finished
    from lasthop.campaign.results.space import read_space

    if not source.is_dir():
        return False
    finished(source)
    return bool(read_space(source).ranges)


def _lines(sensitivity: Sensitivity) -> Iterator[str]:
    from lasthop.present.answer.show import laid_out, table_width, width

    indices = sensitivity.indices
    each = (
        f"{sensitivity.replications} replications each"
        if sensitivity.replications > 1
        else "one replication each"
    )
    points, cells = sensitivity.points, sensitivity.cells
    yield f"Sobol indices of {label(sensitivity.metric)}: {points} points, {cells} cells, {each}"
    yield ""
    heads = ["factor", "first order [95 %]", "total [95 %]"]
    order = sorted(range(len(sensitivity.factors)), key=lambda place: -indices.estimate.total[place])
    rows = [
        [
            sensitivity.factors[place],
            *(
                f"{estimate[place]:.3f} [{low[place]:.3f}..{high[place]:.3f}]"
                for estimate, low, high in (
                    (indices.estimate.first, indices.low.first, indices.high.first),
                    (indices.estimate.total, indices.low.total, indices.high.total),
                )
            ),
        ]
        for place in order
    ]
    rows.append(["interactions", f"{sensitivity.interactions:.3f}", ""])
    yield from chain(*laid_out(heads, rows, 1, table_width(heads, rows)))
    yield ""
    limit = width() if sys.stdout.isatty() else 100
    terms = counted(indices.terms, "term")
    text = (
        f"A polynomial of {terms} predicts {100 * max(0.0, indices.predicted):.1f} % of the variation at "
        "points left out of the fit (5-fold cross-validation); the indices are shares of the variance that "
        "it explains."
    )
    if sensitivity.noise is not None:
        noise = f"{100 * sensitivity.noise:.1f} %"
        text += f" Replications of a cell account for {noise} of the variation of single runs."
    yield from textwrap.wrap(text, limit)
    if indices.predicted < _DOUBTFUL:
        yield from textwrap.wrap(
            "Note: this is little, so do not rely on these indices. Sample more points with --points, or run "
            "more replications if the metric is noisy.",
            limit,
        )
