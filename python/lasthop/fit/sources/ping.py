"""The output of `ping` (iputils; BusyBox and macOS write the same lines), with or without `-D`."""

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
_NO_RATE = "No rate and no buffer: small packets at even times do not fill a line."
_NO_WAYS = "No one-way delays: ping knows round trips."
_NO_TIMES = "No times: 'ping -D' writes them; the probes are taken as evenly spaced, {:g} s apart."
_CUT = "No summary at the end: probes that were lost last are unknown."


def claims(head: bytes, path: Path) -> bool:
    del path
    return _START.search(head) is not None


def read(path: Path) -> Measurement:
    content = text(path)
    replies: dict[int, tuple[float | None, float]] = {}
    highest, turns = 0, 0
    for line in content.splitlines():
        if (found := _REPLY.match(line)) and not found["copy"]:
            seq = int(found["seq"]) + turns * _NUMBERS
            if seq < highest - _NUMBERS // 2:
                turns, seq = turns + 1, seq + _NUMBERS
            highest = max(highest, seq)
            at = None if found["at"] is None else float(found["at"])
            replies.setdefault(seq, (at, float(found["ms"])))
        elif found := _SILENCE.match(line):
            highest = max(highest, int(found["seq"]) + turns * _NUMBERS)
    if not replies:
        raise InputError(f"{path}: {_nothing(content)}")
    sent = _SENT.search(content)
    first = min(0 if 0 in replies else 1, *replies)
    # The summary counts probes, so it tells how many were lost after the last reply.
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
        return "no line per probe: either all were lost, or 'ping -q' left the lines out; run it without -q"
    return (
        "no reply is there (expected lines such as '64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=40.6 ms')"
    )


def _times(
    replies: dict[int, tuple[float | None, float]], numbers: Ints, content: str
) -> tuple[Floats, float | None, list[str]]:
    """Return when each probe was sent, in seconds since the first, when that was, and what is missing."""
    known = sorted((seq, at - ms / 1000) for seq, (at, ms) in replies.items() if at is not None)
    if len(known) == len(replies) and all(a[1] < b[1] for a, b in pairwise(known)):
        seq, sent_s = np.array(known).T
        at_s = np.interp(numbers, seq, sent_s)
        return at_s - at_s[0], float(at_s[0]), []
    took = _TOOK.search(content)
    interval_s = int(took["ms"]) / 1000 / (len(numbers) - 1) if took and len(numbers) > 1 else 1.0
    return (numbers - numbers[0]) * interval_s, None, [_NO_TIMES.format(round(interval_s, 4))]
