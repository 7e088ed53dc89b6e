"""The command `lasthop lab`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lasthop.campaign.results.folder import is_results
from lasthop.commands.basic import FILE, PATH
from lasthop.commands.completion import complete_scenarios
from lasthop.commands.options import table_out_option
from lasthop.commands.table_file import check_output, write_output
from lasthop.common.errors import InputError
from lasthop.common.extras import LAB, extra

if TYPE_CHECKING:
    from lasthop.present.lab.opened import Opened

_KEY = Path("class.key")
_MODES = ("--export", "--listen", "--collect")
_NEEDS = {"--sheet": ("--listen",), "--key": ("--listen", "--collect"), "--out": ("--collect",)}
_OPEN_TO_ALL = """\
The connection is not encrypted (HTTP), and anyone with the address can run simulations on this machine.
In a network that you do not trust, listen on 127.0.0.1 behind a TLS proxy or an SSH tunnel."""


@click.command("lab")
@click.argument(
    "sources", metavar="[SCENARIO|STUDY|DIR|FILE...]", nargs=-1, shell_complete=complete_scenarios
)
@click.option(
    "--export",
    "file",
    type=PATH,
    metavar="FILE.html",
    help="Instead of starting the lab, write this new file: a self-contained page with the runs for a small "
    "grid of parameter values, or for the scenario's cells (combinations of factor levels).",
)
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
@click.option(
    "--listen",
    metavar="HOST[:PORT]",
    help="Serve the lab to a class: other machines may use it. HOST is an address of this machine, 0.0.0.0 "
    "for all of them, or the name by which the class reaches it.  [default port: 8000]",
)
@click.option("--sheet", type=FILE, metavar="FILE.toml", help="For --listen: questions that students answer.")
@click.option(
    "--key",
    type=PATH,
    metavar="FILE",
    help="For --listen and --collect: secret key of the class, from which its address, the seeds and the "
    f"signatures of answers are derived. --listen creates the file if necessary.  [default: {_KEY}]",
)
@click.option(
    "--collect",
    is_flag=True,
    help="Instead of starting the lab, show the answers in these files, which students downloaded.",
)
@table_out_option
def lab_command(
    sources: Sequence[str],
    *,
    file: Path | None,
    no_browser: bool,
    listen: str | None,
    sheet: Path | None,
    key: Path | None,
    collect: bool,
    out: Path | None,
) -> None:
    """Change a parameter in the browser and see what TCP does.

    This starts a server on this machine, prints its address, and opens it in the browser. The page shows the
    scenario as controls and as text, and redraws the run when either changes. Ctrl-C stops the server.

    SCENARIO is a scenario file or the name of a preset, such as umts; STUDY is the name of a published study.
    DIR is a results folder: a figure shows each run as a point that opens the run. Without an argument, the
    page starts with a download over UMTS.

    The address contains a token. The server answers only requests with that token. Other machines have access
    only with --listen. Then each student enters a name and gets a seed of his or her own
    (docs/start/class.md).

    Example: lasthop lab bufferbloat.toml

    Example: lasthop lab umts --export umts.html

    Example: lasthop lab bufferbloat.toml --listen 0.0.0.0:8000

    Example: lasthop lab --collect ada.json bob.json
    """
    modes = {"--export": file, "--listen": listen, "--collect": collect}
    _check_options(modes | {"--sheet": sheet, "--key": key, "--out": out}, sources)
    if collect:
        _show_answers(sources, key or _KEY, out)
        return
    with extra(LAB, "lasthop lab"):
        from lasthop.present.lab.export import export
        from lasthop.present.lab.opened import Opened
        from lasthop.present.lab.server import serve
        from lasthop.present.lab.shelf import Shelf

    source = next(iter(sources), None)
    shelf = Shelf.read(Path(source)) if source is not None and is_results(Path(source)) else None
    opened = Opened.named(source) if shelf is None else shelf.opened
    if file is not None:
        runs = export(opened, file)
        click.echo(f"{file}: {runs} runs")
    elif listen is None:
        serve(opened, shelf, _started("{}\nCtrl-C stops the lab.", no_browser=no_browser))
    elif shelf is not None:
        raise InputError(f"--listen: {source} contains results; a class needs a scenario.")
    else:
        _serve_class(opened, listen, sheet, key or _KEY, no_browser=no_browser)


def _check_options(given: Mapping[str, object], sources: Sequence[str]) -> None:
    """Raise `InputError` for options that do not belong together."""
    used = [option for option, value in given.items() if value]
    modes = [option for option in used if option in _MODES]
    if len(modes) > 1:
        raise InputError(f"{modes[0]} and {modes[1]} exclude each other.")
    for option, needed in _NEEDS.items():
        if option in used and not set(needed) & set(modes):
            raise InputError(f"{option} needs {' or '.join(needed)}.")
    if "--collect" in modes and not sources:
        raise InputError("--collect: name the files that students downloaded, such as answers/*.json.")
    if "--collect" not in modes and len(sources) > 1:
        raise InputError(
            f"The lab opens one scenario, not {len(sources)}. Only --collect takes several files."
        )


def _started(text: str, *, no_browser: bool) -> Callable[[str], None]:
    """Return what to do once a server is ready: print the text with the address, and open the address."""
    import threading
    import webbrowser

    def started(address: str) -> None:
        click.echo(text.format(address))
        if not no_browser:
            # Some browsers return only after they are closed.
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()

    return started


def _serve_class(opened: Opened, listen: str, sheet: Path | None, key: Path, *, no_browser: bool) -> None:
    with extra(LAB, "lasthop lab"):
        from lasthop.present.lab.classroom.key import Key
        from lasthop.present.lab.classroom.listen import Listen
        from lasthop.present.lab.classroom.server import serve_class
        from lasthop.present.lab.classroom.sheet import read_sheet

    if opened.code:
        raise InputError(
            f"--listen: {opened.file} uses {opened.code[0]}, but the lab of a class runs no Python code. Use "
            "one of lasthop's algorithms."
        )
    place = Listen.parse(listen)
    questions = [] if sheet is None else read_sheet(sheet, opened)
    text = f"{{}}\n{_OPEN_TO_ALL}\nThe key of the class is in {key}. Ctrl-C stops the lab."
    started = _started(text, no_browser=no_browser)
    serve_class(opened, questions, Key.read_or_create(key), place, started)


def _show_answers(files: Sequence[str], key: Path, out: Path | None) -> None:
    from lasthop.present.lab.classroom.collect import collect
    from lasthop.present.lab.classroom.key import Key

    if out is not None:
        check_output(out)
    rows, faults = collect([Path(file) for file in files], Key.read(key))
    if rows:
        _show(rows)
        if out is not None:
            import polars as pl

            write_output(pl.DataFrame(rows, infer_schema_length=None), out)
    if faults:
        raise InputError("\n".join(faults))


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("student", "question", "prediction", "measured", "error", "verified"):
        table.add_column(column, justify="right" if column in ("prediction", "measured", "error") else "left")
    for row in rows:
        error = "" if row["error"] is None else f"{row['error']:+.0%}"
        table.add_row(
            *(escape(row[name]) for name in ("student", "question", "prediction_text", "measured_text")),
            error,
            "yes" if row["verified"] else "no",
        )
    Console(highlight=False).print(table)
