"""Parts of all commands: types of paths, options with lists, groups that load commands on demand."""

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import click

from lasthop.commands.completion import complete_only

F = TypeVar("F", bound=Callable[..., object])

PATH = click.Path(path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
"""An existing folder."""

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**64 - 1),
    metavar="N",
    help="Seed of all random streams.  [default: the scenario's]",
)


def only_option(text: str) -> Callable[[F], F]:
    """Return the option `--only`, which selects cells by levels."""
    return click.option(
        "--only", multiple=True, metavar="FACTOR=LEVEL,...", shell_complete=complete_only, help=text
    )


def list_option(
    name: str,
    parameter: str,
    text: str,
    choices: tuple[str, ...] = (),
    *,
    metavar: str = "",
    default: str = "",
) -> Callable[[F], F]:
    """Return an option for a list of values, separated by commas or by repeating the option."""

    def separate(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
        parts = (part.strip() for value in values for part in value.split(","))
        choice = Choice(choices)
        return tuple(choice.convert(part, option, context) if choices else part for part in parts if part)

    return click.option(
        name,
        parameter,
        multiple=True,
        callback=separate,
        metavar=f"{metavar or parameter.removesuffix('s').upper()},...",
        default=[default] if default else None,
        show_default=bool(default),
        help=text,
    )


class Choice(click.Choice):  # type: ignore[type-arg]  # a type with parameters since click 8.2
    """A choice of words whose error names the nearest."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(super().convert(value, param, ctx))
        except click.BadParameter as error:
            near = difflib.get_close_matches(value, list(self.choices), 1)
            self.fail(f"{error.message} Did you mean '{near[0]}'?" if near else error.message, param, ctx)


class LazyGroup(click.Group):
    """A group that loads a command when it is used.

    `sections` maps each title in the group's help to its commands: `module:attribute` in `lasthop.commands`,
    and the first sentence of the command's help. `default` returns the command to run if the first argument
    is not the name of one.
    """

    def __init__(
        self,
        *args: object,
        sections: Mapping[str, Mapping[str, tuple[str, str]]],
        default: Callable[[str], str] | None = None,
        **settings: object,
    ) -> None:
        super().__init__(*args, **settings)  # type: ignore[arg-type]
        self._sections = sections
        self._places = {name: place for section in sections.values() for name, (place, _) in section.items()}
        self._default = default

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self._places:
            return None
        module, attribute = self._places[cmd_name].split(":")
        command: click.Command = getattr(import_module(f"lasthop.commands.{module}"), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command unless the first argument is, or resembles, the name of a command."""
        if args and args[0] not in {*self._places, "-h", "--help"}:
            near = [] if Path(args[0]).exists() else difflib.get_close_matches(args[0], self._places)
            if near and not ctx.resilient_parsing:
                ctx.fail(f"No such command '{args[0]}'; did you mean '{near[0]}'?")
            if self._default is not None:
                args = [self._default(args[0]), *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, sentence) for name, (_, sentence) in commands.items()])
