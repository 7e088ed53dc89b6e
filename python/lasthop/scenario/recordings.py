"""Recordings in a scenario: traces and courses of links, packets of flows.

A resolved scenario holds the whole text of each recording. People read a description instead: the file's
name, its length, and its rate on average and over time.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from lasthop.common.metrics.units import scale
from lasthop.scenario.named import named_files

_OPPORTUNITY_BITS = 1500 * 8
_PARTS = 60
"""A recording's curve has this many rates."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording: its length, its mean rate (bit/s), its rates in equal parts of time, its file's name."""

    seconds: float
    rate: float
    curve: tuple[float, ...]
    name: str = field(default="a recording", compare=False)

    def __str__(self) -> str:
        length, rate = (
            scale("s", [self.seconds]).text(self.seconds),
            scale("bit/s", [self.rate]).text(self.rate),
        )
        return f"{self.name} ({length}, {rate} in the mean)"


def recorded(value: object) -> Recorded | None:
    """Return the recording in a value of a resolved scenario; `None` if it is no recording."""
    if not isinstance(value, str) or "\n" not in value:
        return None
    head, *lines = value.lstrip("\ufeff").splitlines()
    with suppress(ValueError, IndexError):
        if head.startswith("time_s,"):
            rows = [[float(word) for word in line.split(",")] for line in lines]
            return _course(rows) if head.startswith("time_s,rate_bps") else _packets(rows)
        times = [float(line) / 1000 for line in (head, *lines)]
        return _carried([(time, _OPPORTUNITY_BITS) for time in times], times[-1])
    return None


def _carried(bits: Sequence[tuple[float, float]], end: float) -> Recorded:
    """Return the amounts carried and their times, until `end`."""
    parts = [0.0] * _PARTS
    for time, size in bits:
        parts[min(int(time / end * _PARTS), _PARTS - 1)] += size
    return Recorded(end, sum(parts) / end, tuple(part / (end / _PARTS) for part in parts))


def _packets(rows: Sequence[Sequence[float]]) -> Recorded:
    return _carried([(time, 8 * size) for time, size, *_ in rows], max(rows[-1][0], 1e-9))


def _course(rows: Sequence[Sequence[float]]) -> Recorded:
    """Return the rates of a table until its last line, whose rate counts only if there is no other."""
    end, last = rows[-1][0], rows[-1][1]
    if end == 0:
        return Recorded(0.0, last, (last,) * _PARTS)
    bits = sum(row[1] * (after[0] - row[0]) for row, after in pairwise(rows))
    held = [
        next(row[1] for row in reversed(rows) if row[0] <= end * part / (_PARTS - 1))
        for part in range(_PARTS)
    ]
    return Recorded(end, bits / end, tuple(held))


def recordings_of(file: Path | None) -> list[Recorded]:
    """Return the recordings that a scenario file and the files it extends name, by name; none for a text."""
    found: list[Recorded] = []
    waiting = [file] if file is not None else []
    for path in waiting:
        with suppress(OSError, ValueError):  # gone by now, or a capture
            text = path.read_text(encoding="utf-8")
            if (own := recorded(text)) is not None:
                found.append(Recorded(own.seconds, own.rate, own.curve, path.name))
                continue
            waiting += [other for name in named_files(text) if (other := path.parent / name) not in waiting]
    return found
