"""The command `lasthop`. `lasthop --help` lists its exit codes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lasthop import _core
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.plan import Plan
from lasthop.campaign.provenance import usable_cores
from lasthop.campaign.runner import Threads
from lasthop.cluster import check_cluster, job_script, opened
from lasthop.commands.answer import compare_command, summary_command
from lasthop.commands.completion import complete_files, complete_only, complete_studies
from lasthop.commands.crosscheck import crosscheck_command
from lasthop.commands.kernel import kernel_group
from lasthop.commands.metrics import metrics_command
from lasthop.commands.options import (
    OneRunOptions,
    engine_option,
    kernel_option,
    list_files,
    one_run_options,
    points_option,
    quiet_option,
    seed_option,
    table_out_option,
)
from lasthop.commands.output import guarded_output
from lasthop.commands.plot import plot_command
from lasthop.commands.progress import progress
from lasthop.commands.query import query_command
from lasthop.commands.results import results_group
from lasthop.commands.sensitivity import sensitivity_command
from lasthop.commands.shell import shell_command
from lasthop.commands.table_file import check_output, write_output
from lasthop.commands.validate import validate_command
from lasthop.engines.registry import ENGINES
from lasthop.errors import InputError, InterruptedCampaignError, OutputError
from lasthop.results.folder import TRACES, check_folder, empty, locked
from lasthop.scenario.points import read_study
from lasthop.scenario.selection import all_levels, select_cells
from lasthop.studies.catalogue import SCENARIO_FILE, find_study, list_studies
from lasthop.studies.claims import VERDICTS
from lasthop.studies.loading import Loaded, file_to_run, load

if TYPE_CHECKING:
    from lasthop.studies.beside import Side
    from lasthop.until.stopping import Stopping

EXIT_OK = 0
EXIT_OUTPUT = 1
EXIT_INPUT = 2
EXIT_INVALID = 3
EXIT_INTERRUPTED = 130

F = TypeVar("F", bound=Callable[..., Any])

_SNAPLEN = click.option(
    "--snaplen",
    type=click.IntRange(min=1, max=_core.SNAP_LENGTH),
    metavar="N",
    help="Keep only the first N bytes of each captured packet. Headers take up to 80.  [default: all]",
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that both run commands share."""

    only: tuple[str, ...]
    points: int | None
    replications: int | None
    until: tuple[str, ...]
    sets: int
    seed: int | None
    jobs: int | None
    out: Path | None
    overwrite: bool
    pcap: bool
    snaplen: int | None
    engine: str
    kernel: str | None
    cluster: str | None
    dry_run: bool
    beside: tuple[Path, ...]
    quiet: bool

    @classmethod
    def of(cls, context: click.Context) -> RunOptions:
        """Take them from a command's parameters."""
        return cls(**{field.name: context.params[field.name] for field in fields(cls)})


def _run_options(command: F) -> F:
    options = [
        click.option(
            "--only",
            multiple=True,
            metavar="FACTOR=LEVEL,...",
            shell_complete=complete_only,
            help="Run only these cells, for example --only link=e0,workload=2tcp0udp. You may name several levels of a "
            "factor. Repeat the option to add more cells.",
        ),
        points_option,
        click.option(
            "--replications",
            type=click.IntRange(min=1),
            metavar="N",
            help="Replications per cell and set; with --until the most per cell.  [default: the scenario's, or 1000 "
            "with --until]",
        ),
        click.option(
            "--until",
            multiple=True,
            metavar="CONDITION",
            help="Run each cell until it is precise, for example --until 'median(elapsed_s) within 2 %'. The form is "
            "STATISTIC(METRIC) [of FLOW] within NUMBER UNIT [at LEVEL %]. STATISTIC is median, mean, p25, p75, p95 or "
            "p99. UNIT is %, or a unit of the metric, as in 'within 5 ms'. Repeat the option for more conditions: a "
            "cell must meet them all. lasthop looks after 10, 16, 25, 40, 63, 100, ... replications. The confidence, "
            "95 % by default, covers all looks: see docs/until.md.",
        ),
        click.option(
            "--sets",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            metavar="N",
            help="Independent sets of R replications. Summaries show the mean of the sets' statistics. Set s has "
            "replications (s-1)*R+1 to s*R.",
        ),
        seed_option,
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Threads. They do not change the results.  [default: one per core]",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Folder for the results. lasthop keeps the runs it holds and adds what is missing; it never touches "
            "other files there.  [default: results/NAME]",
        ),
        click.option("--overwrite", is_flag=True, help="First remove the results in the folder."),
        click.option(
            "--pcap",
            is_flag=True,
            help="Also capture every run, to DIR/traces/CELL/set-S/replication-N: the files of 'lasthop trace'. A run "
            "of kulve2003 takes 2 to 5 MB, or a quarter of that with --snaplen 96.",
        ),
        _SNAPLEN,
        engine_option,
        kernel_option,
        click.option(
            "--cluster",
            metavar="WHERE",
            help="Run on a Dask cluster: tcp://HOST:8786 (a scheduler that runs), local:N (N processes here) or "
            "slurm:FILE, pbs:FILE, sge:FILE, lsf:FILE (jobs of a batch system). docs/cluster.md tells more.",
        ),
        click.option(
            "--dry-run", is_flag=True, help="Show the job script that --cluster would submit, and run nothing."
        ),
        click.option(
            "--beside",
            multiple=True,
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            metavar="DIR",
            help="Compare with finished results in DIR, of the same scenario on another engine: in the report and in "
            "engines.csv. Repeat the option for more.",
        ),
        quiet_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


class _Cli(click.Group):
    """The whole command line, with its commands listed by what a user does first."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list for each section."""
        listed = [name for names in _SECTIONS.values() for name in names]
        others = [name for name in self.list_commands(ctx) if name not in listed]
        for title, names in {**_SECTIONS, "Other": others}.items():
            commands = [(name, self.commands[name]) for name in names]
            if commands:
                with formatter.section(title):
                    formatter.write_dl([(name, command.get_short_help_str(limit=80)) for name, command in commands])


_SECTIONS = {
    "Run experiments": ["run", "study", "validate", "schema"],
    "Read the answer": ["summary", "compare", "plot", "claims", "anova", "sensitivity", "query", "metrics", "results"],
    "Look at one run": ["explain", "trace", "analyze"],
    "Use a real TCP": ["shell", "kernel", "crosscheck"],
}


@click.group(
    cls=_Cli,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""Exit codes:

    \b
      0    done
      1    standard output cannot be written
      2    the request is wrong; the error says how to mend it
      3    the live engine left runs that are too late to be valid
      130  stopped by Ctrl-C

    'lasthop shell' returns the exit code of its program.

    \b
    Completion in bash: eval "$(_LASTHOP_COMPLETE=bash_source lasthop)"
    Other shells: docs/completion.md
    """,
)
@click.version_option(f"{_core.VERSION} (commit {_core.COMMIT})", "--version", "-V", prog_name="lasthop")
def cli() -> None:
    """Run experiments with transport protocols over a slow, lossy last hop.

    A scenario file describes link, queue, TCP variants and traffic. lasthop runs every combination, repeats each one
    under the same link conditions, and answers with a table, a report and pictures.

    Start with these:

    \b
      lasthop run examples/two-flows.toml     # a first experiment and its answer
      lasthop summary results/two-flows       # the answer again, with more options
      lasthop study run kulve2003             # a published study beside its printed numbers

    Each command explains itself and has an example, as in 'lasthop run --help'.
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace


@cli.command("run")
@click.argument("file", type=click.Path(path_type=Path), shell_complete=complete_files)
@_run_options
@click.pass_context
def run_command(context: click.Context, /, file: Path, **_: object) -> None:
    """Run a scenario file, then print the answer and write a report.

    lasthop runs every replication of every cell. The answer gives rates in kbit/s or Mbit/s. In the files, times are in
    seconds (_s) or milliseconds (_ms) and rates in bytes per second (_Bps).

    Run the same command again to continue after a stop, to extend the results or to run what you edited.

    Example: lasthop run my.toml --only link=e0 --replications 5 --out /tmp/first

    Example: lasthop run my.toml --until "median(elapsed_s) within 2 %"
    """
    _run(file_to_run(file), RunOptions.of(context))


@cli.group("study")
def study_group() -> None:
    """List, show and run published studies.

    lasthop compares its results with the numbers that the study printed.

    Example: lasthop study list
    """


@study_group.command("list")
def study_list() -> None:
    """List the studies: name, cells x replications, title.

    Example: lasthop study list
    """
    studies = list_studies()
    if not studies:
        raise InputError("This installation carries no studies.")
    width = max(map(len, studies))
    for name, folder in studies.items():
        study = read_study(folder / SCENARIO_FILE)
        click.echo(f"{name:<{width}}  {len(study.cells):>4} cells x {study.replications:>3}  {study.title}")


@study_group.command("show")
@click.argument("name", shell_complete=complete_studies)
def study_show(name: str) -> None:
    """Show what study NAME varies and how to run it.

    Example: lasthop study show kulve2003
    """
    folder = find_study(name)
    study = read_study(folder / SCENARIO_FILE)
    click.echo(study.title)
    if study.description:
        click.echo(click.wrap_text(study.description, width=100, preserve_paragraphs=True))
    click.echo()
    for factor, levels in study.factors.items():
        click.echo(f"{factor:<14}{', '.join(levels)}")
    click.echo(f"{'cells':<14}{len(study.cells)}")
    click.echo(f"{'replications':<14}{study.replications} per cell")
    click.echo(f"{'seed':<14}{study.seed}")
    click.echo(f"{'scenario':<14}{folder / SCENARIO_FILE}")
    click.echo(f"\nRun it with: lasthop study run {name}")


@study_group.command("run")
@click.argument("name", shell_complete=complete_studies)
@_run_options
@click.pass_context
def study_run(context: click.Context, /, name: str, **_: object) -> None:
    """Run study NAME and compare it with its published numbers.

    It prints how many numbers agree and how many of the study's claims hold, and writes a report. In the files, times
    are in seconds (_s) or milliseconds (_ms) and rates in bytes per second (_Bps).

    Example: lasthop study run kulve2003 --sets 10 --out results/kulve2003-10
    """
    _run(find_study(name) / SCENARIO_FILE, RunOptions.of(context))


@cli.command("schema")
def schema() -> None:
    """Print the JSON Schema of scenario files.

    Example: lasthop schema > scenario.schema.json
    """
    click.echo(_core.schema())


@cli.command("trace")
@one_run_options()
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="New folder for the captures."
)
@_SNAPLEN
@quiet_option
@click.pass_context
def trace(context: click.Context, /, *, out: Path, snaplen: int | None, quiet: bool, **_: object) -> None:
    """Write the packets of one replication as pcapng files.

    They open in Wireshark, tshark and tcptrace. FILE is a scenario file or the name of a study. DIR gets these files:

    \b
      server.pcapng, client.pcapng  what the host sent and received
      router-in.pcapng              arrivals at the router queue; comments mark drops and marks
      router-out.pcapng             departures into the link
      drops.csv                     every drop with its cause; ip_id is the packet's IP identification

    Example: lasthop trace kulve2003 --only link=r1,workload=2tcp0udp,variant=dsack --replication 3 --out /tmp/r1
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.campaign.capture import write_captures

    run = OneRunOptions.of(context).choose()
    files = write_captures(run, out, snaplen or _core.SNAP_LENGTH)
    if not quiet:
        list_files(run, files)


@cli.command("explain")
@one_run_options()
@click.option("--flow", metavar="NAME", help="Explain only this flow.  [default: all]")
@click.pass_context
def explain_command(context: click.Context, /, *, flow: str | None, **_: object) -> None:
    """Tell in words what happened to the flows of one replication.

    FILE is a scenario file or the name of a study. The story of a TCP flow follows time: connection set-up, slow start
    and what ended it, every loss with its cause, every fast recovery, and every timeout with its verdict. A timeout is
    spurious if a copy of the segment arrived after all. A summary comes last.

    Example: lasthop explain kulve2003 --only link=r6,variant=baseline --replication 12 --flow tcp-1
    """
    from lasthop.explain import explain

    run = OneRunOptions.of(context).choose()
    for number, text in enumerate(explain(run, flow)):
        click.echo(f"\n{text}" if number else text)


@cli.command("analyze")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@table_out_option
@quiet_option
def analyze(*, files: tuple[Path, ...], out: Path | None, quiet: bool) -> None:
    """Compute flow metrics from packet captures.

    FILE is a pcap or pcapng file from any tool. Each file is analysed on its own. A flow has one line per direction,
    with the sender's data and retransmissions, and the duplicate ACKs, SACKs and round-trip times that came back to it.
    lasthop counts as tcptrace does. If a capture ends inside its last packet, it is analysed up to there, with a
    warning. If it is damaged elsewhere, that is an error.

    Example: lasthop analyze server.pcapng --out flows.csv
    """
    from lasthop.commands import analyze as captures

    if out is not None:
        check_output(out)
    frame, remarks = captures.analyze(files)
    if out is not None:
        write_output(frame, out)
    if not quiet:
        captures.show(frame)
    for remark in remarks:
        click.echo(f"Note: {remark}", err=True)


@cli.command("claims")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--scenario",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The scenario file that was run, with claims.toml in its folder.  [default: that of the study of this name]",
)
@click.option("--only", multiple=True, metavar="ID,...", help="Show only these claims, for example --only SC03,SC04.")
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice(VERDICTS),
    metavar="VERDICT",
    help="Show only claims with this verdict, for example --verdict 'not upheld'. Repeat the option for more.",
)
@table_out_option
@quiet_option
def claims_command(
    *,
    folder: Path,
    scenario: Path | None,
    only: tuple[str, ...],
    verdicts: tuple[str, ...],
    out: Path | None,
    quiet: bool,
) -> None:
    """Check the claims of a study on finished results.

    DIR is a results folder. The claims are in claims.toml next to the study's scenario. 'study run' checks them too,
    and writes claims.csv and, for each cell, claims_cells.csv.

    A claim compares means of metrics, such as fct(iw10) > fct(iw3). lasthop compares the sides in replications of the
    same number, because they met the same conditions, and averages over the cells that the claim is about. Verdicts:

    \b
      upheld         the 95 % interval of the difference is on the right side of 0
      not upheld     it is on the wrong side
      undecided      it contains 0
      uncomputable   no number in the records answers the claim
      not run        cells are missing

    For a claim with several parts, the line shows the part nearest to failing. "cells upheld" counts the cells that
    uphold their part on their own. docs/claims.md describes the language.

    Example: lasthop claims results/balekaki2012 --verdict 'not upheld' --out failed.csv
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace
    from lasthop.studies.claims import check, tables

    if out is not None:
        check_output(out)
    outcomes = check.check(folder, scenario)
    chosen = check.choose(outcomes, only, verdicts)
    if out is not None:
        write_output(tables.claims_frame(chosen), out)
    if not quiet:
        check.show(chosen)
        for line in tables.verdict_lines(outcomes):
            click.echo(line)


@cli.command("anova")
@click.argument("source", metavar="DIR|FILE.csv", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--response", required=True, metavar="METRIC", help="The column to explain. It needs a number in every row."
)
@click.option(
    "--factors",
    required=True,
    metavar="FACTOR,...",
    help="The factors to explain it by. Every combination of levels must be there.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="FACTOR=LEVEL,...",
    shell_complete=complete_only,
    help="Use only these rows. Choose one level of every factor that you do not analyse, for example --only link=wan. "
    "In a table you may name any column.",
)
@click.option(
    "--role",
    metavar="ROLE",
    help="Take METRIC from the flows with this role, from this page load or from the short flows of these hosts.  "
    "[default: the mean over all of a run]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.90,
    show_default=True,
    metavar="C",
    help="Confidence level of the intervals.",
)
@table_out_option
@quiet_option
def anova_command(
    *,
    source: Path,
    response: str,
    factors: str,
    only: tuple[str, ...],
    role: str | None,
    confidence: float,
    out: Path | None,
    quiet: bool,
) -> None:
    """Say how much of a metric's variation each factor explains.

    DIR is a results folder. METRIC is a column of runs.parquet, or else of pages.parquet, shorts.parquet or
    flows.parquet; then a run's value is the mean over its page loads, short flows or flows. FILE.csv is any table with
    a line per value and columns for the factors and METRIC. Columns named set and replication tell the replications of
    a cell apart. Every combination of the factors' levels must occur equally often.

    The variation is the sum of squares about the overall mean. It is divided among the factors, the pairs of factors
    (how much the effect of one depends on the level of the other), and the rest. The rest is the error between
    replications; without replications it is the interactions of three and more factors. F, p and the intervals are
    relative to it. The effect of a level is the difference of its mean from the overall mean. If its interval contains
    0, the effect may be chance. After 'lasthop run --until', p and the intervals hold over all looks. After Jain, The
    Art of Computer Systems Performance Analysis, chapters 20 to 23.

    Example: lasthop anova results/my --response duration_s --factors link,variant --out anova.csv
    """
    from lasthop.statistics import anova

    if out is not None:
        check_output(out)
    table = anova.read_table(source, response, only, role)
    analysis = anova.analyse(anova.full_factorial(table, [factor.strip() for factor in factors.split(",")]), confidence)
    if out is not None:
        write_output(analysis.frame(), out)
    if not quiet:
        anova.show(analysis)


cli.add_command(shell_command)
cli.add_command(results_group)
cli.add_command(query_command)
cli.add_command(metrics_command)
cli.add_command(kernel_group)
cli.add_command(crosscheck_command)
cli.add_command(plot_command)
cli.add_command(summary_command)
cli.add_command(compare_command)
cli.add_command(validate_command)
cli.add_command(sensitivity_command)


def _run(file: Path, options: RunOptions) -> None:
    loaded = load(file, options.points)
    study = loaded.study
    cells = select_cells(study.cells, all_levels(study), options.only)
    stopping = _stopping(options, cells)
    plan = Plan(
        study=study,
        cells=cells,
        seed=study.seed if options.seed is None else options.seed,
        replications=options.replications or study.replications if stopping is None else stopping.looks[-1],
        sets=options.sets,
        engine=ENGINES[options.engine].choose(options.kernel),
        until=() if stopping is None else [condition.text for condition in stopping.conditions],
    )
    study.needs_engine(plan.engine.name, [cell.key for cell in plan.cells])
    if options.cluster is not None:
        check_cluster(options.cluster, engine=plan.engine, jobs=options.jobs, captures=options.pcap)
    if options.dry_run:
        click.echo(job_script(options.cluster), nl=False)
        return
    from lasthop.studies.beside import read_side

    beside = [read_side(folder, plan) for folder in options.beside]
    say = (lambda _: None) if options.quiet else click.echo
    for note in study.notes:
        say(f"Note: {note}")
    if options.snaplen is not None and not options.pcap:
        raise InputError("--snaplen says how much of each packet a capture keeps: give --pcap too, or leave it out.")
    snap_length = (options.snaplen or _core.SNAP_LENGTH) if options.pcap else None
    out = options.out or Path("results") / study.name
    check_folder(out)
    try:
        with locked(out):
            if options.overwrite:
                empty(out)
            campaign = Campaign(plan, out, snap_length, stopping)
            _simulate(campaign, options, say)
            _conclude(campaign, loaded, beside, say)
        _judge_lateness(campaign)
    except BrokenPipeError:  # whoever read our output has seen enough; click ends quietly
        raise
    except OSError as error:
        raise InputError(f"Cannot write results to {out}: {error}.") from error


def _stopping(options: RunOptions, cells: Sequence[_core.Cell]) -> Stopping | None:
    """Return what ends cells, if anything but a number does."""
    if not options.until:
        return None
    from lasthop.until.language import parse
    from lasthop.until.stopping import CAP, Stopping

    if options.sets > 1:
        raise InputError("--until chooses the number of replications, and sets need a given one: leave --sets out.")
    return Stopping([parse(text) for text in options.until], cells, options.replications or CAP)


def _simulate(campaign: Campaign, options: RunOptions, say: Callable[[str], object]) -> None:
    plan = campaign.plan
    for line in _outlook_lines(campaign):
        say(line)
    pending = sum(work.count for work in campaign.pending())
    what = "runs" if campaign.stopping is None else "runs up to the next look"
    there = campaign.runs - pending
    complete = campaign.complete and not pending
    elsewhere = None if options.cluster is None or complete else opened(options.cluster, say)
    with (
        elsewhere or nullcontext(Threads(options.jobs or usable_cores())) as place,
        progress(
            lambda: there + max(pending, campaign.assigned), there, quiet=options.quiet, what=what, detail=place.detail
        ) as advance,
    ):
        simulated = campaign.run(place, advance)
    for line in place.summary():
        say(line)
    if campaign.damaged:
        say(f"{campaign.damaged} runs in the store were damaged and have been run again.")
    if simulated.runs:
        done = "ran" if plan.engine.real_tcp else "simulated"
        say(f"{done} {simulated.runs} {'run' if simulated.runs == 1 else 'runs'} in {simulated.wall_s:.2f} s")
    if (silent := campaign.silent()) is not None:
        say(silent)
    if campaign.snap_length is not None:
        say(f"captures: {campaign.out / TRACES}, {campaign.traces_bytes() / 1e6:.1f} MB")


def _outlook_lines(campaign: Campaign) -> Iterator[str]:
    """Say what is there before anything is run."""
    out, runs, outlook = campaign.out, campaign.runs, campaign.outlook()
    captures = sum(work.count for work in campaign.pending() if not work.record)
    if campaign.complete and captures:
        yield f"{out} has the records of {runs} runs; {captures} run again for their captures."
    elif campaign.complete:
        yield f"{out} is complete: {runs} runs. Only the report is written again."
    elif outlook.there:
        yield f"Resuming {out}: {outlook.there} of {campaign.runs_text} are there."
    if outlook.again:
        yield (
            f"{outlook.again} of them run again: their cells chain replications (cached metrics or a guest kernel), "
            "and a longer chain must start from the beginning."
        )
    if outlook.others:
        yield (
            f"The store holds {outlook.others} more runs, which this command does not ask for. The tables leave them "
            f"out. 'lasthop results gc {out}' removes them."
        )


def _judge_lateness(campaign: Campaign) -> None:
    """End with a code of its own if runs were too late to be valid."""
    if not campaign.plan.engine.repeatable and (late := campaign.late_runs()):
        click.echo(
            f"INVALID: in {late} of {campaign.runs} runs more than 0.1 % of the packets were over 1 ms late. The "
            "column 'valid' of runs.parquet marks them. Run again with fewer --jobs, or on a less busy machine.",
            err=True,
        )
        raise click.exceptions.Exit(EXIT_INVALID)


def _conclude(
    campaign: Campaign,
    loaded: Loaded,
    beside: Sequence[Side],
    say: Callable[[str], object],
) -> None:
    # Imported here: `validate` and error messages need none of it.
    from lasthop.commands.answer import short_answer
    from lasthop.report.outputs import analyse, write_outputs
    from lasthop.studies.claims.tables import verdict_lines
    from lasthop.studies.comparison import agreement_lines

    results = analyse(campaign, loaded.assets, loaded.claims, loaded.curves, beside)
    report = write_outputs(results)
    if results.agreement:
        say("Agreement with the published numbers:")
        for line in agreement_lines(results.agreement):
            say(f"  {line}")
    for line in verdict_lines(results.claims) if results.claims else ():
        say(line)
    for line in short_answer(campaign.out, None if results.assets or results.claims else results.sections):
        say(line)
    say(f"report: {report}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    code = _invoke(arguments)
    if arguments is None and threading.active_count() > 1:
        # Threads that were left behind in the middle of a run must not come back to an interpreter that is closing.
        sys.stdout.flush()
        os._exit(code)
    return code


def _invoke(arguments: Sequence[str] | None) -> int:
    try:
        with guarded_output():
            code = cli.main(None if arguments is None else list(arguments), prog_name="lasthop", standalone_mode=False)
    except (InputError, _core.ScenarioError) as error:
        for line in str(error).splitlines():
            click.echo(f"Error: {line}", err=True)
        return EXIT_INPUT
    except click.ClickException as error:
        error.show()
        return EXIT_INPUT
    except InterruptedCampaignError as stop:
        click.echo(str(stop), err=True)
        return EXIT_INTERRUPTED
    except (KeyboardInterrupt, click.Abort):
        click.echo("Stopped.", err=True)
        return EXIT_INTERRUPTED
    except OutputError as error:
        click.echo(f"Error: {error}", err=True)
        return EXIT_OUTPUT
    return code if isinstance(code, int) else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
