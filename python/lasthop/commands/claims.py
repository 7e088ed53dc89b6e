"""The command `lasthop check results`."""

from pathlib import Path

import click

from lasthop.analysis.claims import VERDICTS
from lasthop.commands.basic import FILE, FOLDER, list_option
from lasthop.commands.options import quiet_option, table_out_option
from lasthop.commands.table_file import check_output, write_output


@click.command("results")
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option(
    "--scenario",
    type=FILE,
    metavar="FILE",
    help="The scenario file that was run, if it has another place now.",
)
@list_option("--only", "ids", "Show only the claims with these IDs, for example --only SC03,SC04.")
@list_option(
    "--verdict",
    "verdicts",
    "Show only claims with these verdicts, for example --verdict 'not upheld'.",
    VERDICTS,
)
@click.option("--reading", metavar="ID", help="Judge under this reading of readings.toml.")
@click.option(
    "--readings", is_flag=True, help="Judge under each reading of readings.toml, and count the verdicts."
)
@table_out_option
@quiet_option
def claims_command(
    *,
    folder: Path,
    scenario: Path | None,
    ids: tuple[str, ...],
    verdicts: tuple[str, ...],
    reading: str | None,
    readings: bool,
    out: Path | None,
    quiet: bool,
) -> None:
    """Judge the claims of a scenario by finished results.

    DIR is a results folder. A study has its claims in claims.toml next to its scenario, any other scenario in
    its file or next to it. 'run' and 'study run' check them too, and write claims.csv, for each cell
    claims_cells.csv, and for the statements of a source statements.csv.

    A claim compares means or other statistics of metrics, such as fct(iw10) > fct(iw3). lasthop compares the
    sides in replications of the same number, because they met the same conditions, and averages over the
    claim's cells. Verdicts:

    \b
      upheld         the 95 % interval of the difference is on the right side of 0
      not upheld     it is on the wrong side
      undecided      it contains 0
      uncomputable   no number in the records answers the claim
      not run        cells are missing

    For a claim with several parts, the line shows the part nearest to failing. "cells upheld" counts the
    cells that uphold their part on their own. A statement of the source holds if all claims that name it do.
    docs/reference/claims.md describes the language.

    A study may have readings.toml beside its claims: other ways to read its source, or mechanisms that were
    looked into. --readings prints a line for each reading. If the source has published numbers, it also
    counts how many of these hold: a number is upheld if the 95 % interval of the measured one lies within its
    tolerance, not upheld if it lies outside, else undecided. With --out, it also writes a row for each
    statement under each reading.

    Example: lasthop check results results/balekaki2012 --verdict 'not upheld' --out failed.csv
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.analysis.claims import check
    from lasthop.analysis.claims import verdicts as told

    if out is not None:
        check_output(out)
    if readings:
        if ids or verdicts or reading is not None:
            raise click.UsageError("--readings counts all claims; leave --only, --verdict and --reading out.")
        judged = check.check_readings(folder, scenario)
        if out is not None:
            write_output(told.readings_frame(judged), out)
        if not quiet:
            check.show_readings(judged)
        return
    outcomes, answers = check.check(folder, scenario, reading)
    chosen = check.choose(outcomes, ids, verdicts)
    if out is not None:
        write_output(told.claims_frame(chosen), out)
    if not quiet:
        check.show(chosen)
        for line in told.verdict_lines(outcomes, answers):
            click.echo(line)
