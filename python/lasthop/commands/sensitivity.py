"""The command `lasthop sensitivity`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop.commands.basic import FOLDER
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output
from lasthop.common.metrics.units import counted, label

if TYPE_CHECKING:
    from lasthop.analysis.statistics.sensitivity import Sensitivity

_DOUBTFUL = 0.8
"""A polynomial that predicts less of the variation than this is a poor model of the response."""


@click.command("sensitivity")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--metric", required=True, metavar="NAME", help="The column to explain, for example elapsed_s.")
@click.option(
    "--only",
    multiple=True,
    metavar="FACTOR=LEVEL,...",
    help="Use only these named levels, for example --only cc=cubic. You may name several levels of a factor.",
)
@click.option(
    "--role",
    metavar="ROLE",
    help="Take the metric from the flows with this role, from this page load or from the short flows of "
    "these hosts.  [default: the mean over all of a run]",
)
@table_out_option
@quiet_option
def sensitivity_command(
    *, folder: Path, metric: str, only: tuple[str, ...], role: str | None, out: Path | None, quiet: bool
) -> None:
    """Rank factors by how much of a metric's variance they explain.

    DIR holds finished results of a scenario that samples ranges: factors with from and to. lasthop computes
    Sobol indices of the metric's mean over the replications. The first-order index of a factor is the share
    of the variance that it explains alone; its total index adds the interactions it takes part in. A factor
    whose total index is near 0 does not matter in this space. Factors with named levels count as well.

    The indices come from the sample itself: lasthop fits a sparse polynomial to the metric and reads them
    off. It tells how much of the variation the polynomial predicts at points that were left out of the fit.
    The intervals are a 95 % percentile bootstrap over the points.

    Example: lasthop sensitivity results/my --metric elapsed_s --out sobol.json
    """
    from lasthop.analysis.statistics.sensitivity import analyse

    if out is not None:
        check_output(out)
    found = analyse(folder, metric, only, role)
    if out is not None:
        write_output(found.table(), out)
    if not quiet:
        for line in _lines(found):
            click.echo(line)


def _lines(found: Sensitivity) -> Iterator[str]:
    from lasthop.present.answer.show import laid_out, table_width, width

    indices = found.indices
    each = f"{found.replications} replications each" if found.replications > 1 else "one replication each"
    yield f"Sobol indices of {label(found.metric)}: {found.points} points, {found.cells} cells, {each}"
    yield ""
    heads = ["factor", "first order [95 %]", "total [95 %]"]
    order = sorted(range(len(found.factors)), key=lambda place: -indices.estimate.total[place])
    rows = [
        [
            found.factors[place],
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
    rows.append(["interactions", f"{found.interactions:.3f}", ""])
    yield from laid_out(heads, rows, 1, table_width(heads, rows))
    yield ""
    limit = width() if sys.stdout.isatty() else 100
    terms = counted(indices.terms, "term")
    said = (
        f"A polynomial of {terms} predicts {100 * max(0.0, indices.predicted):.1f} % of the variation at "
        "points left out of the fit (5-fold cross-validation); the indices are shares of the variance that "
        "it explains."
    )
    if found.noise is not None:
        said += f" Replications of a cell make {100 * found.noise:.1f} % of the variation of single runs."
    yield from textwrap.wrap(said, limit)
    if indices.predicted < _DOUBTFUL:
        yield from textwrap.wrap(
            "Note: that is little, so do not rely on these indices. Sample more points with --points, or "
            "more replications if the metric is noisy.",
            limit,
        )
