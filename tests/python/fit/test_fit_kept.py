"""Ten kept captures of lines that the fit does not see, made by real TCP: what must hold of their fits.

`captures/lines.json` says what is true, and which engine made each: the kernel engine (Linux in a guest) or
the live one, by `benches/fit/lines.py`, for six seconds each. Headers only, so each packet has 100 bytes.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lasthop.fit.fit import fit
from lasthop.fit.posterior import Fit
from lasthop.fit.sources import read
from long_tests import ENGINE

KEPT = Path(__file__).parent / "captures"
LINES = json.loads((KEPT / "lines.json").read_text(encoding="utf-8"))
HOST = "10.0.1.1"
LONG = pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=11)
SHORT = ("bbr", pytest.param("cubic-received", marks=LONG), pytest.param("reno", marks=LONG))


def fitted(name: str, folder: Path) -> Fit:
    file = folder / f"{name}.pcapng"
    file.write_bytes(gzip.decompress((KEPT / f"{name}.pcapng.gz").read_bytes()))
    return fit([read(file, HOST)], jobs=2)


def within(found: Fit, name: str, true: float) -> bool:
    """Whether the interval holds the true value, or the fit says that the data do not tell."""
    one = found.parameter(name)
    assert one is not None
    return one.low is None or one.high is None or one.low <= true <= one.high


def check(found: Fit, name: str) -> None:
    """What must hold of each fit: the right kind of queue, and a delay within 5 per cent."""
    true = LINES[name]
    queue, delay = found.parameter("queue"), found.parameter("delay")
    assert queue is not None
    assert queue.value in {true["queue"], None}
    assert delay is not None
    assert delay.value == pytest.approx(true["delay"], rel=0.05)
    assert delay.key == "down.link.delay"


@pytest.mark.parametrize("name", SHORT)
def test_a_line_behind_real_tcp_is_found_within_the_intervals(name: str, tmp_path: Path) -> None:
    found = fitted(name, tmp_path)
    check(found, name)
    assert within(found, "rate", LINES[name]["rate"])
    assert within(found, "delay", LINES[name]["delay"])


@pytest.mark.long(covers=("python/lasthop/fit", *ENGINE), seconds=55)
def test_most_of_ten_lines_behind_real_tcp_are_found(tmp_path: Path) -> None:
    inside = {"rate": 0, "delay": 0}
    near = 0
    for name, true in LINES.items():
        found = fitted(name, tmp_path)
        check(found, name)
        for each in inside:
            inside[each] += within(found, each, true[each])
        rate = found.parameter("rate")
        assert rate is not None
        near += rate.value == pytest.approx(true["rate"], rel=0.03)
    assert near >= 9
    assert min(inside.values()) >= 9, inside
