"""Pictures of one run at several levels of a factor, or with several values of a key."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lasthop import _core
from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError
from lasthop.common.metrics.labels import TRANSFER_PROTOCOLS
from lasthop.present.pictures.cast import MOST_PANELS, Cast, check_flows
from lasthop.present.pictures.marks import FLOW_COLORS, FLOW_SYMBOLS, Look
from lasthop.present.pictures.over import OverPicture, check_kinds
from lasthop.present.pictures.panels import goodput_panel, rate_window_s, unscaled_panels
from lasthop.present.pictures.shapes import Layer, Panel, check_span, made_by, scaled
from lasthop.present.pictures.trace_tables import FlowOf, TraceTables
from lasthop.scenario.facts import Facts
from lasthop.scenario.points import draw
from lasthop.scenario.selection import all_levels, parse_levels


class Over(NamedTuple):
    """The factor or key in `--over NAME=LEVEL,LEVEL`, and its levels or values."""

    name: str
    levels: list[str]

    @property
    def option(self) -> str:
        return f"--over {self.name}={','.join(self.levels)}"


class _Level(NamedTuple):
    look: Look
    tables: TraceTables


def read_over(text: str) -> Over:
    name, _, values = text.partition("=")
    levels = [value.strip() for value in values.split(",") if value.strip()]
    if len(set(levels)) < 2 or len(set(levels)) < len(levels):
        raise InputError(
            f"--over {text}: write 'replications', or a factor or key with several distinct levels, such as "
            "--over tcp.congestion_control=reno,cubic."
        )
    if len(levels) > len(FLOW_COLORS):
        raise InputError(f"--over {text}: a picture can show at most {len(FLOW_COLORS)} levels.")
    return Over(name.strip(), levels)


def runs_over(runs: Sequence[ChosenRun], over: Over, file: Path | None) -> list[ChosenRun]:
    """Return the run at each level, in order. `runs` has one run of each selected cell.

    `file` is the scenario's. If the scenario has no factor of that name, it is a key of the scenario.
    """
    study = runs[0].plan.study
    if over.name not in (factors := all_levels(study)):
        if near := difflib.get_close_matches(over.name, factors, n=1):
            raise InputError(f"{over.option}: there is no factor '{over.name}'; did you mean '{near[0]}'?")
        return _with_values(_only(runs, over), over, file)
    wanted = [parse_levels(f"{over.name}={level}", factors, "--over")[over.name] for level in over.levels]
    chosen = []
    for levels in wanted:
        own = [run for run in runs if run.cell.levels.get(over.name) in levels]
        if not own:
            raise InputError(f"{over.option}: --only selects no cell with {over.name}={','.join(levels)}.")
        chosen.append(_only(own, over))
    return chosen


def _only(runs: Sequence[ChosenRun], over: Over) -> ChosenRun:
    if len(runs) > 1:
        rest = [f"{name}={level}" for name, level in runs[0].cell.levels.items() if name != over.name]
        raise InputError(
            f"{over.option}: {len(runs)} cells match at each level; select one, such as --only "
            f"{','.join(rest)}."
        )
    return runs[0]


def _with_values(run: ChosenRun, over: Over, file: Path | None) -> list[ChosenRun]:
    """Return the run with each value of a key, as levels of a factor that extends the scenario file."""
    study = run.plan.study
    if file is None:
        raise InputError(
            f"{over.option}: the scenario has no factor '{over.name}', and keys can vary only in scenarios "
            f"of a file. Factors: {', '.join(all_levels(study)) or 'none'}."
        )
    place, key = str(file.resolve()), ".".join(json.dumps(part) for part in over.name.split("."))
    names = [value.replace(" ", "") for value in over.levels]
    levels = [
        f"{json.dumps(name)}.{key} = {_toml(value)}" for name, value in zip(names, over.levels, strict=True)
    ]
    text = "\n".join(
        [
            f"extends = {json.dumps(place)}",
            f"name = {json.dumps(study.name)}",
            f"[factor.{json.dumps(over.name)}]",
            *levels,
        ]
    )
    try:
        varied = _core.parse(text, over.option, draw, [place])
    except _core.ScenarioError as error:
        first = str(error).splitlines()[0]
        line, name = rf"(?<={re.escape(over.option)}):\d+", re.escape(over.name)
        prefix = rf'factor\."?{name}"?\.("[^"]*"|[^."]+)\.'
        raise InputError(re.sub(f"{line}|{prefix}", "", first)) from error
    plan = replace(run.plan, study=varied, cells=varied.cells)
    return [
        replace(run, plan=plan, cell=cell)
        for name in names
        for cell in varied.cells
        if cell.levels == {**run.cell.levels, over.name: name}
    ]


def _toml(value: str) -> str:
    """Return a value of the command line in TOML: as it is if it is a number or a truth value, or as text."""
    try:
        is_text = isinstance(tomllib.loads(f"value = {value}")["value"], str)
    except tomllib.TOMLDecodeError:
        is_text = True
    return json.dumps(value) if is_text else value


def picture_levels(
    runs: Sequence[ChosenRun],
    over: Over,
    kinds: str | None,
    flows: Sequence[str],
    span: tuple[float | None, float | None],
) -> OverPicture:
    """Repeat a run at each level, and return a picture with a line for each."""
    chosen = check_kinds(kinds)
    levels = [
        _Level(
            Look(f"{over.name} = {level}", FLOW_COLORS[place], FLOW_SYMBOLS[place % len(FLOW_SYMBOLS)]),
            TraceTables.of(run.overview(*span), Facts.of(run.cell)),
        )
        for place, (level, run) in enumerate(zip(over.levels, runs, strict=True))
    ]
    names = dict.fromkeys(flow.name for level in levels for flow in level.tables.flows)
    check_flows(flows, list(names))
    end = max(level.tables.end_s() for level in levels)
    start, stop = check_span(span[0] or 0.0, end if span[1] is None else span[1], end)
    panels, left_out = [], []
    for kind in chosen:
        drawn, remark = _panels(levels, kind, flows, rate_window_s(end))
        if not drawn and kinds is not None:
            raise InputError(f"--kind {kinds}: '{kind}' cannot be drawn, because no flow has such values.")
        panels += drawn
        left_out += [remark] if remark else []
    longest = max((level.tables for level in levels), key=TraceTables.end_s)
    bad = longest.picture([], start, stop) if _have_same_bad_periods(levels, longest) else None
    notes = ["Each line is one run, with the same seed and the same states of the link."]
    notes += ["Bad periods of the link differ and are not shaded."] if bad is None else bad.notes
    if any(level.tables.left_out for level in levels):
        notes.append("In each short interval, only the first, last, least and greatest points are drawn.")
    first = runs[0]
    cell = first.cell.key or "its only cell"
    source = f"{first.plan.study.name}, {cell} and {over.name} = {', '.join(over.levels[1:])}"
    source += f", replication {first.replication} of set {first.set_number}, {made_by(first.plan)}"
    return OverPicture(panels, (start, stop), source, notes, left_out, bad.bad_periods if bad else [])


def _panels(
    levels: Sequence[_Level], kind: str, flows: Sequence[str], window: float
) -> tuple[list[Panel], str]:
    """Return the panels of a kind, and a remark if there are more flows than panels."""
    every = {flow.name: flow for level in levels for flow in level.tables.flows}
    having = [flow for name, flow in every.items() if not flows or name in flows]
    groups: list[tuple[str, list[str]]]
    remark = ""
    if kind in ("cwnd", "rtt") or (flows and kind == "goodput"):
        own = [flow.name for flow in having if kind == "goodput" or flow.protocol in TRANSFER_PROTOCOLS]
        if not flows and len(own) > MOST_PANELS:
            remark = f"{MOST_PANELS} of {len(own)} flows have a panel."
            own = own[:MOST_PANELS]
        groups = [(name if len(every) > 1 else "", [name]) for name in own]
    elif kind == "goodput":
        ways = dict.fromkeys(flow.direction for flow in having)
        groups = [
            (way if len(ways) > 1 else "", [flow.name for flow in having if flow.direction == way])
            for way in ways
        ]
    else:
        groups = [("", [flow.name for flow in having])]
    return [
        panel for subject, names in groups for panel in _panels_of(levels, kind, subject, names, window)
    ], remark


def _panels_of(
    levels: Sequence[_Level], kind: str, subject: str, names: Sequence[str], window: float
) -> Iterator[Panel]:
    """Yield the panels of a kind and of these flows, each with the layers of all levels."""
    together: dict[tuple[str, str], Panel] = {}
    for level in levels:
        flows = [flow for flow in level.tables.flows if flow.name in names]
        cast = _cast(level, flows)
        if kind == "goodput":
            drawn = [goodput_panel(level.tables, cast, window)]
        else:
            drawn = list(unscaled_panels(level.tables, kind, cast))
        for panel in (part for whole in drawn for part in _by_class(whole)):
            layers = [_of_level(layer, level.look) for layer in panel.layers]
            key = panel.kind, panel.subject
            before = together[key].layers if key in together else []
            named = replace(panel, subject=subject or panel.subject)
            together[key] = replace(named, layers=[*before, *layers])
    for panel in together.values():
        if panel.layers:
            yield scaled(panel)


def _by_class(panel: Panel) -> Iterator[Panel]:
    """Yield a panel of a router's queues for each class; colours distinguish levels, not classes."""
    if panel.kind != "queue":
        yield panel
        return
    layers: dict[str, list[Layer]] = {}
    name = ""
    for layer in panel.layers:  # the drops and marks of a class follow its queue
        name = layer.mark.owner or name
        layers.setdefault(name, []).append(layer)
    for name, own in layers.items():
        yield replace(panel, layers=own, subject=f"{panel.subject} {name}".strip())


def _cast(level: _Level, flows: list[FlowOf]) -> Cast:
    """Return the cast of some flows that look alike. Without colours of their own, goodput is their sum."""
    places = list(dict.fromkeys(place for flow in flows for place in flow.route))
    return Cast(flows, {}, level.look, [], [], places, {}, one_by_one=False)


def _of_level(layer: Layer, look: Look) -> Layer:
    quantity = layer.mark.quantity or layer.mark.name
    name = f"{quantity} of {look.name}"
    mark = replace(layer.mark, name=name, color=look.color, owner=look.name, quantity=quantity)
    return replace(layer, mark=mark)


def _have_same_bad_periods(levels: Sequence[_Level], longest: TraceTables) -> bool:
    """Return whether each run has the bad periods of the longest run, while it lasts."""
    for level in levels:
        end = level.tables.end_s()
        during = [period.start for period in longest.bad_periods if period.start < end]
        if during != [period.start for period in level.tables.bad_periods if period.start < end]:
            return False
    return True
