"""The command `lasthop schema`."""

import click

from lasthop import _core


@click.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of scenario files.

    Example: lasthop schema > scenario.schema.json
    """
    click.echo(_core.schema())
