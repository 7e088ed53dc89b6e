"""The command `lasthop results metrics`."""

from collections.abc import Sequence
from pathlib import Path

import click

from lasthop.commands.options import table_out_option
from lasthop.commands.table_file import check_output, write_output
from lasthop.common.errors import InputError, nearest
from lasthop.common.metrics.dictionary import Metric, dictionary


@click.command("metrics")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@table_out_option
def metrics_command(*, names: Sequence[str], out: Path | None) -> None:
    """Define the columns of the results.

    Without NAME, it lists every column of every table: its unit and its definition. NAME is a column, for
    example rtt_p95_s, or a table: flows, pages, shorts, hops, runs, or summary, which holds columns that only
    summary.csv and printed answers have. The Parquet files carry the same units and definitions as metadata
    of their columns.

    Example: lasthop results metrics elapsed_s runs
    """
    if out is not None:
        check_output(out)
    chosen = _chosen(names)
    if out is not None:
        import polars as pl

        write_output(pl.DataFrame(chosen), out)
        return
    _show(chosen)


def _chosen(names: Sequence[str]) -> list[Metric]:
    """Return the metrics of these names or tables, or all metrics; refuse an unknown name."""
    tables = dictionary()
    chosen: list[Metric] = []
    for name in names or tables:
        found = list(tables.get(name, {}).values()) or [own[name] for own in tables.values() if name in own]
        if not found:
            known = [*tables, *(column for metrics in tables.values() for column in metrics)]
            raise InputError(
                f"There is no column and no table '{name}'; did you mean '{nearest(name, known)}'? "
                "'lasthop results metrics' lists them all."
            )
        chosen += found
    return chosen


def _show(chosen: Sequence[Metric]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    tables = {metric.table for metric in chosen}
    for table in filter(tables.__contains__, dictionary()):
        shown = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        shown.add_column(no_wrap=True)
        shown.add_column(no_wrap=True)
        shown.add_column()
        for metric in chosen:
            if metric.table == table:
                shown.add_row(Text(metric.name), Text(metric.unit), Text(metric.definition))
        console.print(Text(table, style="bold"), shown, "", sep="\n")
