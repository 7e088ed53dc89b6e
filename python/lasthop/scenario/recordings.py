"""Recordings in a scenario: traces and courses of links, packets of flows.

A resolved scenario contains the whole text of each recording. Reports show a description instead: the file's
name, the duration, and the rate on average and over time.
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
"""The number of rates in a recording's curve."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording: its duration, its mean rate (bit/s), its rates in equal parts of time, its file's name."""

    seconds: float
    rate: float
    curve: tuple[float, ...]
    name: str = field(default="a recording", compare=False)

    def __str__(self) -> str:
        length, rate = scale("s", [self.seconds]), scale("bit/s", [self.rate])
        return f"{self.name} ({length.text(self.seconds)}, mean {rate.text(self.rate)})"


def recorded(value: object) -> Recorded | None:
    """Return the recording in a value of a resolved scenario; `None` if it is something else."""
    if not isinstance(value, str) or "\n" not in value:
        return None
    head, *lines = value.lstrip("\ufeff").splitlines()
    with suppress(ValueError, IndexError):
        if head.startswith("time_s,"):
            rows = [[float(word) for word in line.split(",")] for line in lines]
            return _course(rows) if head.startswith("time_s,rate_bps") else _packets(rows)
        times = [float(line) / 1000 for line in (head, *lines)]
        return _deliveries([(time, _OPPORTUNITY_BITS) for time in times], times[-1])
    return None


def _deliveries(bits: Sequence[tuple[float, float]], end: float) -> Recorded:
    """Describe a recording of times and numbers of bits, until `end`."""
    parts = [0.0] * _PARTS
    for time, size in bits:
        parts[min(int(time / end * _PARTS), _PARTS - 1)] += size
    return Recorded(end, sum(parts) / end, tuple(part / (end / _PARTS) for part in parts))


def _packets(rows: Sequence[Sequence[float]]) -> Recorded:
    return _deliveries([(time, 8 * size) for time, size, *_ in rows], max(rows[-1][0], 1e-9))


def _course(rows: Sequence[Sequence[float]]) -> Recorded:
    """Describe a table of rates until its last line, whose rate is used only if it is the first."""
    end, last = rows[-1][0], rows[-1][1]
    if end == 0:
        return Recorded(0.0, last, (last,) * _PARTS)
    bits = sum(row[1] * (after[0] - row[0]) for row, after in pairwise(rows))
    curve = [
        next(row[1] for row in reversed(rows) if row[0] <= end * part / (_PARTS - 1))
        for part in range(_PARTS)
    ]
    return Recorded(end, bits / end, tuple(curve))


def recordings_of(file: Path | None) -> list[Recorded]:
    """Return the recordings named by a scenario file and by those that it extends."""
    recordings: list[Recorded] = []
    waiting = [file] if file is not None else []
    for path in waiting:
        with suppress(OSError, ValueError):  # the file was removed, or is a capture
            text = path.read_text(encoding="utf-8")
            if (own := recorded(text)) is not None:
                recordings.append(Recorded(own.seconds, own.rate, own.curve, path.name))
                continue
            waiting += [other for name in named_files(text) if (other := path.parent / name) not in waiting]
    return recordings
