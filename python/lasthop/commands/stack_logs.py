"""`lasthop analyze --qlog`: the logs of QUIC stacks next to captures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import polars as pl

from lasthop.commands.table_file import check_output, write_output
from lasthop.common.errors import InputError
from lasthop.common.metrics.dictionary import STACK_METRICS
from lasthop.common.metrics.units import human, label
from lasthop.stacks.qlog import Log, read_logs
from lasthop.stacks.view import View, view_of


def compare_logs(
    captures: Sequence[Path],
    logs: Sequence[Path],
    table: str,
    out: Path | None,
    figure: Path | None,
    *,
    quiet: bool,
) -> None:
    """Compare logs with captures, print a table, and write it and a picture of the only connection."""
    if len(captures) > 2:
        raise InputError("--qlog: give one capture at each end, that of the log's own end first.")
    if out is not None:
        check_output(out)
    views = [view_of(log, *captures) for file in logs for log in read_logs(file)]
    frames = {"stack": _metrics, "series": View.series, "events": View.events}
    frame = pl.concat([_named(view.log, frames[table](view)) for view in views])
    if figure is not None:
        _draw(views, figure)
    if out is not None:
        write_output(frame, out)
    if table == "stack" and not quiet:
        _show(views, frame)
    elif not quiet:
        click.echo(frame.write_csv(), nl=False)
    for note in (note for view in views for note in view.log.notes):
        click.echo(f"Note: {note}", err=True)


def _metrics(view: View) -> pl.DataFrame:
    integers = {name for name in STACK_METRICS if name.endswith(("losses", "datagrams", "max_bytes"))}
    schema = {name: pl.Int64() if name in integers else pl.Float64() for name in STACK_METRICS}
    return pl.DataFrame([view.metrics()], schema=schema)


def _named(log: Log, frame: pl.DataFrame) -> pl.DataFrame:
    names = {"file": str(log.file), "stack": log.stack, "end": log.end}
    return frame.select(*(pl.lit(value).alias(name) for name, value in names.items()), pl.all())


def _draw(views: Sequence[View], figure: Path) -> None:
    from lasthop.present.pictures.files import choose_out
    from lasthop.present.pictures.stack_view import draw_view

    if len(views) > 1:
        raise InputError(f"--figure shows one connection, and there are {len(views)}; give one log.")
    out = choose_out(figure, None, figure.stem, "--figure")
    if not out.suffix:
        raise InputError(f"--figure {out}: give a file, such as {out}.png.")
    draw_view(views[0], out)


def _show(views: Sequence[View], metrics: pl.DataFrame) -> None:
    """Print a line per metric, and a column per connection."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    shown.add_column("", no_wrap=True)
    for view in views:
        shown.add_column(
            f"{view.log.stack or view.log.file.name} {view.log.end}", justify="right", no_wrap=True
        )
    for name in STACK_METRICS:
        shown.add_row(label(name), *(human(name, value) for value in metrics[name]))
    Console(width=1000, highlight=False).print(shown)
