"""Kinds of paths, and options that commands share even if they load little."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from lasthop.commands.completion import complete_only

F = TypeVar("F", bound=Callable[..., object])

PATH = click.Path(path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
"""A folder that is there."""

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    metavar="N",
    help="Seed of all random streams.  [default: the scenario's]",
)


def only_option(text: str) -> Callable[[F], F]:
    """Return the option that chooses cells by levels, with this help."""
    return click.option(
        "--only", multiple=True, metavar="FACTOR=LEVEL,...", shell_complete=complete_only, help=text
    )
