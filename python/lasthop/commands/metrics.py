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
    """Describe the columns of the results, with units.

    NAME is a column, for example rtt_p95_s, or a table: flows, pages, shorts, hops, runs, or summary, for the
    columns that are only in summary.csv and printed results. Without NAME, all columns of all tables are
    listed. The Parquet files contain the same units and definitions as column metadata.

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
    tables = dictionary()
    chosen: list[Metric] = []
    for name in names or tables:
        matches = [*tables.get(name, {}).values()] or [own[name] for own in tables.values() if name in own]
        if not matches:
            known = [*tables, *(column for metrics in tables.values() for column in metrics)]
            raise InputError(
                f"There is no column or table '{name}'; did you mean '{nearest(name, known)}'? "
                "'lasthop results metrics' lists them all."
            )
        chosen += matches
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
