"""The command `lasthop validate`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from lasthop import _core
from lasthop.campaign.limits import Limits, count, size
from lasthop.commands.completion import complete_scenarios
from lasthop.commands.options import anyway_option, engine_option, limit_memory_option, points_option
from lasthop.common.errors import InputError
from lasthop.common.metrics.units import counted, scale
from lasthop.engines.registry import ENGINES
from lasthop.engines.resolved import WAYS, Resolved, resolved
from lasthop.scenario.assumptions import Assumption, assumptions
from lasthop.scenario.transports import path_lines, transport_lines
from lasthop.studies.catalogue import find_scenario
from lasthop.studies.loading import load

_VALUES_AT_MOST = 4
_ASSUMED_AT_MOST = 200


@click.command("validate")
@click.argument("names", metavar="FILE|STUDY...", nargs=-1, shell_complete=complete_scenarios)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of scenario files, and check nothing.")
@points_option
@engine_option
@anyway_option
@limit_memory_option
def validate_command(
    *,
    names: Sequence[str],
    schema: bool,
    points: int | None,
    engine: str,
    anyway: bool,
    limit_memory: float | None,
) -> None:
    """Check scenario files without running them.

    For each FILE or STUDY, lasthop prints what it would run, round-trip times and the delay of full queues,
    the values that it assumes for missing keys, with reasons, and a high estimate of packets and memory per
    run. It reports all errors at once, with file, line and remedy. Like 'lasthop run', it rejects scenarios
    that --engine cannot run or that exceed the limits. It also reads the scenario's claims; NAME.claims.toml
    stands for NAME.toml. The exit code is 2 if there is any error.

    Example: lasthop validate kulve2003 two-flows.toml

    Example: lasthop validate --schema > scenario.schema.json
    """
    if schema:
        click.echo(_core.schema())
        return
    if not names:
        raise InputError("Missing FILE or STUDY: give the scenarios to check.")
    failed = False
    for name in names:
        try:
            file = find_scenario(name)
            study = load(file, points).study
            ENGINES[engine].check(study, study.cells)
            Limits(anyway, limit_memory).check(study.name, study.cells)
        except (InputError, _core.ScenarioError) as error:
            failed = True
            for line in str(error).splitlines():
                click.echo(f"Error: {line}", err=True)
        else:
            for line in _lines(file, study, engine):
                click.echo(line)
    if failed:
        raise click.exceptions.Exit(2)


def _lines(file: Path, study: _core.Study, engine: str) -> Iterator[str]:
    cells, replications = len(study.cells), study.replications
    yield (
        f"{file}: {study.name}, {counted(cells, 'cell')} x {counted(replications, 'replication')} = "
        f"{counted(cells * replications, 'run')} on the {engine} engine"
    )
    scenarios = [resolved(cell) for cell in study.cells]
    if study.space is not None:
        ranges = study.space["ranges"]
        yield f"  {'sample':<11}{counted(study.space['points'], 'point')} by {study.space['method']}"
        for title, (name, facts) in zip(["ranges", *[""] * len(ranges)], ranges.items(), strict=False):
            yield f"  {title:<11}{_range(name, facts)}"
    for title, values in (
        ("flows", [_flows(scenario) for scenario in scenarios]),
        ("queues", [_queues(scenario) for scenario in scenarios]),
        ("time limit", [scenario.get("time_limit", "") for scenario in scenarios]),
    ):
        if text := _distinct(values):
            yield f"  {title:<11}{text}"
    paths = list(dict.fromkeys(path for cell in study.cells for path in path_lines(cell)))
    if len(paths) > _VALUES_AT_MOST:
        paths[_VALUES_AT_MOST:] = [f"and {len(paths) - _VALUES_AT_MOST} more"]
    for title, path in zip(itertools.chain(["round trip"], itertools.repeat("")), paths, strict=False):
        yield f"  {title:<11}{path}"
    packets, memory = (max(values) for values in zip(*(cell.estimate for cell in study.cells), strict=True))
    yield f"  {'estimate':<11}at most {count(packets)} packets and {size(memory)} of memory per run"
    assumed = list(_assumed(study))
    if len(assumed) > _ASSUMED_AT_MOST:
        more = len(assumed) - _ASSUMED_AT_MOST
        assumed[_ASSUMED_AT_MOST:] = [f"and {more} more values, which the manifest of a run lists"]
    for title, text in zip(itertools.chain(["assumed"], itertools.repeat("")), assumed, strict=False):
        yield f"  {title:<11}{text}"
    for note in [*study.notes, *(() if ENGINES[engine].real_tcp else transport_lines(study.cells))]:
        yield f"  {'note':<11}{note}"


def _assumed(study: _core.Study) -> Iterator[str]:
    """Yield the assumptions; for a key with many values, only the first."""
    cells = len(study.cells)
    by_key: dict[str, list[Assumption]] = {}
    for assumption in assumptions(study, study.cells):
        by_key.setdefault(assumption.key, []).append(assumption)
    for key, values in by_key.items():
        for value in values if len(values) <= _VALUES_AT_MOST else values[:1]:
            where = "" if value.cells == cells else f", in {value.cells} of {cells} cells"
            yield f"{key} = {value.value} ({value.why}{where})"
        if len(values) > _VALUES_AT_MOST:
            yield f"{key} has {len(values) - 1} more values, by the same rule in other cells"


def _range(name: str, facts: _core.RangeFacts) -> str:
    ends = [scale(facts["unit"], [end]).text(end) for end in (facts["from"], facts["to"])]
    return f"{name} from {ends[0]} to {ends[1]}, {facts['scale']}, sets {', '.join(facts['sets'])}"


def _flows(scenario: Resolved) -> str:
    kinds: Counter[str] = Counter()
    for flow in scenario.get("flow", []):
        kinds[flow["kind"]] += flow.get("count", 1)
    return " and ".join(f"{number} {kind}" for kind, number in kinds.items())


def _queues(scenario: Resolved) -> str:
    sides = [(way, scenario.get(way)) for way in WAYS]
    limits = [f"{side['queue']['limit']} {way}" for way, side in sides if side]
    return ", ".join(limits)


def _distinct(values: Sequence[str]) -> str:
    distinct = [value for value in dict.fromkeys(values) if value]
    more = f"; {len(distinct) - _VALUES_AT_MOST} more" if len(distinct) > _VALUES_AT_MOST else ""
    return "; ".join(distinct[:_VALUES_AT_MOST]) + more
