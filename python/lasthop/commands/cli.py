"""The command `lasthop`."""

import gc

# A short run creates 72 000 objects, mostly while modules load, and no garbage. Collection would take about
# 2 % of its time, so it is postponed, before all imports.
gc.set_threshold(150_000)

import os
import sys
import threading
from collections.abc import Sequence
from importlib import import_module

import click

from lasthop import _core
from lasthop.commands.basic import LazyGroup
from lasthop.commands.output import guarded_output, plain_errors
from lasthop.common.errors import BuildError, InputError, InterruptedCampaignError, OutputError
from lasthop.common.processes import sigterm_as_ctrl_c
from lasthop.common.version import version

# By default, polars' allocator keeps freed memory in arenas per core, so memory grows during a campaign. It
# reads this variable when it is loaded.
os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:50,muzzy_decay_ms:0")
# numpy's threads for linear algebra are slow to start, and the matrices here are too small for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
EXIT_OK = 0
EXIT_OUTPUT = 1
EXIT_INPUT = 2
EXIT_UNTESTABLE = 125
"""The code under test cannot be built; `git bisect run` skips such a commit."""
EXIT_INTERRUPTED = 130

# As in `LazyGroup`.
_SECTIONS = {
    "Run experiments": {
        "run": ("run:run_command", "Run a scenario file, print the results and write a report."),
        "study": ("study:study_group", "List, show and run published studies."),
        "example": ("example:example_group", "List, show and copy example scenarios."),
        "validate": ("validate:validate_command", "Check scenario files without running them."),
        "check": ("check:check_group", "Check a scenario's claims about its results, for CI."),
        "evaluate": ("evaluate:evaluate_command", "Evaluate a congestion control according to RFC 9743."),
    },
    "Read the results": {
        "results": ("results:results_group", "Show, compare and query finished results."),
        "plot": ("plot:plot_command", "Draw results, or one run over time, for a paper."),
        "explain": ("explain:explain_command", "Describe in words what happened in one run."),
        "export": ("export:export_command", "Write packets, time series or the link of a run to files."),
        "lab": ("lab:lab_command", "Change a parameter in the browser and see what TCP does."),
    },
    "Use measurements": {
        "analyze": ("analyze:analyze_command", "Compute flow metrics from packet captures."),
        "fit": ("fit:fit_command", "Fit a scenario to measurements, or read another tool's link."),
    },
    "Use real TCP stacks and programs": {
        "shell": ("shell:shell_command", "Run a program behind an emulated last hop, once or many times."),
        "stack": ("stack:stack_group", "List, show and try implementations of QUIC and TCP."),
        "kernel": ("kernel:kernel_group", "Build and list guest kernels for the kernel engine."),
        "packetdrill": ("packetdrill:packetdrill_command", "Run packetdrill scripts, which test TCP."),
        "crosscheck": ("crosscheck:crosscheck_command", "Compare engines on a scenario, ACK by ACK."),
    },
}
# Command names of the previous version, and their replacements.
_RENAMED = {
    "anova": "results factors",
    "baseline": "check baseline",
    "claims": "check results",
    "compare": "results compare",
    "metrics": "results metrics",
    "query": "results query",
    "repeat": "shell --repeated",
    "schema": "validate --schema",
    "sensitivity": "results factors",
    "series": "export",
    "summary": "results show",
    "trace": "export --as pcapng",
}


class _Commands(LazyGroup):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace an old command name by the new one, with a note."""
        if args and args[0] in _RENAMED:
            new = _RENAMED[args[0]]
            if not ctx.resilient_parsing:
                click.echo(
                    f"Note: 'lasthop {args[0]}' is now 'lasthop {new.removesuffix(' --repeated')}'.", err=True
                )
            args = [*new.split(), *("--metric" if word == "--response" else word for word in args[1:])]
        return super().parse_args(ctx, args)


@click.group(
    cls=_Commands,
    sections=_SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""
    \b
    Exit codes: 0 success; 1 output failed; 2 invalid input; 3 live runs were too late to be valid;
    4 a claim, section, script or program failed; 5 undecided; 125 build failed; 130 interrupted.
    """,
)
@click.version_option(version(), "--version", "-V", prog_name="lasthop")
def cli() -> None:
    """Run transport protocol experiments over a slow, lossy or congested last hop.

    \b
      lasthop example copy two-flows     # copy an example: two-flows.toml
      lasthop run two-flows.toml         # run it and print the results
      lasthop results results/two-flows  # print the results again, with more options
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    with plain_errors():
        code = _invoke(arguments)
    if arguments is None:
        # On exit, the interpreter searches all objects for garbage, which takes a sixth of a short run. With
        # DuckDB, skipping that would print warnings about leaks.
        if "duckdb" not in sys.modules:
            gc.freeze()
        if threading.active_count() > 1:
            # Threads in the middle of a run must not return to an interpreter that is shutting down.
            sys.stdout.flush()
            os._exit(code)
    return code


def _invoke(arguments: Sequence[str] | None) -> int:
    if "_LASTHOP_COMPLETE" in os.environ:
        import_module("lasthop.commands.completion")  # registers completion in bash
    try:
        with sigterm_as_ctrl_c(), guarded_output():
            code = cli.main(
                None if arguments is None else list(arguments), prog_name="lasthop", standalone_mode=False
            )
    except (InputError, _core.ScenarioError, _core.UserCodeError) as error:
        for line in str(error).splitlines():
            click.echo(f"Error: {line}", err=True)
        return EXIT_UNTESTABLE if isinstance(error, BuildError) else EXIT_INPUT
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
    except OSError as error:
        # A path from the command line, or below it, is unusable: too long, no permission, a loop of links.
        if error.filename is None:
            raise
        click.echo(f"Error: Cannot use {os.fsdecode(error.filename)}: {error.strerror}.", err=True)
        return EXIT_INPUT
    return code if isinstance(code, int) else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
