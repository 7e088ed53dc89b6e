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
    help="Scenario file of the results, if it has moved since.",
)
@list_option("--only", "ids", "Show only claims with these IDs, for example --only SC03,SC04.")
@list_option(
    "--verdict",
    "verdicts",
    "Show only claims with these verdicts, for example --verdict 'not upheld'.",
    VERDICTS,
)
@click.option("--reading", metavar="ID", help="Check the claims under this reading in readings.toml.")
@click.option(
    "--readings",
    is_flag=True,
    help="Check the claims under each reading in readings.toml, and count the verdicts.",
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
    """Check the claims of a scenario against finished results.

    DIR is a results folder. The claims of a study are in claims.toml next to its scenario, those of any other
    scenario in its file or next to it. 'run' and 'study run' check them too, and write claims.csv,
    claims_cells.csv (per cell, that is, combination of factor levels) and statements.csv (per statement of
    the source, the publication that a study reproduces).

    A claim compares means or other statistics of metrics, such as fct(iw10) > fct(iw3). Replications with the
    same number met the same conditions, so both sides are compared in pairs and averaged over the claim's
    cells. Verdicts:

    \b
      upheld         the 95 % interval of the difference is on the right side of 0
      not upheld     it is on the wrong side
      undecided      it contains 0
      uncomputable   the results contain no numbers to check the claim with
      not run        cells are missing

    For a claim with several parts, the line shows the part nearest to failing. "cells upheld" counts the
    cells that uphold their part on their own. A statement of the source holds if all claims that refer to it
    do. docs/reference/claims.md describes the language.

    A study may have readings.toml next to its claims: other interpretations of its source, or mechanisms that
    were investigated. --readings prints a line per reading. If the source has published numbers, it also
    counts how many hold: a number is upheld if the 95 % interval of the measured number lies within the
    tolerance, not upheld if it lies outside, else undecided. --out then has a row per statement and reading.

    Example: lasthop check results results/balekaki2012 --verdict 'not upheld' --out failed.csv
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.analysis.claims import check
    from lasthop.analysis.claims.verdicts import claims_frame, readings_frame, verdict_lines

    if out is not None:
        check_output(out)
    if readings:
        if ids or verdicts or reading is not None:
            raise click.UsageError("--readings counts all claims; leave out --only, --verdict and --reading.")
        judged = check.check_readings(folder, scenario)
        if out is not None:
            write_output(readings_frame(judged), out)
        if not quiet:
            check.show_readings(judged)
        return
    outcomes, answers = check.check(folder, scenario, reading)
    chosen = check.choose(outcomes, ids, verdicts)
    if out is not None:
        write_output(claims_frame(chosen), out)
    if not quiet:
        check.show(chosen)
        for line in verdict_lines(outcomes, answers):
            click.echo(line)
