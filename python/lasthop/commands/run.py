"""The command `lasthop run`, and the parts that it shares with `lasthop study run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from lasthop import _core
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.cluster import check_cluster, job_script
from lasthop.campaign.results.folder import check_folder, empty, locked
from lasthop.campaign.simulate import Asked, lateness, simulate
from lasthop.commands.basic import FOLDER, PATH, only_option, seed_option
from lasthop.commands.completion import complete_files
from lasthop.commands.options import (
    COUNT,
    anyway_option,
    cluster_option,
    each_of,
    engine_option,
    jobs_option,
    kernel_option,
    limit_memory_option,
    points_option,
    quiet_option,
    snaplen_option,
)
from lasthop.common.errors import InputError
from lasthop.common.extras import ANOVA, require
from lasthop.common.metrics.units import listed
from lasthop.scenario.transports import transport_lines
from lasthop.studies.loading import Loaded, file_to_run, load

if TYPE_CHECKING:
    from lasthop.analysis.findings.findings import Findings
    from lasthop.analysis.studies.beside import Side
    from lasthop.campaign.plan import Plan

EXIT_INVALID = 3
_LISTED = 6
"""Number of names that a line lists."""

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class RunOptions(Asked):
    """The options that both run commands share."""

    points: int | None
    jobs: int | None
    out: Path | None
    overwrite: bool
    pcap: bool
    snaplen: int | None
    cluster: str | None
    dry_run: bool
    beside: tuple[Path, ...]
    quiet: bool

    @classmethod
    def of(cls, context: click.Context) -> RunOptions:
        return cls(**{field.name: context.params[field.name] for field in fields(cls)})


pcap_option = click.option(
    "--pcap",
    is_flag=True,
    help="Also capture every run, to DIR/traces/CELL/set-S/replication-N: the files of 'lasthop export'. A "
    "run of kulve2003 takes 2 to 5 MB, or a quarter of that with --snaplen 96.",
)


def run_options(
    engine: Callable[..., object] = engine_option, pcap: Callable[..., object] = pcap_option
) -> Callable[[F], F]:
    """Return a decorator that adds the options of `RunOptions`, with these for the engine and captures."""
    return each_of(
        only_option(
            "Run only these cells, for example --only link=e0,workload=2tcp0udp. You may name several "
            "levels of a factor. Repeat the option to add more cells."
        ),
        points_option,
        click.option(
            "--replications",
            type=COUNT,
            metavar="N",
            help="Replications per cell and set; with --until the most per cell.  [default: the scenario's, "
            "or 1000 with --until]",
        ),
        click.option(
            "--until",
            multiple=True,
            metavar="CONDITION",
            help="Run each cell until it is precise, for example --until 'median(elapsed_s) within 2 %'. The "
            "form is STATISTIC(METRIC) [of FLOW] within NUMBER UNIT [at LEVEL %]. STATISTIC is median, mean, "
            "p25, p75, p95 or p99. UNIT is %, or a unit of the metric, as in 'within 5 ms'. Repeat the "
            "option for more conditions: a cell must meet them all. lasthop looks after 10, 16, 25, 40, 63, "
            "100, ... replications. The confidence, 95 % by default, covers all looks: see "
            "docs/guides/precision.md.",
        ),
        click.option(
            "--sets",
            type=COUNT,
            default=1,
            show_default=True,
            metavar="N",
            help="Independent sets of R replications. Summaries show the mean of the sets' statistics. Set s "
            "has replications (s-1)*R+1 to s*R.",
        ),
        seed_option,
        jobs_option,
        click.option(
            "--out",
            type=PATH,
            metavar="DIR",
            help="Folder for the results. lasthop keeps the runs it holds and adds what is missing; it never "
            "touches other files there.  [default: results/NAME]",
        ),
        click.option("--overwrite", is_flag=True, help="First remove the results in the folder."),
        pcap,
        snaplen_option,
        engine,
        kernel_option,
        cluster_option,
        click.option(
            "--dry-run",
            is_flag=True,
            help="Show the job script that --cluster would submit, and run nothing.",
        ),
        click.option(
            "--beside",
            multiple=True,
            type=FOLDER,
            metavar="DIR",
            help="Compare with finished results in DIR, of the same scenario on another engine: in the "
            "report and in engines.csv. Repeat the option for more.",
        ),
        anyway_option,
        limit_memory_option,
        quiet_option,
    )


@click.command("run")
@click.argument("file", type=PATH, shell_complete=complete_files)
@run_options()
@click.pass_context
def run_command(context: click.Context, /, file: Path, **_: object) -> None:
    """Run a scenario file, then print the answer and write a report.

    lasthop runs every replication of every cell. The answer gives rates in kbit/s or Mbit/s. In the files,
    times are in seconds (_s) or milliseconds (_ms) and rates in bytes per second (_Bps).

    Run the same command again to continue after a stop, to extend the results or to run what you edited.

    Example: lasthop example copy queue

    Example: lasthop run queue.toml --only queue=long --replications 5 --out /tmp/first

    Example: lasthop run queue.toml --until "median(elapsed_s) of download within 2 %"
    """
    run(file_to_run(file), RunOptions.of(context))


def run(file: Path, options: RunOptions) -> Campaign | None:
    """Run a scenario file, print the answer, write the report; return the results, if anything was to run."""
    loaded = load(file, options.points)
    study = loaded.study
    if loaded.assets is not None and loaded.assets.presentation.factorial is not None:
        require("statsmodels", ANOVA, "The report of a full-factorial study")
    plan, stopping = options.plan(study, file)
    if options.cluster is not None:
        check_cluster(
            options.cluster, engine=plan.engine, jobs=options.jobs, captures=options.pcap, code=plan.code
        )
    if options.dry_run:
        click.echo(job_script(options.cluster), nl=False)
        return None
    beside = _beside(options.beside, plan)
    say = (lambda _: None) if options.quiet else click.echo
    for note in [*study.notes, *(() if plan.engine.real_tcp else transport_lines(plan.cells))]:
        say(f"Note: {note}")
    if plan.engine.repeatable and not plan.repeatable:
        say("Note: computing takes time in these runs (cpu_cost), so no two of them are the same.")
    for note in _notes_on_inputs(plan):
        say(f"Note: {note}")
    if options.snaplen is not None and not options.pcap:
        raise InputError(
            "--snaplen says how much of each packet a capture keeps: give --pcap too, or leave it out."
        )
    snap_length = (options.snaplen or _core.SNAP_LENGTH) if options.pcap else None
    out = options.out or Path("results") / study.name
    check_folder(out)
    try:
        with locked(out):
            if options.overwrite:
                empty(out)
            campaign = Campaign(plan, out, snap_length, stopping)
            simulate(campaign, jobs=options.jobs, cluster=options.cluster, quiet=options.quiet, say=say)
            _conclude(campaign, loaded, beside, None if options.quiet else click.echo)
        _judge_lateness(campaign)
        return campaign
    except BrokenPipeError:  # the reader of our output has seen enough; click ends quietly
        raise
    except OSError as error:
        raise InputError(f"Cannot write results to {out}: {error}.") from error


def _notes_on_inputs(plan: Plan) -> Iterator[str]:
    """Say for real programs which versions the results belong to, and what lasthop does not see of them."""
    unseen = list(dict.fromkeys(chain.from_iterable(inputs.unseen for inputs in plan.inputs.values())))
    names = list(dict.fromkeys(Path(path).name for path in plan.input_digests))
    if names and unseen:
        yield (
            f"these results are of {_listed(names)} as they are now. lasthop does not see {_listed(unseen)}: "
            "name it with --input ('input' in a scenario), or run all anew with --overwrite."
        )


def _listed(texts: Sequence[str]) -> str:
    shown = [*texts[:_LISTED], *([f"{len(texts) - _LISTED} more"] if len(texts) > _LISTED else [])]
    return listed(shown)


def _beside(folders: Sequence[Path], plan: Plan) -> list[Side]:
    if not folders:
        return []
    from lasthop.analysis.studies.beside import read_side

    return [read_side(folder, plan) for folder in folders]


def _judge_lateness(campaign: Campaign) -> None:
    """End with a special exit code if runs were too late to be valid."""
    if (late := lateness(campaign)) is not None:
        click.echo(late, err=True)
        raise click.exceptions.Exit(EXIT_INVALID)


def _conclude(
    campaign: Campaign, loaded: Loaded, beside: Sequence[Side], say: Callable[[str], object] | None
) -> None:
    """Say what came out of a finished campaign if anybody listens; write its files besides its records."""
    # Imported here, because error messages need none of it.
    from lasthop.analysis.findings.analyse import analyse

    findings = analyse(campaign, loaded.assets, loaded.claims, loaded.drawn, beside)
    # The answer comes first: to load the report's code and write it takes a third of a short run.
    if say is not None:
        _tell(findings, say)
    from lasthop.present.report.page import write_outputs

    report = write_outputs(findings)
    if say is not None:
        say(f"report: {report}")


def _tell(findings: Findings, say: Callable[[str], object]) -> None:
    from lasthop.commands.answer import short_answer

    if findings.agreement:
        from lasthop.analysis.studies.comparison import agreement_lines

        say("Agreement with the published numbers:")
        for line in agreement_lines(findings.agreement):
            say(f"  {line}")
    answer = short_answer(findings.campaign.out, None if findings.has_source else findings.sections)
    verdicts = _verdicts(findings)
    for line in [*verdicts, *answer] if findings.has_source else [*answer, *verdicts]:
        say(line)


def _verdicts(findings: Findings) -> Iterator[str]:
    """Count the verdicts on claims. A study with a source has too many to tell each."""
    if not findings.claims:
        return
    from lasthop.analysis.claims.verdicts import claim_lines, verdict_lines

    if not findings.has_source:
        for outcome in findings.claims:
            yield from claim_lines(outcome)
    yield from verdict_lines(findings.claims, findings.answers)
