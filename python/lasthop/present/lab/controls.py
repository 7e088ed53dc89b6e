"""Controls, derived from the schema of scenario files, with the values of the resolved cell.

A control is identified by its path, such as `down.queue.limit` or `flow.0.count`. Its value is written as in
a scenario file.
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
_WITHOUT_TCP = ("constant-udp", "voip", "coap", "on-off", "replay", "own")
_ERRORS = ("packet_error_probability",)
_ARQ = ("retransmissions", "delay")
_MAIN_TCP = ("congestion_control", "profile", "initial_window", "sack", "timestamps", "frto", "ecn", "pacing")
_MOST_HOPS = 8
"""The number of hops with controls; others can be changed in the text."""
_TCP = "TCP"
_MORE = "More TCP switches"


@functools.cache
def _schema() -> Schema:
    parsed: Schema = json.loads(_core.schema())
    return parsed


def _resolved(node: Schema) -> tuple[Schema, str]:
    """Follow references and drop alternatives for absent values; return the schema and its type's name."""
    name = ""
    while True:
        if "$ref" in node:
            name = str(node["$ref"]).rpartition("/")[2]
            node = _schema()["$defs"][name]
        elif len(some := [item for item in node.get("anyOf", ()) if not _is_nothing(item)]) == 1:
            node = some[0]
        else:
            return node, name


def _is_nothing(node: Schema) -> bool:
    return node.get("type") == "null" or node.get("const") is False


def _choices(node: Schema) -> list[dict[str, str]]:
    """Return the named values of a type; none if the type is not an enumeration."""
    named = [item for item in node.get("oneOf") or node.get("anyOf") or () if "const" in item]
    return [{"value": str(item["const"]), "help": _line(item.get("description", ""))} for item in named]


def _line(text: str) -> str:
    return " ".join(text.split()).replace("`", "")


def _control(owner: Schema, key: str, path: str, group: str, value: object) -> Control | None:
    """Return the control of a key; `None` if there is no simple control for its type and value."""
    property_: Schema = owner["properties"].get(key, {})
    node, name = _resolved(property_)
    common: Control = {
        "path": path,
        "group": group,
        "label": key.replace("_", " "),
        "help": _line(property_.get("description") or node.get("description", "")),
    }
    if name in _KINDS:
        if value is None and name != "Probability":
            return None
        share = f"{float(value) * 100:g} %" if isinstance(value, int | float) else value
        return (
            {**common, "kind": _KINDS[name], "value": share or "0 %"}
            if isinstance(share, str | None)
            else None
        )
    if any(item.get("type") == "boolean" for item in node.get("anyOf", ())):
        # The value may also be a name, for which there is no control.
        return {**common, "kind": "switch", "value": value} if isinstance(value, bool) else None
    kinds = node.get("type")
    kind = kinds if isinstance(kinds, str) else next((item for item in kinds or () if item != "null"), None)
    if kind == "boolean" and value is not None:
        return {**common, "kind": "switch", "value": value}
    if kind == "integer" and value is not None:
        return {**common, "kind": "number", "value": value, "least": node.get("minimum", 0)}
    if choices := _choices(node):
        values_of_choices = [choice["value"] for choice in choices]
        if isinstance(value, str):
            return (
                {**common, "kind": "choice", "value": value, "choices": choices}
                if value in values_of_choices
                else None
            )
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
    return {item["properties"]["kind"]["const"]: item for item in _definition("Flow")["oneOf"]}


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
    """Yield the controls of a direction of a hop."""
    if not side:
        return
    # Independent packet losses, bit errors and loss bursts are mutually exclusive.
    link = side["link"]
    others = link.get("gilbert_elliott") or link.get("bit_error_rate")
    keys = [key for key in _LINK if key != "loss" or not others]
    yield from _of(_definition("LinkConfig"), keys, f"{path}.link", group, link)
    queue = {"discipline": "drop-tail", **side["queue"]}
    for control in _of(_definition("QueueConfig"), _QUEUE, f"{path}.queue", group, queue):
        yield {**control, "label": f"queue {control['label']}"}


def controls(scenario: Resolved) -> list[Control]:
    """Return the controls of a resolved scenario, with their values, group by group."""
    all_controls: list[Control] = []
    for way in WAYS:
        all_controls += _of_side(scenario.get(way), way, f"{way.capitalize()}link")
    hops = scenario.get("hop") or {}
    for name, hop in list(hops.items())[:_MOST_HOPS]:
        for way in WAYS:
            all_controls += _of_side(hop.get(way), f"hop.{name}.{way}", f"Hop: {name}, {way}")
    if errors := scenario.get("errors"):
        stated = [key for key in _ERRORS if errors.get(key) is not None]
        all_controls += _of(_definition("ErrorConfig"), stated, "errors", "Errors and ARQ", errors)
        all_controls += _of(
            _definition("ArqConfig"), _ARQ, "errors.arq", "Errors and ARQ", errors.get("arq") or {}
        )
    flows = scenario.get("flow") or []
    for number, flow in enumerate(flows):
        all_controls += _of_flow(number, flow, scenario, several=len(flows) > 1)
    tcp = _definition("TcpConfig")
    all_controls += _of(tcp, _MAIN_TCP, "tcp", _TCP, scenario["tcp"])
    all_controls += _of(
        tcp, [key for key in tcp["properties"] if key not in _MAIN_TCP], "tcp", _MORE, scenario["tcp"]
    )
    return all_controls
