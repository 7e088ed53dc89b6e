"""The command `lasthop`. `lasthop --help` lists its exit codes."""

import gc

# A short run makes 72 000 objects, mostly while modules load, and no garbage. A search for garbage would take
# some 2 % of its time, so it is put off here, before all imports.
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
from lasthop.common.version import version

# polars lets its allocator keep freed memory, in arenas for each core, so memory grows with the length of a
# campaign. It reads this when it is loaded.
os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:50,muzzy_decay_ms:0")
# Threads for numpy's linear algebra take time to start, and our matrices are too small for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
EXIT_OK = 0
EXIT_OUTPUT = 1
EXIT_INPUT = 2
EXIT_UNTESTABLE = 125
"""What is to be tested cannot be built; `git bisect run` skips such a commit."""
EXIT_INTERRUPTED = 130

# The list of `lasthop --help`: each command, its place in `lasthop.commands`, and a sentence.
_SECTIONS = {
    "Run experiments": {
        "run": ("run:run_command", "Run a scenario file, print the answer and write a report."),
        "study": ("study:study_group", "List, show and run published studies."),
        "example": ("example:example_group", "List, show and copy example scenarios."),
        "validate": ("validate:validate_command", "Check scenario files without running them."),
        "check": ("check:check_group", "Judge the claims of a scenario, for CI."),
        "evaluate": ("evaluate:evaluate_command", "Evaluate a congestion control as RFC 9743 asks."),
    },
    "Read the answer": {
        "results": ("results:results_group", "Show, compare and query finished results."),
        "plot": ("plot:plot_command", "Draw results, or one run over time, for a paper."),
        "explain": ("explain:explain_command", "Describe in words what happened in one run."),
        "export": ("export:export_command", "Write packets or time series of a run to files."),
        "lab": ("lab:lab_command", "Change a parameter in the browser and see what TCP does."),
    },
    "Use measurements": {
        "analyze": ("analyze:analyze_command", "Compute flow metrics from packet captures."),
        "fit": ("fit:fit_command", "Fit a scenario to a measured line."),
    },
    "Use real TCP stacks and programs": {
        "shell": ("shell:shell_command", "Run a program behind a last hop, once or many times."),
        "kernel": ("kernel:kernel_group", "Build and list the guest kernels of the kernel engine."),
        "packetdrill": ("packetdrill:packetdrill_command", "Run packetdrill scripts, which test TCP."),
        "crosscheck": ("crosscheck:crosscheck_command", "Compare engines on a scenario, ACK by ACK."),
    },
}
# Names of the version before this one, and what replaces them.
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
    """The commands in the order in which users need them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace an old name of a command by its new one, and print that."""
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
    Exit codes: 0 done; 2 wrong request; 4 a claim, section, script or program failed; 5 undecided;
    130 stopped. Completion in bash: eval "$(_LASTHOP_COMPLETE=bash_source lasthop)"
    """,
)
@click.version_option(version(), "--version", "-V", prog_name="lasthop")
def cli() -> None:
    """Run experiments with transport protocols over a slow, lossy or congested last hop.

    \b
      lasthop example copy two-flows     # an example: two-flows.toml
      lasthop run two-flows.toml         # a first experiment and its answer
      lasthop results results/two-flows  # the answer again, with more options
    """  # noqa: D301  click keeps the lines of a paragraph that begins with a backspace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    with plain_errors():
        code = _invoke(arguments)
    if arguments is None:
        # When an interpreter ends, it searches all objects for garbage, which takes a sixth of a short run.
        # DuckDB then takes the objects that were not searched for leaks, and prints them.
        if "duckdb" not in sys.modules:
            gc.freeze()
        if threading.active_count() > 1:
            # Threads left in the middle of a run must not come back to an interpreter that is closing.
            sys.stdout.flush()
            os._exit(code)
    return code


def _invoke(arguments: Sequence[str] | None) -> int:
    if "_LASTHOP_COMPLETE" in os.environ:
        import_module("lasthop.commands.completion")  # tells bash how to complete
    try:
        with guarded_output():
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
        # The error concerns a place that the user named, or one below it: too long, no permission, a loop of
        # links.
        if error.filename is None:
            raise
        click.echo(f"Error: Cannot use {os.fsdecode(error.filename)}: {error.strerror}.", err=True)
        return EXIT_INPUT
    return code if isinstance(code, int) else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
