"""The command `lasthop results query`: SQL over the records of finished results.

The records are read into tables in memory; then DuckDB loses access to files and network. Views over the
files would read less. But then the files must stay open to DuckDB, and a query may hold a COPY that writes
to them.
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
"""Number of rows that are printed of a result."""
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
    """Answer an SQL query from finished results.

    DIR is a results folder. Its files flows.parquet, runs.parquet, pages.parquet, shorts.parquet,
    hops.parquet and stations.parquet, if it has them, are the tables flows, runs, pages, shorts, hops and
    stations. If you give several folders, each table holds the rows of all of them, and its column 'folder'
    says where a row comes from.
    Without SQL, lasthop lists the tables and their columns.

    SQL is one query in DuckDB's dialect. It can only read these tables: it cannot write, and it reaches no
    other file and no network. Numbers keep the units that their column names state, such as _s and _Bps. The
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
    """Tell folders from SQL: a query has several words and comes last."""
    folders, words = [first], list(others)
    sql = words.pop() if words and not _is_folder(words[-1]) and len(words[-1].split()) != 1 else None
    for word in words:
        if not _is_folder(word):
            raise InputError(
                f"{word!r} is no folder. Give folders first, then one query in quotation marks, for example "
                f'"SELECT * FROM flows".'
            )
        folders.append(Path(word))
    resolved = [folder.resolve() for folder in folders]
    for place, folder in enumerate(folders):
        if resolved[place] in resolved[:place]:
            raise InputError(f"{folder} is given twice; its rows would count twice. Give each folder once.")
    return folders, sql


def _is_folder(word: str) -> bool:
    # A query may be longer than a path can be, which pathlib calls an error.
    return bool(word) and os.path.isdir(word)  # noqa: PTH112


@contextmanager
def _connected(folders: Sequence[Path]) -> Iterator[DuckDBPyConnection]:
    """Open a database in memory that holds the records of finished results, and can reach nothing else."""
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
                _load(
                    connection,
                    table,
                    [folder / name for folder in folders if (folder / name).is_file()],
                    folders,
                )
        except duckdb.Error as error:
            named = ", ".join(map(str, folders))
            raise InputError(f"Cannot read the records in {named}: {str(error).splitlines()[0]}") from error
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def _load(connection: DuckDBPyConnection, table: str, files: Sequence[Path], folders: Sequence[Path]) -> None:
    """Read the files of one table, each with the name of its folder if there are several folders."""
    source = "FROM read_parquet(?, hive_partitioning = false)"  # a folder such as rate=5 is no column
    parts, values = [], []
    for file in files:
        path, columns = glob.escape(str(file.resolve())), "*"
        if len(folders) > 1:
            # Like a factor that is named like a measured column.
            taken = any(
                name == _FOLDER for name, *_ in connection.execute(f"DESCRIBE {source}", [path]).fetchall()
            )
            columns = f"? AS {_FOLDER}, *" + (f" RENAME ({_FOLDER} AS factor_{_FOLDER})" if taken else "")
            values.append(str(file.parent))
        parts.append(f"SELECT {columns} {source}")
        values.append(path)
    if parts:
        connection.execute(f"CREATE TABLE {table} AS {' UNION ALL BY NAME '.join(parts)}", values)


def _tables(connection: DuckDBPyConnection) -> dict[str, dict[str, str]]:
    """Return the type of each column of each table."""
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
    """Let Ctrl-C end the process: DuckDB looks for signals only between its tasks, and one may take days."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _answer(connection: DuckDBPyConnection, sql: str) -> pl.DataFrame:
    """Run one query; raise InputError with one line that says what is wrong with it."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
        reading = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)  # PIVOT is several statements
        if len(statements) != 1 or statements[0].type not in reading:
            raise InputError(
                "SQL: give one query that reads: SELECT, FROM, WITH, PIVOT, DESCRIBE, SUMMARIZE or SHOW."
            )
        relation = connection.sql(sql)
        if relation is None:
            raise InputError("SQL: the query has no result.")
        return _fetched(relation)
    except duckdb.Error as error:
        raise InputError(f"SQL: {_told(str(error), sql, _tables(connection))}") from error


def _fetched(relation: DuckDBPyRelation) -> pl.DataFrame:
    """Fetch a result in types that every file format has: all but numbers and truth values become text."""
    names = relation.columns
    doubled = [name for place, name in enumerate(names) if name in names[:place]]
    if doubled:
        raise InputError(
            f"SQL: two columns are called '{doubled[0]}'. Give one of them another name with AS."
        )
    kinds = [_kind(str(kind)) for kind in relation.types]
    quoted = ['"{}"'.format(name.replace('"', '""')) for name in names]
    plain = [f"CAST({name} AS {kind}) AS {name}" for name, (kind, _) in zip(quoted, kinds, strict=True)]
    # As rows: if polars takes results through Arrow, DuckDB complains of leaks when the process ends.
    rows = relation.project(", ".join(plain)).fetchall()
    return pl.DataFrame(
        rows, schema=dict(zip(names, (dtype for _, dtype in kinds), strict=True)), orient="row"
    )


def _kind(kind: str) -> tuple[str, type[pl.DataType]]:
    """Return the types of DuckDB and polars for a column of a result."""
    if _WHOLE.fullmatch(kind):
        return "BIGINT", pl.Int64
    if _REAL.fullmatch(kind):
        return "DOUBLE", pl.Float64
    return ("BOOLEAN", pl.Boolean) if kind == "BOOLEAN" else ("VARCHAR", pl.String)


def _told(message: str, sql: str, tables: dict[str, dict[str, str]]) -> str:
    """Shorten DuckDB's message on a query to a line, and name the nearest column or table."""
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
    """Print the first rows of a table: numbers to the right, text to the left."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [[_text(value) for value in row] for row in frame.head(_ROWS).iter_rows()]
    shown = Table(box=None, pad_edge=False, show_edge=False, padding=(0, _GAP, 0, 0))
    for name, kind in frame.schema.items():
        shown.add_column(Text(name), justify="right" if kind.is_numeric() else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*map(Text, row))
    # Half a number is none: a line that is too long for the terminal wraps.
    columns = zip(frame.columns, *rows, strict=True)
    width = sum(max(Text(text).cell_len for text in column) + _GAP for column in columns)
    console = Console(width=max(width, 1), highlight=False)
    with console.capture() as capture:
        console.print(shown)
    for line in capture.get().splitlines():
        click.echo(f"{'':{indent}}{line.rstrip()}")
    if frame.height > _ROWS:
        click.echo(f"... and {frame.height - _ROWS} more rows: --out FILE writes all of them.")


def _text(value: object) -> str:
    """Write a value.

    A number has at least six digits before it is rounded, and never loses one before the point.
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if 10**_DIGITS <= abs(value) < 10**15 else f"{value:.{_DIGITS}g}"
    return str(value)
