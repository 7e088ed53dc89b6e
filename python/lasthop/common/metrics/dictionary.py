"""The dictionary of the columns of results: labels, units and definitions.

`_core.MEANINGS`, from `crates/lasthop-trace/src/records.rs`, describes the columns that engines measure. This
module adds those that are added or computed later.
"""

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from lasthop import _core


class Metric(NamedTuple):
    """A column of a table.

    `label` is its name in words, without the unit; the label of a count is also its unit.
    """

    table: str
    name: str
    label: str
    unit: str
    definition: str


_PLACE = [
    ("set", "set", "", "Number of the set of replications, from 1."),
    ("replication", "replication", "", "Number of the run of a cell, from 1, over all sets."),
]
"""Columns of every table, after the columns of the factors."""
_LATE = "delay of packets after the time at which they were due. Live engine only."
_LOG = "by the log (qlog) of the QUIC stack that sends"
_STACK = [
    ("stack_declared_losses", "declared losses", "packets", f"Packets declared lost, {_LOG}."),
    (
        "stack_spurious_losses",
        "spurious losses",
        "packets",
        f"Packets that arrived although they were declared lost, {_LOG}.",
    ),
    (
        "stack_real_losses_share",
        "real share of the declared losses",
        "ratio",
        f"The share of the packets declared lost, {_LOG}, that did not arrive.",
    ),
    (
        "stack_detection_ms",
        "time to detection",
        "ms",
        f"Median time from the sending of a packet that was lost to its declaration, {_LOG}.",
    ),
    (
        "stack_srtt_ms",
        "smoothed RTT of the stack",
        "ms",
        f"Median over the round trips of the smoothed RTT after each, {_LOG}.",
    ),
    (
        "stack_srtt_error",
        "error of the smoothed RTT",
        "ratio",
        "Median of the relative differences between the stack's smoothed RTT and the actual round trip.",
    ),
    (
        "stack_rtt_error",
        "error of the RTT samples",
        "ratio",
        "Median of the relative differences between the stack's RTT samples and the actual round trips.",
    ),
    ("stack_cwnd_bytes", "cwnd of the stack", "B", f"Mean congestion window over time, {_LOG}."),
    ("stack_in_flight_bytes", "in flight", "B", f"Mean over time of the bytes in flight, {_LOG}."),
    (
        "wire_in_flight_bytes",
        "on the way",
        "B",
        "Mean over time of the bytes in datagrams that have left and will arrive.",
    ),
    (
        "wire_lost_datagrams",
        "datagrams lost",
        "packets",
        "Datagrams of the sender that did not arrive, without those behind the last that did.",
    ),
    (
        "wire_rtt_ms",
        "actual RTT",
        "ms",
        "Median time from the sending of a datagram to the arrival of its first acknowledgment.",
    ),
    (
        "wire_burst_p95_bytes",
        "p95 of bursts",
        "B",
        "95 % quantile of the bytes in datagrams that leave within 0.1 ms of the one before.",
    ),
    (
        "wire_burst_max_bytes",
        "largest burst",
        "B",
        "Most bytes in datagrams that leave within 0.1 ms of the one before.",
    ),
]
"""Metrics of flows by QUIC stacks that write logs, from these logs and from captures at both ends."""
STACK_METRICS = [name for name, *_ in _STACK]
MISSING_LOG = "stack_log"
"""The column of `flows.parquet` that says why these metrics are missing."""
_ADDED = {
    "flows": [
        (
            "role",
            "role",
            "",
            "The name of the flow, or its rank, by which flows of several runs can be compared.",
        ),
        *_STACK,
        (
            MISSING_LOG,
            "log of the stack",
            "",
            "Why the metrics of the stack's log are missing: `no log`, `unreadable`, or `not found`, if the "
            "captures do not have its packets.",
        ),
    ],
    "series": [
        (
            "source",
            "source",
            "",
            "Of transfers by real programs: `network`, what it did, or `stack`, what the flow's stack says.",
        ),
        ("cwnd_bytes", "cwnd", "B", "Congestion window at the end of the step, by the stack's log (qlog)."),
        (
            "in_flight_bytes",
            "in flight",
            "B",
            "Bytes in flight at the end of the step, by the stack's log, or those on the way, by captures.",
        ),
        ("rtt_s", "round-trip time", "s", "The latest one by the stack's log, or as captures show it."),
    ],
    "pages": [("role", "role", "", "The name of the scenario's entry, which its page loads share.")],
    "runs": [
        ("program", "program", "", "Name of the real program (`lasthop shell`)."),
        (
            "exit_code",
            "exit code",
            "",
            "Exit code of the program: 128 plus the number of a signal, or 124 after the time limit.",
        ),
        (
            "stderr_end",
            "end of standard error",
            "",
            "The last 4096 bytes that the program wrote to its standard error.",
        ),
        (
            "program_s",
            "program time",
            "s",
            "From the start of the run to the end of the program and of all processes that it started.",
        ),
        (
            "wall_s",
            "wall time",
            "s",
            "Duration of the run on this machine, which differs from run to run on all engines.",
        ),
        ("lateness_p50_us", "median lateness", "µs", f"Median {_LATE}"),
        ("lateness_p99_us", "p99 of lateness", "µs", f"99 % quantile of the {_LATE}"),
        ("lateness_p999_us", "p99.9 of lateness", "µs", f"99.9 % quantile of the {_LATE}"),
        ("lateness_max_us", "largest lateness", "µs", f"Greatest {_LATE}"),
        ("valid", "valid", "", "Whether 99.9 % of the packets were at most 1 ms late. Live engine only."),
    ],
}
"""Columns that Python adds to the tables of the engines."""
COMPUTED = "summary"
"""The table of metrics that only `summary.csv` and printed answers have."""
_CONGESTION = "Packets that a queue dropped, or marked, because it was full or filling."
_PER_PACKET, _PER_FLOW = (
    "of short flows, per packet that the servers sent",
    "of short flows, per flow started",
)
_COMPUTED = [
    ("overall_time_s", "overall time", "s", "Longest `elapsed_s` of the run's flows."),
    ("spacing_ms", "packet spacing", "ms", "Time between the arrivals of two consecutive datagrams."),
    ("jitter_ms", "jitter", "ms", "Mean spacing of a run's datagrams."),
    ("lost_packets", "packets lost", "packets", "Data packets dropped on the path, for any reason."),
    ("drops_queue", "queue drops", "packets", "`data_drops_queue` or `ack_drops_queue`, by the direction."),
    ("drops_red", "RED drops", "packets", "`data_drops_red` and `data_marks_ecn`, or the same of ACKs."),
    ("drops_error", "link losses", "packets", "`data_drops_error` or `ack_drops_error`, by the direction."),
    ("drops_congestion", "congestion drops", "packets", _CONGESTION),
    (
        "drops_sum_of_maxima",
        "sum of the largest drop counts",
        "packets",
        "Sum over the classes of objects of the largest drop count in any replication.",
    ),
    (
        "throughput_main_median_Bps",
        "throughput of the main object",
        "B/s",
        "Median throughput of the page itself.",
    ),
    (
        "throughput_inline_slowest_Bps",
        "throughput of the slowest in-line object",
        "B/s",
        "Median throughput of the slowest of a page's objects after the first.",
    ),
    (
        "throughput_inline_fastest_Bps",
        "throughput of the fastest in-line object",
        "B/s",
        "Median throughput of the fastest of a page's objects after the first.",
    ),
    (
        "response_time_change_percent",
        "change of response time",
        "percent",
        "Response time compared with that of the reference variant.",
    ),
    (
        "fairness",
        "fairness",
        "ratio",
        "Jain's index as the study defines it: `fairness_jain` or `fairness_maxmin`.",
    ),
    ("lost_per_packet", "loss rate", "ratio", "Data packets lost per data packet sent."),
    (
        "throughput_share",
        "share of the throughput",
        "ratio",
        "The flow's share of the throughput of all transfers in the same direction of its run.",
    ),
    ("retransmitted_per_packet", "retransmission rate", "ratio", f"Retransmissions {_PER_PACKET}."),
    ("timeouts_per_flow", "timeouts per flow", "ratio", f"Timeouts {_PER_FLOW}."),
    ("syn_timeouts_per_flow", "SYN timeouts per flow", "ratio", f"Timeouts of the SYN-ACK {_PER_FLOW}."),
    (
        "fast_retransmits_per_flow",
        "fast retransmits per flow",
        "ratio",
        f"Entries into fast recovery {_PER_FLOW}.",
    ),
]


@functools.cache
def dictionary() -> Mapping[str, Mapping[str, Metric]]:
    """Return the columns of each table by name; the last table, `COMPUTED`, has those of summaries alone."""
    tables = {table: [*_PLACE, *columns, *_ADDED.get(table, [])] for table, columns in _core.MEANINGS.items()}
    tables[COMPUTED] = _COMPUTED
    return {table: {row[0]: Metric(table, *row) for row in rows} for table, rows in tables.items()}


PRINTED = "printed_"
"""Prefix of the columns of numbers that programs print."""
PROGRAM = "program"
"""The column of `runs.parquet` with the name of a real program."""
TRANSFERS = "transfers"
"""The name there of the programs that carry transfers."""
OF_FLOWS = LOST, LOSS_RATE, SHARE = "lost_packets", "lost_per_packet", "throughput_share"
"""Metrics that are computed from the columns of flows."""
_PRINTED_UNITS = (
    (r"bits?_per_second|bps", "rate", "bit/s"),
    (r"bytes_per_second", "rate", "B/s"),
    (r"bytes", "size", "B"),
    (r"(?<!per_)seconds", "time", "s"),
    (r"milliseconds", "time", "ms"),
    (r"percent", "share", "percent"),
    (r"(?<=program_)s", "time", "s"),
    (r"(?<!bits_)(?<!bytes_)(?<!per_)s", "", "s"),
    (r"ms", "", "ms"),
    (r"us", "", "µs"),
)
"""Suffixes of the names of printed numbers, with quantity and unit; short units follow their quantity."""


@functools.cache
def find(name: str) -> Metric | None:
    """Return the metric of this name, which has the same meaning in all tables."""
    if name.startswith(PRINTED):
        return _printed(name)
    return next((metrics[name] for metrics in dictionary().values() if name in metrics), None)


def in_column(flow: str) -> str:
    """Return the name of a transfer as the columns of its printed numbers contain it."""
    return flow.replace("-", "_").replace(".", "_")


def _printed(name: str) -> Metric:
    """Derive label and unit from a key: `printed_end_sum_bits_per_second` is `end sum rate` in bit/s."""
    path = name.removeprefix(PRINTED)
    definition = "Number that the program printed (`lasthop shell --json`)."
    for ending, quantity, unit in _PRINTED_UNITS:
        if match := re.search(rf"(?:^|_)(?:{ending})$", path):
            words = [*path[: match.start()].split("_"), quantity]
            return Metric("runs", name, " ".join(filter(None, words)) or path, unit, definition)
    return Metric("runs", name, path.replace("_", " "), "", definition)
