"""Controls made from the schema of scenario files: what each sets, its range, and its present value.

The path of a control identifies it, such as `down.queue.limit` or `flow.0.count`. Its value comes from the
resolved cell, written as in a scenario file.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from lasthop import _core
from lasthop.engines.resolved import WAYS, Flow, Resolved, Side

Schema: TypeAlias = Mapping[str, Any]
Control: TypeAlias = dict[str, object]
"""`path`, `group`, `label`, `help`, `kind` and `value`; `choices` if the value comes from a list."""

_KINDS = {
    "Rate": "rate",
    "Duration": "time",
    "DistributionOfDuration": "time",
    "Bytes": "size",
    "QueueSize": "queue",
    "Probability": "share",
}
_LINK = ("rate", "delay", "loss")
_QUEUE = ("limit", "discipline", "target", "interval", "ecn")
_NOT_OF_FLOWS = ("kind", "name", "port", "dscp", "write")
_WITHOUT_TCP = ("constant-udp", "voip", "on-off", "replay", "own")
_ERRORS = ("packet_error_probability",)
_ARQ = ("retransmissions", "delay")
_MAIN_TCP = ("congestion_control", "profile", "initial_window", "sack", "timestamps", "frto", "ecn", "pacing")
_MOST_HOPS = 8
"""This many hops have controls; the others change in the text."""
_TCP = "TCP"
_MORE = "More TCP switches"


@functools.cache
def _schema() -> Schema:
    parsed: Schema = json.loads(_core.schema())
    return parsed


def _resolved(node: Schema) -> tuple[Schema, str]:
    """Follow references and leave out what stands for nothing; return the schema and the name of its type."""
    name = ""
    while True:
        if "$ref" in node:
            name = str(node["$ref"]).rpartition("/")[2]
            node = _schema()["$defs"][name]
        elif len(some := [each for each in node.get("anyOf", ()) if not _is_nothing(each)]) == 1:
            node = some[0]
        else:
            return node, name


def _is_nothing(node: Schema) -> bool:
    return node.get("type") == "null" or node.get("const") is False


def _choices(node: Schema) -> list[dict[str, str]]:
    """Return the named values of a type; none if the type is no list of names."""
    named = [each for each in node.get("oneOf") or node.get("anyOf") or () if "const" in each]
    return [{"value": str(each["const"]), "help": _line(each.get("description", ""))} for each in named]


def _line(text: str) -> str:
    return " ".join(text.split()).replace("`", "")


def _control(owner: Schema, key: str, path: str, group: str, value: object) -> Control | None:
    """Return the control of a key; `None` if there is no simple control for its type and value."""
    stated: Schema = owner["properties"].get(key, {})
    node, name = _resolved(stated)
    shown: Control = {
        "path": path,
        "group": group,
        "label": key.replace("_", " "),
        "help": _line(stated.get("description") or node.get("description", "")),
    }
    if name in _KINDS:
        if value is None and name != "Probability":
            return None
        share = f"{float(value) * 100:g} %" if isinstance(value, int | float) else value
        return (
            {**shown, "kind": _KINDS[name], "value": share or "0 %"}
            if isinstance(share, str | None)
            else None
        )
    if any(each.get("type") == "boolean" for each in node.get("anyOf", ())):
        # A name may stand instead, which the switch does not offer.
        return {**shown, "kind": "switch", "value": value} if isinstance(value, bool) else None
    kinds = node.get("type")
    kind = kinds if isinstance(kinds, str) else next((each for each in kinds or () if each != "null"), None)
    if kind == "boolean" and value is not None:
        return {**shown, "kind": "switch", "value": value}
    if kind == "integer" and value is not None:
        return {**shown, "kind": "number", "value": value, "least": node.get("minimum", 0)}
    if choices := _choices(node):
        known = [choice["value"] for choice in choices]
        if isinstance(value, str):
            return {**shown, "kind": "choice", "value": value, "choices": choices} if value in known else None
    return None


def _definition(name: str) -> Schema:
    schema: Schema = _schema()["$defs"][name]
    return schema


def _of(
    owner: Schema, keys: Sequence[str], prefix: str, group: str, values: Mapping[str, object]
) -> Iterator[Control]:
    for key in keys:
        if (control := _control(owner, key, f"{prefix}.{key}", group, values.get(key))) is not None:
            yield control


@functools.cache
def _flow_kinds() -> Mapping[str, Schema]:
    return {each["properties"]["kind"]["const"]: each for each in _definition("Flow")["oneOf"]}


def _of_flow(number: int, flow: Flow, scenario: Resolved, *, several: bool) -> Iterator[Control]:
    schema = _flow_kinds().get(flow["kind"])
    if schema is None:
        return
    group, prefix = f"Flow: {flow['name']}", f"flow.{number}"
    keys = [key for key in schema["properties"] if key not in _NOT_OF_FLOWS]
    values = {
        "count": 1,
        "direction": "down",
        **{key: value for key, value in flow.items() if value is not None},
    }
    yield from _of(schema, keys, prefix, group, values)
    if several and flow["kind"] not in _WITHOUT_TCP and flow.get("stack", "tcp") == "tcp":
        own = flow.get("tcp") or scenario["tcp"]
        yield from _of(_definition("TcpConfig"), ["congestion_control"], f"{prefix}.tcp", group, own)


def _of_side(side: Side | None, path: str, group: str) -> Iterator[Control]:
    """Yield the controls of one direction of a hop."""
    if not side:
        return
    # Losses one by one, by bits and in bursts exclude each other.
    link = side["link"]
    others = link.get("gilbert_elliott") or link.get("bit_error_rate")
    keys = [key for key in _LINK if key != "loss" or not others]
    yield from _of(_definition("LinkConfig"), keys, f"{path}.link", group, link)
    queue = {"discipline": "drop-tail", **side["queue"]}
    for control in _of(_definition("QueueConfig"), _QUEUE, f"{path}.queue", group, queue):
        yield {**control, "label": f"queue {control['label']}"}


def controls(scenario: Resolved) -> list[Control]:
    """Return the controls of a resolved scenario, with their values, group by group."""
    found: list[Control] = []
    for way in WAYS:
        found += _of_side(scenario.get(way), way, f"{way.capitalize()}link")
    hops = scenario.get("hop") or {}
    for name, hop in list(hops.items())[:_MOST_HOPS]:
        for way in WAYS:
            found += _of_side(hop.get(way), f"hop.{name}.{way}", f"Hop: {name}, {way}")
    if errors := scenario.get("errors"):
        stated = [key for key in _ERRORS if errors.get(key) is not None]
        found += _of(_definition("ErrorConfig"), stated, "errors", "Errors and ARQ", errors)
        found += _of(_definition("ArqConfig"), _ARQ, "errors.arq", "Errors and ARQ", errors.get("arq") or {})
    flows = scenario.get("flow") or []
    for number, flow in enumerate(flows):
        found += _of_flow(number, flow, scenario, several=len(flows) > 1)
    tcp = _definition("TcpConfig")
    found += _of(tcp, _MAIN_TCP, "tcp", _TCP, scenario["tcp"])
    found += _of(
        tcp, [key for key in tcp["properties"] if key not in _MAIN_TCP], "tcp", _MORE, scenario["tcp"]
    )
    return found
