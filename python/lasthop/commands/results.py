"""The command `lasthop results`: everything that reads finished results."""

import click

from lasthop.commands.basic import LazyGroup


@click.group(
    "results",
    cls=LazyGroup,
    places={
        "show": "answer:show_command",
        "compare": "answer:compare_command",
        "factors": "factors:factors_command",
        "query": "query:query_command",
        "metrics": "metrics:metrics_command",
        "size": "size:size_command",
        "gc": "size:gc_command",
    },
    default=lambda _: "show",
)
def results_group() -> None:
    """Read, compare and query finished results.

    'lasthop results DIR' is short for 'lasthop results show DIR'. DIR is the folder that 'lasthop run' or
    'lasthop study run' wrote.

    Example: lasthop results results/kulve2003
    """
