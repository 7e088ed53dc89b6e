"""Scenarios of the set as transfers, which implementations of transport protocols can carry.

Bulk flows become transfers. Those that the factor `control` governs are carried by the stack `SUBJECT`: the
tested one or, in the other levels, a program over Linux' TCP. Such a program also carries the flows with a
congestion control of their own. All flows of all cells are real programs, so that cells can be compared.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lasthop.common.errors import InputError
from lasthop.evaluate.controls import needs_ecn
from lasthop.evaluate.lighter import lighter
from lasthop.evaluate.rows import QUICK, Row, Set, read_set
from lasthop.stacks.adapter import adapter_of, check_installed

SUBJECT = "subject"
"""The stack of the flows that the factor `control` governs."""
_LINUX, _QUIC, _QUINN = "linux", "quic", "quinn-example"
"""Further stacks: of flows with a congestion control of their own, and of QUIC next to the tested stack."""
_NO_LOGS = {"QLOGDIR": ""}
"""The numbers of the set come from the network, and logs would take most of the time and space."""
STACKS = {_LINUX: {"adapter": "tcp"}, _QUIC: {"adapter": _QUINN, "env": _NO_LOGS}}

_SENDER_ONLY = "only the sender of an encrypted connection knows it"
_KEPT = ("name", "count", "bytes", "duration", "start", "host")
_UNSEEN = {
    "retransmitted_packets": _SENDER_ONLY,
    "unnecessary_retransmissions": _SENDER_ONLY,
    "timeouts": _SENDER_ONLY,
    "rtt_median_s": _SENDER_ONLY,
    "fairness_jain": "lasthop computes it for TCP only",
}
"""Metrics that a connection of a program over QUIC does not have, and why."""


@dataclass(frozen=True)
class EvaluatedStack:
    """The stack in a dossier."""

    name: str
    file: Path | None = None
    control: str = ""
    """The congestion control of its server, if that is known."""


class NoTransferError(Exception):
    """Why a scenario has no equivalent among transfers."""


def level_of(adapter: str) -> dict[str, object]:
    """Return the level of the factor `control` in which this adapter carries the governed flows."""
    return {"stack": {SUBJECT: {"adapter": adapter, "env": _NO_LOGS}}}


def level_of_control(control: str) -> dict[str, object]:
    """Return the level in which Linux' TCP with this congestion control does."""
    if needs_ecn(control):
        raise InputError(f"{control} needs ECN, which programs are not given; leave it out of --against.")
    return {"stack": {SUBJECT: {"adapter": "tcp"}}, "tcp": {"congestion_control": control}}


def read_set_of_stacks(name: str) -> Set:
    """Read the set with transfers instead of other flows."""
    chosen = read_set(name, of_stacks=True)

    def translate(row: Row) -> Row:
        found = as_transfers(row)
        return lighter(found) if name == QUICK and not found.refused else found

    sections = [replace(own, rows=list(map(translate, own.rows))) for own in chosen.sections]
    return replace(chosen, sections=sections)


def as_transfers(row: Row) -> Row:
    """Return the row with transfers; or, if it has no equivalent, with the reason."""
    try:
        scenario, missing = translated(dict(row.scenario))
    except NoTransferError as reason:
        return replace(row, refused=str(reason))
    unseen = {number.name: metric for number in row.numbers for metric in _unseen(number.formula)}
    unjudged = {str(claim["text"]): metric for claim in row.claims for metric in _unseen(str(claim["holds"]))}
    numbers = [number for number in row.numbers if number.name not in unseen]
    if not numbers:
        name, metric = next(iter(unseen.items()))
        return replace(row, refused=f"{name}: {_UNSEEN[metric]}")
    left_out = [*missing, *(f"{name}: {_UNSEEN[metric]}" for name, metric in (unseen | unjudged).items())]
    claims = [claim for claim in row.claims if claim["text"] not in unjudged]
    return replace(row, numbers=numbers, claims=claims, left_out=left_out).with_scenario(scenario)


def _unseen(formula: str) -> Iterator[str]:
    return (word for word in re.findall(r"\w+", formula) if word in _UNSEEN)


def translated(scenario: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a scenario whose flows are transfers, without the factor `control`; and the levels it lacks."""
    levels = [level for factor in scenario.get("factor", {}).values() for level in factor.values()]
    changes = [item for level in levels for item in level.get("flow", {}).items()]
    stated = [*((flow["name"], flow) for flow in scenario["flow"]), *changes]
    own = {name for name, flow in stated if "stack" in flow or "congestion_control" in flow.get("tcp", {})}
    _check_no_tcp(scenario)
    flows = [_transfer(flow, governed=flow["name"] not in own) for flow in scenario["flow"]]
    factors: dict[str, dict[str, Any]] = {}
    missing = []
    for name, factor in scenario.get("factor", {}).items():
        factors[name] = {}
        for text, level in factor.items():
            try:
                factors[name][text] = _level(level, own)
            except NoTransferError as reason:
                missing.append(f"{name}={text}: {reason}")
        if not factors[name]:
            raise NoTransferError(missing[-1])
    return {**scenario, "flow": flows, "factor": factors, "stack": STACKS}, missing


def _level(level: Mapping[str, Any], own: Collection[str]) -> dict[str, Any]:
    """Return a level with transfers; the flows in `own` have a congestion control of their own."""
    _check_no_tcp(level)
    flows = {name: _transfer(flow, governed=name not in own) for name, flow in level.get("flow", {}).items()}
    return {**level, **({"flow": flows} if flows else {})}


def _check_no_tcp(table: Mapping[str, Any]) -> None:
    """Raise `NoTransferError` if a scenario or level sets keys of all flows' TCP."""
    if "tcp" in table:
        raise NoTransferError(f"{_first('tcp', table['tcp'])} cannot be given to programs")


def _transfer(flow: Mapping[str, Any], *, governed: bool) -> dict[str, Any]:
    """Return a flow, or what a level changes of it, as a transfer."""
    found: dict[str, Any] = {}
    for key, value in flow.items():
        if key in _KEPT:
            found[key] = value
        elif key == "kind":
            if value != "bulk-tcp":
                raise NoTransferError(f'a transfer cannot replace flows of kind "{value}"')
            found |= {"kind": "transfer", "stack": SUBJECT if governed else _LINUX, **found}
        elif key == "stack":
            found["stack"] = _QUIC
            if reason := _why_no_quic():
                raise NoTransferError(reason)
        elif key == "tcp":
            found |= _control(value)
        elif key != "quic":
            raise NoTransferError(f"transfers have no key {_first(key, value)}")
    return found


def _why_no_quic() -> str:
    """Return why QUIC cannot run next to the tested stack; empty if it can."""
    try:
        check_installed(adapter_of(_QUINN), _QUINN)
    except InputError as error:
        return str(error)
    return ""


def _control(tcp: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a transfer for these of a flow's TCP."""
    for key, value in tcp.items():
        if key != "congestion_control" and (key, value) != ("ecn", False):
            raise NoTransferError(f"tcp.{key} cannot be given to programs")
    control = tcp.get("congestion_control")
    return {"stack": _LINUX, "tcp": {"congestion_control": control}} if control else {}


def _first(key: str, value: object) -> str:
    """Return the path of the first key below a key."""
    return f"{key}.{next(iter(value))}" if isinstance(value, Mapping) and value else key
