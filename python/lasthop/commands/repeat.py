"""The command `lasthop repeat`: it writes the scenario of a program behind a last hop, and runs it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from lasthop.commands.completion import complete_links
from lasthop.commands.run import RunOptions, run, run_options
from lasthop.engines.kernel.engine import KernelEngine
from lasthop.engines.live.presets import find_link
from lasthop.engines.registry import ENGINES
from lasthop.errors import InputError
from lasthop.results.atomic import replace_atomically
from lasthop.results.folder import check_folder

_MADE_BY = "# Written by 'lasthop repeat'. 'lasthop run' takes it, too."
_FACTOR = "command"

_engine_option = click.option(
    "--engine",
    type=click.Choice([name for name, engine in ENGINES.items() if engine.real_tcp]),
    default=KernelEngine.name,
    show_default=True,
    help="What runs the programs.",
)


@click.command("repeat", context_settings={"allow_interspersed_args": False})
@click.option(
    "--link",
    metavar="PRESET|FILE",
    required=True,
    shell_complete=complete_links,
    help="The last hop: a preset ('lasthop shell --list') or a scenario file, whose factors are varied.",
)
@click.option("--server", metavar="COMMAND", help="Run this shell command line on the server.")
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="NAME=COMMAND",
    help="Compare several commands, each a shell command line: levels of the factor 'command'. In place of COMMAND.",
)
@click.option(
    "--json", "prints_json", is_flag=True, help="The command prints JSON: its numbers become columns of runs.parquet."
)
@run_options(_engine_option)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def repeat_command(
    context: click.Context,
    /,
    *,
    link: str,
    server: str | None,
    commands: tuple[str, ...],
    prints_json: bool,
    command: tuple[str, ...],
    **_: object,
) -> None:
    """Run a program many times behind an emulated last hop.

    Each replication is what 'lasthop shell' does, with other random numbers. Its TCP connections are flows of the
    results, and so are datagrams between two ports. Besides, runs.parquet has the program's exit code and how long it
    took. The results are those of 'lasthop run': look at them with summary, compare, plot, explain or query.

    COMMAND begins at the first word that is not an option, or after --.

    Example: lasthop repeat --link gprs --replications 20 --server 'python3 -m http.server 80' -- curl -s http://server/

    Example: lasthop repeat --link umts --json --server 'iperf3 -s' -- iperf3 -J -c server -t 5
    """
    options = RunOptions.of(context)
    if options.cluster is not None:
        raise InputError("--cluster: programs run on this machine; leave it out.")
    file = find_link(link)
    levels = _levels(command, commands)
    name = f"{file.stem}-{'-'.join(levels)}"
    out = options.out or Path("results") / name
    check_folder(out)
    programs = {level: _program(level, words, server, prints_json) for level, words in levels.items()}
    scenario = out.with_name(f"{out.name}.toml")
    _write(scenario, _scenario(file, name, programs))
    run(scenario, options)


def _levels(command: Sequence[str], commands: Sequence[str]) -> dict[str, list[str]]:
    """Return the programs, each with its arguments, by their names."""
    if command and commands:
        raise InputError("--command names the commands to compare: leave out the one at the end, or --command.")
    if command:
        return {Path(command[0]).name: list(command)}
    if not commands:
        raise InputError("What is to be repeated? Give the command behind --, for example: -- curl http://server/")
    levels = {}
    for text in commands:
        name, equals, line = text.partition("=")
        if not (name and equals and line.strip()):
            raise InputError(
                f"--command {shlex.quote(text)}: write NAME=COMMAND, for example --command get='curl server'."
            )
        if name in levels:
            raise InputError(f"--command {name}=...: two commands are called {name}; give each its own name.")
        levels[name] = ["/bin/sh", "-c", line]
    return levels


def _program(name: str, command: Sequence[str], server: str | None, prints_json: bool) -> dict[str, object]:
    program: dict[str, object] = {"kind": "program", "name": name, "command": list(command)}
    if server is not None:
        program["server"] = server
    return program | ({"json": True} if prints_json else {})


def _scenario(link: Path, name: str, programs: Mapping[str, Mapping[str, object]]) -> str:
    """Return a scenario that extends the last hop's: with one program, or with one as each level of a factor."""
    head = [_MADE_BY, "", f"extends = {_toml(str(link.resolve()))}", f"name = {_toml(name)}"]
    tables = [_toml(program) for program in programs.values()]
    lines = [*head, f"flow = [{tables[0]}]"]
    if len(programs) > 1:
        for level, table in zip(programs, tables, strict=True):
            lines += ["", f"[factor.{_FACTOR}.{_toml(level)}]", f"flow = [{table}]"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Write texts, lists and tables as TOML does; JSON's texts are TOML's."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write(file: Path, text: str) -> None:
    """Write a scenario, in place of one that this command wrote."""
    if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(_MADE_BY):
        raise InputError(
            f"{file} is not of 'lasthop repeat', which would write it; choose another place with --out DIR."
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(file, lambda path: path.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot write {file}: {error}.") from error
