"""The commands `lasthop check` and `lasthop check run`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop.analysis.checks import AT_MOST
from lasthop.analysis.claims import NOT_RUN, NOT_UPHELD, UNDECIDED
from lasthop.commands.basic import PATH, Choice, LazyGroup
from lasthop.commands.completion import complete_files
from lasthop.commands.judging import asked_of_judge, judging_options
from lasthop.commands.options import COUNT, junit_option
from lasthop.common.errors import InputError

if TYPE_CHECKING:
    from lasthop.analysis.checks.judge import Checked

_PRINTED_IF_QUIET = (NOT_UPHELD, UNDECIDED, NOT_RUN)


def _command_for(source: str) -> str:
    return "results" if Path(source).is_dir() else "run"


def _limit(context: click.Context) -> int | None:
    """Return the maximum of replications with --until-decided, and otherwise `None`."""
    until_decided, at_most = (context.params[name] for name in ("until_decided", "at_most"))
    if at_most is not None and not until_decided:
        raise InputError("--at-most needs --until-decided; for a fixed number, give --replications instead.")
    if until_decided and context.params["replications"] is not None:
        raise InputError(
            "--until-decided chooses the number of replications; replace --replications by --at-most."
        )
    return (at_most or AT_MOST) if until_decided else None


def _write_report(checked: Checked) -> Path:
    from lasthop.analysis.claims.answers import answers
    from lasthop.analysis.findings.analyse import analyse
    from lasthop.campaign.results.folder import locked
    from lasthop.present.report.page import write_outputs
    from lasthop.studies.loading import load

    loaded = load(checked.file)
    with locked(checked.campaign.out):
        findings = analyse(checked.campaign, loaded.assets, drawn=loaded.drawn)
        outcomes = [judged.outcome for judged in checked.judged]
        answered = answers(checked.claims.sentences, outcomes)
        return write_outputs(replace(findings, claims=outcomes, answers=answered))


@click.group(
    "check",
    cls=LazyGroup,
    sections={
        "Commands": {
            "run": ("check:check_command", "Run scenarios and check their claims."),
            "results": ("claims:claims_command", "Check the claims of a scenario against finished results."),
            "baseline": ("baseline:baseline_group", "Save, list and remove baseline results."),
        }
    },
    default=_command_for,
)
def check_group() -> None:
    """Check a scenario's claims about its results, for CI.

    'lasthop check FILE...' is short for 'lasthop check run FILE...', and 'lasthop check DIR' for 'lasthop
    check results DIR'.

    Example: lasthop check upload.toml --junit verdicts.xml
    """


@click.command("run")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH, shell_complete=complete_files)
@click.option(
    "--baseline",
    type=PATH,
    metavar="DIR",
    help="Results that claims call 'baseline': a folder from 'lasthop check baseline save', a folder with "
    "several of them, or a results folder.  [default: baselines/NAME, if it exists]",
)
@click.option(
    "--replications", type=COUNT, metavar="N", help="Replications per cell.  [default: the scenario's]"
)
@click.option(
    "--until-decided",
    is_flag=True,
    help="Add replications until no claim is undecided. Claims are checked after 10, 16, 25, 40, 63, 100, "
    "... replications; the error probability over all checks is that of a single one.",
)
@click.option(
    "--at-most",
    type=COUNT,
    metavar="N",
    help=f"With --until-decided: maximum number of replications per cell.  [default: {AT_MOST}]",
)
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="Results folder for a single FILE; runs in it are reused.  [default: results/NAME]",
)
@junit_option
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the verdicts with all their numbers to this JSON file.",
)
@click.option(
    "--format",
    "style",
    type=Choice(["text", "github"]),
    default="text",
    show_default=True,
    help="Output format. github: also print annotations, which GitHub shows at the lines of the claims.",
)
@click.option(
    "--report", "reports", is_flag=True, help="Also write report.html and summary.csv to each results folder."
)
@judging_options
@click.pass_context
def check_command(
    context: click.Context,
    /,
    *,
    files: tuple[Path, ...],
    baseline: Path | None,
    jobs: int | None,
    out: Path | None,
    junit_file: Path | None,
    json_file: Path | None,
    style: str,
    reports: bool,
    quiet: bool,
    **_: object,
) -> int:
    """Run scenarios and check their claims.

    FILE is a scenario with claims: [[claim]] in the file itself, or in NAME.claims.toml next to it. A claim
    is a statement about means, quantiles and other statistics of metrics, such as p95(elapsed_s) < 9. It may
    refer to an earlier version: p95(elapsed_s) <= 1.1 * p95(elapsed_s, baseline). docs/reference/claims.md
    describes the language, docs/guides/ci.md its use in CI and with git bisect.

    Like 'lasthop run', this runs only what is missing. For each claim it prints the verdict, the numbers, and
    the command that explains the run that contradicts the claim most. With --quiet, it omits upheld claims.

    \b
    Exit codes:
      0    every claim is upheld
      4    a claim is not upheld
      5    no claim fails, but one is undecided: its interval extends to both sides
      3    runs of the live engine were too late to be valid
      125  the kernel under test cannot be built; 'git bisect run' skips the commit

    Example: lasthop check run upload.toml --baseline baselines/upload --junit verdicts.xml
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.analysis.checks import tell
    from lasthop.analysis.checks.judge import Ways, check_file, exit_code

    if out is not None and len(files) > 1:
        raise InputError("--out holds the results of one scenario; check the files one at a time.")
    asked, limit = asked_of_judge(context), _limit(context)
    ways = Ways(out, baseline, limit, jobs, quiet)
    checked = []
    for file in files:
        result = check_file(file, asked, ways)
        checked.append(result)
        if not quiet:
            click.echo("\n".join([tell.head(result), *result.warnings]))
        for judged in result.judged:
            if not quiet or judged.outcome.verdict in _PRINTED_IF_QUIET:
                click.echo("\n".join(tell.lines(result, judged)))
        for line in tell.as_github(result) if style == "github" else ():
            click.echo(line)
        if result.late is not None:
            click.echo(result.late, err=True)
        if reports:
            report = _write_report(result)
            if not quiet:
                click.echo(f"report: {report}")
    if json_file is not None:
        json_file.write_text(tell.as_json(checked), encoding="utf-8")
    if junit_file is not None:
        junit_file.write_bytes(tell.as_junit(checked))
    if not quiet:
        click.echo("\n".join([tell.totals(checked), *tell.advice(checked, until_decided=limit is not None)]))
    verdicts = [judged.outcome.verdict for result in checked for judged in result.judged]
    return exit_code(verdicts, late=any(result.late for result in checked))
