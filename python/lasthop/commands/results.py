"""The command `lasthop results`: everything that reads finished results."""

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
                "Compare the levels of a factor with a reference, in pairs.",
            ),
            "factors": (
                "factors:factors_command",
                "Compute how much of a metric's variation each factor explains.",
            ),
            "query": ("query:query_command", "Answer an SQL query from finished results."),
            "metrics": ("metrics:metrics_command", "Define the columns of the results."),
            "size": ("size:size_command", "Show how many runs a results folder holds, and its size."),
            "gc": ("size:gc_command", "Remove stored runs that the last command in DIR does not use."),
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
