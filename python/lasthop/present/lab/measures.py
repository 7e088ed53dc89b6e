"""The metrics of a run for the page, with labels and units."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

from lasthop.common.metrics.dictionary import find
from lasthop.common.metrics.units import human, label
from lasthop.engines.records import Columns, Results
from lasthop.present.pictures.trace_tables import FlowOf
from lasthop.scenario.facts import Facts

_MOST_FLOWS = 20
_FLOWS = (
    "elapsed_s",
    "throughput_Bps",
    "rtt_median_s",
    "queue_delay_p95_s",
    "lost_per_packet",
    "retransmitted_packets",
    "unnecessary_retransmissions",
    "timeouts",
    "spurious_timeouts",
    "undone",
    "data_marks_ecn",
    "mos",
    "completion_p50_s",
    "startup_delay_s",
    "stalled_s",
    "bitrate_mean_bps",
)
_RUN = (
    "duration_s",
    "utilisation",
    "fairness_jain",
    "queue_mean_packets",
    "queue_max_packets",
    "packets_dropped",
)
_PAGES = ("response_time_s",)
_HOPS = ("utilisation", "queue_delay_p95_s", "queue_depth_max", "drops_queue", "drops_aqm", "drops_error")
_MOST_HOPS = 20
_KINDS_BY_INTEREST = ("voip", "video", "http-page", "request-response", "coap", "bulk-tcp")
"""Kinds of traffic, those most sensitive to other traffic first."""


def measures(results: Results, replication: int, withheld: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the metrics of a run and of its hops, flows and pages: owner, name, label, value and text.

    The metrics `withheld` are left out.
    """
    parts = [_of("the run", _own(results.runs, replication), 0, _RUN)]
    hops = _own(results.hops, replication)
    places = zip(hops.get("hop", ()), hops.get("direction", ()), strict=True)
    parts += [
        _of(f"{hop} {way}", hops, row, _HOPS) for row, (hop, way) in enumerate(places) if row < _MOST_HOPS
    ]
    pages = _own(results.pages, replication)
    parts += [
        _of(str(name), pages, row, _PAGES) for row, name in enumerate(pages.get("page", ())[:_MOST_FLOWS])
    ]
    flows = _own(results.flows, replication)
    drops = [column for column in flows if column.startswith("data_drops_")]
    sent = flows.get("sent_packets", ())
    lost = [sum(flows[column][row] for column in drops) for row in range(len(sent))]
    shares = [dropped / total if total else None for dropped, total in zip(lost, sent, strict=True)]
    table = {**flows, "lost_per_packet": shares}
    parts += [_of(str(name), table, row, _FLOWS) for row, name in enumerate(flows["flow"][:_MOST_FLOWS])]
    for part in parts:
        part["metrics"] = [metric for metric in part["metrics"] if metric["name"] not in withheld]
    return parts


def main_flow(flows: Sequence[FlowOf], facts: Facts) -> str:
    """Return the flow of most interest: the first flow of the first kind in `_KINDS_BY_INTEREST`."""

    def rank(flow: FlowOf) -> int:
        kind = facts.applications[flow.application].kind
        return _KINDS_BY_INTEREST.index(kind) if kind in _KINDS_BY_INTEREST else len(_KINDS_BY_INTEREST)

    return min(flows, key=rank).name if flows else ""


def _own(table: Columns, replication: int) -> dict[str, list[Any]]:
    """Return the rows of a replication of a chain."""
    own = [number == replication for number in table["replication"]]
    return {name: list(itertools.compress(cells, own)) for name, cells in table.items()}


def _of(whom: str, table: Columns, row: int, metrics: Sequence[str]) -> dict[str, Any]:
    values = [(metric, table[metric][row]) for metric in metrics if metric in table]
    return {"of": whom, "metrics": [_metric(name, value) for name, value in values if value is not None]}


def _metric(name: str, value: float) -> dict[str, object]:
    entry = find(name)
    return {
        "name": name,
        "label": label(name),
        "value": value,
        "text": human(name, value),
        "help": entry.definition if entry else "",
    }
