"""The command `lasthop validate`: what would run, what is assumed, and every error."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from lasthop import _core
from lasthop.assumptions import assumptions
from lasthop.catalogue import find_scenario
from lasthop.completion import complete_scenarios
from lasthop.errors import InputError
from lasthop.loading import load
from lasthop.options import engine_option

_VALUES_AT_MOST = 4


@click.command("validate")
@click.argument("names", metavar="FILE|STUDY...", nargs=-1, required=True, shell_complete=complete_scenarios)
@engine_option
def validate_command(*, names: Sequence[str], engine: str) -> None:
    """Check scenario files without running them.

    For each FILE or STUDY, lasthop says what it would run. It also says which values it assumes for what the file
    leaves out, and why. It reports all errors at once, with file, line and remedy, and refuses what --engine cannot
    run, as 'lasthop run' does. The exit code is 2 if anything is wrong.

    Example: lasthop validate kulve2003 examples/two-flows.toml
    """
    wrong = False
    for name in names:
        try:
            file = find_scenario(name)
            study = load(file).study
            study.needs_engine(engine, [cell.key for cell in study.cells])
        except (InputError, _core.ScenarioError) as error:
            wrong = True
            for line in str(error).splitlines():
                click.echo(f"Error: {line}", err=True)
        else:
            for line in _lines(file, study, engine):
                click.echo(line)
    if wrong:
        raise click.exceptions.Exit(2)


def _lines(file: Path, study: _core.Study, engine: str) -> Iterator[str]:
    cells, replications = len(study.cells), study.replications
    yield (
        f"{file}: {study.name}, {_count(cells, 'cell')} x {_count(replications, 'replication')} = "
        f"{_count(cells * replications, 'run')} on the {engine} engine"
    )
    scenarios = [json.loads(cell.scenario) for cell in study.cells]
    for title, values in (
        ("flows", [_flows(scenario) for scenario in scenarios]),
        ("queues", [_queues(scenario) for scenario in scenarios]),
        ("time limit", [scenario.get("time_limit", "") for scenario in scenarios]),
    ):
        if told := _distinct(values):
            yield f"  {title:<11}{told}"
    title = "assumed"
    for each in assumptions(study, study.cells):
        where = "" if each.cells == cells else f", in {each.cells} of {cells} cells"
        yield f"  {title:<11}{each.key} = {each.value} ({each.why}{where})"
        title = ""
    for note in study.notes:
        yield f"  {'note':<11}{note}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _flows(scenario: dict[str, Any]) -> str:
    kinds = Counter(flow["kind"] for flow in scenario.get("flow", []))
    return " and ".join(f"{number} {kind}" for kind, number in kinds.items())


def _queues(scenario: dict[str, Any]) -> str:
    limits = [f"{scenario[way]['queue']['limit']} {way}" for way in ("down", "up") if scenario.get(way)]
    return ", ".join(limits)


def _distinct(values: Sequence[str]) -> str:
    distinct = [value for value in dict.fromkeys(values) if value]
    more = f"; {len(distinct) - _VALUES_AT_MOST} more" if len(distinct) > _VALUES_AT_MOST else ""
    return "; ".join(distinct[:_VALUES_AT_MOST]) + more
