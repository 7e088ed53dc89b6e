"""Times, byte ranges and paragraphs as text. Numbers are exact; nothing depends on the locale."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lasthop.analysis.explain.packets import Packet
from lasthop.common.metrics.units import counted, scale_of
from lasthop.engines.rows import Record

WIDTH = 100
_TIME_WIDTH = 11
_RANGES_SHOWN = 8


class Entry(NamedTuple):
    """A paragraph of a story; `ns` is its time, `times` are those of its events."""

    ns: int
    text: str
    times: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """The story of the flow or page load named `of`: its entries in order of time, and a summary."""

    of: str
    head: str
    entries: Sequence[Entry] = ()
    summary: Sequence[str] = ()

    def __str__(self) -> str:
        """Return wrapped text with times in the margin."""
        lines = [plain(self.head)]
        if self.entries:
            lines += ["", *(paragraph(clock(entry.ns), entry.text) for entry in self.entries)]
        return "\n".join([*lines, *([""] if self.summary else []), *map(plain, self.summary)])


def clock(ns: int) -> str:
    """Return a time of the run in seconds, to the microsecond, as captures show it."""
    return f"{ns // 10**9}.{ns % 10**9 // 1000:06d}"


def length(ns: int) -> str:
    """Return a duration in milliseconds or seconds."""
    if ns < 10**9:
        return f"{ns / 1e6:.3f}".rstrip("0").rstrip(".") + " ms"
    return f"{ns / 1e9:.3f} s"


def ends_of(record: Record, direction: str) -> str:
    """Return the sending and the receiving host of a flow's packets in a direction."""
    host, peer = record["host"], record["peer"]
    return f"{peer} to {host}" if direction == "down" else f"{host} to {peer}"


def tries(count: int, kind: str = "") -> str:
    return f"{count} {kind}{'try' if count == 1 else 'tries'}"


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that touch or overlap."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def byte_ranges(packets: Iterable[Packet]) -> str:
    """Return `bytes 1-536, 1073-1608`: first and last byte of each of the first `_RANGES_SHOWN` ranges."""
    runs = merged((p.data_start, p.data_end) for p in packets if p.payload_bytes)
    ranges = [f"{start}-{end - 1}" for start, end in runs[:_RANGES_SHOWN]]
    more = (
        f" and {counted(len(runs) - len(ranges), 'more range')} up to byte {runs[-1][1] - 1}"
        if len(runs) > len(ranges)
        else ""
    )
    return f"bytes {', '.join(ranges)}{more}" if ranges else "no data"


def paragraph(at: str, text: str) -> str:
    """Return a wrapped entry with its time in the margin. Lines of `text` after the first are details."""
    margin = " " * (_TIME_WIDTH + 2)
    first, *details = text.split("\n")
    lines = [_fill(first, f"{at:>{_TIME_WIDTH}}  ", margin)]
    lines += [_fill(detail, f"{margin}- ", f"{margin}  ") for detail in details if detail]
    return "\n".join(lines)


def _fill(text: str, first: str, rest: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def plain(text: str) -> str:
    return _fill(text, "", "")


def rate(bytes_per_second: float) -> str:
    """Return a rate as text, in bits per second."""
    return scale_of("throughput_Bps", [bytes_per_second]).text(bytes_per_second)
