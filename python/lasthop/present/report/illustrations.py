"""The replications whose packet traces a report shows."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from lasthop.analysis.findings.findings import Findings
from lasthop.analysis.statistics.summary import in_cell
from lasthop.campaign.campaign import PICTURED_FLOWS
from lasthop.campaign.plan import ChosenRun
from lasthop.campaign.results.tables import height, is_empty
from lasthop.common.metrics import units
from lasthop.studies.presentation.spec import FigureSpec


def illustrated(findings: Findings) -> Iterator[tuple[FigureSpec, ChosenRun]]:
    """Yield the runs named by the study, by default the median replication of the first cell.

    The latter must have few flows, so that a picture can show their details. Cells that were not run, and
    runs that cannot be repeated, are omitted.
    """
    plan = findings.campaign.plan
    if not plan.repeatable:
        return
    cells = {cell.key: cell for cell in plan.cells}
    for spec in findings.presentation.figure or _median_run(findings):
        if spec.cell in cells and spec.replication <= plan.replications:
            yield spec, ChosenRun(plan, cells[spec.cell], 1, spec.replication)


def _median_run(findings: Findings) -> Iterator[FigureSpec]:
    """Yield a typical replication of the first cell's first set: the median by the headline metric."""
    plan = findings.campaign.plan
    first = plan.cells[0]
    # In a space, these are the replications of its first point.
    named = in_cell({factor: level for factor, level in first.levels.items() if factor in findings.factors})
    own_runs = named & (pl.col("set") == 1) & (pl.col("replication") <= plan.replications)
    flows = findings.tables.flows
    first_flows = 0 if is_empty(flows) else height(flows.filter(own_runs, pl.col("replication") == 1))
    # The first cell may lack metrics of other cells.
    available = (thing for thing in findings.things if not thing.rows.filter(own_runs).is_empty())
    thing = next(available, None)
    if not 0 < first_flows <= PICTURED_FLOWS or thing is None:
        return
    own = thing.rows.filter(own_runs)
    # A replication with a missing value, because a flow did not finish, ranks after all complete ones.
    ranked = (
        own.group_by("replication")
        .agg(pl.col(thing.metric).is_null().sum().alias("missing"), pl.col(thing.metric).mean())
        .sort("missing", thing.metric, "replication")
    )
    middle = ranked.row((ranked.height - 1) // 2, named=True)
    number, value = int(middle["replication"]), middle[thing.metric]
    of = "the only cell" if len(plan.cells) == 1 else f"the first cell ({first.key})"
    if ranked.height == 1:
        yield FigureSpec(first.key, f"The only replication of {of}", number)
        return
    what = units.label(thing.metric)
    caption = (
        f"This is the median of {ranked.height} replications: its {what}"
        f"{' (mean over its flows)' if own.filter(replication=number).height > 1 else ''} is "
        f"{units.human(thing.metric, value)}."
    )
    yield FigureSpec(first.key, f"A typical replication of {of}", number, caption)
