"""The command `lasthop results query`: SQL over the records of finished results.

The records are read into tables in memory, before DuckDB loses access to files and network. Views over the
files would read less, but DuckDB would need access to files, and a query may contain a COPY that writes.
"""

from __future__ import annotations

import glob
import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import polars as pl

from lasthop.campaign.results.folder import FLOWS, HOPS, PAGES, RUNS, SHORTS, STATIONS, check_table
from lasthop.campaign.results.manifest import finished
from lasthop.commands.basic import FOLDER
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output
from lasthop.common.errors import InputError, nearest
from lasthop.common.extras import SQL, extra
from lasthop.common.metrics.units import counted, label

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_FILES = {"flows": FLOWS, "runs": RUNS, "pages": PAGES, "shorts": SHORTS, "hops": HOPS, "stations": STATIONS}
_FOLDER = "folder"
_ROWS = 100
"""Maximum number of rows printed."""
_DIGITS = 6
_GAP = 2
_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")
_REAL = re.compile(r"FLOAT|DOUBLE|DECIMAL.*")
_SHUT_OFF: dict[str, str | bool | int | float | list[str]] = {
    "allow_persistent_secrets": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}


@click.command("query")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.argument("others", metavar="[DIR]... [SQL]", nargs=-1)
@table_out_option
@quiet_option
def query_command(*, folder: Path, others: tuple[str, ...], out: Path | None, quiet: bool) -> None:
    """Query finished results with SQL.

    DIR is a results folder. Its files flows.parquet, runs.parquet, pages.parquet, shorts.parquet,
    hops.parquet and stations.parquet, as far as they exist, are the tables flows, runs, pages, shorts, hops
    and stations. With several folders, each table contains the rows of all folders, and the column 'folder'
    states their origin. Without SQL, lasthop lists the tables and their columns.

    SQL is one query in DuckDB's dialect. It can only read these tables: it cannot write, and has no access to
    other files or the network. Numbers are in the units of their column names, such as _s and _Bps. The
    terminal shows six digits and up to 100 rows; --out writes everything.

    Example: lasthop results query results/queue
    "SELECT queue, median(elapsed_s) FROM flows GROUP BY queue ORDER BY queue"
    """
    if out is not None:
        check_output(out)
    folders, sql = _folders_and_sql(folder, others)
    with _connected(folders) as connection:
        if sql is None:
            frame = _contents(connection)
        else:
            with _stoppable():
                frame = _answer(connection, sql)
    if out is not None:
        write_output(frame, out)
    if quiet:
        return
    if sql is not None:
        _show(frame)
        return
    for (table, rows), columns in frame.partition_by(
        "table", "rows", as_dict=True, maintain_order=True
    ).items():
        click.echo(f"{table}: {counted(rows, 'row')}")
        _show(columns.drop("table", "rows"), indent=2)


def _folders_and_sql(first: Path, others: Sequence[str]) -> tuple[list[Path], str | None]:
    """Separate folders from SQL: a query has several words and comes last."""
    folders, words = [first], list(others)
    sql = words.pop() if words and not _is_folder(words[-1]) and len(words[-1].split()) != 1 else None
    for word in words:
        if not _is_folder(word):
            raise InputError(
                f"{word!r} is not a folder. Give folders first, then one query in quotes, for example "
                f'"SELECT * FROM flows".'
            )
        folders.append(Path(word))
    resolved = [folder.resolve() for folder in folders]
    for place, folder in enumerate(folders):
        if resolved[place] in resolved[:place]:
            raise InputError(f"{folder} appears twice, so its rows would count twice; give each folder once.")
    return folders, sql


def _is_folder(word: str) -> bool:
    # pathlib raises an error for a query that is longer than a path can be.
    return bool(word) and os.path.isdir(word)  # noqa: PTH112


@contextmanager
def _connected(folders: Sequence[Path]) -> Iterator[DuckDBPyConnection]:
    """Open a database in memory that contains the records and has no access to anything else."""
    with extra(SQL, "lasthop results query"):
        import duckdb

    for folder in folders:
        finished(folder)
        for name in _FILES.values():
            if (folder / name).is_file():
                check_table(folder / name)
    with duckdb.connect(":memory:", config=_SHUT_OFF) as connection:
        try:
            for table, name in _FILES.items():
                files = [folder / name for folder in folders if (folder / name).is_file()]
                _load(connection, table, files, several=len(folders) > 1)
        except duckdb.Error as error:
            places = ", ".join(map(str, folders))
            raise InputError(f"Cannot read the records in {places}: {str(error).splitlines()[0]}") from error
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def _load(connection: DuckDBPyConnection, table: str, files: Sequence[Path], *, several: bool) -> None:
    """Create a table from files; with `several`, with a column for the folder."""
    source = "FROM read_parquet(?, hive_partitioning = false)"  # a folder such as rate=5 is not a column
    parts, values = [], []
    for file in files:
        path, columns = glob.escape(str(file.resolve())), "*"
        if several:
            # A factor of this name is renamed, as if it had the name of a measured column.
            names = [name for name, *_ in connection.execute(f"DESCRIBE {source}", [path]).fetchall()]
            columns = f"? AS {_FOLDER}, *" + (
                f" RENAME ({_FOLDER} AS factor_{_FOLDER})" if _FOLDER in names else ""
            )
            values.append(str(file.parent))
        parts.append(f"SELECT {columns} {source}")
        values.append(path)
    if parts:
        connection.execute(f"CREATE TABLE {table} AS {' UNION ALL BY NAME '.join(parts)}", values)


def _tables(connection: DuckDBPyConnection) -> dict[str, dict[str, str]]:
    return {
        table: {name: str(kind) for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall()}
        for table in _FILES
        if connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [table]).fetchall()
    }


def _contents(connection: DuckDBPyConnection) -> pl.DataFrame:
    """Return a row per column of each table: `table`, `rows`, `column`, `type`, `meaning`."""
    rows = []
    for table, columns in _tables(connection).items():
        [(count,)] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        rows += [(table, count, name, kind, label(name)) for name, kind in columns.items()]
    return pl.DataFrame(rows, schema=["table", "rows", "column", "type", "meaning"], orient="row")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let Ctrl-C end the process: DuckDB checks for signals only between tasks, which may take days."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _answer(connection: DuckDBPyConnection, sql: str) -> pl.DataFrame:
    """Run one query; raise `InputError` with a one-line reason if it fails."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
        reading = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)  # PIVOT is several statements
        if len(statements) != 1 or statements[0].type not in reading:
            raise InputError(
                "SQL: give one query that only reads: SELECT, FROM, WITH, PIVOT, DESCRIBE, SUMMARIZE or SHOW."
            )
        relation = connection.sql(sql)
        if relation is None:
            raise InputError("SQL: the query has no result.")
        return _fetch(relation)
    except duckdb.Error as error:
        raise InputError(f"SQL: {_explain(str(error), sql, _tables(connection))}") from error


def _fetch(relation: DuckDBPyRelation) -> pl.DataFrame:
    """Fetch a result in types that all file formats support: numbers, booleans, and text for the rest."""
    names = relation.columns
    if duplicates := [name for place, name in enumerate(names) if name in names[:place]]:
        raise InputError(f"SQL: two columns are called '{duplicates[0]}'; rename one of them with AS.")
    kinds = [_kind(str(kind)) for kind in relation.types]
    quoted = ['"{}"'.format(name.replace('"', '""')) for name in names]
    plain = [f"CAST({name} AS {kind}) AS {name}" for name, (kind, _) in zip(quoted, kinds, strict=True)]
    # As rows: if polars reads results through Arrow, DuckDB reports leaks when the process ends.
    rows = relation.project(", ".join(plain)).fetchall()
    return pl.DataFrame(
        rows, schema=dict(zip(names, (dtype for _, dtype in kinds), strict=True)), orient="row"
    )


def _kind(kind: str) -> tuple[str, type[pl.DataType]]:
    if _WHOLE.fullmatch(kind):
        return "BIGINT", pl.Int64
    if _REAL.fullmatch(kind):
        return "DOUBLE", pl.Float64
    return ("BOOLEAN", pl.Boolean) if kind == "BOOLEAN" else ("VARCHAR", pl.String)


def _explain(message: str, sql: str, tables: dict[str, dict[str, str]]) -> str:
    """Shorten DuckDB's message to one line, and suggest the nearest column or table."""
    text = re.split(r"\n\n|\n\s*Candidate", message)[0].partition("Error: ")[2] or message
    listed = ", ".join(tables)
    if "disabled by configuration" in text:
        return f"{text.split(' - ')[0]}: a query reads only the tables {listed}."
    if missing := re.match(r"Table with name (\S+) does not exist", text):
        return (
            f"there is no table '{missing[1]}'; did you mean '{nearest(missing[1], tables)}'? Tables: "
            f"{listed}."
        )
    if missing := re.search(r'column "(.+?)" not found|column named "(.+?)"', text):
        name = missing[1] or missing[2]
        near = nearest(name, {column for columns in tables.values() for column in columns})
        quoted = f" Text takes single quotes: '{name}'." if f'"{name}"' in sql else ""
        return (
            f"there is no column '{name}' here; did you mean '{near}'?{quoted} 'lasthop results "
            "query DIR' lists all columns."
        )
    return " ".join(text.split())


def _show(frame: pl.DataFrame, indent: int = 0) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [[_text(value) for value in row] for row in frame.head(_ROWS).iter_rows()]
    shown = Table(box=None, pad_edge=False, show_edge=False, padding=(0, _GAP, 0, 0))
    for name, kind in frame.schema.items():
        shown.add_column(Text(name), justify="right" if kind.is_numeric() else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*map(Text, row))
    # Numbers are never truncated: long lines wrap.
    columns = zip(frame.columns, *rows, strict=True)
    width = sum(max(Text(text).cell_len for text in column) + _GAP for column in columns)
    console = Console(width=max(width, 1), highlight=False)
    with console.capture() as capture:
        console.print(shown)
    for line in capture.get().splitlines():
        click.echo(f"{'':{indent}}{line.rstrip()}")
    if frame.height > _ROWS:
        click.echo(f"... and {frame.height - _ROWS} more rows; --out FILE writes all of them.")


def _text(value: object) -> str:
    """Format a value: numbers with six significant digits, and all digits before the decimal point."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if 10**_DIGITS <= abs(value) < 10**15 else f"{value:.{_DIGITS}g}"
    return str(value)
