"""Metrics as people read them: their names in words, their units, and numbers at a scale that suits them.

Columns of the records state their unit in their name and keep it: seconds, milliseconds, bytes, bytes per second.
People read times in s or ms, sizes in MB, rates in kbit/s or Mbit/s. Terminal, report and pictures all take words and
numbers from here. One column, axis or sentence has one scale:

    scale = scale_of("throughput_Bps", [7162.5, 3000.0])
    scale.unit                               # 'kbit/s'
    scale.text(7162.5)                       # '57.3 kbit/s'
    scale.number(3000.0)                     # '24.0'
    axis_title("throughput_Bps", scale)      # 'throughput (kbit/s)'
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_LABELS = {
    "response_time_s": "response time",
    "response_time_change_percent": "change of response time",
    "elapsed_s": "elapsed time",
    "overall_time_s": "overall time",
    "duration_s": "duration",
    "data_transmit_s": "data transmission time",
    "fct_mean_s": "mean completion time",
    "fct_median_s": "median completion time",
    "fct_p95_s": "p95 of completion time",
    "fct_max_s": "longest completion time",
    "throughput_Bps": "throughput",
    "throughput_mean_Bps": "mean throughput",
    "throughput_main_median_Bps": "throughput of the main object",
    "throughput_inline_slowest_Bps": "throughput of the slowest in-line object",
    "throughput_inline_fastest_Bps": "throughput of the fastest in-line object",
    "start_s": "start",
    "sent_packets": "packets sent",
    "received_packets": "packets received",
    "sent_bytes": "bytes sent",
    "lost_packets": "packets lost",
    "packets_sent": "packets sent",
    "packets_delivered": "packets delivered",
    "packets_dropped": "packets dropped",
    "retransmitted_packets": "retransmissions",
    "unnecessary_retransmissions": "unnecessary retransmissions",
    "tail_loss_probes": "tail loss probes",
    "timeouts": "timeouts",
    "syn_timeouts": "SYN timeouts",
    "spurious_timeouts": "spurious timeouts",
    "fast_retransmits": "fast retransmits",
    "undone": "undone reductions",
    "sack_blocks": "ACKs with SACK",
    "sack_blocks_total": "SACK blocks",
    "cwnd_max": "largest congestion window",
    "lost_per_packet": "loss rate",
    "retransmitted_per_packet": "retransmission rate",
    "spacing_ms": "packet spacing",
    "spacing_mean_ms": "mean packet spacing",
    "efficiency": "efficiency",
    "fairness_jain": "fairness (Jain)",
    "fairness_maxmin": "fairness (max-min)",
    "utilisation": "link utilisation",
    "background_share": "share of background traffic",
    "queue_max_packets": "longest queue",
    "queue_mean_packets": "mean queue",
    "red_average_max": "largest RED average",
    "drops_sum_of_maxima": "sum of the largest drop counts",
}
_CAUSES = {
    "drops_queue": "queue drops",
    "drops_red": "RED drops",
    "drops_epd": "early packet discards",
    "drops_selective": "selective drops",
    "drops_error": "link losses",
    "drops_congestion": "congestion drops",
    "marks_ecn": "ECN marks",
}
_DIRECTIONS = {"data_": "", "ack_": " of ACKs"}
_SERIES = {"rtt": "round-trip time", "queue_delay": "queueing delay", "spacing": "packet spacing", "jitter": "jitter"}
_POINTS = {
    "min": "least {}",
    "median": "median {}",
    "max": "largest {}",
    "p50": "median {}",
    "p75": "p75 of {}",
    "p90": "p90 of {}",
    "p95": "p95 of {}",
    "p99": "p99 of {}",
}
_SPELLINGS = {"acks": "ACKs", "ack": "ACK", "red": "RED", "ecn": "ECN", "sack": "SACK", "rtt": "RTT", "syn": "SYN"}
_SUFFIXES = {"_Bps": "B/s", "_ms": "ms", "_s": "s", "_bytes": "B", "_acks": "acks", "_percent": "percent"}
_SHARES = frozenset({"lost_per_packet", "retransmitted_per_packet", "utilisation", "background_share"})
"""Ratios that people read in per cent."""

_TIMES = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "µs", 1e6))
_SIZES = ((1e9, "GB", 1e-9), (1e6, "MB", 1e-6), (1e3, "kB", 1e-3), (0.0, "B", 1.0))
_RATES = ((1e9, "Gbit/s", 1e-9), (1e6, "Mbit/s", 1e-6), (0.0, "kbit/s", 1e-3))
_FAMILIES = {
    "s": (1.0, _TIMES),
    "ms": (1e-3, _TIMES),
    "B": (1.0, _SIZES),
    "B/s": (8.0, _RATES),
    "bit/s": (1.0, _RATES),
}
"""Of each unit: its size in the family's base unit (s, B, bit/s), and from what size on which unit is used."""
_WHOLE = frozenset({"", "packets", "acks", "blocks"})
"""Units of counts."""
_SHARE = "share"


def unit_of(metric: str) -> str:
    """Return the unit that the name of a column of the records states; empty if it states none."""
    for suffix, unit in _SUFFIXES.items():
        if metric.endswith(suffix):
            return unit
    if metric.endswith("_packets") or "_drops_" in metric or "_marks_" in metric or "retransmissions" in metric:
        return "packets"
    ratio = metric in ("efficiency", "utilisation") or metric.startswith("fairness_") or "_per_" in metric
    return "ratio" if ratio else ""


def label(metric: str) -> str:
    """Return a metric's name in words, without its unit: `elapsed_s` is `elapsed time`."""
    return _LABELS.get(metric) or _cause(metric) or _point(metric) or _spelled(metric)


def _cause(metric: str) -> str | None:
    for prefix, direction in (*_DIRECTIONS.items(), ("", "")):
        if metric.startswith(prefix) and (cause := _CAUSES.get(metric.removeprefix(prefix))):
            return cause + direction
    return None


def _point(metric: str) -> str | None:
    """Name a percentile of a series, such as `rtt_p95_s`."""
    series, _, point = _bare(metric).rpartition("_")
    return _POINTS[point].format(_SERIES[series]) if series in _SERIES and point in _POINTS else None


def _spelled(metric: str) -> str:
    return " ".join(_SPELLINGS.get(word, word) for word in _bare(metric).split("_"))


def _bare(metric: str) -> str:
    suffixes = ("_packets", *(suffix for suffix in _SUFFIXES if suffix != "_acks"))
    suffix = next((suffix for suffix in suffixes if metric.endswith(suffix)), "")
    return metric.removesuffix(suffix)


@dataclass(frozen=True, slots=True)
class Scale:
    """How the numbers of a column or an axis are shown: times `factor`, in `unit`, which is empty for pure numbers."""

    unit: str
    factor: float = 1.0
    whole: bool = False
    """Whether the numbers are counts."""

    def number(self, value: float | None, *, signed: bool = False, decimals: int | None = None) -> str:
        """Write a value with about three digits, or with `decimals`, without the unit; a dash if there is none."""
        if value is None or not math.isfinite(value):
            return "-"
        shown = value * self.factor
        text = f"{shown:{'+' if signed else ''}.{self._decimals(shown) if decimals is None else decimals}f}"
        return "0" if float(text) == 0 else text

    def text(self, value: float | None, *, signed: bool = False) -> str:
        """Write a value with its unit."""
        number = self.number(value, signed=signed)
        return f"{number} {self.unit}" if self.unit and number != "-" else number

    def decimals_of(self, error: float) -> int:
        """Return how many decimals show two digits of an error, as is usual for a value that has it."""
        return min(max(1 - math.floor(math.log10(error * self.factor)), 0), 6)

    def _decimals(self, shown: float) -> int:
        if shown == 0 or abs(shown) >= 1000 or (self.whole and shown.is_integer()):
            return 0
        return min(max(2 - math.floor(math.log10(abs(shown))), 1), 4) if abs(shown) < 1 or not self.whole else 1


def scale(unit: str, values: Iterable[float | None]) -> Scale:
    """Choose the scale for numbers in `unit` (`s`, `ms`, `B`, `B/s`, `bit/s` or any other) by the largest of them."""
    if unit in _FAMILIES:
        base, steps = _FAMILIES[unit]
        finite = [abs(value) * base for value in values if value is not None and math.isfinite(value)]
        largest = max(finite, default=0.0) or 1.0
        _, name, factor = next(step for step in steps if largest >= step[0])
        return Scale(name, base * factor)
    if unit == _SHARE:
        return Scale("%", 100.0)
    words = {"percent": "%", "ratio": "", "acks": "ACKs"}
    return Scale(words.get(unit, unit), whole=unit in _WHOLE)


def scale_of(metric: str, values: Iterable[float | None]) -> Scale:
    """Choose the scale for values of a column of the records."""
    return scale(_SHARE if metric in _SHARES else unit_of(metric), values)


def human(metric: str, value: float | None) -> str:
    """Write one value of a column of the records with the unit that suits it: `57.3 kbit/s`, `1.20 MB`, `12.0 ms`."""
    return scale_of(metric, [value]).text(value)


def axis_title(metric: str, scale: Scale) -> str:
    """Return quantity and unit: `throughput (kbit/s)`; no unit where the words say it, as of `queue drops`."""
    return label(metric) if scale.unit in ("", "packets", "ACKs", "blocks") else f"{label(metric)} ({scale.unit})"
