"""The command `lasthop run`, and the parts shared with `lasthop study run`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lasthop import _core
from lasthop.campaign.campaign import Campaign
from lasthop.campaign.cluster import check_cluster, job_script
from lasthop.campaign.results.folder import check_folder, empty, locked
from lasthop.campaign.simulate import Asked, lateness, simulate
from lasthop.commands.basic import PATH
from lasthop.commands.completion import complete_files
from lasthop.commands.options import run_options
from lasthop.common.errors import InputError
from lasthop.common.extras import ANOVA, require
from lasthop.common.metrics.units import listed
from lasthop.scenario.transports import transport_lines
from lasthop.studies.loading import Loaded, file_to_run, load

if TYPE_CHECKING:
    from lasthop.analysis.findings.findings import Findings
    from lasthop.analysis.studies.beside import Side
    from lasthop.campaign.plan import Plan
    from lasthop.present.answer.blocks import Block

EXIT_INVALID = 3
_LISTED = 6
"""Number of names that a line lists."""


@dataclass(frozen=True, slots=True)
class RunOptions(Asked):
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


@click.command("run")
@click.argument("file", type=PATH, shell_complete=complete_files)
@run_options()
@click.pass_context
def run_command(context: click.Context, /, file: Path, **_: object) -> None:
    """Run a scenario file, print the results and write a report.

    lasthop runs all replications of each cell: a combination of levels of the factors that the scenario
    varies. It prints rates in kbit/s or Mbit/s. In the files, times are in seconds (_s) or milliseconds (_ms)
    and rates in bytes per second (_Bps).

    Run the same command again to continue after an interruption, to extend the results or after an edit.

    Example: lasthop example copy queue

    Example: lasthop run queue.toml --only queue=long --replications 5 --out /tmp/first

    Example: lasthop run queue.toml --until "median(elapsed_s) of download within 2 %"
    """
    run(file_to_run(file), RunOptions.of(context))


def run(file: Path, options: RunOptions) -> Campaign | None:
    """Run a scenario file, print the results, write the report; return the campaign, unless --dry-run."""
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
    write: Callable[[str], object] = (lambda _: None) if options.quiet else click.echo
    for note in [*study.notes, *_notes(plan)]:
        write(f"Note: {note}")
    if options.snaplen is not None and not options.pcap:
        raise InputError("--snaplen limits captured packets; add --pcap, or leave out --snaplen.")
    snap_length = (options.snaplen or _core.SNAP_LENGTH) if options.pcap else None
    out = options.out or Path("results") / study.name
    check_folder(out)
    try:
        with locked(out):
            if options.overwrite:
                empty(out)
            campaign = Campaign(plan, out, snap_length, stopping)
            simulate(campaign, jobs=options.jobs, cluster=options.cluster, quiet=options.quiet, say=write)
            _conclude(campaign, loaded, beside, None if options.quiet else click.echo)
            for note in () if options.quiet else campaign.finished.unlogged():
                click.echo(f"Note: {note}", err=True)
        _judge_lateness(campaign)
        return campaign
    except BrokenPipeError:  # the reader of the output is gone; click exits silently
        raise
    except OSError as error:
        raise InputError(f"Cannot write results to {out}: {error}.") from error


def _notes(plan: Plan) -> Iterator[str]:
    """Yield notes on the transport, and on real programs: repeatability, and inputs unknown to lasthop."""
    if not plan.engine.real_tcp:
        yield from transport_lines(plan.cells)
    if plan.engine.repeatable and not plan.repeatable:
        yield "computation takes time in these runs (cpu_cost), so they are not repeatable."
    unseen = list(dict.fromkeys(chain.from_iterable(inputs.unseen for inputs in plan.inputs.values())))
    names = list(dict.fromkeys(Path(path).name for path in plan.input_digests))
    if names and unseen:
        yield (
            f"these results are for the current {_listed(names)}. lasthop cannot detect changes in "
            f"{_listed(unseen)}: use --input ('input' in a scenario), or run all again with --overwrite."
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
    """Exit with a special code if runs were too late to be valid."""
    if (late := lateness(campaign)) is not None:
        click.echo(late, err=True)
        raise click.exceptions.Exit(EXIT_INVALID)


def _conclude(
    campaign: Campaign, loaded: Loaded, beside: Sequence[Side], write: Callable[[str], object] | None
) -> None:
    """Print the results of a finished campaign, and write the files other than its records."""
    # Imported here because error messages do not need it.
    from lasthop.analysis.findings.analyse import analyse

    findings = analyse(campaign, loaded.assets, loaded.claims, loaded.drawn, beside)
    # The results come first: loading the report's code and writing it takes a third of a short run.
    if write is not None:
        _print(findings, write)
    from lasthop.present.report.page import write_outputs

    report = write_outputs(findings)
    if write is not None:
        write(f"report: {report}")


def _print(findings: Findings, write: Callable[[str], object]) -> None:
    from lasthop.commands.answer import short_answer

    if findings.agreement:
        from lasthop.analysis.studies.comparison import agreement_lines

        write("Agreement with the published numbers:")
        for line in agreement_lines(findings.agreement):
            write(f"  {line}")
    sections = None if findings.has_source else findings.sections
    for line in short_answer(findings.campaign.out, sections, _verdicts(findings)):
        write(line)


def _verdicts(findings: Findings) -> list[Block]:
    """Count the verdicts on claims; also list them, except for a study with a source, which has too many."""
    if not findings.claims:
        return []
    from lasthop.analysis.claims import UPHELD
    from lasthop.analysis.claims.verdicts import claim_lines, verdict_lines
    from lasthop.present.answer.blocks import Block

    # The last claims are left out if space is short, so those that hold come last.
    listed = [] if findings.has_source else sorted(findings.claims, key=lambda own: own.verdict == UPHELD)
    command = f"lasthop check results {shlex.quote(str(findings.campaign.out))}"
    rows = [list(claim_lines(outcome)) for outcome in listed]
    return [Block([], rows, verdict_lines(findings.claims, findings.answers), "claim", command)]
