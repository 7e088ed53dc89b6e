"""The command `lasthop results`."""

import click

from lasthop.commands.basic import LazyGroup


@click.group(
    "results",
    cls=LazyGroup,
    sections={
        "Commands": {
            "show": ("answer:show_command", "Print the results of a finished run."),
            "compare": (
                "answer:compare_command",
                "Compare the levels of a factor with a reference level, in pairs.",
            ),
            "factors": (
                "factors:factors_command",
                "Compute how much of a metric's variation each factor explains.",
            ),
            "query": ("query:query_command", "Query finished results with SQL."),
            "metrics": ("metrics:metrics_command", "Describe the columns of the results, with units."),
            "size": ("size:size_command", "Show the number of runs in a results folder, and its size."),
            "gc": ("size:gc_command", "Remove stored runs that the last command did not use."),
        }
    },
    default=lambda _: "show",
)
def results_group() -> None:
    """Show, compare and query finished results.

    'lasthop results DIR' is short for 'lasthop results show DIR'. DIR is the folder that 'lasthop run' or
    'lasthop study run' wrote.

    Example: lasthop results results/kulve2003
    """
