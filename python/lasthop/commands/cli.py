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

# The list of `lasthop --help`: each command, its place in `lasthop.commands`, and the first sentence of its
# help.
_SECTIONS = {
    "Run experiments": {
        "run": ("run:run_command", "Run a scenario file, then print the answer and write a report."),
        "study": ("study:study_group", "List, show and run published studies."),
        "example": ("example:example_group", "List, show and copy the examples that come with lasthop."),
        "check": ("check:check_command", "Run scenarios that can fail, and judge what they claim."),
        "evaluate": (
            "evaluate:evaluate_command",
            "Evaluate a congestion control in the order of RFC 9743.",
        ),
        "baseline": ("baseline:baseline_group", "Keep records of a version, to check later ones against."),
        "validate": ("validate:validate_command", "Check scenario files without running them."),
        "schema": ("schema:schema_command", "Print the JSON Schema of scenario files."),
    },
    "Read the answer": {
        "summary": ("answer:summary_command", "Print the results of a finished run."),
        "compare": ("answer:compare_command", "Compare the levels of a factor with a reference, in pairs."),
        "plot": ("plot:plot_command", "Draw results, or one run over time, for a paper."),
        "claims": ("claims:claims_command", "Check the claims on a scenario with finished results."),
        "anova": ("anova:anova_command", "Say how much of a metric's variation each factor explains."),
        "sensitivity": (
            "sensitivity:sensitivity_command",
            "Rank factors by how much of a metric's variance they explain.",
        ),
        "query": ("query:query_command", "Answer an SQL query from finished results."),
        "metrics": ("metrics:metrics_command", "Say what the columns of the results mean."),
        "results": ("results:results_group", "Show what a results folder holds, or shrink it."),
    },
    "Look at one run": {
        "lab": ("lab:lab_command", "Turn a knob in the browser and see what TCP does."),
        "explain": (
            "one_run:explain_command",
            "Tell in words what happened to the flows of one replication.",
        ),
        "series": ("series:series_command", "Write what happens over time as a table."),
        "trace": ("one_run:trace_command", "Write the packets of one replication as pcapng files."),
        "analyze": ("analyze:analyze_command", "Compute flow metrics from packet captures."),
        "fit": ("fit:fit_command", "Make a scenario that behaves like a measured line."),
    },
    "Use a real TCP": {
        "shell": ("shell:shell_command", "Run a program behind an emulated last hop."),
        "repeat": ("repeat:repeat_command", "Run a program many times behind an emulated last hop."),
        "kernel": ("kernel:kernel_group", "Build and list the guest kernels of the kernel engine."),
        "packetdrill": (
            "packetdrill:packetdrill_command",
            "Run scripts of packetdrill, which test a TCP packet by packet.",
        ),
        "crosscheck": ("crosscheck:crosscheck_command", "Compare engines on a scenario, ACK by ACK."),
    },
}
_PLACES = {name: place for commands in _SECTIONS.values() for name, (place, _) in commands.items()}


class _Commands(click.Group):
    """The commands in the order in which users need them.

    Each is loaded when it is used, so an overview is fast.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; `None` if there is no command of this name."""
        del ctx
        if cmd_name not in _PLACES:
            return None
        module, attribute = _PLACES[cmd_name].split(":")
        command: click.Command = getattr(import_module(f"lasthop.commands.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, said) for name, (_, said) in commands.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""Exit codes:

    \b
      0    done
      1    standard output cannot be written
      2    the request is wrong; the error says how to mend it
      3    the live engine left runs that are too late to be valid
      4    a claim of 'lasthop check' or a section of 'lasthop evaluate' is not upheld; a program of
           'lasthop repeat --fail' or a script of 'lasthop packetdrill' failed
      5    no claim of 'lasthop check' or 'lasthop evaluate' fails, but one is undecided
      125  a kernel that is to be tested cannot be built; 'git bisect run' skips it
      130  stopped by Ctrl-C or SIGTERM

    'lasthop shell' returns the exit code of its program.

    \b
    Completion in bash: eval "$(_LASTHOP_COMPLETE=bash_source lasthop)"
    Other shells: docs/completion.md
    """,
)
@click.version_option(version(), "--version", "-V", prog_name="lasthop")
def cli() -> None:
    """Run experiments with transport protocols over a slow, lossy last hop.

    A scenario file describes link, queue, TCP variants and traffic. lasthop runs every combination, repeats
    each one under the same link conditions, and answers with a table, a report and pictures.

    Start with these:

    \b
      lasthop example copy two-flows     # an example: two-flows.toml
      lasthop run two-flows.toml         # a first experiment and its answer
      lasthop summary results/two-flows  # the answer again, with more options
      lasthop study run kulve2003        # a published study beside its printed numbers

    Each command explains itself and has an example, as in 'lasthop run --help'.
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
