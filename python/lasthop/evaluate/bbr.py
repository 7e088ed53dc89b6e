"""The test cases of draft-ietf-ccwg-bbr: assertions on the states of a control."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from lasthop.campaign.results.columns import as_frame
from lasthop.engines.engine import Engine, Observation, Request, Trace
from lasthop.engines.model_engine import ModelEngine
from lasthop.evaluate.rows import Section, merged
from lasthop.evaluate.transfers import NoTransferError, translated
from lasthop.scenario.points import read_study
from lasthop.scenario.toml import to_toml

_FILE = Path(__file__).with_suffix(".toml")
_SEED = 1


@dataclass(frozen=True)
class Case:
    """A test case: a scenario, the expectations, and changes when a state is entered.

    `then` overrides keys of the scenario; its times and sizes with a leading `+` count from the moment `at`.
    """

    id: str
    title: str
    scenario: Mapping[str, Any]
    expected: Mapping[str, Any]
    at: Mapping[str, Any] | None
    then: Mapping[str, Any]


@dataclass(frozen=True)
class CaseResult:
    """The result of a case: the states with the times of their beginnings in seconds, and the failures.

    If a stack cannot run it, `refused` is the reason.
    """

    case: Case
    file: Path
    states: Sequence[tuple[float, str]]
    faults: Sequence[str]
    refused: str = ""

    @property
    def course(self) -> str:
        """The first states as text, with the times of their beginnings."""
        text = ", ".join(f"{name} {at:.2f} s" for at, name in self.states[:8])
        return f"{text}, ..." if len(self.states) > 8 else text


@dataclass(frozen=True)
class Cases:
    """All test cases, and the permitted successors of each state."""

    section: Section
    follows: Mapping[str, Sequence[str]]
    cases: Sequence[Case]


def read_cases() -> Cases:
    data = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    section = Section(**data["section"], rows=())
    return Cases(section, data["follows"], [_case(case, data["scenario"]) for case in data["case"]])


_SEEN = ("carries", "loses")
"""Expectations that packets can answer."""
_EXPECTED = ("states", "lasts", *_SEEN, "window", "undone")


def _case(entry: Mapping[str, Any], base: Mapping[str, Any]) -> Case:
    own = dict(entry)
    expected = {key: own.pop(key) for key in _EXPECTED if key in own}
    name, title, at, then = own.pop("id"), own.pop("title"), own.pop("at", None), own.pop("then", {})
    for keys in (own, then):
        if "flow" in keys:
            keys["flow"] = [keys["flow"]]
    scenario = {"name": f"bbr-{name}", "title": title, **merged(base, own)}
    return Case(name, title, scenario, expected, at, then)


def run_cases(cases: Cases, tcp: Mapping[str, object], folder: Path) -> list[CaseResult]:
    """Write the scenarios into a folder and run them.

    There are no cases for a control that does not use the draft's names of states.
    """

    def run_case(case: Case) -> CaseResult:
        return _run_case(case, cases.follows, tcp, folder / f"bbr-{case.id}.toml")

    first, *others = cases.cases
    result = run_case(first)
    if not any(name.startswith("ProbeBW_") for _, name in result.states):
        result.file.unlink()
        return []
    return [result, *map(run_case, others)]


def run_cases_of_stack(
    cases: Cases, stack: Mapping[str, object], engine: Engine, folder: Path
) -> list[CaseResult]:
    """Run the cases that packets can decide, with a level of `transfers.py` that chooses the stack."""

    def run_case(case: Case) -> CaseResult:
        file = folder / f"bbr-{case.id}.toml"
        expected = {key: case.expected[key] for key in _SEEN if key in case.expected}
        try:
            if case.at is not None:
                raise NoTransferError("it depends on when a state begins")
            if not expected:
                raise NoTransferError("it is about states, which packets do not show")
            scenario, _ = translated(dict(case.scenario))
        except NoTransferError as reason:
            return CaseResult(case, file, (), (), str(reason))
        run = _run(merged(scenario, stack), file, engine)
        return CaseResult(
            case, file, (), [fault for key in expected for fault in _CHECKS[key](expected[key], run)]
        )

    return list(map(run_case, cases.cases))


def _run_case(
    case: Case, follows: Mapping[str, Sequence[str]], tcp: Mapping[str, object], file: Path
) -> CaseResult:
    scenario = {**case.scenario, "tcp": tcp}
    run = _run(scenario, file, ModelEngine())
    if case.at is not None:
        entries = [at for at, name in run.states if name == case.at["state"] and at >= case.at["after"]]
        if not entries:
            return CaseResult(case, file, run.states, [f"the sender never enters {case.at['state']}"])
        run = _run(merged(scenario, _counted_from(entries[0], run, case.then)), file, ModelEngine())
    return CaseResult(case, file, run.states, list(_faults(case.expected, follows, run)))


def _counted_from(moment: float, run: _Run, value: Any) -> Any:  # noqa: ANN401
    """Return a table with the time or the sent bytes of a moment added to values with a leading `+`."""
    if isinstance(value, Mapping):
        return {key: _counted_from(moment, run, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_counted_from(moment, run, item) for item in value]
    if not isinstance(value, str) or not value.startswith("+"):
        return value
    count, unit = value.split()
    if unit == "ms":
        return f"{1e3 * moment + float(count):.3f} ms"
    sent = run.between("sent", {"from": 0.0, "to": moment})["payload_bytes"].sum()
    return f"{int(sent) + int(count)} B"


@dataclass(frozen=True)
class _Run:
    trace: Trace

    @cached_property
    def transport(self) -> pl.DataFrame:
        return as_frame(self.trace.transport).filter(host="server")

    @cached_property
    def states(self) -> list[tuple[float, str]]:
        """The states with the times at which the sender entered them."""
        rows = self.transport.filter(event="state")
        return [(at / 1e9, name) for at, name in rows.select("time_ns", "state").iter_rows()]

    @cached_property
    def data(self) -> pl.DataFrame:
        """Events of packets towards the client, with their times in seconds."""
        packets = as_frame(self.trace.packets).filter(pl.col("payload_bytes") > 0, direction="down")
        return packets.with_columns(time_s=pl.col("time_ns") / 1e9)

    def between(self, event: str, span: Mapping[str, float]) -> pl.DataFrame:
        """Return the events of packets in a span of time."""
        when = pl.col("time_s").is_between(span["from"], span["to"])
        return self.data.filter(pl.col("event").str.starts_with(event), when)


def _run(scenario: Mapping[str, Any], file: Path, engine: Engine) -> _Run:
    file.write_text(to_toml(dict(scenario)), encoding="utf-8")
    (cell,) = read_study(file).cells
    outcome = engine.run(cell, Request.of_one(_SEED, 1, 1, Observation(trace=True)))
    assert outcome.trace is not None
    return _Run(outcome.trace)


def _faults(expected: Mapping[str, Any], follows: Mapping[str, Sequence[str]], run: _Run) -> Iterator[str]:
    names = [name for _, name in run.states]
    for before, after in dict.fromkeys(pairwise(names)):
        if after not in follows.get(before, ()):
            yield f"the draft has no transition from {before} to {after}"
    for key, value in expected.items():
        yield from _CHECKS[key](value, run)


def _order(pattern: str, run: _Run) -> Iterator[str]:
    names = " ".join(name for _, name in run.states)
    if re.search(pattern, names) is None:
        yield f"the states do not match {pattern}: {names[:120]}"


def _lengths(wanted: Mapping[str, Any], run: _Run) -> Iterator[str]:
    visits = [
        after - at
        for (at, name), (after, _) in pairwise(run.states)
        if name == wanted["state"] and wanted.get("after", 0.0) <= at < wanted.get("before", 1e9)
    ]
    for length in visits or [0.0]:
        if not wanted["from"] <= length <= wanted["to"]:
            yield f"{wanted['state']} lasts {length:.3f} s, not {wanted['from']} to {wanted['to']} s"


def _carried(wanted: Mapping[str, float], run: _Run) -> Iterator[str]:
    bits = 8 * int(run.between("delivered", wanted)["ip_bytes"].sum())
    share = bits / (wanted["to"] - wanted["from"]) / wanted["of"]
    if share < wanted["share"]:
        yield f"{share:.3f} of the rate arrives {_when(wanted)}, less than {wanted['share']}"


def _lost(wanted: Mapping[str, float], run: _Run) -> Iterator[str]:
    share = len(run.between("drop", wanted)) / len(run.between("sent", wanted))
    if share > wanted["share"]:
        yield f"{share:.3f} of the packets are lost {_when(wanted)}, more than {wanted['share']}"


def _when(wanted: Mapping[str, float]) -> str:
    return f"from {wanted['from']:g} to {wanted['to']:g} s"


def _least_window(least: int, run: _Run) -> Iterator[str]:
    start = next((at for at, name in run.states if name.startswith("ProbeBW")), 0.0)
    smallest = run.transport.filter(pl.col("time_ns") >= 1e9 * start, event="window")["cwnd"].min()
    if isinstance(smallest, int) and smallest < least:
        yield f"the window falls to {smallest} segments, below {least}"


def _undone(least: int, run: _Run) -> Iterator[str]:
    count = len(run.transport.filter(pl.col("event").str.starts_with("undone")))
    if count < least:
        yield f"{count} reductions are undone, less than {least}"


_CHECKS: Mapping[str, Callable[[Any, _Run], Iterator[str]]] = {
    "states": _order,
    "lasts": _lengths,
    "carries": _carried,
    "loses": _lost,
    "window": _least_window,
    "undone": _undone,
}
