"""The command `lasthop lab`."""

from pathlib import Path

import click

from lasthop.campaign.results.folder import is_results
from lasthop.commands.basic import PATH
from lasthop.commands.completion import complete_scenarios
from lasthop.common.extras import LAB, extra


@click.command("lab")
@click.argument("source", metavar="[SCENARIO|STUDY|DIR]", required=False, shell_complete=complete_scenarios)
@click.option(
    "--export",
    "file",
    type=PATH,
    metavar="FILE.html",
    help="Instead of starting the lab, write this new file: a self-contained page with the runs for a small "
    "grid of parameter values, or for the scenario's cells (combinations of factor levels).",
)
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
def lab_command(source: str | None, *, file: Path | None, no_browser: bool) -> None:
    """Change a parameter in the browser and see what TCP does.

    This starts a server on this machine, prints its address, and opens it in the browser. The page shows the
    scenario as controls and as text, and redraws the run when either changes. Ctrl-C stops the server.

    SCENARIO is a scenario file or the name of a preset, such as umts; STUDY is the name of a published study.
    DIR is a results folder: a figure shows each run as a point that opens the run. Without an argument, the
    page starts with a download over UMTS.

    The address contains a token. The server answers only requests with that token.

    Example: lasthop lab bufferbloat.toml

    Example: lasthop lab umts --export umts.html
    """
    import threading
    import webbrowser

    with extra(LAB, "lasthop lab"):
        from lasthop.present.lab.export import export
        from lasthop.present.lab.opened import Opened
        from lasthop.present.lab.server import serve
        from lasthop.present.lab.shelf import Shelf

    shelf = Shelf.read(Path(source)) if source is not None and is_results(Path(source)) else None
    opened = Opened.named(source) if shelf is None else shelf.opened
    if file is not None:
        runs = export(opened, file)
        click.echo(f"{file}: {runs} runs")
        return

    def started(address: str) -> None:
        click.echo(f"{address}\nCtrl-C stops the lab.")
        if not no_browser:
            # Some browsers return only after they are closed.
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()

    serve(opened, shelf, started)
