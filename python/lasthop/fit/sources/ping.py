"""The output of `ping` (iputils, BusyBox or macOS, which use the same lines), with or without `-D`."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np

from lasthop.common.errors import InputError
from lasthop.fit.measurement import Delays, Floats, Ints, Measurement
from lasthop.fit.sources.document import text

_START = re.compile(rb"^PING \S+|^(\[\d+\.\d+\] )?\d+ bytes from ", re.MULTILINE)
_REPLY = re.compile(
    r"^(?:\[(?P<at>\d{1,12}\.\d{1,9})\] )?\d{1,6} bytes from .*?seq=(?P<seq>\d{1,6}) .*?"
    r"time[=<](?P<ms>\d{1,9}(?:\.\d{1,6})?) ms(?P<copy> \(DUP!\))?"
)
_SILENCE = re.compile(
    r"^(?:\[\d+\.\d+\] )?(?:no answer yet for icmp_seq=|Request timeout for icmp_seq |From .*?icmp_seq=)"
    r"(?P<seq>\d{1,6})"
)
_SENT = re.compile(r"^(?P<sent>\d{1,9}) packets transmitted", re.MULTILINE)
_TOOK = re.compile(r"packet loss, time (?P<ms>\d{1,12}) ?ms")
_NUMBERS = 1 << 16
"""Sequence numbers have 16 bits."""
_NO_RATE = "No rate and no buffer: small packets at regular intervals do not fill a line."
_NO_WAYS = "No one-way delays: ping measures only round trips."
_NO_TIMES = "No times: use 'ping -D' to record them; an interval of {:g} s is assumed between probes."
_CUT = "No summary at the end: losses of the last probes are unknown."


def claims(head: bytes, path: Path) -> bool:
    del path
    return _START.search(head) is not None


def read(path: Path) -> Measurement:
    content = text(path)
    replies: dict[int, tuple[float | None, float]] = {}
    highest, turns = 0, 0
    for line in content.splitlines():
        if (match := _REPLY.match(line)) and not match["copy"]:
            seq = int(match["seq"]) + turns * _NUMBERS
            if seq < highest - _NUMBERS // 2:
                turns, seq = turns + 1, seq + _NUMBERS
            highest = max(highest, seq)
            at = None if match["at"] is None else float(match["at"])
            replies.setdefault(seq, (at, float(match["ms"])))
        elif match := _SILENCE.match(line):
            highest = max(highest, int(match["seq"]) + turns * _NUMBERS)
    if not replies:
        raise InputError(f"{path}: {_nothing(content)}")
    sent = _SENT.search(content)
    first = min(0 if 0 in replies else 1, *replies)
    # The summary counts probes, including those lost after the last reply.
    last = max(highest, first + int(sent["sent"]) - 1 if sent else 0)
    if last - first > 10 * len(replies) + 100_000:
        raise InputError(f"{path}: {len(replies)} replies of {last - first + 1} probes; the file is damaged")
    numbers = np.arange(first, last + 1)
    rtt_ms = np.array([replies.get(seq, (None, np.nan))[1] for seq in numbers.tolist()])
    time_s, start_s, notes = _times(replies, numbers, content)
    notes = [_NO_RATE, _NO_WAYS, *notes, *([] if sent else [_CUT])]
    delays = Delays(time_s, rtt_ms, lost=int(np.isnan(rtt_ms).sum()), sent=len(numbers))
    return Measurement(path, "ping", delays=delays, start_s=start_s, notes=tuple(notes))


def _nothing(content: str) -> str:
    if _SENT.search(content):
        return "no replies: either all probes were lost, or ping ran with -q; run it without -q"
    return "no replies (expected lines such as '64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=40.6 ms')"


def _times(
    replies: dict[int, tuple[float | None, float]], numbers: Ints, content: str
) -> tuple[Floats, float | None, list[str]]:
    """Return the times of probes in seconds since the first, the time of the first, and notes."""
    sent_at = sorted((seq, at - ms / 1000) for seq, (at, ms) in replies.items() if at is not None)
    if len(sent_at) == len(replies) and all(a[1] < b[1] for a, b in pairwise(sent_at)):
        seq, sent_s = np.array(sent_at).T
        at_s = np.interp(numbers, seq, sent_s)
        return at_s - at_s[0], float(at_s[0]), []
    duration = _TOOK.search(content)
    interval_s = int(duration["ms"]) / 1000 / (len(numbers) - 1) if duration and len(numbers) > 1 else 1.0
    return (numbers - numbers[0]) * interval_s, None, [_NO_TIMES.format(round(interval_s, 4))]
